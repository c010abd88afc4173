//! One host's part in the exchange: what came from the others, and what it decides from that.
//!
//! ```text
//!   others' summaries --hear--> [peers] --+
//!                                         +--> [controller] --> decision
//!   own summary ------------- decide -----+
//! ```
//!
//! All that a decision depends on comes in through [`Member::hear`] and [`Member::decide`], with
//! the number of the period in place of a clock. So a record of those calls, played again, gives
//! the same decisions.
//!
//! # Where sums are heard
//!
//! With very many hosts a member hears no words of others, but their sums ([`super::sums`]), each
//! of which counts as the word of one host. Its own word is in the sum of its own shard, and is
//! taken out of it.
//!
//! # When many fall silent
//!
//! One peer that falls silent has died, as a rule; if more than half of them do at once, it is
//! rather this host that was cut off, or the network that has parted. The others then work on and
//! keep their tenants' targets as well as they can, and would not if this host took all that it no
//! longer sees used. So for a minute its last decision with them holds, and nothing is learned:
//! what it sees of the device follows from hosts that it does not hear. After that those that it
//! hears are all there are. The minute is counted in decisions of its own, not by the numbers of
//! periods: a host whose count is moved by an hour would be over it at once.
//!
//! ```text
//!   of 5 hosts, parted into 2 and 3     two hear 1 of 4: held     three hear 2 of 4: go on
//!   of 4, parted into halves            all hear 1 of 3: all held, nothing changes for a minute
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::drg::{Borrowing, Drg};
use super::parda::{Parda, PardaOptions};
use super::peers::{Known, Patience, Peers, Refusal};
use super::shared::Discipline;
use super::shares::{Shares, SharesOptions};
use super::slack::{Slack, SlackOptions};
use super::summary::{HostId, Summary};
use super::sums::{Shard, take_out};
use super::window::RequestWindow;
use super::{Controller, Decision, View};
use crate::time::{Nanos, Span};

/// Who decides the slots of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Shares over all hosts ([`super::shares`]).
    #[default]
    Shares,
    /// The strictest targets first ([`super::slack`]).
    Slack,
    /// DRG, repaired, with borrowing ([`super::drg`]).
    Drg,
    /// PARDA ([`super::parda`]).
    Parda,
    /// Request windows ([`super::window`]): an equal part of the depth for every host.
    Window,
}

/// What a host decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Who decides.
    pub method: Method,
    /// Time between two decisions of [`Method::Shares`] and [`Method::Slack`]; the others take a
    /// second.
    pub period: Span,
    /// Slots of all hosts together under [`Method::Window`], and of this one under the others until
    /// the first decision; at least 1. Under [`Method::Shares`] the search for the depth does not
    /// begin below it.
    pub depth: u32,
    /// The latency that [`Method::Parda`] holds the device at.
    pub threshold: Span,
}

impl Method {
    /// Every method, ours first.
    pub const ALL: [Self; 5] = [Self::Shares, Self::Slack, Self::Drg, Self::Parda, Self::Window];

    /// How the tenants of a host share its slots.
    pub fn discipline(self) -> Discipline {
        match self {
            Self::Shares => Discipline::Weight,
            Self::Slack | Self::Drg | Self::Parda | Self::Window => Discipline::Order,
        }
    }

    /// Its number on the wire and in recordings.
    pub fn number(self) -> u8 {
        match self {
            Self::Slack => 0,
            Self::Drg => 1,
            Self::Parda => 2,
            Self::Window => 3,
            Self::Shares => 4,
        }
    }

    /// The method of this number.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.number() == number)
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shares => "shares",
            Self::Slack => "slack",
            Self::Drg => "drg",
            Self::Parda => "parda",
            Self::Window => "window",
        }
    }
}

impl Rules {
    /// A controller by these rules, for one of so many hosts.
    fn controller(&self, hosts: usize) -> Box<dyn Controller> {
        let Self { method, period, depth, threshold } = *self;
        let slots_first = f64::from(depth);
        match method {
            Method::Shares => {
                let options = SharesOptions { period, slots_first: depth, ..Default::default() };
                let depth_first = options.depth_first.max(depth);
                Box::new(Shares::new(SharesOptions { depth_first, ..options }))
            }
            Method::Slack => {
                let options = SlackOptions { period, slots_first: depth, ..Default::default() };
                Box::new(Slack::new(options))
            }
            Method::Drg => Box::new(Drg::new(Borrowing::Yes)),
            Method::Parda => {
                let options = PardaOptions { threshold, slots_first, ..Default::default() };
                Box::new(Parda::new(options))
            }
            Method::Window => {
                let hosts = u32::try_from(hosts).expect("fewer hosts than that");
                Box::new(RequestWindow::new(depth, 1, hosts))
            }
        }
    }
}

