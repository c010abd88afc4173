//! This gate's seat at one shared device: when its periods end, and what is decided then.
//!
//! ```text
//!   common time   n x period          +1/4 and the window             (n+1) x period
//!                 |--- close period n ------|--- decide --------------|
//!                     -> worker -> told ->       -> worker
//! ```
//!
//! Where sums are heard (`sums`) gates decide a quarter of a period later.

use std::collections::BTreeMap;

use evenkeel_core::control::Decision;
use evenkeel_core::control::member::{Member, Method, Outcome};
use evenkeel_core::control::name::{DeviceId, TenantNumber};
use evenkeel_core::control::pace;
use evenkeel_core::control::peers::{Known, Refusal};
use evenkeel_core::control::summary::{FlowSummary, HostId, PART_FLOWS_MAX, PARTS_MAX, Summary};
use evenkeel_core::control::sums::{Shard, Sum};
use evenkeel_core::time::{Nanos, Span};
use evenkeel_wire::exchange::recording::Event;
use evenkeel_wire::exchange::roster::RosterDatagram;
use evenkeel_wire::exchange::{Datagram, Speaker, Terms};

use super::Place;
use super::agreement::{Compared, CostDifference};
use super::periods::Periods;
use super::report::{DeviceReport, HostReport, SumsReport, TenantReport};
use super::sums::{self, Sums};
use super::together::Together;
use super::transport::Topic;

/// What a seat wants done.
#[derive(Debug)]
pub(super) enum Due {
    /// Nothing for so many nanoseconds.
    Nothing { for_ns: u64 },
    /// The period of this number has ended.
    Close { number: u64 },
    /// The words of the last period are added up.
    Sum(Sum),
    /// All are heard that will be.
    Decide(Summary),
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) place: Place,
    pub(super) member: Member,
    own: HostId,
    /// Whether a server passes words on, so that they may be added up.
    passes_on: bool,
    is_connected: bool,
    pub(super) sums: Option<Sums>,
    periods: Periods,
    /// In which words go out.
    window: Span,
    pub(super) compared: Compared,
    /// What another policy says that requests cost otherwise.
    cost_difference: Option<(HostId, CostDifference)>,
    pub(super) together: Together,
    /// What was told of it, until it is decided upon.
    told: Option<Summary>,
    last: Option<Outcome>,
    decisions: u64,
}

impl Seat {
    /// `passes_on` is whether a server passes words on, so that they may be added up.
    pub(super) fn new(place: Place, own: HostId, members: &[HostId], passes_on: bool) -> Self {
        let mut seat = Self {
            member: Member::new(own, members, place.rules),
            own,
            passes_on,
            is_connected: true,
            sums: None,
            periods: Periods::default(),
            window: Span::ZERO,
            compared: Compared::default(),
            cost_difference: None,
            together: Together::new(place.is_automatic, place.written),
            told: None,
            last: None,
            decisions: 0,
            place: place.clone(),
        };
        seat.change(Nanos::ZERO, place, members);
        seat
    }

    /// Goes on at the same device with other rules, tenants or members.
    pub(super) fn change(&mut self, now: Nanos, mut place: Place, members: &[HostId]) {
        self.together.change(now, place.is_automatic, place.written);
        if self.together.has_begun() {
            // With what was found, which no policy says.
            place.rules.depth = self.place.rules.depth;
        }
        let adds_up = self.passes_on && place.rules.method == Method::Shares;
        if adds_up != self.sums.is_some() {
            self.sums = adds_up.then(|| Sums::new(self.own));
        }
        self.follow(members);
        self.member.change(members, place.rules);
        self.compared.change(place.rules.method, &place.tenants);
        self.place = place;
        if !self.hears_sums() {
            self.set_window(members);
        }
    }

    /// All that the words of gates with as many tenants as this one may come in.
    fn set_window(&mut self, members: &[HostId]) {
        let peers = members.len().saturating_sub(1);
        self.window = pace::window(self.member.period(), peers * self.parts());
    }

