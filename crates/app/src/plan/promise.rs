//! What the policy promises, held against the forecast.
//!
//! A **floor** is kept if in every interval the tenant was served what it asked for or its floor,
//! whichever is less; what it had asked for before and not yet got counts as asked. The **load** is
//! carried if what arrived within the trace was answered with it.

use evenkeel_core::sched::Floor;
use evenkeel_core::time::Span;
use evenkeel_engine::policy::{Mode, Policy};
use evenkeel_sim::result::{Summary, TenantSummary};
use serde::Serialize;

use crate::human;
use crate::units::{Amount, print_rate};

/// A floor may be missed by this part: service comes in requests, not in a stream.
const FLOOR_SLACK: f64 = 0.05;

/// The part of requests that may be without an answer when the trace ends: those still under way.
const CARRIED_MIN: f64 = 0.99;

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
pub(super) fn of(policy: &Policy, asked: u64, forecast: &Summary) -> Vec<Promise> {
    let mut promises = vec![carried(asked, forecast)];
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
fn carried(asked: u64, forecast: &Summary) -> Promise {
    let answered: u64 = forecast.tenants.iter().map(|one| one.traffic.requests).sum();
    let part = answered as f64 / asked.max(1) as f64;
    let busiest = forecast.backends.iter().max_by(|a, b| a.busy.total_cmp(&b.busy));
    let busy = busiest.map_or(String::new(), |backend| {
        format!(", {} busy {} of the time", backend.name, human::percent(backend.busy))
    });
    Promise {
        tenant: None,
        what: "the storage carries the load".to_owned(),
        is_kept: part >= CARRIED_MIN,
        found: format!("{:.1} % answered within the trace's time{busy}", part * 100.0),
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
