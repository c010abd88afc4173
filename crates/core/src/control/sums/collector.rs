//! A host that adds up the words of a shard.
//!
//! It treats the hosts of its shard as peers: late, repeated and former words do not count, and who
//! falls silent fades. Anybody of the shard takes part from its first fresh word on, and is
//! forgotten after 300 periods without one.

use std::collections::BTreeMap;

use super::super::peers::{AHEAD_MAX, HOSTS_MAX, Patience, Peers, Refusal};
use super::super::summary::{HostId, SumOf, Summary};
use super::add::add;
use super::{Kind, Shard};

/// Periods without a word after which a host may be another one when it comes back.
const GONE_AFTER: u64 = 300;

/// Adds up the words of a shard, as one of its hosts does that has begun to collect.
#[derive(Clone, Debug)]
pub(super) struct Collector {
    shard: Shard,
    term: u64,
    /// The period in which it began.
    began: u64,
    peers: Peers,
    /// In which period each was heard last.
    heard: BTreeMap<HostId, u64>,
}

/// What a collector tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// To all hosts: the sum, in parts.
    pub words: Vec<Summary>,
    /// To the hosts of the shard: whom it counts, in order.
    pub roster: Vec<HostId>,
}

impl Collector {
    /// Begins to collect in this term (`Election::term`) at the end of this period.
    pub(super) fn new(shard: Shard, term: u64, period: u64) -> Self {
        let own = shard.host(Kind::Content);
        let peers = Peers::new(own, [], Patience::default());
        Self { shard, term, began: period, peers, heard: BTreeMap::new() }
    }

    /// The word of a host, or a part of it, came in while `period` is under way.
    ///
    /// # Errors
    /// Why it does not count.
    pub(super) fn hear(&mut self, period: u64, word: Summary) -> Result<(), Refusal> {
        let host = word.host;
        if Shard::of(host) != self.shard || word.sum.is_some() {
            return Err(Refusal::Stranger);
        }
        if !self.heard.contains_key(&host) {
            if word.period.abs_diff(period) > AHEAD_MAX || self.heard.len() + 1 >= HOSTS_MAX {
                return Err(Refusal::Stranger);
            }
            self.peers.add_member(host);
        }
        let newest = word.period;
        let outcome = self.peers.receive(period, word);
        if outcome.is_ok() || !self.heard.contains_key(&host) {
            self.heard.insert(host, newest.min(period));
        }
        outcome
    }

    /// A host of the shard has proven that it lives in this life; see [`Peers::vouch`].
    pub(super) fn vouch(&mut self, host: HostId, incarnation: u64) {
        self.peers.vouch(host, incarnation);
    }

    /// The sum of what is known at the end of the period of this number; none at the end of the
    /// one in which it began, of which it cannot have heard all.
    pub(super) fn sum(&mut self, period: u64) -> Option<Sum> {
        if period <= self.began {
            return None;
        }
        let before = self.heard.len();
        self.heard.retain(|_, heard| period.saturating_sub(*heard) <= GONE_AFTER);
        if self.heard.len() < before {
            self.peers.set_members(self.heard.keys().copied());
        }
        // The peers want a word of their own host; the shard has none.
        let host = self.shard.host(Kind::Content);
        let known = self.peers.known(Summary { host, period, ..Summary::default() });
        let known = || known.iter().map(|known| &known.summary).filter(|word| word.host != host);
        let roster: Vec<HostId> = known().map(|word| word.host).collect();
        let (hosts, incarnation) = (u32::try_from(roster.len()).expect("few"), self.term);
        let leader = known().find(|word| word.depth > 0);
        let (leader, depth) = leader.map_or((host, 0), |word| (word.host, word.depth));
        let words = Kind::ALL.into_iter().zip(add(known())).flat_map(|(kind, flows)| {
            // The first kind speaks for the shard.
            let is_first = kind == Kind::Content;
            let sum = SumOf { hosts: if is_first { hosts } else { 0 }, leader };
            let (depth, sum) = (if is_first { depth } else { 0 }, Some(sum));
            let host = self.shard.host(kind);
            let whole =
                Summary { host, incarnation, period, depth, sum, flows, ..Summary::default() };
            whole.into_parts()
        });
        Some(Sum { words: words.collect(), roster })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::summary::FlowSummary;
    use super::*;

    fn hosts() -> impl Iterator<Item = HostId> {
        (0..).map(HostId).filter(|host| Shard::of(*host) == Shard(2))
    }

    fn word(host: HostId, period: u64) -> Summary {
        let flow = FlowSummary { completions: 8, arrivals: 8, ..FlowSummary::default() };
        let depth = host.0 % 2 * 40;
        Summary { host, incarnation: 1, period, depth, flows: vec![flow], ..Summary::default() }
    }

    fn completions(sum: &Sum) -> u32 {
        sum.words.iter().flat_map(|word| &word.flows).map(|flow| flow.completions).sum()
    }

    #[test]
    fn all_that_speak_are_in_the_sum_and_the_roster() {
        let mut collector = Collector::new(Shard(2), 9, 0);
        for host in hosts().take(100) {
            assert_eq!(collector.hear(500, word(host, 500)), Ok(()));
        }
        let sum = collector.sum(500).unwrap();
        assert_eq!((completions(&sum), sum.roster.len(), sum.words.len()), (800, 100, 3));
        let leader = hosts().find(|host| host.0 % 2 == 1).unwrap();
        let first = &sum.words[0];
        assert_eq!((first.sum, first.depth), (Some(SumOf { hosts: 100, leader }), 40));
        assert!(sum.words.iter().all(|word| word.is_plausible() && word.incarnation == 9));
        assert_eq!(sum.words.iter().map(Summary::hosts).sum::<u32>(), 100);
    }

    #[test]
    fn a_host_that_falls_silent_fades_and_comes_back() {
        let mut collector = Collector::new(Shard(2), 9, 0);
        let host = hosts().next().unwrap();
        collector.hear(500, word(host, 500)).unwrap();
        let mut done = |period| completions(&collector.sum(period).unwrap());
        assert_eq!([500, 502, 503, 505, 506].map(&mut done), [8, 8, 4, 1, 0]);
        assert_eq!(done(900), 0);
        assert_eq!(collector.heard.len(), 0, "forgotten");
        assert_eq!(collector.hear(900, word(host, 900)), Ok(()));
    }

    #[test]
    fn nothing_is_told_of_the_period_in_which_it_began() {
        let mut collector = Collector::new(Shard(2), 900 << 24, 500);
        let host = hosts().next().unwrap();
        collector.hear(500, word(host, 500)).unwrap();
        assert_eq!(collector.sum(500), None);
        assert_eq!(completions(&collector.sum(501).unwrap()), 8);
    }

    #[test]
    fn others_words_and_sums_do_not_count() {
        let mut collector = Collector::new(Shard(2), 9, 0);
        let stranger = (0..100).map(HostId).find(|host| Shard::of(*host) != Shard(2)).unwrap();
        assert_eq!(collector.hear(500, word(stranger, 500)), Err(Refusal::Stranger));
        let host = hosts().next().unwrap();
        assert_eq!(collector.hear(500, word(host, 400)), Err(Refusal::Stranger), "old words");
        let sum = SumOf { hosts: 5, leader: host };
        let word = Summary { sum: Some(sum), ..word(host, 500) };
        assert_eq!(collector.hear(500, word), Err(Refusal::Stranger));
    }
}
