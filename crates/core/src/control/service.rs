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
    totals: BTreeMap<TenantName, Cost>,
}

/// What the other gates of a group have served. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct ServedByOthers {
    members: BTreeSet<HostId>,
    heard: BTreeMap<HostId, Heard>,
    lives: Lives,
    /// Since it was taken last.
    fresh: BTreeMap<TenantName, Cost>,
    counts: PeerCounts,
}

impl ServedByOthers {
    /// From now on these hosts, at most [`HOSTS_MAX`], are the others. Who is no longer among them
    /// is forgotten.
    pub fn set_members(&mut self, members: impl IntoIterator<Item = HostId>) {
        self.members = members.into_iter().collect();
        assert!(self.members.len() < HOSTS_MAX, "{} hosts", self.members.len());
        self.heard.retain(|host, _| self.members.contains(host));
        self.lives.retain(|host| self.members.contains(&host));
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
        let heard = self.heard.entry(service.host).or_default();
        let silence = service.period.saturating_sub(heard.period);
        if heard.incarnation != service.incarnation || silence > SILENCE_MAX {
            heard.totals.clear();
        }
        (heard.incarnation, heard.number) = (service.incarnation, service.number);
        heard.period = service.period;
        for (tenant, total) in &service.totals {
            if let Some(before) = heard.totals.insert(*tenant, *total) {
                let fresh = self.fresh.entry(*tenant).or_default();
                fresh.0 = fresh.0.saturating_add(total.0 - before.0);
            }
        }
        Ok(())
    }

    /// What was heard of since this was asked last, by tenant.
    pub fn take(&mut self) -> BTreeMap<TenantName, Cost> {
        std::mem::take(&mut self.fresh)
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
                total.0.checked_sub(before.0).is_some_and(|served| served <= COST_MAX.0)
            })
        };
        if service.totals.iter().all(can_follow) { Ok(()) } else { Err(Refusal::Absurd) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: HostId = HostId(2);
    const DB: TenantName = TenantName(7);

    fn word(number: u64, period: u64, total: u64) -> Service {
        let totals = vec![(DB, Cost(total))];
        Service { host: OTHER, incarnation: 1, number, period, totals }
    }

    fn others() -> ServedByOthers {
        let mut others = ServedByOthers::default();
        others.set_members([OTHER]);
        others
    }

    fn counted(others: &mut ServedByOthers, word: &Service) -> u64 {
        others.hear(word.period, word).unwrap();
        others.take().get(&DB).map_or(0, |cost| cost.0)
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
        assert!(others.take().is_empty());
    }

    #[test]
    fn who_leaves_is_forgotten() {
        let mut others = others();
        counted(&mut others, &word(1, 10, 100));
        others.set_members([HostId(3)]);
        assert_eq!(others.hear(11, &word(2, 11, 200)), Err(Refusal::Stranger));
    }
}
