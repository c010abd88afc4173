//! What other gates have served of each tenant, for shares that count over all of them.
//!
//! Source of the idea: vPFS (PDSW 2010), whose proxies tell each other what they served, so that
//! distributed fair queuing ([`crate::sched::dsfq`]) holds over servers that no single proxy sees
//! all requests of.
//!
//! Each gate tells, once a period, how much it has served *in all* since it began. Such a total
//! makes a lost or late word harmless: the next one brings what it would have. Whoever hears takes
//! the difference to what that gate said of that tenant before.
//!
//! ```text
//!   word          1      2    (3 lost)   4        5 s of silence     60
//!   total         100    140             250                         9,000
//!   counted       -      40              110                         -      <- begins anew
//! ```
//!
//! The first word on a tenant is where counting begins, and so is the first after a silence of
//! [`SILENCE_MAX`] periods: what was served during a cut is not held against anybody afterwards.
//!
//! # Silence
//!
//! A gate that falls silent alone has died, or is as good as dead: others no longer count it. If
//! more than half of those that were heard fall silent at once, it is the network, or the server
//! that passes words on, and they go on serving. Then they are *presumed* to serve what they did,
//! for [`HELD_FOR`] in full, and less and less until [`GONE_AFTER`]: shares stay what they were,
//! for as long as it takes to start a server anew. Of two gates nobody can tell which it is, so
//! that the part of one that has died is held for it so long.
//!
//! ```text
//!   silence of all    1 s ......... 30 s ......... 60 s
//!   presumed         (all since)  1.0    0.5        0         of what they served in a period
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::lives::Lives;
use super::name::TenantName;
use super::peers::{AHEAD_MAX, HOSTS_MAX, PeerCounts, Refusal};
use super::summary::HostId;
use crate::ticket::Cost;
use crate::time::Span;

/// The most tenants that one word tells of.
pub const TENANTS_MAX: usize = 64;

/// After so many periods without a word of a host it begins anew; older words are not taken.
pub const SILENCE_MAX: u64 = 5;

/// So long gates that fell silent together are presumed to serve what they did ..
pub const HELD_FOR: Span = Span::from_secs(30);

/// .. and after so long nothing.
pub const GONE_AFTER: Span = Span::from_secs(60);

/// The most tenants of one gate that are kept in mind.
const KNOWN_MAX: usize = 16_384;

/// Memory of what a gate serves in a period.
const MEMORY: Span = Span::from_secs(5);

/// The most that a tenant can have been served at one gate in a period: no device of ours does a
/// thousand days' work in it.
const COST_MAX: Cost = Cost(Span::from_secs(1_000 * 86_400).0);

/// A gate's word on what it has served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Who speaks.
    pub host: HostId,
    /// Which life of the host: grows each time that it starts anew, and its totals with it.
    pub incarnation: u64,
    /// Grows from word to word.
    pub number: u64,
    /// Number of the period, counted alike by all hosts.
    pub period: u64,
    /// By tenant, in the order of their numbers, at most [`TENANTS_MAX`]: all that it has served in
    /// this life.
    pub totals: Vec<(TenantName, Cost)>,
}

/// What is known of one gate.
#[derive(Clone, Debug, Default)]
struct Heard {
    incarnation: u64,
    number: u64,
    period: u64,
    totals: BTreeMap<TenantName, Counted>,
    /// In which period of this host its last word came in.
    at: u64,
    /// The last period for which it is presumed to have served.
    presumed: u64,
}

/// What a gate has served of a tenant.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    total: Cost,
    /// The period of the word that told it.
    told: u64,
    /// What it serves in a period; none until there was a difference.
    per_period: Option<f64>,
}

/// Gates that fell silent together.
#[derive(Clone, Debug)]
struct Cut {
    /// All that were heard before, whether they are silent now or not.
    members: BTreeSet<HostId>,
    since: u64,
}

/// What the other gates have served, by tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// By their own word.
    pub told: BTreeMap<TenantName, Cost>,
    /// As far as they are silent and presumed to go on.
    pub presumed: BTreeMap<TenantName, Cost>,
}