    /// In how many parts such a word may come.
    fn parts(&self) -> usize {
        self.place.tenants.len().div_ceil(PART_FLOWS_MAX).clamp(1, PARTS_MAX)
    }

    /// How this gate decides.
    pub(super) fn terms(&self) -> Terms {
        Terms::new(self.place.rules.method, self.member.period())
    }

    /// Whether other gates are heard by the sums of their words.
    pub(super) fn hears_sums(&self) -> bool {
        self.sums.as_ref().is_some_and(Sums::are_heard)
    }

    /// Hears sums in place of words from now on, or words of these again, if that is what it has
    /// come to; whether anything changes by that.
    pub(super) fn follow(&mut self, members: &[HostId]) -> bool {
        let changes = self.member.hears_sums() != self.hears_sums();
        match self.sums.as_ref().filter(|_| changes) {
            Some(sums) if sums.are_heard() => {
                self.member.hear_sums();
                self.member.note_counted(sums.is_counted());
            }
            _ if changes => {
                self.member.hear_words(members);
                self.set_window(members);
            }
            _ => {}
        }
        changes
    }

    /// What it hears of a device, where a server passes words on.
    pub(super) fn topics(&self, device: DeviceId) -> Vec<Topic> {
        let words = |shard| Topic::Words(device, shard);
        let Some(sums) = &self.sums else { return Shard::all().map(words).collect() };
        let is_heard = |shard: &Shard| {
            let is_own = *shard == sums.shard();
            sums.hear_all() || (is_own && (sums.collects() || !sums.are_heard()))
        };
        let shards = Shard::all().filter(is_heard);
        let roster = sums.is_large().then(|| Topic::Roster(device, sums.shard()));
        // Another gate with the name of this one is heard in any case.
        let own = sums.are_heard() && !sums.collects();
        let own = own.then(|| Topic::Own(device, sums.shard()));
        let topics = [Topic::Sums(device)].into_iter().chain(roster).chain(own);
        topics.chain(shards.map(words)).collect()
    }

    /// Within which its words are to be with whoever adds them up; none where all hear them.
    pub(super) fn sums_window(&self) -> Option<Span> {
        self.hears_sums().then_some(self.window)
    }

    /// Whether what was heard in a period counts for its decisions, and not for a sum alone.
    pub(super) fn decides_by(&self, period: u64, heard: &Datagram) -> bool {
        let is_sum = heard.collector.is_some();
        let may_count = !is_sum || sums::check(period, heard.speaker(), &heard.summary).is_ok();
        self.member.hears_sums() == is_sum && may_count
    }

    /// Another gate's word came in, of the same period as this one's, or a sum of words.
    pub(super) fn hear(
        &mut self,
        now: Nanos,
        period: u64,
        datagram: Datagram,
        gate: impl Fn(HostId) -> String,
    ) -> Result<(), Refusal> {
        let speaker = datagram.speaker();
        let Datagram { summary, terms, told, .. } = datagram;
        self.take(period, speaker, summary)?;
        let (host, _) = speaker;
        self.compared.hear(now, host, terms.method, told.as_ref());
        self.compared.log(&self.place.backend, gate);
        Ok(())
    }

    /// A word or a sum counts for what this gate decides, or for the sum that it tells itself.
    fn take(&mut self, period: u64, speaker: Speaker, summary: Summary) -> Result<(), Refusal> {
        let hears_sums = self.member.hears_sums();
        let Some(sums) = &mut self.sums else { return self.member.hear(period, summary) };
        if summary.sum.is_some() {
            sums::check(period, speaker, &summary)?;
            sums.hear_sum(&summary);
            return if hears_sums { self.member.hear(period, summary) } else { Ok(()) };
        }
        let added = sums.hear_word(period, &summary);
        match added.filter(|_| hears_sums) {
            Some(outcome) => outcome,
            None => self.member.hear(period, summary),
        }
    }

    /// How late in a period a sum goes out: its gate counts as if it had spoken at the beginning.
    pub(super) fn sums_after(&self) -> Span {
        pace::decide_after(self.member.period(), self.window)
    }

