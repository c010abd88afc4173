//! Whose word counts: the latest summary of each host, and what becomes of it with age.
//!
//! Summaries come late, twice, in the wrong order or not at all. Only one that is newer than what
//! is known of its host is taken. A host that was silent for a period or two is taken to be as it
//! was; then what it asks is halved with each further period, and in the end it is forgotten, so
//! that its part goes to the others gradually.
//!
//! Hosts decide alike if they look at the same. So a host looks at its own summary of the period
//! that the others' are of, not at a newer one that they cannot know yet: otherwise each takes
//! itself for another than the others do, two take the same slots, and all swing.
//!
//! ```text
//!   periods missed    0    1    2    3    4    5    6
//!   demand counted    1    1    1   1/2  1/4  1/8  forgotten      (kept 2, forgotten after 5)
//! ```

use std::collections::{BTreeMap, VecDeque};

use super::summary::{FLOWS_MAX, HostId, Summary};

/// The most hosts that share a device.
pub const HOSTS_MAX: u32 = 4_096;

/// How far a summary's period may lie ahead of the own: clocks differ.
const AHEAD_MAX: u64 = 16;

/// When silence counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Periods missed for which a host is taken to be as it was.
    pub kept: u64,
    /// Periods missed after which it is forgotten; at least `kept`.
    pub forgotten: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self { kept: 2, forgotten: 5 }
    }
}

/// A summary in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// What the host said last, halved for each period missed beyond the patience.
    pub summary: Summary,
    /// Periods since then.
    pub missed: u64,
}

/// Why a summary was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// Its host is none of the peers, or claims to be this one.
    Stranger,
    /// One as new or newer is known.
    Stale,
    /// Its period lies too far ahead to be a matter of clocks.
    Ahead,
    /// It tells of too many tenants, of one twice, or of figures that contradict each other.
    Absurd,
}

/// Summaries taken and refused so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerCounts {
    /// Taken.
    pub taken: u64,
    /// Refused as of no peer.
    pub strangers: u64,
    /// Refused as old.
    pub stale: u64,
    /// Refused as too far ahead.
    pub ahead: u64,
    /// Refused as absurd.
    pub absurd: u64,
}

/// The latest word of each peer. See the [module](self).
#[derive(Clone, Debug)]
pub struct Peers {
    own: HostId,
    hosts: u32,
    patience: Patience,
    latest: BTreeMap<HostId, Summary>,
    /// This host's own summaries, the newest last, as many as its peers may be behind.
    history: VecDeque<Summary>,
    counts: PeerCounts,
}

impl Peers {
    /// Hosts 0 to `hosts`-1 share the device, at most [`HOSTS_MAX`]; `own` is this one.
    pub fn new(own: HostId, hosts: u32, patience: Patience) -> Self {
        assert!(own.0 < hosts && hosts <= HOSTS_MAX, "host {} of {hosts}", own.0);
        assert!(patience.kept <= patience.forgotten, "{patience:?}");
        let (latest, history) = (BTreeMap::new(), VecDeque::new());
        Self { own, hosts, patience, latest, history, counts: PeerCounts::default() }
    }

    /// A summary came in from outside while `period` is the latest of this host.
    ///
    /// # Errors
    /// Why it was not taken; it is counted.
    pub fn receive(&mut self, period: u64, summary: Summary) -> Result<(), Refusal> {
        let outcome = self.check(period, &summary);
        let counter = match outcome {
            Ok(()) => &mut self.counts.taken,
            Err(Refusal::Stranger) => &mut self.counts.strangers,
            Err(Refusal::Stale) => &mut self.counts.stale,
            Err(Refusal::Ahead) => &mut self.counts.ahead,
            Err(Refusal::Absurd) => &mut self.counts.absurd,
        };
        *counter += 1;
        outcome?;
        self.latest.insert(summary.host, summary);
        Ok(())
    }

    /// What is known at the end of this host's newest period, its own summary among it: that of the
    /// period that the newest of the others' is of, if it is not long past.
    pub fn known(&mut self, own: Summary) -> Vec<Known> {
        let period = own.period;
        let Patience { kept, forgotten } = self.patience;
        self.history.push_back(own);
        self.history.retain(|own| period.saturating_sub(own.period) <= kept);
        self.latest.retain(|_, summary| period.saturating_sub(summary.period) <= forgotten);
        let newest = self.latest.values().map(|summary| summary.period).max().unwrap_or(period);
        let newer = self.history.iter().position(|own| own.period >= newest);
        let own = &self.history[newer.unwrap_or(self.history.len() - 1)];
        let own = Known { summary: own.clone(), missed: 0 };
        let others = self.latest.values().map(|summary| {
            let missed = period.saturating_sub(summary.period);
            let mut summary = summary.clone();
            for _ in kept..missed {
                summary.flows.iter_mut().for_each(|flow| *flow = flow.halved());
            }
            Known { summary, missed }
        });
        let mut known: Vec<Known> = others.collect();
        known.insert(known.partition_point(|other| other.summary.host < self.own), own);
        known
    }

