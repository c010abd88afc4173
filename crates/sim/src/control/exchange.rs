//! The way of the summaries from host to host: delayed, lost or repeated as told.

use std::collections::BTreeMap;
use std::ops::Range;

use evenkeel_core::control::summary::{HostId, Summary};
use evenkeel_core::prng::Prng;
use evenkeel_core::time::{Nanos, Span};

/// What happens to summaries on their way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// How long each takes.
    pub delay: Span,
    /// How many of a thousand are lost, each for each receiver.
    pub lost_milli: u64,
    /// How many of a thousand come twice.
    pub twice_milli: u64,
}

/// A time in which hosts of one side and the others do not hear each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// When.
    pub during: Range<Nanos>,
    /// The hosts of one side.
    pub side: Range<u32>,
    /// Whether the others do not hear that side either; else it is that side alone that is deaf.
    pub is_both_ways: bool,
}

impl Cut {
    fn takes(&self, now: Nanos, from: HostId, to: HostId) -> bool {
        let (from, to) = (self.side.contains(&from.0), self.side.contains(&to.0));
        self.during.contains(&now) && from != to && (to || self.is_both_ways)
    }
}

/// Words under way: summaries, or what carries them.
#[derive(Clone, Debug)]
pub struct Exchange<Word = Summary> {
    way: Way,
    cuts: Vec<Cut>,
    prng: Prng,
    sent: u64,
    under_way: BTreeMap<(Nanos, u64), (HostId, Word)>,
}

impl<Word: Clone> Exchange<Word> {
    /// Nothing is under way.
    pub fn new(way: Way, seed: u64) -> Self {
        let (cuts, under_way) = (Vec::new(), BTreeMap::new());
        Self { way, cuts, prng: Prng::new(seed), sent: 0, under_way }
    }

    /// The same with times in which some do not hear others.
    #[must_use]
    pub fn with_cuts(self, cuts: Vec<Cut>) -> Self {
        Self { cuts, ..self }
    }

    /// A host tells one other.
    pub fn send(&mut self, now: Nanos, from: HostId, to: HostId, word: &Word) {
        let is_cut = self.cuts.iter().any(|cut| cut.takes(now, from, to));
        if is_cut || self.prng.below(1000) < self.way.lost_milli {
            return;
        }
        let copies = 1 + u64::from(self.prng.below(1000) < self.way.twice_milli);
        for _ in 0..copies {
            self.sent += 1;
            self.under_way.insert((now + self.way.delay, self.sent), (to, word.clone()));
        }
    }

    /// The next word that has arrived by now, and for whom.
    pub fn receive(&mut self, now: Nanos) -> Option<(HostId, Word)> {
        let entry = self.under_way.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_arrive_in_order_after_their_delay() {
        let way = Way { delay: Span(10), ..Way::default() };
        let mut exchange = Exchange::new(way, 1);
        for period in 0..3 {
            let summary = Summary { period, ..Summary::default() };
            exchange.send(Nanos(period), HostId(0), HostId(1), &summary);
        }
        assert_eq!(exchange.receive(Nanos(9)), None);
        let arrived: Vec<u64> =
            std::iter::from_fn(|| exchange.receive(Nanos(11))).map(|(_, it)| it.period).collect();
        assert_eq!(arrived, [0, 1]);
    }

    #[test]
    fn a_cut_takes_what_crosses_it() {
        let arrives = |is_both_ways, from, to| {
            let cut = Cut { during: Nanos(5)..Nanos(9), side: 0..2, is_both_ways };
            let mut exchange = Exchange::new(Way::default(), 1).with_cuts(vec![cut]);
            let summary = Summary { host: HostId(from), ..Summary::default() };
            [4, 5, 9].map(|at| {
                exchange.send(Nanos(at), HostId(from), HostId(to), &summary);
                exchange.receive(Nanos(at)).is_some()
            })
        };
        let (all, cut) = ([true; 3], [true, false, true]);
        assert_eq!([arrives(true, 0, 1), arrives(true, 2, 3)], [all, all], "of one side");
        assert_eq!([arrives(true, 0, 2), arrives(true, 2, 0)], [cut, cut]);
        assert_eq!([arrives(false, 0, 2), arrives(false, 2, 0)], [all, cut], "one way");
    }

    #[test]
    fn the_told_part_is_lost_or_repeated() {
        let way = Way { delay: Span::ZERO, lost_milli: 200, twice_milli: 100 };
        let mut exchange = Exchange::new(way, 1);
        (0..10_000)
            .for_each(|_| exchange.send(Nanos(0), HostId(1), HostId(0), &Summary::default()));
        let arrived = std::iter::from_fn(|| exchange.receive(Nanos(0))).count();
        assert!((8_600..9_000).contains(&arrived), "{arrived}");
    }
}