/// For so long a host that hears nobody any more takes no more than before.
const ISOLATION_MAX: Span = Span::from_secs(60);

/// A shard whose collector has died is as it was until another one collects.
const PATIENCE_WITH_SUMS: Patience = Patience { kept: 8, forgotten: 15 };

/// One host in the exchange over one device. See the [module](self).
pub struct Member {
    own: HostId,
    rules: Rules,
    hosts: usize,
    patience: Patience,
    peers: Peers,
    controller: Box<dyn Controller>,
    /// The period that was decided upon last.
    period: u64,
    /// Decisions so far.
    decisions: u64,
    connected: Option<Connected>,
    /// In which decision each other host was heard last, of those within a minute.
    heard: BTreeMap<HostId, u64>,
    sums: Option<Sums>,
}

/// What a member knows of the sums that it hears.
#[derive(Clone, Debug, Default)]
struct Sums {
    /// Whether its own word is in the sum of its shard.
    is_counted: bool,
    /// The most hosts in each sum within a minute, and the decision in which there were.
    most: BTreeMap<HostId, (u32, u64)>,
}

/// The last decision with word from others.
#[derive(Clone, Debug)]
struct Connected {
    /// How many decisions there were before it.
    decisions: u64,
    /// Of how many other hosts.
    others: u32,
    decision: Decision,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Member({:?} of {} by {})", self.own, self.hosts, self.rules.method.name())
    }
}

/// What came of a period.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What the host does until the next.
    pub decision: Decision,
    /// What it was decided from, by host.
    pub known: Vec<Known>,
    /// Whether the slots are held at what they were, since nobody is heard any more.
    pub is_held: bool,
}

impl Member {
    /// A host that has heard nothing yet; `members` are all that share the device, itself too.
    pub fn new(own: HostId, members: &[HostId], rules: Rules) -> Self {
        let patience = Patience::default();
        Self {
            patience,
            own,
            rules,
            hosts: members.len(),
            peers: Peers::new(own, members.iter().copied(), patience),
            controller: rules.controller(members.len()),
            period: 0,
            decisions: 0,
            connected: None,
            heard: BTreeMap::new(),
            sums: None,
        }
    }

    /// The same where all other hosts are heard by their sums.
    pub fn with_sums(own: HostId, rules: Rules) -> Self {
        let mut member = Self::new(own, &[own], rules);
        member.hear_sums();
        member
    }

    /// All other hosts are heard by their sums from now on, and no longer by their words. What was
    /// learned of the device stays.
    pub fn hear_sums(&mut self) {
        let sums: Vec<HostId> = Shard::all().flat_map(Shard::hosts).collect();
        self.hear_by(&sums, PATIENCE_WITH_SUMS, Some(Sums::default()));
    }

    /// These hosts are heard by their words from now on, and no longer by their sums.
    pub fn hear_words(&mut self, members: &[HostId]) {
        self.hear_by(members, Patience::default(), None);
    }

    fn hear_by(&mut self, members: &[HostId], patience: Patience, sums: Option<Sums>) {
        self.peers.set_members(members.iter().copied());
        self.peers.set_patience(patience);
        // Who is heard otherwise is not lost.
        self.heard.clear();
        (self.patience, self.sums, self.hosts) = (patience, sums, members.len());
    }

    /// Whether other hosts are heard by their sums.
    pub fn hears_sums(&self) -> bool {
        self.sums.is_some()
    }

    /// The collector of this host's shard has said whether it counts this host.
    pub fn note_counted(&mut self, is_counted: bool) {
        if let Some(sums) = &mut self.sums {
            sums.is_counted = is_counted;
        }
    }

    /// Time between two decisions, the same at every host.
    pub fn period(&self) -> Span {
        self.controller.period()
    }

