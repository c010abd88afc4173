//! What the policy promises, held against the forecast.
//!
//! - A **floor** is kept if the tenant was served that much in every interval throughout which the
//!   gate had requests of it waiting.
//! - A **latency goal** is kept if no more than one request in a hundred takes longer.
//! - The **floors fit** if the devices can carry them for requests like the recorded ones, whoever
//!   asks for them and however much.
//! - The **load** is carried if the last answer comes soon after the last request.
//!
//! All of them are of every request of the trace, those included that are answered after its end.

use evenkeel_core::sched::Floor;
use evenkeel_core::time::Span;
use evenkeel_engine::policy::{Mode, Policy};
use evenkeel_sim::result::{IntervalSummary, Summary, TenantSummary};
use serde::Serialize;

use crate::check::verdict::Verdict;
use crate::human;
use crate::units::{Amount, print_duration, print_rate};

/// A floor may be missed by this part and a request: service comes in requests, not in a stream.
const FLOOR_SLACK: f64 = 0.05;

/// Requests of which one may take longer than the goal.
const LATE_ONE_IN: u64 = 100;

/// The last answer may come after the end of the trace by one part in so many of its length,
const LATE_DIVISOR: u64 = 100;

/// or by this much, for short ones.
const LATE_MIN: Span = Span::from_secs(1);

/// One promise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Promise {
    /// Whose, or the storage's as a whole.
    pub(super) tenant: Option<String>,
    /// What is promised.
    pub(super) what: String,
    /// Whether the forecast keeps it.
    pub(super) is_kept: bool,
    /// What the forecast says.
    pub(super) found: String,
}

/// Every promise of a policy. `floors` is the verdict on them for requests as recorded.
pub(super) fn of(
    policy: &Policy,
    asked: u64,
    length: Span,
    forecast: &Summary,
    floors: Option<&Verdict>,
) -> Vec<Promise> {
    let mut promises = vec![carried(asked, length, forecast)];
    if policy.mode != Mode::Enforce {
        return promises;
    }
    promises.extend(floors.map(fit));
    for tenant in &policy.tenants {
        let summary = forecast.tenants.iter().find(|one| one.name == tenant.name);
        let Some(summary) = summary else { continue };
        promises.extend(self::floors(tenant.share.floor, summary));
        if tenant.has_goal() {
            promises.push(goal(tenant.share.latency_goal, summary));
        }
    }
    promises
}

/// Whether the storage answers what is asked of it.
fn carried(asked: u64, length: Span, forecast: &Summary) -> Promise {
    let series = forecast.tenants.iter().flat_map(|one| &one.traffic.series);
    let answered: u64 = series.map(|entry| entry.requests).sum();
    let late = forecast.drain;
    let allowed = Span(length.0 / LATE_DIVISOR).max(LATE_MIN);
    let busiest = forecast.backends.iter().max_by(|a, b| a.busy.total_cmp(&b.busy));
    let busy = busiest.map_or(String::new(), |backend| {
        format!(", {} busy {} of the time", backend.name, human::percent(backend.busy))
    });
    let part = answered as f64 / asked.max(1) as f64 * 100.0;
    let last = if late <= allowed {
        format!("the last {} after it", human::duration(late))
    } else {
        format!("the backlog at its end takes {} to drain", human::duration(late))
    };
    Promise {
        tenant: None,
        what: "the storage carries the load".to_owned(),
        is_kept: late <= allowed,
        found: format!("{part:.1} % answered within the trace's time, {last}{busy}"),
    }
}

/// Whether the floors could be kept if everybody asked for them at once.
fn fit(floors: &Verdict) -> Promise {
    Promise {
        tenant: None,
        what: "the floors fit the devices".to_owned(),
        is_kept: floors.may_hold(),
        found: format!("for requests as recorded: {}", floors.words()),
    }
}

fn goal(goal: Span, summary: &TenantSummary) -> Promise {
    let latency = &summary.traffic.latency;
    let all = latency.histogram.count();
    let late = all - latency.histogram.count_at_most(goal);
    let part = late as f64 / all.max(1) as f64 * 100.0;
    Promise {
        tenant: Some(summary.name.clone()),
        what: format!("latency of {}", print_duration(goal)),
        is_kept: late <= all / LATE_ONE_IN,
        found: format!("{part:.1} % took longer, p99 {}", human::duration(latency.p99)),
    }
}