    /// The sum that this gate tells counts for it too: a server does not send it back. What it says
    /// to the others; and to `record` what this gate decides by, before it does.
    pub(super) fn take_sum(
        &mut self,
        device: DeviceId,
        collector: Speaker,
        words: Vec<Summary>,
        mut record: impl FnMut(Event),
    ) -> Vec<Datagram> {
        let terms = self.terms();
        let tell = |summary: Summary| {
            let (period, collector) = (summary.period, Some(collector));
            let datagram = Datagram { device, terms, summary, collector, ..Datagram::default() };
            if self.decides_by(period, &datagram) {
                record(Event::Heard { period, datagram: datagram.clone() });
            }
            let _ = self.take(period, datagram.speaker(), datagram.summary.clone());
            datagram
        };
        words.into_iter().map(tell).collect()
    }

    /// A part of a roster came in; whether it says something new of this gate.
    pub(super) fn hear_roster(&mut self, period: u64, roster: &RosterDatagram) -> bool {
        let Some(sums) = &mut self.sums else { return false };
        let is_news = sums.hear_roster(period, roster);
        self.member.note_counted(sums.is_counted());
        is_news
    }

    /// Another gate has proven that it lives in this life.
    pub(super) fn vouch(&mut self, host: HostId, incarnation: u64) {
        self.member.vouch(host, incarnation);
        if let Some(sums) = &mut self.sums {
            sums.vouch(host, incarnation);
        }
    }

    /// A period has ended: gates that are silent no longer differ.
    pub(super) fn forget(&mut self, now: Nanos, gate: impl Fn(HostId) -> String) {
        self.compared.forget(now);
        let before = std::mem::replace(&mut self.cost_difference, self.together.difference(now));
        if let (None, Some((other, difference))) = (before, &self.cost_difference) {
            let backend = &self.place.backend;
            tracing::warn!(backend, "{}", difference.text(&gate(*other)));
        }
    }

    /// The worker divides the device with others from now on, and begins with this depth.
    pub(super) fn begun(&mut self, depth: u32, members: &[HostId]) {
        self.place.rules.depth = depth;
        self.member.change(members, self.place.rules);
    }

    /// Whether the server that passes words on is there.
    pub(super) fn note_connection(&mut self, is_there: bool) {
        self.is_connected = is_there;
    }

    /// What is to be done at this instant of common time, in nanoseconds since 1970.
    pub(super) fn due(&mut self, common_ns: u64) -> Due {
        let period = self.member.period();
        if let Some(number) = self.periods.turned(period, common_ns) {
            self.end_period(number);
            return Due::Close { number };
        }
        let passed = Span(common_ns % period.0);
        let for_ns = |at: Span| at.0.saturating_sub(passed.0);
        let mut next_ns = for_ns(period);
        if let Some(sums) = &mut self.sums {
            match sums.due_at(period, self.window) {
                Some(at) if at > passed => next_ns = next_ns.min(for_ns(at)),
                Some(_) => {
                    if let Some(sum) = sums.take() {
                        return Due::Sum(sum);
                    }
                }
                None => {}
            }
        }
        if self.sums.as_ref().is_some_and(|sums| sums.is_starting(common_ns / period.0)) {
            // Others would follow what it decides by itself alone.
            self.told = None;
        }
        let decide_at = self.decide_after(period);
        if self.told.is_some() && passed < decide_at {
            return Due::Nothing { for_ns: next_ns.min(for_ns(decide_at)) };
        }
        match self.told.take() {
            Some(own) => Due::Decide(own),
            None => Due::Nothing { for_ns: next_ns },
        }
    }

    /// How much of a period has passed when it decides upon the one before.
    fn decide_after(&self, period: Span) -> Span {
        if self.member.hears_sums() {
            pace::decide_by_sums_after(period, self.window)
        } else {
            pace::decide_after(period, self.window)
        }
    }

    fn end_period(&mut self, number: u64) {
        let (hears_sums, parts) = (self.member.hears_sums(), self.parts());
        let Some(sums) = &mut self.sums else { return };
        if !self.is_connected {
            return sums.skip_period();
        }
        let heard = if hears_sums { 0 } else { self.member.peers().latest().count() };
        sums.end_period(number, u32::try_from(heard + 1).unwrap_or(u32::MAX));
        if sums.are_heard() {
            self.window = sums.window(self.member.period(), number, parts);
        }
    }

