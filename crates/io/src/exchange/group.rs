//! This gate's seat in one group of servers whose shares count over several gates: what it tells of
//! its own service, and what it hears of others'.
//!
//! ```text
//!   at the end of a period:  worker -> served in all -> word -> the others
//!                            worker <- served by others since the last period
//! ```

use std::collections::BTreeMap;

use evenkeel_core::control::member::Method;
use evenkeel_core::control::name::TenantName;
use evenkeel_core::control::peers::{PeerCounts, Refusal};
use evenkeel_core::control::service::{
    GONE_AFTER, HELD_FOR, SILENCE_MAX, ServedByOthers, Service, TENANTS_MAX, Taken,
};
use evenkeel_core::control::summary::HostId;
use evenkeel_core::id::TenantId;
use evenkeel_core::ticket::Cost;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_wire::exchange::service::ServiceDatagram;

use super::GroupPlace;
use super::agreement::Compared;
use super::periods::Periods;
use super::report::{ElsewhereReport, GroupReport};

/// Groups have no controller that could differ.
const METHOD: Method = Method::Shares;

/// Who has nothing new to tell says so after this many periods, lest it be taken for gone.
const HEARTBEAT: u64 = SILENCE_MAX - 1;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct GroupSeat {
    pub(super) place: GroupPlace,
    tenants: BTreeMap<TenantName, TenantId>,
    pub(super) compared: Compared,
    others: ServedByOthers,
    periods: Periods,
    words: u64,
    /// The period of the last word.
    spoke: u64,
    /// What was told of each tenant last.
    told: BTreeMap<TenantId, Cost>,
    /// What others served of each tenant since this gate started.
    elsewhere: BTreeMap<TenantId, Cost>,
}

impl GroupSeat {
    pub(super) fn new(place: GroupPlace, own: HostId, members: &[HostId]) -> Self {
        let mut seat = Self {
            tenants: BTreeMap::new(),
            compared: Compared::default(),
            others: ServedByOthers::new(place.period),
            periods: Periods::default(),
            words: 0,
            spoke: 0,
            told: BTreeMap::new(),
            elsewhere: BTreeMap::new(),
            place: place.clone(),
        };
        seat.change(place, own, members);
        seat
    }

    /// Goes on with other tenants or members.
    pub(super) fn change(&mut self, place: GroupPlace, own: HostId, members: &[HostId]) {
        let ids = (0..).map(TenantId);
        let names = place.tenants.iter().map(|(name, _)| TenantName::named(name));
        self.compared.change(METHOD, &place.tenants);
        self.tenants = names.zip(ids).collect();
        self.others.set_members(members.iter().copied().filter(|member| *member != own));
        if place.period != self.place.period {
            self.others.count_anew(place.period);
        }
        self.place = place;
    }

    /// The number of the period that has begun, if one has; and else the time until one does.
    pub(super) fn due(&mut self, common_ns: u64) -> Result<u64, u64> {
        let period = self.place.period;
        self.periods.turned(period, common_ns).ok_or(period.0 - common_ns % period.0)
    }

    /// Common time was moved.
    pub(super) fn count_anew(&mut self) {
        self.periods.begin_anew();
        self.others.count_anew(self.place.period);
        // The next word is due by the new count.
        self.spoke = 0;
    }

    /// What to tell the others at the beginning of a period, of what was served in all; none if
    /// nothing is new and nobody waits for a word. With more tenants than a word has room for,
    /// those of which most is new.
    pub(super) fn word(
        &mut self,
        period: u64,
        served: &[(TenantId, Cost)],
        is_awaited: bool,
    ) -> Option<Service> {
        let news = |(tenant, total): &(TenantId, Cost)| match self.told.get(tenant) {
            Some(before) => total.0.saturating_sub(before.0),
            None => u64::MAX,
        };
        let mut fresh: Vec<_> = served.iter().filter(|row| news(row) > 0).copied().collect();
        fresh.sort_by_key(|row| std::cmp::Reverse(news(row)));
        fresh.truncate(TENANTS_MAX);
        let is_soon = period.saturating_sub(self.spoke) < HEARTBEAT;
        if fresh.is_empty() && is_soon && !is_awaited {
            return None;
        }
        self.told.extend(fresh.iter().copied());
        (self.words, self.spoke) = (self.words + 1, period);
        let name = |tenant: TenantId| self.place.tenants.get(tenant.index());
        let named = |(tenant, total)| Some((TenantName::named(&name(tenant)?.0), total));
        let mut totals: Vec<_> = fresh.into_iter().filter_map(named).collect();
        totals.sort_unstable();
        totals.dedup_by_key(|(name, _)| *name);
        Some(Service { number: self.words, period, totals, ..Service::default() })
    }

