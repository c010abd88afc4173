//! Whether a gate speaks now: a random number, asked for by whoever doubts it, and repeated in the
//! gate's next word.
//!
//! ```text
//!   one                                    two, whose state folder is lost
//!                <-- word, life 3 ------     refused: life 9 is known
//!   word, asks two: 0x5eed.. ---------->
//!                <-- word, life 3, answers one: 0x5eed..
//!   life 3 counts, and no other
//! ```
//!
//! All words are authenticated, but an old one stays authentic: whoever can see the network can
//! keep words and send them later. Numbers in them tell old from new as long as they grow. They do
//! not for a gate that has lost its count of lives, or whose clock is off; and whoever has just
//! started remembers none. An old word does not have the answer to a number that was drawn a moment
//! ago.
//!
//! Questions and answers go along in the words to all, and only while somebody doubts. Both are
//! bounded, and lapse: what is lost is asked again when the gate is heard again.

use std::collections::BTreeMap;

use super::summary::HostId;
use crate::time::{Nanos, Span};

/// The most questions in one word. Who doubts more gates asks some first.
pub const ASKS_MAX: usize = 8;

/// The most answers in one word: many doubt one gate rather than one many.
pub const ANSWERS_MAX: usize = 64;

/// A question is open for so long, and is answered for so long.
const OPEN_FOR: Span = Span::from_secs(5);

/// A gate that has gone back from a life that it had proven to a former one does not go back again
/// for so long: two gates of one name would else take turns at each period.
const PROVEN_FOR: Span = Span::from_secs(10);

/// What a gate has proven lapses when nothing new of it was heard for so long.
const SILENT_FOR: Span = Span::from_secs(60);

/// A gate and a number.
pub type Entry = (HostId, u64);

/// What a word carries beside its figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Whom the sender doubts, and the number that it asks back, by gate, each once.
    pub asks: Vec<Entry>,
    /// Who doubted the sender, and the number, in order, each once.
    pub answers: Vec<Entry>,
}

impl Proof {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.asks.is_empty() && self.answers.is_empty()
    }
}

#[derive(Clone, Copy, Debug)]
struct Question {
    number: u64,
    at: Nanos,
    /// Whether it is asked of a host that tells the sum of many words.
    is_of_sum: bool,
}

#[derive(Clone, Copy, Debug)]
struct Proven {
    incarnation: u64,
    /// When it last went back from another life to a former one.
    back: Option<Nanos>,
    /// When something new of that life was heard last.
    heard: Nanos,
}

/// One gate's doubts, and what it owes others. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Challenges {
    /// What was asked of whom.
    open: BTreeMap<HostId, Question>,
    /// What others asked, and when.
    owed: BTreeMap<Entry, Nanos>,
    proven: BTreeMap<HostId, Proven>,
}

impl Challenges {
    /// A gate is to prove that it lives in this life; `draw` draws a random number. Nothing happens
    /// if it has proven that, or is asked already, or too many are.
    pub fn doubt(
        &mut self,
        now: Nanos,
        host: HostId,
        incarnation: u64,
        draw: impl FnOnce() -> Option<u64>,
    ) {
        self.ask(now, (host, incarnation), false, draw);
    }

    /// The same of a gate that tells the sum of many words: it takes the place of another question
    /// where too many are open, since by the few that tell sums this one hears all.
    pub fn doubt_sum(
        &mut self,
        now: Nanos,
        host: HostId,
        incarnation: u64,
        draw: impl FnOnce() -> Option<u64>,
    ) {
        self.ask(now, (host, incarnation), true, draw);
    }

    fn ask(
        &mut self,
        now: Nanos,
        (host, incarnation): (HostId, u64),
        is_of_sum: bool,
        draw: impl FnOnce() -> Option<u64>,
    ) {
        self.lapse(now);
        let proven = self.proven.get(&host);
        let is_settled = self.has_proven(now, host, incarnation)
            || proven.is_some_and(|proven| {
                let was_back = proven.back.is_some_and(|at| now.since(at) < PROVEN_FOR);
                incarnation < proven.incarnation && was_back
            });
        if is_settled || self.open.contains_key(&host) {
            return;
        }
        if is_of_sum && self.open.len() == ASKS_MAX {
            let other = self.open.iter().find(|(_, question)| !question.is_of_sum);
            let other = other.map(|(host, _)| *host);
            other.map(|host| self.open.remove(&host));
        }
        if self.open.len() < ASKS_MAX {
            let question = |number| (host, Question { number, at: now, is_of_sum });
            self.open.extend(draw().map(question));
        }
    }

    /// What a gate's word carries, of this life of it; whether it has proven that life by that.
    pub fn hear(
        &mut self,
        now: Nanos,
        own: HostId,
        (host, incarnation): (HostId, u64),
        proof: &Proof,
    ) -> bool {
        self.lapse(now);
        for (_, number) in proof.asks.iter().filter(|(asked, _)| *asked == own) {
            self.owe(now, (host, *number));
        }
        let Some(question) = self.open.get(&host) else { return false };
        let is_proven = proof.answers.contains(&(own, question.number));
        if is_proven {
            self.open.remove(&host);
            let before = self.proven.get(&host);
            let goes_back = before.is_some_and(|before| incarnation < before.incarnation);
            let back = before.and_then(|before| before.back).filter(|_| !goes_back);
            let back = back.or_else(|| goes_back.then_some(now));
            self.proven.insert(host, Proven { incarnation, back, heard: now });
        }
        is_proven
    }

    /// What the next word carries.
    pub fn proof(&mut self, now: Nanos) -> Proof {
        self.lapse(now);
        let asks = self.open.iter().map(|(host, question)| (*host, question.number)).collect();
        Proof { asks, answers: self.owed.keys().copied().collect() }
    }