    /// Common time was moved.
    pub(super) fn count_anew(&mut self) {
        self.periods.begin_anew();
        if let Some(sums) = &mut self.sums {
            sums.count_anew();
        }
    }

    /// The worker has told of a period; a late answer to one before is as good.
    pub(super) fn told(&mut self, summary: Summary) {
        self.told = Some(summary);
    }

    /// Decides, and says whose promises have begun to be missed, or are kept again.
    pub(super) fn decide(&mut self, own: Summary) -> &Outcome {
        self.decisions += 1;
        let (host, outcome) = (own.host, self.member.decide(own));
        let (before, after) = (self.last.as_ref().map(|last| &last.decision), &outcome.decision);
        let goals = |of: Option<&Decision>| own_goals(of, host);
        self.say("latency goal", &goals(before), &goals(Some(after)));
        let floors = |of: Option<&Decision>| self.own_floors(of);
        self.say("floor", &floors(before), &floors(Some(after)));
        self.last.insert(outcome)
    }

    fn say(&self, what: &str, before: &[TenantNumber], after: &[TenantNumber]) {
        let backend = &self.place.backend;
        let news = |of: &[TenantNumber], without: &[TenantNumber], how| {
            for tenant in of.iter().filter(|tenant| !without.contains(tenant)) {
                let tenant = self.compared.name(*tenant);
                tracing::warn!(tenant, backend, "the {what} is {how}");
            }
        };
        news(after, before, "not met");
        news(before, after, "met again");
    }

    /// Tenants of this gate that are below their floor.
    fn own_floors(&self, decision: Option<&Decision>) -> Vec<TenantNumber> {
        let below = decision.map_or(&[][..], below_floor).iter().copied();
        below.filter(|tenant| self.compared.names.contains_key(tenant)).collect()
    }

    /// For people; `name` is what a host is called.
    pub(super) fn report(&self, own: HostId, name: impl Fn(HostId) -> String) -> DeviceReport {
        let period = self.member.period();
        let mut report = DeviceReport {
            backend: self.place.backend.clone(),
            array: self.place.array.clone(),
            method: self.place.rules.method,
            period,
            decisions: self.decisions,
            reason: "nothing has been decided yet".to_owned(),
            cost: self.together.cost(),
            is_divided: self.together.is_together(),
            ..DeviceReport::default()
        };
        let cost = self.cost_difference.iter().map(|(other, cost)| cost.text(&name(*other)));
        report.disagreements = self.compared.lines(&name).into_iter().chain(cost).collect();
        if !report.is_divided {
            let reason = "no other gate is heard before it: this gate is alone".to_owned();
            return DeviceReport { reason, ..report };
        }
        let Some(Outcome { decision, known, is_held }) = &self.last else { return report };
        (report.slots, report.slots_all) = (decision.slots, decision.slots_all);
        report.hosts = hosts(known).iter().map(|known| host(known, period, &name)).collect();
        report.sums = self
            .sums
            .as_ref()
            .filter(|sums| sums.are_heard())
            .map(|sums| SumsReport { gates: hosts_in_all(known), collects: sums.collects() });
        let names = |tenants: Vec<TenantNumber>| -> Vec<String> {
            tenants.into_iter().map(|tenant| self.compared.name(tenant)).collect()
        };
        report.unmet = names(own_goals(Some(decision), own));
        report.below_floor = names(self.own_floors(Some(decision)));
        report.tenants = self.tenants(own, known);
        report.reason =
            if *is_held { held(decision.slots) } else { reason(&report, missed(decision)) };
        report
    }

