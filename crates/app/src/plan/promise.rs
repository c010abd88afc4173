//! What the policy promises, held against the forecast.
//!
//! A **floor** is kept if the tenant was served that much in every interval in which half of its
//! requests had waited for longer than the interval lasts: only then did it surely have work for
//! all of it. The **load** is carried if the last answer comes soon after the last request.

use evenkeel_core::sched::Floor;
use evenkeel_core::time::Span;
use evenkeel_engine::policy::{Mode, Policy};
use evenkeel_sim::result::{Summary, TenantSummary};
use serde::Serialize;

use crate::human;
use crate::units::{Amount, print_rate};

/// A floor may be missed by this part: service comes in requests, not in a stream.
const FLOOR_SLACK: f64 = 0.05;

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

/// Every promise of a policy.
pub(super) fn of(policy: &Policy, asked: u64, length: Span, forecast: &Summary) -> Vec<Promise> {
    let mut promises = vec![carried(asked, length, forecast)];
    if policy.mode != Mode::Enforce {
        return promises;
    }
    for tenant in &policy.tenants {
        let summary = forecast.tenants.iter().find(|one| one.name == tenant.name);
        let Some(summary) = summary else { continue };
        promises.extend(floors(tenant.share.floor, summary));
    }
    promises
}

/// Whether the storage answers what is asked of it.
fn carried(asked: u64, length: Span, forecast: &Summary) -> Promise {
    let answered: u64 = forecast.tenants.iter().map(|one| one.traffic.requests).sum();
    let unanswered: u64 = forecast.groups.iter().map(|group| group.unanswered).sum();
    let late = Span(forecast.ended.0.saturating_sub(length.0));
    let allowed = Span(length.0 / LATE_DIVISOR).max(LATE_MIN);
    let busiest = forecast.backends.iter().max_by(|a, b| a.busy.total_cmp(&b.busy));
    let busy = busiest.map_or(String::new(), |backend| {
        format!(", {} busy {} of the time", backend.name, human::percent(backend.busy))
    });
    let part = answered as f64 / asked.max(1) as f64 * 100.0;
    let last = match unanswered {
        0 => format!("the last {} after it", human::duration(late)),
        count => format!("{count} not even long after it"),
    };
    Promise {
        tenant: None,
        what: "the storage carries the load".to_owned(),
        is_kept: unanswered == 0 && late <= allowed,
        found: format!("{part:.1} % answered within the trace's time, {last}{busy}"),
    }
}

fn floors(floor: Floor, summary: &TenantSummary) -> Vec<Promise> {
    let requests: Vec<f64> =
        summary.traffic.series.iter().map(|entry| entry.requests as f64).collect();
    let bytes: Vec<f64> = summary
        .traffic
        .series
        .iter()
        .map(|entry| (entry.read_bytes + entry.write_bytes) as f64)
        .collect();
    let lengths: Vec<Span> = summary.traffic.series.iter().map(|entry| entry.length).collect();
    let kinds = [
        (Amount::Requests(floor.rate_iops), floor.rate_iops, requests),
        (Amount::Bytes(floor.rate_bytes), floor.rate_bytes, bytes),
    ];
    let promised = kinds.into_iter().filter(|(_, rate, _)| *rate > 0);
    promised
        .map(|(amount, rate, served)| {
            let kept = kept_part(rate as f64, &served, &lengths, summary);
            Promise {
                tenant: Some(summary.name.clone()),
                what: format!("floor of {}", print_rate(amount)),
                is_kept: kept >= 1.0 - FLOOR_SLACK,
                found: format!("{} of it while it had work waiting", human::percent(kept.min(1.0))),
            }
        })
        .collect()
}

/// The least part of the floor that an interval delivered in which requests waited long.
fn kept_part(rate: f64, served: &[f64], lengths: &[Span], summary: &TenantSummary) -> f64 {
    let series = &summary.traffic.series;
    let backlogged = |index: usize| {
        // An interval whose requests took longer than it lasts was full of waiting ones.
        series[index].latency_p50 >= lengths[index]
    };
    let parts = (0..served.len()).filter(|&index| backlogged(index)).map(|index| {
        let seconds = lengths[index].as_secs_f64().max(1e-9);
        served[index] / seconds / rate
    });
    parts.fold(f64::INFINITY, f64::min)
}