/// What the other gates of a group have served. See the [module](self).
#[derive(Clone, Debug)]
pub struct ServedByOthers {
    /// The length of a period.
    length: Span,
    members: BTreeSet<HostId>,
    heard: BTreeMap<HostId, Heard>,
    cut: Option<Cut>,
    /// The period that was taken last; none if periods are counted anew.
    last: Option<u64>,
    lives: Lives,
    /// Since it was taken last.
    fresh: BTreeMap<TenantName, Cost>,
    counts: PeerCounts,
}

impl ServedByOthers {
    /// Nobody was heard yet; a period is of this length, above zero.
    pub fn new(length: Span) -> Self {
        Self {
            length,
            members: BTreeSet::new(),
            heard: BTreeMap::new(),
            cut: None,
            last: None,
            lives: Lives::default(),
            fresh: BTreeMap::new(),
            counts: PeerCounts::default(),
        }
    }

    /// Periods have this length from now on, or are counted anew: silence is counted from now on.
    pub fn count_anew(&mut self, length: Span) {
        (self.length, self.cut, self.last) = (length, None, None);
    }

    /// From now on these hosts, at most [`HOSTS_MAX`], are the others. Who is no longer among them
    /// is forgotten.
    pub fn set_members(&mut self, members: impl IntoIterator<Item = HostId>) {
        self.members = members.into_iter().collect();
        assert!(self.members.len() < HOSTS_MAX, "{} hosts", self.members.len());
        self.heard.retain(|host, _| self.members.contains(host));
        self.lives.retain(|host| self.members.contains(&host));
        if let Some(cut) = &mut self.cut {
            cut.members.retain(|host| self.members.contains(host));
        }
    }

    /// A host has proven that it lives in this life ([`super::challenge`]): its words count, and
    /// those of other lives do not, up to the greatest that was heard.
    pub fn vouch(&mut self, host: HostId, incarnation: u64) {
        if self.members.contains(&host) {
            self.lives.set(host, incarnation);
        }
    }

    /// A word came in while `period` is the latest of this host.
    ///
    /// # Errors
    /// Why it was not taken; it is counted.
    pub fn hear(&mut self, period: u64, service: &Service) -> Result<(), Refusal> {
        let outcome = self.check(period, service);
        self.counts.note(outcome);
        outcome?;
        self.lives.set(service.host, service.incarnation);
        let memory = self.periods(MEMORY) as f64;
        let heard = self.heard.entry(service.host).or_default();
        let silence = service.period.saturating_sub(heard.period);
        if heard.incarnation != service.incarnation || silence > SILENCE_MAX {
            heard.totals.clear();
        }
        (heard.incarnation, heard.number) = (service.incarnation, service.number);
        (heard.period, heard.at, heard.presumed) = (service.period, period, period);
        for (tenant, total) in &service.totals {
            let is_known = heard.totals.contains_key(tenant);
            if !is_known && heard.totals.len() >= KNOWN_MAX {
                continue;
            }
            let first = Counted { total: *total, told: service.period, per_period: None };
            let counted = heard.totals.entry(*tenant).or_insert(first);
            let served = total.0 - counted.total.0;
            if is_known {
                counted.note(service.period, *total, memory);
                let fresh = self.fresh.entry(*tenant).or_default();
                fresh.0 = fresh.0.saturating_add(served);
            }
        }
        Ok(())
    }

    /// A period has begun: what the others served since this was asked last.
    pub fn take(&mut self, period: u64) -> Taken {
        if self.last.replace(period).is_none() {
            for heard in self.heard.values_mut() {
                (heard.at, heard.presumed) = (period, period);
            }
        }
        self.look(period);
        Taken { told: std::mem::take(&mut self.fresh), presumed: self.presume(period) }
    }

    /// For how long others have been presumed to serve what they did; none if they are heard.
    pub fn presumed_for(&self) -> Option<Span> {
        let periods = self.last?.saturating_sub(self.cut.as_ref()?.since);
        Some(Span(periods.saturating_mul(self.length.0)))
    }

