//! A scheduling decision allocates nothing once the backlog has had its size.

use evenkeel_core::histogram::Histogram;
use evenkeel_core::id::TenantId;
use evenkeel_core::sched::depth::DepthPolicy;
use evenkeel_core::sched::edf::Edf;
use evenkeel_core::sched::fifo::Fifo;
use evenkeel_core::sched::limit::Limited;
use evenkeel_core::sched::mclock::Mclock;
use evenkeel_core::sched::sfq::{Sfq, SfqOptions};
use evenkeel_core::sched::tiered::{DeviceOptions, TieredOptions, lanes};
use evenkeel_core::sched::{Limit, Next, Scheduler, Share};
use evenkeel_core::time::{Nanos, Span};

use crate::support::ticket;

const TENANTS: u32 = 1000;

/// Allocations of 10,000 decisions with every tenant backlogged.
fn allocations(mut scheduler: impl Scheduler) -> u64 {
    let limit = Limit { rate_iops: 1_000_000, burst_requests: 4, ..Limit::default() };
    for tenant in 0..TENANTS {
        // Every second tenant has a limit, and meets it.
        let limit = if tenant % 2 == 0 { limit } else { Limit::default() };
        let latency_goal = Span(u64::from(tenant) * 1_000_000);
        let weight_milli = 1000 + tenant;
        let share = Share { weight_milli, limit, latency_goal, ..Share::default() };
        scheduler.configure(Nanos(0), TenantId(tenant), share);
    }
    for slot in 0..TENANTS * 8 {
        let tenant = slot as usize % TENANTS as usize;
        scheduler.enqueue(Nanos(0), ticket(tenant, slot, 1_000 + u64::from(slot)));
    }
    let decide = |scheduler: &mut _, now: u64| {
        if let Next::Dispatch(ticket) = Scheduler::poll(scheduler, Nanos(now)) {
            Scheduler::complete(scheduler, Nanos(now), ticket);
            Scheduler::enqueue(scheduler, Nanos(now), ticket);
        }
    };
    // The backlog moves between the limiter and the policy below until both have had their peak.
    (0..50_000).for_each(|now| decide(&mut scheduler, now * 100));
    let counted = allocation_counter::measure(|| {
        (50_000..60_000).for_each(|now| decide(&mut scheduler, now * 100));
    });
    counted.count_total
}

fn sfq(hold: Span) -> Sfq {
    Sfq::new(SfqOptions { depth: DepthPolicy::Requests(32), hold })
}

#[test]
fn no_policy_allocates_in_steady_state() {
    assert_eq!(allocations(Fifo::new(Some(32))), 0);
    assert_eq!(allocations(sfq(Span::ZERO)), 0);
    assert_eq!(allocations(sfq(Span::from_millis(1))), 0);
    assert_eq!(allocations(Limited::new(sfq(Span::ZERO))), 0);
    assert_eq!(allocations(Edf::new(DepthPolicy::Requests(32))), 0);
    assert_eq!(allocations(Mclock::new(DepthPolicy::Requests(32))), 0);
}

#[test]
fn a_dispatcher_over_devices_allocates_between_solves_nothing() {
    let device =
        DeviceOptions { depth: DepthPolicy::Requests(32), capacity_cost_per_second: 1_000_000_000 };
    let options = TieredOptions { epoch: Span(u64::MAX), ..TieredOptions::usual(vec![device]) };
    assert_eq!(allocations(lanes(&options).remove(0)), 0);
}

#[test]
fn a_histogram_allocates_at_its_first_value_only() {
    let mut histogram = Histogram::default();
    assert_eq!(allocation_counter::measure(|| histogram.record(Span(1))).count_total, 1);
    let more = || (0..10_000).for_each(|ns| histogram.record(Span(ns * ns)));
    assert_eq!(allocation_counter::measure(more).count_total, 0);
}