fn floors(floor: Floor, summary: &TenantSummary) -> Vec<Promise> {
    let traffic = &summary.traffic;
    let request_bytes = traffic.bytes as f64 / traffic.requests.max(1) as f64;
    let requests = (
        Amount::Requests(floor.rate_iops),
        Rate { per_second: floor.rate_iops as f64, request: 1.0, served: |entry| entry.requests },
    );
    let bytes = (
        Amount::Bytes(floor.rate_bytes),
        Rate {
            per_second: floor.rate_bytes as f64,
            request: request_bytes,
            served: |entry| entry.read_bytes + entry.write_bytes,
        },
    );
    let promised = [requests, bytes].into_iter().filter(|(_, rate)| rate.per_second > 0.0);
    promised
        .map(|(amount, rate)| {
            let least = rate.least(&traffic.series, &traffic.drain_series);
            let found = match least {
                Some(least) => {
                    let part = human::percent(least.served.min(1.0));
                    format!("{part} of it while it had work waiting")
                }
                None => "it never waited for long".to_owned(),
            };
            Promise {
                tenant: Some(summary.name.clone()),
                what: format!("floor of {}", print_rate(amount)),
                is_kept: least.is_none_or(|least| least.and_a_request >= 1.0 - FLOOR_SLACK),
                found,
            }
        })
        .collect()
}

/// A floor in requests or bytes.
struct Rate {
    per_second: f64,
    /// What one request counts.
    request: f64,
    /// What was served in an interval.
    served: fn(&IntervalSummary) -> u64,
}

/// Service of one interval, as a part of the floor.
#[derive(Clone, Copy)]
struct Part {
    served: f64,
    /// With the request that was under way at the interval's end.
    and_a_request: f64,
}