    /// Others share the device from now on, or other rules hold. What was learned of the device
    /// stays as long as the rules do. Who is heard by sums needs no list of the others.
    pub fn change(&mut self, members: &[HostId], rules: Rules) {
        if self.hears_sums() {
            if rules != self.rules {
                (self.controller, self.rules) = (rules.controller(self.hosts), rules);
            }
            return;
        }
        self.peers.set_members(members.iter().copied());
        let depends_on_hosts = rules.method == Method::Window && self.hosts != members.len();
        if rules != self.rules || depends_on_hosts {
            self.controller = rules.controller(members.len());
        }
        (self.rules, self.hosts) = (rules, members.len());
    }

    /// Another host's word came in while `period` is the newest of this one.
    ///
    /// # Errors
    /// Why it does not count; it is counted as such.
    pub fn hear(&mut self, period: u64, summary: Summary) -> Result<(), Refusal> {
        self.peers.receive(period, summary)
    }

    /// Another host has proven that it lives in this life; see [`Peers::vouch`].
    pub fn vouch(&mut self, host: HostId, incarnation: u64) {
        self.peers.vouch(host, incarnation);
    }

    /// A period of this host has ended, with this summary of it: what holds from now on. A number
    /// below that of the period before is a clock that was set back.
    pub fn decide(&mut self, own: Summary) -> Outcome {
        if own.period <= self.period {
            self.peers.restart();
            if self.hears_sums() {
                // Terms are counted by periods: those of before would be later than any to come.
                self.peers.forget();
            }
        }
        self.period = own.period;
        self.decisions += 1;
        let now = Nanos(own.period.saturating_mul(self.period().0));
        let mut known = self.peers.known(own);
        self.take_out_own(&mut known);
        let fresh = known.iter().filter(|known| self.is_fresh(known));
        let others = fresh.map(|known| known.summary.hosts()).sum();
        if let Some(held) = self.held(others) {
            return Outcome { decision: held.clone(), known, is_held: true };
        }
        let lost = self.lost(&known);
        let missing = self.missing(&known);
        let view = View { own: self.own, now, known: &known, lost: &lost, missing };
        let decision = self.controller.step(&view);
        self.connected = (others > 0).then(|| {
            let decisions = self.decisions;
            Connected { decisions, others, decision: decision.clone() }
        });
        Outcome { decision, known, is_held: false }
    }

    /// Takes this host out of the sum of its shard, if it is in there.
    fn take_out_own(&self, known: &mut [Known]) {
        if !self.sums.as_ref().is_some_and(|sums| sums.is_counted) {
            return;
        }
        let own = known.iter().find(|known| known.summary.host == self.own);
        let own = own.expect("a host knows itself").summary.clone();
        let shard = Shard::of(self.own);
        take_out(&own, shard, known);
        let sums =
            known.iter_mut().filter(|known| Shard::of_sum(known.summary.host) == Some(shard));
        // One of them counts the hosts of the shard.
        for sum in sums.filter_map(|known| known.summary.sum.as_mut()) {
            sum.hosts = sum.hosts.saturating_sub(1);
        }
    }

    /// How many hosts fewer are in the sums than within a minute.
    fn missing(&mut self, known: &[Known]) -> u32 {
        let Some(sums) = &mut self.sums else { return 0 };
        let (decisions, period_ns) = (self.decisions, self.rules.period.0.max(1));
        let now = known.iter().filter(|known| known.summary.sum.is_some());
        let now: BTreeMap<HostId, u32> =
            now.map(|known| (known.summary.host, known.summary.hosts())).collect();
        for (host, hosts) in &now {
            let most = sums.most.entry(*host).or_insert((*hosts, decisions));
            if *hosts >= most.0 {
                *most = (*hosts, decisions);
            }
        }
        let is_recent = |at: u64| (decisions - at).saturating_mul(period_ns) < ISOLATION_MAX.0;
        sums.most.retain(|host, (_, at)| is_recent(*at) || now.contains_key(host));
        let missing = sums.most.iter_mut().map(|(host, most)| {
            let hosts = now.get(host).copied().unwrap_or(0);
            if !is_recent(most.1) {
                *most = (hosts, decisions);
            }
            most.0 - hosts
        });
        missing.fold(0, u32::saturating_add)
    }

    /// Whether this is another host that was heard of late.
    fn is_fresh(&self, known: &Known) -> bool {
        known.summary.host != self.own && known.missed <= self.patience.kept
    }