    /// What this gate's tenants had in the last period, here and over all gates.
    fn tenants(&self, own: HostId, known: &[Known]) -> Vec<TenantReport> {
        let (mut all, mut sums) = (0.0, BTreeMap::<TenantNumber, [f64; 2]>::new());
        for Known { summary, .. } in known {
            for flow in &summary.flows {
                let cost = flow.cost.0 as f64;
                let [here, everywhere] = sums.entry(flow.tenant).or_default();
                *here += if summary.host == own { cost } else { 0.0 };
                *everywhere += cost;
                all += cost;
            }
        }
        let part = |cost: f64| if all > 0.0 { cost / all } else { 0.0 };
        let report = |(tenant, name): (&TenantNumber, &String)| {
            let [here, everywhere] = *sums.get(tenant)?;
            let (tenant, part_here) = (name.clone(), part(here));
            Some(TenantReport { tenant, part_here, part_all: part(everywhere) })
        };
        self.compared.names.iter().filter_map(report).collect()
    }
}

/// Tenants of a host whose goals are not met.
fn own_goals(decision: Option<&Decision>, host: HostId) -> Vec<TenantNumber> {
    let unmet = decision.iter().flat_map(|decision| &decision.unmet);
    unmet.filter(|flow| flow.host == host).map(|flow| flow.tenant).collect()
}

/// Tenants of any gate that are below their floor.
fn below_floor(decision: &Decision) -> &[TenantNumber] {
    decision.division.as_ref().map_or(&[][..], |division| &division.below_floor)
}

/// What was promised at any gate and measured as missed.
fn missed(decision: &Decision) -> Option<&'static str> {
    if !decision.unmet.is_empty() {
        Some("a target is not met")
    } else if !below_floor(decision).is_empty() {
        Some("a tenant is below its floor")
    } else {
        None
    }
}

fn held(slots: u32) -> String {
    format!("nobody else is heard: held for a minute at the {slots} slots that it had before")
}

/// What is asked for beside what there is, and what is `missed` all the same, at any gate.
fn reason(report: &DeviceReport, missed: Option<&str>) -> String {
    let needed: u32 = report.hosts.iter().map(|host| host.need).sum();
    let all = report.slots_all;
    match (all, missed) {
        (0, _) => "what the device takes is not known yet".to_owned(),
        (_, Some(missed)) if needed <= all => {
            format!("{needed} of {all} slots are asked for, and yet {missed}")
        }
        _ if needed <= all => format!("all fits: {needed} of {all} slots are asked for"),
        _ => format!("short: {needed} slots are asked for, and the device is to have {all}"),
    }
}

/// The same with what is known of a shard as one row.
fn hosts(known: &[Known]) -> Vec<Known> {
    let mut rows: Vec<Known> = Vec::new();
    for known in known {
        let shard = Shard::of_sum(known.summary.host);
        match rows.last_mut().filter(|row| Shard::of_sum(row.summary.host) == shard) {
            Some(row) if shard.is_some() => {
                row.missed = row.missed.max(known.missed);
                row.summary.flows.extend(&known.summary.flows);
            }
            _ => rows.push(known.clone()),
        }
    }
    rows
}

/// How many gates that is of.
fn hosts_in_all(known: &[Known]) -> u32 {
    known.iter().map(|known| known.summary.hosts()).fold(0, u32::saturating_add)
}

