//! Whose word counts: the latest summary of each host, and what becomes of it with age.
//!
//! Summaries come late, twice, in the wrong order or not at all. Only one that is newer than what
//! is known of its host is taken; a host that has started anew counts as newer than before (its
//! *incarnation* is greater, or was [vouched for](Peers::vouch)). A host that was silent for a
//! period or two is taken to be as it was; then what it asks is halved with each further period,
//! and in the end it is forgotten, so that its part goes to the others gradually.
//!
//! A word may come in parts, each of which counts by itself (`parts`).
//!
//! Hosts decide alike if they look at the same. So a host looks at its own summary of the period
//! that the others' are of, not at a newer one that they cannot know yet: otherwise each takes
//! itself for another than the others do, two take the same slots, and all swing.
//!
//! ```text
//!   periods missed    0    1    2    3    4    5    6
//!   demand counted    1    1    1   1/2  1/4  1/8  forgotten      (kept 2, forgotten after 5)
//! ```

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::lives::Lives;
use super::parts::Told;
use super::summary::{HostId, Summary};

/// The most tenants at hosts that are kept in mind before one device, those of each host counted
/// by themselves: what 256 hosts with 1,024 tenants each tell. Some 150 bytes each.
pub const FLOWS_OF_ALL_MAX: usize = 1 << 18;

/// The most hosts that share a device.
pub const HOSTS_MAX: usize = 4_096;

/// How far a summary's period may lie ahead of the own: clocks differ.
pub const AHEAD_MAX: u64 = 16;

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
    /// By flow, whether the part of the last word that told of it has not come, so that it is of
    /// one before; empty if all have.
    pub is_lost: Vec<bool>,
    /// Whether a part of the last word has not come.
    pub has_gaps: bool,
}

impl Known {
    /// What a host said whole, so many periods ago.
    pub fn whole(summary: Summary, missed: u64) -> Self {
        Self { summary, missed, is_lost: Vec::new(), has_gaps: false }
    }

    /// Whether all that it says is of the last period.
    pub fn is_news(&self) -> bool {
        self.missed == 0 && !self.has_gaps
    }

    /// Whether it says something of this flow, by its place, that is of the last period.
    pub fn is_news_of(&self, flow: usize) -> bool {
        self.missed == 0 && !self.is_lost.get(flow).copied().unwrap_or(false)
    }
}

/// Why a summary was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// Its host is none of the peers, or claims to be this one.
    Stranger,
    /// One as new or newer is known.
    Stale,
    /// Its host has started anew since then.
    Former,
    /// Its period lies too far ahead to be a matter of clocks.
    Ahead,
    /// It tells of too many tenants, of one twice, or of figures that contradict each other.
    Absurd,
    /// All hosts together have more tenants than can be kept in mind.
    Crowded,
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
    /// Refused as of a life before.
    pub former: u64,
    /// Refused as too far ahead.
    pub ahead: u64,
    /// Refused as absurd.
    pub absurd: u64,
    /// Refused since no more tenants can be kept in mind.
    pub crowded: u64,
}

impl PeerCounts {
    /// One more came in, with this outcome.
    pub(super) fn note(&mut self, outcome: Result<(), Refusal>) {
        let counter = match outcome {
            Ok(()) => &mut self.taken,
            Err(Refusal::Stranger) => &mut self.strangers,
            Err(Refusal::Stale) => &mut self.stale,
            Err(Refusal::Former) => &mut self.former,
            Err(Refusal::Ahead) => &mut self.ahead,
            Err(Refusal::Absurd) => &mut self.absurd,
            Err(Refusal::Crowded) => &mut self.crowded,
        };
        *counter += 1;
    }
}

/// The latest word of each peer. See the [module](self).
#[derive(Clone, Debug)]
pub struct Peers {
    own: HostId,
    members: BTreeSet<HostId>,
    patience: Patience,
    latest: BTreeMap<HostId, Told>,
    /// Tenants in all of those.
    flows: usize,
    lives: Lives,
    /// This host's own summaries, the newest last, as many as its peers may be behind.
    history: VecDeque<Summary>,
    counts: PeerCounts,
}

impl Peers {
    /// These hosts share the device, at most [`HOSTS_MAX`]; `own` is this one, listed or not.
    pub fn new(own: HostId, members: impl IntoIterator<Item = HostId>, patience: Patience) -> Self {
        let mut peers = Self {
            own,
            members: BTreeSet::new(),
            patience,
            latest: BTreeMap::new(),
            flows: 0,
            lives: Lives::default(),
            history: VecDeque::new(),
            counts: PeerCounts::default(),
        };
        peers.set_patience(patience);
        peers.set_members(members);
        peers
    }

    /// From now on these hosts share the device. Who is no longer among them is forgotten.
    pub fn set_members(&mut self, members: impl IntoIterator<Item = HostId>) {
        self.members = members.into_iter().filter(|member| *member != self.own).collect();
        assert!(self.members.len() < HOSTS_MAX, "{} hosts", self.members.len());
        self.latest.retain(|host, _| self.members.contains(host));
        self.count();
        self.lives.retain(|host| self.members.contains(&host));
    }