    /// A word of another gate came in, and with it what its policy says of some tenants.
    pub(super) fn hear(
        &mut self,
        (now, common_ns): (Nanos, u64),
        datagram: &ServiceDatagram,
        gate: impl Fn(HostId) -> String,
    ) -> Result<(), Refusal> {
        let ServiceDatagram { service, told, .. } = datagram;
        self.others.hear(common_ns / self.place.period.0, service)?;
        self.compared.hear(now, service.host, METHOD, told.as_ref());
        self.compared.log(&self.place.name, gate);
        Ok(())
    }

    /// Another gate has proven that it lives in this life.
    pub(super) fn vouch(&mut self, host: HostId, incarnation: u64) {
        self.others.vouch(host, incarnation);
    }

    /// What others served of the tenants of this gate since this was asked last, or are presumed to
    /// have, at the beginning of a period.
    pub(super) fn take(&mut self, period: u64) -> Vec<(TenantId, Cost)> {
        let was_presumed = self.others.presumed_for().is_some();
        let Taken { told, presumed } = self.others.take(period);
        let of = |served: BTreeMap<TenantName, Cost>| -> Vec<(TenantId, Cost)> {
            let served = served.into_iter();
            served.filter_map(|(name, cost)| Some((*self.tenants.get(&name)?, cost))).collect()
        };
        let (mut known, presumed) = (of(told), of(presumed));
        for (tenant, cost) in &known {
            let sum = self.elsewhere.entry(*tenant).or_default();
            sum.0 = sum.0.saturating_add(cost.0);
        }
        known.extend(presumed);
        self.say(was_presumed);
        known
    }

    /// Says that others have begun to be presumed to go on, or no longer are.
    fn say(&self, was_presumed: bool) {
        let group = &self.place.name;
        match (was_presumed, self.others.presumed_for().is_some()) {
            (false, true) => tracing::warn!(
                group,
                "other gates are not heard: for {HELD_FOR} they are taken to serve what they did, \
                 and less and less until {GONE_AFTER}"
            ),
            (true, false) => tracing::info!(group, "what other gates serve is no longer presumed"),
            _ => {}
        }
    }

    pub(super) fn counts(&self) -> PeerCounts {
        self.others.counts()
    }

    /// For people; `gate` is what a host is called.
    pub(super) fn report(&self, gate: impl Fn(HostId) -> String) -> GroupReport {
        let row = |(tenant, cost): (&TenantId, &Cost)| {
            let (tenant, _) = self.place.tenants.get(tenant.index())?.clone();
            Some(ElsewhereReport { tenant, cost: Span(cost.0) })
        };
        GroupReport {
            name: self.place.name.clone(),
            elsewhere: self.elsewhere.iter().filter_map(row).collect(),
            presumed_for: self.others.presumed_for(),
            disagreements: self.compared.lines(gate),
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::sched::Share;

    use super::*;

    const PERIOD: Span = Span::from_millis(100);

    fn seat(own: u32) -> GroupSeat {
        let place = GroupPlace {
            name: "array".to_owned(),
            domain: "array".to_owned(),
            worker: 0,
            period: PERIOD,
            tenants: ["default", "db"].map(|name| (name.to_owned(), Share::default())).to_vec(),
        };
        GroupSeat::new(place, HostId(own), &[HostId(1), HostId(2)])
    }

    #[test]
    fn what_one_gate_tells_the_other_takes() {
        let (mut one, mut other) = (seat(1), seat(2));
        let mut told = |period: u64, db: u64| {
            let served = [(TenantId(0), Cost(0)), (TenantId(1), Cost(db))];
            let word = one.word(period, &served, false);
            let word = word.map(|word| Service { host: HostId(1), incarnation: 1, ..word });
            if let Some(word) = &word {
                let datagram = ServiceDatagram { service: word.clone(), ..Default::default() };
                let at = period * PERIOD.0;
                other.hear((Nanos(at), at), &datagram, |_| String::new()).unwrap();
            }
            (word.map(|word| word.totals.len()), other.take(period))
        };
        assert_eq!(told(10, 500), (Some(2), vec![]), "where counting begins");
        assert_eq!(told(11, 700), (Some(1), vec![(TenantId(1), Cost(200))]));
        assert_eq!(told(12, 700), (None, vec![]), "nothing is new");
        assert_eq!(told(15, 700), (Some(0), vec![]), "still there");
        assert_eq!(told(16, 750), (Some(1), vec![(TenantId(1), Cost(50))]));
        let report = other.report(|_| String::new());
        assert_eq!(
            (report.elsewhere[0].tenant.as_str(), report.elsewhere[0].cost),
            ("db", Span(250))
        );
        assert_eq!(other.counts().taken, 4);
    }

    #[test]
    fn periods_turn_by_the_clock() {
        let mut seat = seat(1);
        let ms = 1_000_000;
        assert_eq!(seat.due(1_030 * ms), Err(70 * ms));
        assert_eq!(seat.due(1_100 * ms), Ok(11));
        assert_eq!(seat.due(1_101 * ms), Err(99 * ms));
    }
}