fn host(known: &Known, period: Span, name: impl Fn(HostId) -> String) -> HostReport {
    let Known { summary, missed, .. } = known;
    let sum = |of: fn(&FlowSummary) -> u32| -> u32 {
        summary.flows.iter().map(of).fold(0, u32::saturating_add)
    };
    let time = |of: fn(&FlowSummary) -> Span| -> Span {
        summary.flows.iter().map(of).fold(Span::ZERO, |sum, span| sum + span)
    };
    let completions = sum(|flow| flow.completions);
    let mean = |time: Span| (completions > 0).then(|| Span(time.0 / u64::from(completions.max(1))));
    let name = match Shard::of_sum(summary.host) {
        Some(shard) => format!("shard-{}", shard.number()),
        None => name(summary.host),
    };
    HostReport {
        name,
        missed: *missed,
        device_latency: mean(time(|flow| flow.device_time)),
        response: mean(time(|flow| flow.response_time)),
        used: time(|flow| flow.slot_time).as_secs_f64() / period.as_secs_f64(),
        need: sum(|flow| flow.outstanding.saturating_add(flow.queued)),
        queued: sum(|flow| flow.queued),
        expected_per_s: sum(|flow| flow.expected_per_s),
        completions,
        late: sum(|flow| flow.late),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::control::Division;
    use evenkeel_core::control::member::Rules;
    use evenkeel_core::control::order::Order;
    use evenkeel_core::control::summary::FlowId;
    use evenkeel_core::id::ServerId;
    use evenkeel_core::sched::Share;

    const MS: u64 = 1_000_000;

    fn seat() -> Seat {
        let rules = Rules {
            method: Method::Slack,
            period: Span::from_millis(100),
            depth: 8,
            threshold: Span::from_millis(20),
        };
        let place = Place {
            backend: "array".to_owned(),
            array: "array".to_owned(),
            domain: "array".to_owned(),
            worker: 0,
            server: ServerId(0),
            rules,
            tenants: vec![("db".to_owned(), Share::default())],
            is_automatic: false,
            written: None,
        };
        Seat::new(place, HostId(1), &[HostId(1), HostId(2)], false)
    }

    #[test]
    fn a_period_is_closed_at_its_end_and_decided_upon_a_quarter_later() {
        let mut seat = seat();
        let nothing = |due: Due| match due {
            Due::Nothing { for_ns } => for_ns / MS,
            other => panic!("{other:?}"),
        };
        assert_eq!(nothing(seat.due(1_030 * MS)), 70);
        assert!(matches!(seat.due(1_100 * MS), Due::Close { number: 11 }));
        assert_eq!(nothing(seat.due(1_101 * MS)), 99, "the worker has not answered");
        seat.told(Summary { host: HostId(1), period: 11, ..Summary::default() });
        assert_eq!(nothing(seat.due(1_102 * MS)), 23);
        let Due::Decide(own) = seat.due(1_125 * MS) else { panic!("it is time") };
        assert_eq!(seat.decide(own).known.len(), 1);
        assert_eq!(nothing(seat.due(1_126 * MS)), 74);
        assert_eq!(seat.report(HostId(1), |_| String::new()).decisions, 1);
    }

    #[test]
    fn all_fits_is_not_said_beside_a_promise_that_is_missed() {
        let host = HostReport { need: 3, ..HostReport::default() };
        let report = DeviceReport { slots_all: 8, hosts: vec![host], ..DeviceReport::default() };
        let decision = Decision {
            slots: 4,
            order: Order::Arrival,
            slots_all: 8,
            unmet: Vec::new(),
            division: Some(Division::default()),
        };
        let said = |decision: &Decision| reason(&report, missed(decision));
        assert_eq!(said(&decision), "all fits: 3 of 8 slots are asked for");
        let tenant = TenantNumber::named("db");
        // Of another gate's tenant: it is no less missed.
        let unmet = vec![FlowId { host: HostId(2), tenant }];
        let late = Decision { unmet, ..decision.clone() };
        assert_eq!(said(&late), "3 of 8 slots are asked for, and yet a target is not met");
        assert_eq!(
            (own_goals(Some(&late), HostId(1)), own_goals(Some(&late), HostId(2))),
            (vec![], vec![tenant])
        );
        let division = Division { below_floor: vec![tenant], ..Division::default() };
        let below = Decision { division: Some(division), ..decision };
        assert_eq!(said(&below), "3 of 8 slots are asked for, and yet a tenant is below its floor");
        let seat = seat();
        assert_eq!(seat.own_floors(Some(&below)), [tenant]);
    }

    #[test]
    fn periods_that_were_slept_through_are_one_and_counting_may_be_moved() {
        let mut seat = seat();
        let _ = seat.due(1_000 * MS);
        assert!(matches!(seat.due(9_950 * MS), Due::Close { number: 99 }));
        seat.count_anew();
        assert!(matches!(seat.due(5_050 * MS), Due::Nothing { for_ns } if for_ns == 50 * MS));
        assert!(matches!(seat.due(5_100 * MS), Due::Close { number: 51 }));
    }
}