    /// So much time in periods, at least one.
    fn periods(&self, time: Span) -> u64 {
        (time.0 / self.length.0.max(1)).max(1)
    }

    /// Looks who is silent: most of those who were heard lately, or a few.
    fn look(&mut self, period: u64) {
        let within = |most: u64| {
            let heard = self.heard.iter().filter(move |(_, heard)| heard.missed(period) <= most);
            heard.map(|(host, _)| *host)
        };
        if let Some(cut) = &self.cut {
            let back = within(SILENCE_MAX).filter(|host| cut.members.contains(host)).count();
            let is_over = period.saturating_sub(cut.since) >= self.periods(GONE_AFTER);
            if is_over || 2 * back >= cut.members.len() {
                self.cut = None;
            }
            return;
        }
        // Not all fall silent with the same word.
        let members: BTreeSet<HostId> = within(2 * SILENCE_MAX).collect();
        if 2 * within(SILENCE_MAX).count() < members.len() {
            self.cut = Some(Cut { members, since: period });
        }
    }

    /// What those who fell silent together are presumed to have served by the end of a period.
    fn presume(&mut self, period: u64) -> BTreeMap<TenantName, Cost> {
        let mut presumed: BTreeMap<TenantName, Cost> = BTreeMap::new();
        let Some(cut) = &self.cut else { return presumed };
        let part = self.part(period.saturating_sub(cut.since));
        let memory = self.periods(MEMORY) as f64;
        for host in &cut.members {
            let heard = self.heard.get_mut(host).filter(|heard| heard.missed(period) > SILENCE_MAX);
            let Some(heard) = heard else { continue };
            // All since its last word, at first.
            let periods = period.saturating_sub(heard.presumed).min(2 * SILENCE_MAX);
            heard.presumed = period;
            for (tenant, counted) in &heard.totals {
                let sum = presumed.entry(*tenant).or_default();
                let cost = counted.per_period(heard.period, memory) * part * periods as f64;
                sum.0 = sum.0.saturating_add(whole(cost));
            }
        }
        presumed
    }

    /// The part of what they did that silent gates are presumed to do after so many periods.
    fn part(&self, silent: u64) -> f64 {
        let (held, gone) = (self.periods(HELD_FOR) as f64, self.periods(GONE_AFTER) as f64);
        ((gone - silent as f64) / (gone - held).max(1.0)).clamp(0.0, 1.0)
    }

    /// Words taken and refused so far.
    pub fn counts(&self) -> PeerCounts {
        self.counts
    }

    fn check(&self, period: u64, service: &Service) -> Result<(), Refusal> {
        if !self.members.contains(&service.host) {
            return Err(Refusal::Stranger);
        }
        if service.period > period.saturating_add(AHEAD_MAX) {
            return Err(Refusal::Ahead);
        }
        if service.totals.len() > TENANTS_MAX
            || !service.totals.is_sorted_by(|left, right| left.0 < right.0)
        {
            return Err(Refusal::Absurd);
        }
        let is_old = period.saturating_sub(service.period) > SILENCE_MAX;
        if !self.lives.may_count(service.host, service.incarnation) {
            return Err(Refusal::Former);
        }
        let heard = self.heard.get(&service.host);
        let heard = heard.filter(|heard| heard.incarnation == service.incarnation);
        let Some(heard) = heard else {
            return if is_old { Err(Refusal::Stale) } else { Ok(()) };
        };
        if is_old || heard.number >= service.number || heard.period > service.period {
            return Err(Refusal::Stale);
        }
        let can_follow = |(tenant, total): &(TenantName, Cost)| {
            heard.totals.get(tenant).is_none_or(|before| {
                total.0.checked_sub(before.total.0).is_some_and(|served| served <= COST_MAX.0)
            })
        };
        if service.totals.iter().all(can_follow) { Ok(()) } else { Err(Refusal::Absurd) }
    }
}

impl Heard {
    /// Periods since its last word.
    fn missed(&self, period: u64) -> u64 {
        period.saturating_sub(self.at)
    }
}