    /// Forgets what was heard, and in which lives.
    pub(super) fn forget(&mut self) {
        self.latest.clear();
        self.count();
        self.lives.retain(|_| false);
    }

    /// From now on silence counts so.
    pub(super) fn set_patience(&mut self, patience: Patience) {
        assert!(patience.kept <= patience.forgotten, "{patience:?}");
        self.patience = patience;
    }

    /// One more host shares the device; fewer than [`HOSTS_MAX`] do.
    pub(super) fn add_member(&mut self, host: HostId) {
        assert!(self.members.len() + 1 < HOSTS_MAX, "{} hosts", self.members.len());
        self.members.insert(host);
    }

    /// A host has proven that it lives in this life ([`super::challenge`]): its words count, and
    /// those of other lives do not, up to the greatest that was heard.
    pub fn vouch(&mut self, host: HostId, incarnation: u64) {
        if self.members.contains(&host) {
            self.lives.set(host, incarnation);
            self.latest.retain(|other, known| *other != host || known.incarnation == incarnation);
            self.count();
        }
    }

    /// Counts the tenants that are kept in mind.
    fn count(&mut self) {
        self.flows = self.latest.values().map(|told| told.flows).sum();
    }

    /// This host counts its periods anew, as after its clock was set: what it said before that
    /// would be taken for news.
    pub fn restart(&mut self) {
        self.history.clear();
    }

    /// A summary came in from outside while `period` is the latest of this host.
    ///
    /// # Errors
    /// Why it was not taken; it is counted.
    pub fn receive(&mut self, period: u64, summary: Summary) -> Result<(), Refusal> {
        let outcome = self.check(period, &summary);
        self.counts.note(outcome);
        outcome?;
        let (host, incarnation) = (summary.host, summary.incarnation);
        self.lives.set(host, incarnation);
        let told = self.latest.get_mut(&host);
        self.flows -= told.as_ref().map_or(0, |told| told.flows);
        let same = told.filter(|told| told.incarnation == incarnation);
        self.flows += if let Some(told) = same {
            told.add(summary);
            told.flows
        } else {
            let told = Told::new(summary);
            let flows = told.flows;
            self.latest.insert(host, told);
            flows
        };
        Ok(())
    }

    /// What is known at the end of this host's newest period, its own summary among it: that of the
    /// period that the newest of the others' is of, if it is not long past.
    pub fn known(&mut self, own: Summary) -> Vec<Known> {
        let period = own.period;
        let Patience { kept, forgotten } = self.patience;
        self.history.push_back(own);
        self.history.retain(|own| period.saturating_sub(own.period) <= kept);
        self.latest.retain(|_, told| period.saturating_sub(told.period) <= forgotten);
        self.count();
        let newest = self.latest.values().map(|told| told.period).max().unwrap_or(period);
        let newer = self.history.iter().position(|own| own.period >= newest);
        let own = &self.history[newer.unwrap_or(self.history.len() - 1)];
        let own = Known::whole(own.clone(), 0);
        let others = self.latest.values().map(|told| told.known(period, self.patience));
        let mut known: Vec<Known> = others.collect();
        known.insert(known.partition_point(|other| other.summary.host < self.own), own);
        known
    }

    /// Summaries taken and refused so far.
    pub fn counts(&self) -> PeerCounts {
        self.counts
    }

    /// Each other host that is heard, and in which life.
    pub fn latest(&self) -> impl Iterator<Item = (HostId, u64)> {
        self.latest.iter().map(|(host, told)| (*host, told.incarnation))
    }

