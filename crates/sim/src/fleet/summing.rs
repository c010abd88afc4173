//! Gates that hear the sums of others' words ([`evenkeel_core::control::sums`]): who collects, and
//! the ways of words and sums.

use std::rc::Rc;

use evenkeel_core::control::pace;
use evenkeel_core::control::summary::{HostId, Summary};
use evenkeel_core::control::sums::{SHARDS, Shard, Sum};
use evenkeel_core::time::Nanos;

use super::clock::Word;
use super::world::{Event, World};
use crate::device::Device;

/// What is under way between gates.
#[derive(Clone, Debug)]
pub(super) enum Letter {
    Word(Word),
    Sum(Shard, Rc<Sum>),
}

impl<D: Device> World<'_, D> {
    /// A period has ended at a gate: it tells those that collect in its shard.
    pub(super) fn tell_collectors(&mut self, now: Nanos, index: usize, word: Summary) {
        let window = self.window();
        let (from, number) = (word.host, word.period);
        // As a gate knows that has heard the words of its shard before there was a sum.
        let in_shard = self.fleet.gates / SHARDS;
        let gate = &mut self.gates[index];
        let summing = gate.summing.as_mut().expect("it hears sums");
        summing.expect(in_shard);
        summing.end_period(number);
        let shard = summing.shard();
        self.note_collecting(index);
        let mut proof = self.gates[index].clock.proof(now);
        for part in word.into_parts() {
            let word = Word { summary: Rc::new(part), proof: std::mem::take(&mut proof) };
            let collecting = &self.collecting[shard.number() as usize];
            for to in collecting.iter().copied().collect::<Vec<_>>() {
                if to == index {
                    self.collect(to, number, &word);
                    continue;
                }
                let to = HostId(u32::try_from(to).expect("few gates"));
                let pause = pace::offset(from, to, window);
                self.exchange.send(now + pause, from, to, &Letter::Word(word.clone()));
            }
        }
        if self.gates[index].collects() {
            let after = pace::decide_after(self.period_length(), window);
            self.events.push(now + after, Event::Sum(index));
        }
    }

    /// Words of its shard go to a gate, or no longer, as the election has it.
    fn note_collecting(&mut self, index: usize) {
        let Some(summing) = &self.gates[index].summing else { return };
        let collecting = &mut self.collecting[summing.shard().number() as usize];
        if summing.collects() {
            collecting.insert(index);
        } else {
            collecting.remove(&index);
        }
    }

    /// A collector tells all gates what it has added up.
    pub(super) fn tell_sum(&mut self, now: Nanos, index: usize) {
        let gate = &mut self.gates[index];
        let number = gate.number;
        let Some(summing) = &mut gate.summing else { return };
        let shard = summing.shard();
        let Some(sum) = summing.sum(number) else { return };
        let from = HostId(u32::try_from(index).expect("few gates"));
        let letter = Letter::Sum(shard, Rc::new(sum));
        for to in (0..self.fleet.gates).map(HostId).filter(|to| *to != from) {
            self.exchange.send(now, from, to, &letter);
        }
        if let Letter::Sum(shard, sum) = letter {
            self.hear_sum(index, shard, &sum);
        }
    }

    pub(super) fn receive(&mut self, now: Nanos, to: usize, letter: &Letter) {
        match letter {
            Letter::Sum(shard, sum) => self.hear_sum(to, *shard, sum),
            Letter::Word(word) if self.gates[to].summing.is_some() => {
                self.collect(to, self.gates[to].number, word);
            }
            Letter::Word(word) => {
                let gate = &mut self.gates[to];
                gate.clock.hear(now, gate.number, word, &mut gate.member);
            }
        }
    }

    fn collect(&mut self, index: usize, number: u64, word: &Word) {
        if let Some(summing) = &mut self.gates[index].summing {
            // A refusal is counted by the receiver; here nobody has to hear of it.
            _ = summing.hear_word(number, Summary::clone(&word.summary));
        }
    }

    fn hear_sum(&mut self, index: usize, shard: Shard, sum: &Sum) {
        let own = HostId(u32::try_from(index).expect("few gates"));
        let gate = &mut self.gates[index];
        let number = gate.number;
        let mut is_news = false;
        for word in &sum.words {
            is_news |= gate.member.hear(number, word.clone()).is_ok();
        }
        let Some(summing) = gate.summing.as_mut().filter(|summing| summing.shard() == shard) else {
            return;
        };
        let (term, hosts) = (sum.words[0].incarnation, sum.words[0].hosts());
        summing.hear_sum(term, hosts);
        if is_news {
            gate.member.note_counted(sum.roster.binary_search(&own).is_ok());
        }
        self.note_collecting(index);
    }
}