impl Counted {
    /// A later word tells a greater total.
    fn note(&mut self, period: u64, total: Cost, memory: f64) {
        let periods = period.saturating_sub(self.told).max(1) as f64;
        let seen = (total.0 - self.total.0) as f64 / periods;
        let before = self.per_period.unwrap_or(seen);
        self.per_period = Some(before + (seen - before) * periods / (periods + memory));
        (self.total, self.told) = (total, period);
    }

    /// What its gate served of it in a period at the time of this word, which may have told nothing
    /// new of it.
    fn per_period(&self, period: u64, memory: f64) -> f64 {
        let idle = period.saturating_sub(self.told) as f64;
        self.per_period.unwrap_or(0.0) * memory / (memory + idle)
    }
}

/// A cost in whole nanoseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn whole(cost: f64) -> u64 {
    cost as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: HostId = HostId(2);
    const DB: TenantName = TenantName(7);
    const PERIOD: Span = Span::from_millis(100);

    fn word(number: u64, period: u64, total: u64) -> Service {
        let totals = vec![(DB, Cost(total))];
        Service { host: OTHER, incarnation: 1, number, period, totals }
    }

    fn others() -> ServedByOthers {
        let mut others = ServedByOthers::new(PERIOD);
        others.set_members([OTHER]);
        others
    }

    fn counted(others: &mut ServedByOthers, word: &Service) -> u64 {
        others.hear(word.period, word).unwrap();
        others.take(word.period).told.get(&DB).map_or(0, |cost| cost.0)
    }

    #[test]
    fn a_lost_word_is_made_good_by_the_next_and_a_long_silence_is_forgiven() {
        let mut others = others();
        let words = [word(1, 10, 100), word(2, 11, 140), word(4, 13, 250), word(60, 99, 9_000)];
        assert_eq!(words.map(|word| counted(&mut others, &word)), [0, 40, 110, 0]);
        assert_eq!(counted(&mut others, &word(61, 100, 9_001)), 1);
    }

    #[test]
    fn a_host_that_starts_anew_begins_at_its_first_word() {
        let mut others = others();
        counted(&mut others, &word(1, 10, 100));
        let anew = |number, total| Service { incarnation: 2, ..word(number, 11, total) };
        assert_eq!([anew(1, 5), anew(2, 9)].map(|word| counted(&mut others, &word)), [0, 4]);
        assert_eq!(others.hear(11, &word(2, 11, 150)), Err(Refusal::Former));
        others.vouch(OTHER, 1);
        assert_eq!(
            [word(3, 12, 50), word(4, 12, 70)].map(|word| counted(&mut others, &word)),
            [0, 20]
        );
        assert_eq!(others.hear(12, &anew(9, 99)), Err(Refusal::Former), "kept by somebody");
    }

    #[test]
    fn what_is_no_news_or_cannot_be_is_refused_and_counted() {
        let mut others = others();
        others.hear(10, &word(5, 10, 100)).unwrap();
        let stranger = Service { host: HostId(9), ..word(6, 10, 100) };
        assert_eq!(others.hear(10, &stranger), Err(Refusal::Stranger));
        assert_eq!(others.hear(10, &word(5, 10, 100)), Err(Refusal::Stale));
        assert_eq!(others.hear(99, &word(6, 10, 100)), Err(Refusal::Stale));
        assert_eq!(others.hear(10, &word(6, 27, 100)), Err(Refusal::Ahead));
        assert_eq!(others.hear(11, &word(6, 11, 99)), Err(Refusal::Absurd));
        assert_eq!(others.hear(11, &word(6, 11, u64::MAX)), Err(Refusal::Absurd));
        let twice = Service { totals: vec![(DB, Cost(1)); 2], ..word(6, 11, 0) };
        assert_eq!(others.hear(11, &twice), Err(Refusal::Absurd));
        let PeerCounts { taken, strangers, stale, ahead, absurd, .. } = others.counts();
        assert_eq!((taken, strangers, stale, ahead, absurd), (1, 1, 2, 1, 3));
        assert_eq!(others.take(11), Taken::default());
    }

    /// What one of these hosts is presumed to serve in periods from 20 on; all of them have served
    /// 100 in each period before it, and some go on to say so.
    fn presumed(hosts: u32, speak: &[u32], periods: std::ops::Range<u64>) -> Vec<u64> {
        let mut others = ServedByOthers::new(PERIOD);
        others.set_members((1..=hosts).map(HostId));
        let mut presumed = Vec::new();
        for period in 1..periods.end {
            for host in (1..=hosts).filter(|host| period < 20 || speak.contains(host)) {
                let word = Service { host: HostId(host), ..word(period, period, period * 100) };
                others.hear(period, &word).unwrap();
            }
            let taken = others.take(period);
            presumed.push(taken.presumed.get(&DB).map_or(0, |cost| cost.0));
        }
        presumed.split_off(usize::try_from(periods.start).unwrap() - 1)
    }

    #[test]
    fn gates_that_fall_silent_together_are_presumed_to_go_on_and_that_fades() {
        let presumed = presumed(3, &[], 20..700);
        assert_eq!(presumed[..5], [0; 5], "words may be late");
        assert_eq!(presumed[5], 6 * 300, "all that they have not told");
        assert_eq!(presumed[6..300], [300; 294]);
        assert!((140..=160).contains(&presumed[455]), "{}", presumed[455]);
        assert_eq!(presumed[606..], [0; 74], "after a minute shares are of this gate");
    }

    #[test]
    fn one_of_several_that_falls_silent_has_died() {
        assert_eq!(presumed(3, &[1, 2], 20..100), [0; 80]);
        assert_eq!(presumed(4, &[1, 2], 20..100), [0; 80], "as many as not");
        assert_eq!(presumed(3, &[1], 20..100)[6..], [200; 74], "most of them have not");
        assert_eq!(presumed(1, &[], 20..100)[6..], [100; 74], "nobody can tell");
    }

    #[test]
    fn what_is_told_after_a_silence_was_presumed_and_does_not_count_again() {
        let mut others = others();
        for period in 1..20 {
            counted(&mut others, &word(period, period, period * 100));
        }
        let presumed: u64 =
            (20..60).map(|period| others.take(period).presumed.get(&DB).map_or(0, |it| it.0)).sum();
        assert_eq!(presumed, 40 * 100);
        assert_eq!(others.presumed_for(), Some(Span::from_millis(3_400)));
        assert_eq!(counted(&mut others, &word(20, 60, 6_000)), 0);
        assert_eq!(others.presumed_for(), None);
        assert_eq!(counted(&mut others, &word(21, 61, 6_100)), 100);
    }

    #[test]
    fn a_tenant_that_was_served_no_more_is_not_presumed_to_be() {
        let mut others = others();
        for period in 1..20 {
            counted(&mut others, &word(period, period, period * 100));
        }
        // The gate goes on to speak and has nothing new.
        for period in 20..1_000 {
            let nothing = Service { totals: Vec::new(), ..word(period, period, 0) };
            others.hear(period, &nothing).unwrap();
            let _ = others.take(period);
        }
        let presumed = (1_000..1_010).map(|period| others.take(period).presumed);
        let most = presumed.filter_map(|it| it.get(&DB).copied()).max().unwrap();
        assert!(most.0 <= 6 * 5, "{most:?}");
    }

    #[test]
    fn counting_anew_is_no_silence() {
        let mut others = others();
        for period in 1..20 {
            counted(&mut others, &word(period, period, period * 100));
        }
        others.count_anew(PERIOD);
        for period in 9_000..9_005 {
            assert_eq!(others.take(period), Taken::default());
        }
    }

    #[test]
    fn who_leaves_is_forgotten() {
        let mut others = others();
        counted(&mut others, &word(1, 10, 100));
        others.set_members([HostId(3)]);
        assert_eq!(others.hear(11, &word(2, 11, 200)), Err(Refusal::Stranger));
    }
}