    fn check(&self, period: u64, summary: &Summary) -> Result<(), Refusal> {
        if !self.members.contains(&summary.host) {
            return Err(Refusal::Stranger);
        }
        if summary.period > period.saturating_add(AHEAD_MAX) {
            return Err(Refusal::Ahead);
        }
        if !self.lives.may_count(summary.host, summary.incarnation) {
            return Err(Refusal::Former);
        }
        let known = self.latest.get(&summary.host);
        let is_known =
            known.is_some_and(|known| match known.incarnation.cmp(&summary.incarnation) {
                Ordering::Less => false,
                Ordering::Equal => !known.is_news(summary),
                Ordering::Greater => true,
            });
        let is_old = period.saturating_sub(summary.period) > self.patience.forgotten;
        if is_old || is_known {
            return Err(Refusal::Stale);
        }
        if !summary.is_plausible() {
            return Err(Refusal::Absurd);
        }
        let replaced = known.map_or(0, |known| known.within(summary.part));
        if self.flows - replaced + summary.flows.len() > FLOWS_OF_ALL_MAX {
            return Err(Refusal::Crowded);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::summary::{FLOWS_MAX, FlowSummary};
    use super::*;

    fn summary(host: u32, period: u64) -> Summary {
        let flow = FlowSummary { arrivals: 80, ..FlowSummary::default() };
        Summary {
            host: HostId(host),
            incarnation: 7,
            period,
            flows: vec![flow],
            ..Summary::default()
        }
    }

    fn peers() -> Peers {
        Peers::new(HostId(0), (0..3).map(HostId), Patience::default())
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
        let counts = PeerCounts { taken: 2, strangers: 2, stale: 3, ahead: 1, ..peers.counts() };
        assert_eq!(peers.counts(), counts);
        assert_eq!((counts.former, counts.absurd), (0, 0));
    }

    #[test]
    fn a_host_that_starts_anew_is_believed_and_its_former_life_is_not() {
        let mut peers = peers();
        let anew = |incarnation, period| Summary { incarnation, ..summary(1, period) };
        assert_eq!(peers.receive(10, anew(7, 12)), Ok(()));
        assert_eq!(peers.receive(10, anew(8, 10)), Ok(()), "its clock was set back meanwhile");
        assert_eq!(peers.receive(10, anew(7, 13)), Err(Refusal::Former));
        assert_eq!(peers.receive(10, anew(8, 10)), Err(Refusal::Stale));
        assert_eq!(peers.counts().former, 1);
    }

    #[test]
    fn a_former_life_stays_former_however_long_its_host_is_silent_unless_it_is_vouched_for() {
        let mut peers = peers();
        let of = |incarnation, period| Summary { incarnation, ..summary(1, period) };
        assert_eq!(peers.receive(10, of(7, 10)), Ok(()));
        assert_eq!(peers.known(summary(0, 99)).len(), 1, "it is silent");
        assert_eq!(peers.receive(100, of(3, 100)), Err(Refusal::Former));
        peers.vouch(HostId(1), 3);
        assert_eq!(peers.receive(100, of(3, 100)), Ok(()));
        assert_eq!(peers.receive(101, of(7, 101)), Err(Refusal::Former), "kept by somebody");
        assert_eq!(peers.receive(101, of(5, 101)), Err(Refusal::Former));
        assert_eq!(peers.receive(101, of(8, 101)), Ok(()), "it has started anew");
        peers.vouch(HostId(9), 1);
        assert_eq!(peers.receive(101, summary(9, 101)), Err(Refusal::Stranger));
    }

    #[test]
    fn who_is_no_longer_a_member_is_forgotten_and_refused() {
        let mut peers = peers();
        assert_eq!(peers.receive(10, summary(1, 9)), Ok(()));
        assert_eq!(peers.receive(10, summary(2, 9)), Ok(()));
        peers.set_members([HostId(2), HostId(5)]);
        assert_eq!(peers.latest().collect::<Vec<_>>(), [(HostId(2), 7)]);
        assert_eq!(peers.receive(10, summary(1, 10)), Err(Refusal::Stranger));
        assert_eq!(peers.receive(10, summary(5, 10)), Ok(()), "it has joined");
        assert_eq!(peers.known(summary(0, 10)).len(), 3);
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
        assert!(refused(&|summary| summary.depth = u32::MAX));
        assert!(refused(&|summary| summary.flows[0].backlogged_percent = 101));
        assert!(refused(&|summary| summary.flows.push(FlowSummary::default())));
        assert!(refused(&|summary| summary.part.first.0 = 1), "it tells of another's tenant");
        assert!(refused(&|summary| summary.part.count = 0));
        assert!(refused(&|summary| summary.part.count = 33));
        assert!(refused(&|summary| summary.flows[0].arrivals = u32::MAX));
        assert!(refused(&|summary| summary.flows[0].device_time = crate::time::Span(1)));
        assert!(refused(&|summary| summary.flows[0].slot_time = crate::time::Span(u64::MAX)));
        assert!(refused(&|summary| {
            let tenants = (0..=32).map(super::super::name::TenantNumber);
            summary.flows =
                tenants.map(|tenant| FlowSummary { tenant, ..FlowSummary::default() }).collect();
        }));
    }

    /// As many parts as there may be tenants in all, from hosts that each tell as many as one may.
    #[test]
    fn tenants_of_all_hosts_together_are_bounded() {
        let hosts = u32::try_from(FLOWS_OF_ALL_MAX / FLOWS_MAX).unwrap();
        let tenants = u32::try_from(FLOWS_MAX).unwrap();
        let mut peers = Peers::new(HostId(0), (1..hosts + 2).map(HostId), Patience::default());
        let flow = |tenant| FlowSummary {
            tenant: super::super::name::TenantNumber(tenant),
            ..FlowSummary::default()
        };
        let word = |host: u32, period| {
            let flows: Vec<_> = (0..tenants).map(flow).collect();
            Summary { flows, ..summary(host, period) }.into_parts()
        };
        for host in 1..=hosts {
            assert!(word(host, 10).into_iter().all(|part| peers.receive(10, part).is_ok()));
        }
        let late = word(hosts + 1, 10);
        assert_eq!(peers.receive(10, late[0].clone()), Err(Refusal::Crowded));
        assert_eq!(peers.counts().crowded, 1);
        // Whoever is known goes on, and room that is left is given.
        assert!(word(1, 11).into_iter().all(|part| peers.receive(11, part).is_ok()));
        peers.set_members((2..hosts + 2).map(HostId));
        assert!(late.into_iter().all(|part| peers.receive(11, part).is_ok()));
    }
}
