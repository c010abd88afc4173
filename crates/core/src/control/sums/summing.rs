//! A host's part in adding up the words of its shard: the election, and the collector while it is
//! the one that collects.

use super::super::peers::Refusal;
use super::super::summary::{HostId, Summary};
use super::{Collector, Election, Shard, Sum};

/// The election of a shard as one of its hosts sees it, and what this one collects.
#[derive(Clone, Debug)]
pub struct Summing {
    shard: Shard,
    election: Election,
    collector: Option<Collector>,
}

impl Summing {
    /// A host that has heard nothing yet.
    pub fn new(own: HostId) -> Self {
        Self { shard: Shard::of(own), election: Election::new(own), collector: None }
    }

    /// The shard that it is in.
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// Whether it adds up the words of its shard.
    pub fn collects(&self) -> bool {
        self.collector.is_some()
    }

    /// So many hosts of its shard are heard by their words.
    pub fn expect(&mut self, hosts: u32) {
        self.election.expect(hosts);
    }

    /// The period of this number has ended: where the shard is silent, it may begin to collect.
    pub fn end_period(&mut self, period: u64) {
        self.election.end_period(period);
        let term = self.election.term().filter(|_| !self.collects());
        if let Some(term) = term {
            self.collector = Some(Collector::new(self.shard, term, period));
        }
    }

    /// A sum of its shard came in, of this term and so many hosts; one that began later than this
    /// host ends what it collects.
    pub fn hear_sum(&mut self, term: u64, hosts: u32) {
        self.election.hear(term, hosts);
        if self.election.term().is_none() {
            self.collector = None;
        }
    }

    /// The word of a host of its shard, or a part of it, came in while `period` is under way; none
    /// if it does not collect.
    pub fn hear_word(&mut self, period: u64, word: Summary) -> Option<Result<(), Refusal>> {
        self.collector.as_mut().map(|collector| collector.hear(period, word))
    }

    /// Another host has proven that it lives in this life.
    pub fn vouch(&mut self, host: HostId, incarnation: u64) {
        if let Some(collector) = &mut self.collector {
            collector.vouch(host, incarnation);
        }
    }

    /// What it has added up at the end of the period of this number; none if it does not collect.
    pub fn sum(&mut self, period: u64) -> Option<Sum> {
        self.collector.as_mut()?.sum(period)
    }
}