impl Rate {
    /// The least part of the floor that was served in an interval throughout which requests
    /// waited; none if there is no such interval.
    fn least(&self, series: &[IntervalSummary], drain: &[IntervalSummary]) -> Option<Part> {
        let has_waited =
            |entry: &&IntervalSummary| entry.length > Span::ZERO && entry.waiting >= entry.length;
        let parts = series.iter().chain(drain).filter(has_waited).map(|entry| {
            let promised = self.per_second * entry.length.as_secs_f64();
            let served = (self.served)(entry) as f64;
            Part { served: served / promised, and_a_request: (served + self.request) / promised }
        });
        parts.min_by(|a, b| a.and_a_request.total_cmp(&b.and_a_request))
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::histogram::Histogram;
    use evenkeel_core::sched::Share;
    use evenkeel_engine::policy::Tenant;
    use evenkeel_sim::result::{Latency, Traffic};

    use super::*;

    /// Seconds of a tenant, each with the requests of 4 KiB that ended in it and the milliseconds
    /// in which others waited.
    fn tenant(seconds: &[(u64, u64)]) -> TenantSummary {
        let series = (0..).zip(seconds).map(|(second, &(requests, waiting_ms))| IntervalSummary {
            start: Span::from_secs(second),
            length: Span::from_secs(1),
            requests,
            reads: requests,
            read_bytes: requests * 4096,
            waiting: Span::from_millis(waiting_ms),
            ..IntervalSummary::default()
        });
        let traffic = Traffic { series: series.collect(), ..Traffic::default() };
        TenantSummary { name: "db".to_owned(), traffic, ..TenantSummary::default() }
    }

    /// Whether a floor of 100 requests per second is kept, and what is found.
    fn verdict(seconds: &[(u64, u64)]) -> (bool, String) {
        let floor = Floor { rate_iops: 100, rate_bytes: 0 };
        let [promise] = &floors(floor, &tenant(seconds))[..] else { panic!("one promise") };
        assert_eq!(promise.what, "floor of 100 iops");
        (promise.is_kept, promise.found.clone())
    }

    #[test]
    fn a_floor_counts_only_while_requests_wait() {
        let never = (true, "it never waited for long".to_owned());
        assert_eq!(verdict(&[(5, 10), (0, 0), (5, 900)]), never, "it asked for no more");
        let part = |part: &str| format!("{part} of it while it had work waiting");
        assert_eq!(verdict(&[(5, 10), (100, 1_000)]), (true, part("100%")));
        assert_eq!(verdict(&[(5, 10), (94, 1_000)]), (true, part("94%")), "and a request");
        assert_eq!(verdict(&[(5, 10), (93, 1_000)]), (false, part("93%")));
        assert_eq!(verdict(&[(250, 1_000), (80, 1_000), (300, 999)]), (false, part("80%")));
    }

    #[test]
    fn an_interval_in_which_nothing_ended_is_a_breach_if_requests_waited_through_it() {
        let starved = [(100, 10), (0, 1_000), (0, 1_000), (400, 300)];
        assert_eq!(verdict(&starved), (false, "0% of it while it had work waiting".to_owned()));
        let idle = [(100, 10), (0, 0), (0, 0), (400, 1_000)];
        assert!(verdict(&idle).0, "nothing was there yet");
    }

    #[test]
    fn floors_in_requests_and_bytes_are_two_promises() {
        let floor = Floor { rate_iops: 100, rate_bytes: 100 * 8192 };
        let mut tenant = tenant(&[(100, 1_000)]);
        (tenant.traffic.requests, tenant.traffic.bytes) = (100, 100 * 4096);
        let promises = floors(floor, &tenant);
        let kept: Vec<bool> = promises.iter().map(|promise| promise.is_kept).collect();
        assert_eq!(kept, [true, false], "half of the bytes");
        assert_eq!(promises[1].what, "floor of 800 KiB/s");
    }

    #[test]
    fn a_goal_is_kept_if_one_in_a_hundred_takes_longer() {
        let with_late = |late: u64| {
            let mut histogram = Histogram::default();
            (0..1000 - late).for_each(|_| histogram.record(Span::from_millis(1)));
            (0..late).for_each(|_| histogram.record(Span::from_millis(50)));
            let p99 = histogram.quantile(0.99).unwrap();
            let latency = Latency { p99, histogram, ..Latency::default() };
            let traffic = Traffic { latency, ..Traffic::default() };
            TenantSummary { name: "mail".to_owned(), traffic, ..TenantSummary::default() }
        };
        let promise = |late| goal(Span::from_millis(10), &with_late(late));
        assert!(promise(0).is_kept && promise(10).is_kept);
        let broken = promise(11);
        assert!(!broken.is_kept);
        assert_eq!(broken.what, "latency of 10 ms");
        assert!(broken.found.starts_with("1.1 % took longer, p99 "), "{}", broken.found);
    }

    #[test]
    fn the_load_is_carried_if_the_last_answer_comes_soon() {
        let promise = |drain| {
            let forecast = Summary { drain: Span::from_secs(drain), ..Summary::default() };
            carried(0, Span::from_secs(1000), &forecast)
        };
        assert!(promise(10).is_kept);
        let broken = promise(11);
        assert!(!broken.is_kept);
        assert!(broken.found.contains("takes 11 s to drain"), "{}", broken.found);
    }

    #[test]
    fn a_floor_is_held_while_the_backlog_drains_as_well() {
        let floor = Floor { rate_iops: 100, rate_bytes: 0 };
        let mut tenant = tenant(&[(100, 10), (100, 10), (30, 1_000), (30, 200)]);
        tenant.traffic.drain_series = tenant.traffic.series.split_off(2);
        let [promise] = &floors(floor, &tenant)[..] else { panic!("one promise") };
        assert!(!promise.is_kept, "{}", promise.found);
    }

    #[test]
    fn only_what_is_enforced_is_promised() {
        let share = Share {
            floor: Floor { rate_iops: 100, rate_bytes: 0 },
            latency_goal: Span::from_millis(1),
            ..Share::default()
        };
        let policy = |mode| Policy {
            mode,
            tenants: vec![Tenant {
                name: "db".to_owned(),
                matches: vec![],
                read_only: false,
                share,
            }],
            ..Policy::default()
        };
        let forecast = Summary { tenants: vec![tenant(&[(1, 1)])], ..Summary::default() };
        let promised = |mode| of(&policy(mode), 1, Span::ZERO, &forecast, None).len();
        assert_eq!((promised(Mode::Observe), promised(Mode::Enforce)), (1, 3));
    }
}