    /// Summaries taken and refused so far.
    pub fn counts(&self) -> PeerCounts {
        self.counts
    }

    fn check(&self, period: u64, summary: &Summary) -> Result<(), Refusal> {
        if summary.host == self.own || summary.host.0 >= self.hosts {
            return Err(Refusal::Stranger);
        }
        if summary.period > period.saturating_add(AHEAD_MAX) {
            return Err(Refusal::Ahead);
        }
        let known = self.latest.get(&summary.host).map(|known| known.period);
        let is_old = period.saturating_sub(summary.period) > self.patience.forgotten;
        if is_old || known.is_some_and(|known| known >= summary.period) {
            return Err(Refusal::Stale);
        }
        let in_order = summary.flows.is_sorted_by(|left, right| left.tenant < right.tenant);
        let is_whole = summary.flows.iter().all(|flow| {
            flow.late <= flow.completions
                && flow.target.is_none_or(|target| target.latency_max.0 > 0 && target.window.0 > 0)
        });
        if summary.flows.len() > FLOWS_MAX || !in_order || !is_whole {
            return Err(Refusal::Absurd);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::summary::FlowSummary;
    use super::*;

    fn summary(host: u32, period: u64) -> Summary {
        let flow = FlowSummary { arrivals: 80, ..FlowSummary::default() };
        Summary { host: HostId(host), period, flows: vec![flow] }
    }

    fn peers() -> Peers {
        Peers::new(HostId(0), 3, Patience::default())
    }

    #[test]
    fn silence_fades_and_is_forgotten() {
        let mut peers = peers();
        assert_eq!(peers.receive(10, summary(1, 10)), Ok(()));
        let arrivals: Vec<Vec<u32>> = (10..17)
            .map(|period| {
                let known = peers.known(summary(0, period));
                known[1..].iter().map(|known| known.summary.flows[0].arrivals).collect()
            })
            .collect();
        let expected: [&[u32]; 7] = [&[80], &[80], &[80], &[40], &[20], &[10], &[]];
        assert_eq!(arrivals, expected);
        assert_eq!(peers.receive(17, summary(1, 17)), Ok(()), "it may come back");
    }

    #[test]
    fn a_host_looks_at_itself_as_its_peers_see_it() {
        let mut peers = peers();
        for period in 10..14u64 {
            if let Some(told) = period.checked_sub(1).filter(|told| *told >= 10) {
                assert_eq!(peers.receive(period, summary(1, told)), Ok(()));
            }
            let known = peers.known(summary(0, period));
            let expected = if period == 10 { 10 } else { period - 1 };
            assert_eq!(known[0].summary.period, expected);
        }
        // The peer fell silent: its own news count again, with what is kept of the past.
        let periods: Vec<u64> =
            (14..18).map(|period| peers.known(summary(0, period))[0].summary.period).collect();
        assert_eq!(periods, [12, 13, 14, 15]);
    }

    #[test]
    fn only_news_of_peers_is_taken_and_the_rest_counted() {
        let mut peers = peers();
        assert_eq!(peers.receive(10, summary(1, 9)), Ok(()));
        assert_eq!(peers.receive(10, summary(1, 9)), Err(Refusal::Stale), "twice");
        assert_eq!(peers.receive(10, summary(1, 8)), Err(Refusal::Stale), "out of order");
        assert_eq!(peers.receive(10, summary(2, 4)), Err(Refusal::Stale), "long past");
        assert_eq!(peers.receive(10, summary(0, 11)), Err(Refusal::Stranger), "it says it is me");
        assert_eq!(peers.receive(10, summary(3, 11)), Err(Refusal::Stranger));
        assert_eq!(peers.receive(10, summary(2, u64::MAX)), Err(Refusal::Ahead));
        assert_eq!(peers.receive(10, summary(2, 12)), Ok(()), "its clock is ahead");
        let counts = PeerCounts { taken: 2, strangers: 2, stale: 3, ahead: 1, absurd: 0 };
        assert_eq!(peers.counts(), counts);
    }

    #[test]
    fn figures_that_contradict_each_other_are_refused() {
        let mut peers = peers();
        let mut refused = |change: &dyn Fn(&mut Summary)| {
            let mut summary = summary(1, 10);
            change(&mut summary);
            peers.receive(10, summary) == Err(Refusal::Absurd)
        };
        assert!(refused(&|summary| summary.flows[0].late = 1));
        assert!(refused(&|summary| summary.flows.push(FlowSummary::default())));
        assert!(refused(&|summary| {
            let tenants = (0..=64).map(crate::id::TenantId);
            summary.flows =
                tenants.map(|tenant| FlowSummary { tenant, ..FlowSummary::default() }).collect();
        }));
    }
}