    /// Who was heard within a minute and is no more.
    fn lost(&mut self, known: &[Known]) -> Vec<HostId> {
        let decisions = self.decisions;
        let own = self.own;
        let hosts = known.iter().map(|known| known.summary.host).filter(|host| *host != own);
        let hosts: BTreeSet<HostId> = hosts.collect();
        self.heard.extend(hosts.iter().map(|host| (*host, decisions)));
        let period_ns = self.period().0;
        self.heard.retain(|_, at| (decisions - *at).saturating_mul(period_ns) < ISOLATION_MAX.0);
        self.heard.keys().filter(|host| !hosts.contains(host)).copied().collect()
    }

    /// What was decided with others, if most of them have fallen silent not too long ago and there
    /// are any to be heard.
    fn held(&self, others: u32) -> Option<&Decision> {
        let connected = self.connected.as_ref().filter(|_| self.hosts > 1)?;
        let silent = self.decisions - connected.decisions;
        let silent_ns = silent.saturating_mul(self.period().0);
        let is_cut_off = others < connected.others.div_ceil(2) && silent_ns < ISOLATION_MAX.0;
        is_cut_off.then_some(&connected.decision)
    }

    /// Whose word counts, and what was refused.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }
}

#[cfg(test)]
mod tests {
    use super::super::summary::{FlowSummary, SumOf};
    use super::*;

    const RULES: Rules = Rules {
        method: Method::Slack,
        period: Span::from_millis(100),
        depth: 16,
        threshold: Span::from_millis(20),
    };

    fn summary(host: u32, period: u64) -> Summary {
        let flow = FlowSummary {
            weight_milli: 1000,
            arrivals: 30,
            completions: 30,
            device_time: Span::from_millis(600),
            slot_time: Span::from_millis(600),
            expected_per_s: 300,
            ..FlowSummary::default()
        };
        Summary {
            host: HostId(host),
            incarnation: 1,
            period,
            flows: vec![flow],
            ..Summary::default()
        }
    }

    /// One of two hosts, after periods in which it heard the other, which has a target; and its
    /// slots then.
    fn beside_a_strict_one(periods: std::ops::Range<u64>) -> (Member, u32) {
        let mut member = Member::new(HostId(0), &[HostId(0), HostId(1)], RULES);
        let mut slots = 0;
        for period in periods {
            let mut other = summary(1, period);
            let target = super::super::target::Target::mean(Span::from_millis(30), RULES.period);
            other.flows[0].target = Some(target);
            member.hear(period, other).unwrap();
            slots = member.decide(summary(0, period)).decision.slots;
        }
        (member, slots)
    }

    #[test]
    fn the_same_words_give_the_same_decisions() {
        let run = || -> Vec<Outcome> {
            let mut member = Member::new(HostId(0), &[HostId(0), HostId(1)], RULES);
            let step = |period| {
                member.hear(period, summary(1, period)).unwrap();
                member.decide(summary(0, period))
            };
            (1..40).map(step).collect()
        };
        let outcomes = run();
        assert_eq!(outcomes, run());
        assert_eq!(outcomes[30].known.len(), 2);
        assert!(outcomes[30].decision.slots > 1);
    }

    #[test]
    fn a_device_that_answers_in_no_time_keeps_its_slots() {
        let at_once = |host, period| {
            let mut summary = summary(host, period);
            summary.flows[0].device_time = Span::ZERO;
            summary
        };
        for method in Method::ALL {
            let mut member = Member::new(HostId(0), &[0, 1].map(HostId), Rules { method, ..RULES });
            for period in 1..40 {
                member.hear(period, at_once(1, period)).unwrap();
                assert!(member.decide(at_once(0, period)).decision.slots >= 1, "{member:?}");
            }
        }
    }

