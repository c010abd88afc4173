//! This gate's seat at one shared device: when its periods end, and what is decided then.
//!
//! ```text
//!   wall clock    n x period                +1/4                      (n+1) x period
//!                 |--- close period n ------|--- decide --------------|
//!                     -> worker -> told ->       -> worker
//! ```

use evenkeel_core::control::member::{Member, Outcome};
use evenkeel_core::control::peers::Known;
use evenkeel_core::control::summary::{FlowId, FlowSummary, HostId, Summary};
use evenkeel_core::time::Span;

use super::Place;
use super::periods::Periods;
use super::report::{DeviceReport, HostReport};

/// Part of a period after its end at which the others' words of it are there.
const DECIDE_AFTER: u64 = 4;

/// What a seat wants done.
#[derive(Debug)]
pub(super) enum Due {
    /// Nothing for so many nanoseconds.
    Nothing { for_ns: u64 },
    /// The period of this number has ended.
    Close { number: u64 },
    /// All are heard that will be.
    Decide(Summary),
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) place: Place,
    pub(super) member: Member,
    periods: Periods,
    /// What was told of it, until it is decided upon.
    own: Option<Summary>,
    last: Option<Outcome>,
    decisions: u64,
}

impl Seat {
    pub(super) fn new(place: Place, own: HostId, members: &[HostId]) -> Self {
        let member = Member::new(own, members, place.rules);
        let periods = Periods::default();
        Self { place, member, periods, own: None, last: None, decisions: 0 }
    }

    /// Goes on at the same device with other rules or members.
    pub(super) fn change(&mut self, place: Place, members: &[HostId]) {
        self.member.change(members, place.rules);
        self.place = place;
    }

    /// What is to be done at this instant of the wall clock, in nanoseconds since 1970.
    pub(super) fn due(&mut self, wall_ns: u64) -> Due {
        let period = self.member.period();
        if let Some(number) = self.periods.turned(period, wall_ns) {
            return Due::Close { number };
        }
        let (period_ns, passed_ns) = (period.0, wall_ns % period.0);
        let decide_at_ns = period_ns / DECIDE_AFTER;
        if passed_ns < decide_at_ns && self.own.is_some() {
            return Due::Nothing { for_ns: decide_at_ns - passed_ns };
        }
        match self.own.take() {
            Some(own) => Due::Decide(own),
            None => Due::Nothing { for_ns: period_ns - passed_ns },
        }
    }

    /// Whether the clock has been set back since the last period.
    pub(super) fn was_set_back(&self, wall_ns: u64) -> bool {
        self.periods.was_set_back(self.member.period(), wall_ns)
    }

    /// The worker has told of a period; a late answer to one before is as good.
    pub(super) fn told(&mut self, summary: Summary) {
        self.own = Some(summary);
    }

    /// Decides, and says whose targets have begun to be missed, or are kept again.
    pub(super) fn decide(&mut self, own: Summary) -> &Outcome {
        self.decisions += 1;
        let (host, outcome) = (own.host, self.member.decide(own));
        let before = self.last.as_ref().map_or(&[][..], |last| &last.decision.unmet);
        let after = &outcome.decision.unmet;
        let news = |of: &[FlowId], without: &[FlowId], what| {
            for flow in of.iter().filter(|flow| flow.host == host && !without.contains(flow)) {
                let tenant = self.place.tenants.get(flow.tenant.index());
                let tenant = tenant.map_or("", String::as_str);
                tracing::warn!(tenant, backend = self.place.backend, "the latency goal is {what}");
            }
        };
        news(after, before, "not met");
        news(before, after, "met again");
        self.last.insert(outcome)
    }

    /// For people; `name` is what a host is called.
    pub(super) fn report(&self, own: HostId, name: impl Fn(HostId) -> String) -> DeviceReport {
        let period = self.member.period();
        let mut report = DeviceReport {
            backend: self.place.backend.clone(),
            method: self.place.rules.method,
            period,
            decisions: self.decisions,
            reason: "nothing has been decided yet".to_owned(),
            ..DeviceReport::default()
        };
        let Some(Outcome { decision, known, is_held }) = &self.last else { return report };
        (report.slots, report.slots_all) = (decision.slots, decision.slots_all);
        report.hosts = known.iter().map(|known| host(known, period, &name)).collect();
        let tenant = |index: usize| self.place.tenants.get(index).cloned().unwrap_or_default();
        let unmet = decision.unmet.iter().filter(|flow| flow.host == own);
        report.unmet = unmet.map(|flow| tenant(flow.tenant.index())).collect();
        report.reason = if *is_held { held(decision.slots) } else { reason(&report) };
        report
    }
}

fn held(slots: u32) -> String {
    format!("nobody else is heard: held for a minute at the {slots} slots that it had before")
}

fn reason(report: &DeviceReport) -> String {
    let needed: u32 = report.hosts.iter().map(|host| host.need).sum();
    let all = report.slots_all;
    match all {
        0 => "what the device takes is not known yet".to_owned(),
        _ if needed <= all => format!("all fits: {needed} of {all} slots are asked for"),
        _ => format!("short: {needed} slots are asked for, and the device is to have {all}"),
    }
}

fn host(known: &Known, period: Span, name: impl Fn(HostId) -> String) -> HostReport {
    let Known { summary, missed } = known;
    let sum = |of: fn(&FlowSummary) -> u32| -> u32 {
        summary.flows.iter().map(of).fold(0, u32::saturating_add)
    };
    let time = |of: fn(&FlowSummary) -> Span| -> Span {
        summary.flows.iter().map(of).fold(Span::ZERO, |sum, span| sum + span)
    };
    let completions = sum(|flow| flow.completions);
    let mean = |time: Span| (completions > 0).then(|| Span(time.0 / u64::from(completions.max(1))));
    HostReport {
        name: name(summary.host),
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
    use evenkeel_core::control::member::{Method, Rules};
    use evenkeel_core::id::ServerId;

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
            domain: "array".to_owned(),
            worker: 0,
            server: ServerId(0),
            rules,
            tenants: vec!["db".to_owned()],
        };
        Seat::new(place, HostId(1), &[HostId(1), HostId(2)])
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
    fn periods_that_were_slept_through_are_one_and_a_clock_may_be_set() {
        let mut seat = seat();
        let _ = seat.due(1_000 * MS);
        assert!(matches!(seat.due(9_950 * MS), Due::Close { number: 99 }));
        assert!(!seat.was_set_back(9_960 * MS) && seat.was_set_back(5_000 * MS));
        assert!(matches!(seat.due(5_000 * MS), Due::Close { number: 50 }));
    }
}