    /// Whether a gate has proven this life, as the last that it has, and was heard since.
    pub fn has_proven(&self, now: Nanos, host: HostId, incarnation: u64) -> bool {
        self.proven.get(&host).is_some_and(|proven| {
            proven.incarnation == incarnation && now.since(proven.heard) < SILENT_FOR
        })
    }

    /// Something new was heard of a gate in this life. Of another life nothing is proven any more.
    pub fn heard(&mut self, now: Nanos, host: HostId, incarnation: u64) {
        match self.proven.get_mut(&host) {
            Some(proven) if proven.incarnation == incarnation => proven.heard = now,
            _ => _ = self.proven.remove(&host),
        }
    }

    /// Forgets those that are no members.
    pub fn retain(&mut self, is_member: impl Fn(HostId) -> bool) {
        self.proven.retain(|host, _| is_member(*host));
    }

    /// The oldest answer makes room: it was given already.
    fn owe(&mut self, now: Nanos, entry: Entry) {
        if self.owed.len() == ANSWERS_MAX && !self.owed.contains_key(&entry) {
            let oldest = self.owed.iter().min_by_key(|(_, at)| **at).map(|(entry, _)| *entry);
            self.owed.remove(&oldest.expect("it is full"));
        }
        self.owed.entry(entry).or_insert(now);
    }

    fn lapse(&mut self, now: Nanos) {
        self.open.retain(|_, question| now.since(question.at) < OPEN_FOR);
        self.owed.retain(|_, at| now.since(*at) < OPEN_FOR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: HostId = HostId(1);
    const TWO: HostId = HostId(2);

    fn at(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    #[test]
    fn who_answers_has_proven_its_life_and_an_old_answer_proves_nothing() {
        let (mut one, mut two) = (Challenges::default(), Challenges::default());
        one.doubt(at(0), TWO, 3, || Some(77));
        one.doubt(at(1), TWO, 3, || panic!("it is asked already"));
        let asked = one.proof(at(2));
        assert_eq!(asked, Proof { asks: vec![(TWO, 77)], answers: vec![] });
        assert!(!two.hear(at(3), TWO, (ONE, 1), &asked));
        let answer = two.proof(at(4));
        assert_eq!(answer, Proof { asks: vec![], answers: vec![(ONE, 77)] });
        let old = Proof { answers: vec![(ONE, 76)], ..Proof::default() };
        assert!(!one.hear(at(5), ONE, (TWO, 3), &old));
        assert!(!one.hear(at(5), ONE, (HostId(3), 3), &answer), "it was not asked");
        assert!(one.hear(at(5), ONE, (TWO, 3), &answer) && one.has_proven(at(5), TWO, 3));
        assert!(!one.hear(at(6), ONE, (TWO, 9), &answer), "it was answered");
        assert!(!one.has_proven(at(6), TWO, 9) && one.proof(at(6)).is_empty());
        one.heard(at(9_000), TWO, 3);
        assert!(one.has_proven(at(68_999), TWO, 3) && !one.has_proven(at(69_000), TWO, 3));
    }

    #[test]
    fn one_life_is_proven_at_a_time_and_a_former_one_only_later() {
        let mut one = Challenges::default();
        let prove = |one: &mut Challenges, ms, incarnation| {
            one.doubt(at(ms), TWO, incarnation, || Some(ms));
            let proof = Proof { answers: vec![(ONE, ms)], ..Proof::default() };
            one.hear(at(ms), ONE, (TWO, incarnation), &proof)
        };
        assert!(prove(&mut one, 1, 9) && prove(&mut one, 2, 3) && !one.has_proven(at(2), TWO, 9));
        assert!(prove(&mut one, 3, 4), "it has started anew");
        assert!(prove(&mut one, 4, 9));
        assert!(!prove(&mut one, 5, 4) && !prove(&mut one, 10_001, 4), "there are two of its name");
        assert!(prove(&mut one, 10_002, 4) && one.has_proven(at(10_002), TWO, 4));
        one.heard(at(10_003), TWO, 5);
        assert!(!one.has_proven(at(10_003), TWO, 4), "it has started anew");
        assert!(prove(&mut one, 10_004, 3));
        one.retain(|_| false);
        assert!(!one.has_proven(at(10_004), TWO, 3));
    }

    #[test]
    fn questions_and_answers_are_few_and_lapse() {
        let mut one = Challenges::default();
        for host in 0..100 {
            one.doubt(at(0), HostId(host), 1, || Some(5));
            let proof = Proof { asks: vec![(ONE, u64::from(host))], ..Proof::default() };
            one.hear(at(u64::from(host)), ONE, (TWO, 1), &proof);
        }
        let proof = one.proof(at(100));
        assert_eq!((proof.asks.len(), proof.answers.len()), (ASKS_MAX, ANSWERS_MAX));
        assert_eq!(proof.answers[0], (TWO, 36), "the newest");
        assert!(one.proof(at(6_000)).is_empty());
    }

    #[test]
    fn who_tells_a_sum_is_asked_though_many_questions_are_open() {
        let mut one = Challenges::default();
        let asks = |one: &mut Challenges| one.proof(at(1)).asks;
        for host in 10..20 {
            one.doubt(at(0), HostId(host), 1, || Some(5));
        }
        assert_eq!(asks(&mut one).len(), ASKS_MAX);
        for host in 30..40 {
            one.doubt_sum(at(0), HostId(host), 1, || Some(7));
        }
        let asked = asks(&mut one);
        assert_eq!(asked.len(), ASKS_MAX);
        assert!(asked.iter().all(|(host, _)| (30..38).contains(&host.0)), "{asked:?}");
    }
}