    #[test]
    fn what_was_decided_holds_until_others_are_heard_otherwise() {
        let rules = Rules { method: Method::Shares, ..RULES };
        let hosts = [0, 1, 2].map(HostId);
        let mut member = Member::new(HostId(0), &hosts, rules);
        let by_words = |member: &mut Member, period| {
            for host in [1, 2] {
                member.hear(period, summary(host, period)).unwrap();
            }
            member.decide(summary(0, period))
        };
        let before = (1..60).map(|period| by_words(&mut member, period)).last().unwrap().decision;
        member.hear_sums();
        assert!(member.hears_sums() && member.hear(60, summary(1, 60)).is_err());
        for period in 60..70 {
            let outcome = member.decide(summary(0, period));
            assert!(outcome.is_held && outcome.decision == before, "{outcome:?}");
        }
        let (shard, mut sum) = (Shard::of(HostId(1)), summary(1, 70));
        sum.host = shard.hosts().next().unwrap();
        sum.sum = Some(SumOf { hosts: 2, leader: HostId(1) });
        member.hear(70, sum).unwrap();
        let outcome = member.decide(summary(0, 70));
        assert!(!outcome.is_held && outcome.known.len() == 2, "{outcome:?}");
        member.hear_words(&hosts);
        assert!(!by_words(&mut member, 71).is_held);
    }

    #[test]
    fn every_method_decides_and_windows_follow_the_number_of_hosts() {
        for method in Method::ALL {
            let mut member = Member::new(HostId(0), &[HostId(0)], Rules { method, ..RULES });
            assert!(member.decide(summary(0, 1)).decision.slots >= 1, "{member:?}");
        }
        let rules = Rules { method: Method::Window, ..RULES };
        let mut member = Member::new(HostId(0), &[HostId(0), HostId(1)], rules);
        assert_eq!(member.decide(summary(0, 1)).decision.slots, 8);
        member.change(&[0, 1, 2, 3].map(HostId), rules);
        assert_eq!(member.decide(summary(0, 2)).decision.slots, 4);
    }

    #[test]
    fn who_hears_nobody_any_more_takes_no_more_than_before_for_a_minute() {
        let (mut member, last) = beside_a_strict_one(1..40);
        let outcomes: Vec<Outcome> =
            (40..700).map(|period| member.decide(summary(0, period))).collect();
        assert!(outcomes[2..590].iter().all(|outcome| outcome.decision.slots <= last));
        assert!(outcomes[300].is_held && outcomes[300].known.len() == 1);
        let alone = outcomes.last().unwrap();
        assert!(!alone.is_held && alone.decision.slots > last, "{alone:?} {last}");
    }

    #[test]
    fn halves_that_do_not_hear_each_other_change_nothing_for_a_minute() {
        let hosts = [0, 1, 2, 3].map(HostId);
        let rules = Rules { method: Method::Shares, ..RULES };
        let mut member = Member::new(HostId(0), &hosts, rules);
        let mut decide = |period, heard: &[u32]| {
            for host in heard {
                member.hear(period, summary(*host, period)).unwrap();
            }
            member.decide(summary(0, period))
        };
        let whole = (1..40).map(|period| decide(period, &[1, 2, 3])).last().unwrap();
        for period in 40..600 {
            let outcome = decide(period, &[1]);
            let is_begun = period >= 42;
            assert_eq!(outcome.is_held, is_begun, "{period}");
            assert!(!is_begun || outcome.decision.slots <= whole.decision.slots, "{outcome:?}");
        }
        assert!((600..700).map(|period| decide(period, &[1])).any(|outcome| !outcome.is_held));
        // One of four that falls silent has died: the others go on.
        let died = (700..800).map(|period| decide(period, &[1, 2, 3])).last().unwrap();
        assert!(!died.is_held);
        assert!((800..900).all(|period| !decide(period, &[1, 2]).is_held));
    }

    #[test]
    fn a_clock_that_is_set_changes_no_slots_for_a_minute() {
        const STEP: u64 = 36_000;
        for is_ahead in [true, false] {
            let (mut member, last) = beside_a_strict_one(STEP..STEP + 40);
            let set = |period: u64| if is_ahead { period + STEP } else { period - STEP };
            for period in STEP + 40..STEP + 630 {
                let heard = member.hear(set(period), summary(1, period));
                assert!(heard.is_err(), "{heard:?}");
                let outcome = member.decide(summary(0, set(period)));
                assert!(outcome.decision.slots <= last, "{period}: {outcome:?}, not {last}");
            }
        }
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_stop_the_host() {
        let mut member = Member::new(HostId(0), &[HostId(0), HostId(1)], RULES);
        member.decide(summary(0, 1000));
        let known = member.decide(summary(0, 900)).known;
        assert_eq!(known[0].summary.period, 900);
        assert_eq!(member.hear(900, summary(1, 900)), Ok(()));
    }
}
