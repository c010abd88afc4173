//! What earliest deadline first promises: no miss while all can be met; when they cannot, half of
//! the device for whoever is late, and hardly more than the fewest late ones for the other half.

use evenkeel_core::id::TenantId;
use evenkeel_core::prng::Prng;
use evenkeel_core::sched::depth::DepthPolicy;
use evenkeel_core::sched::edf::Edf;
use evenkeel_core::sched::edf::plan::{Job, Planner};
use evenkeel_core::sched::{Next, Scheduler, Share};
use evenkeel_core::time::{Nanos, Span};
use proptest::prelude::*;

use crate::support::ticket;

/// A request that is to come.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Nanos,
    tenant: usize,
    service: Span,
}

/// How one request fared.
#[derive(Clone, Copy, Debug)]
struct Fate {
    arrival: Arrival,
    response: Span,
}

/// Serves the arrivals, which come in order of time, one after the other.
fn serve(goals: &[Span], arrivals: &[Arrival]) -> Vec<Fate> {
    let mut edf = Edf::new(DepthPolicy::Requests(1));
    for (tenant, &latency_goal) in (0..).zip(goals) {
        let share = Share { latency_goal, ..Share::default() };
        edf.configure(Nanos(0), TenantId(tenant), share);
    }
    let mut fates = Vec::new();
    let mut now = Nanos(0);
    let mut next = 0;
    while fates.len() < arrivals.len() {
        while let Some(arrival) = arrivals.get(next).filter(|arrival| arrival.at <= now) {
            let sent = ticket(arrival.tenant, u32::try_from(next).unwrap(), arrival.service.0);
            edf.enqueue(now, sent);
            next += 1;
        }
        match edf.poll(now) {
            Next::Dispatch(ticket) => {
                // Arrivals meanwhile are told to it with the completion, as of their own instants.
                let end = now + Span(ticket.cost.0);
                while let Some(arrival) = arrivals.get(next).filter(|arrival| arrival.at < end) {
                    let slot = u32::try_from(next).unwrap();
                    let sent = crate::support::ticket(arrival.tenant, slot, arrival.service.0);
                    edf.enqueue(arrival.at, sent);
                    assert_eq!(edf.poll(arrival.at), Next::Idle, "the device is busy");
                    next += 1;
                }
                now = end;
                edf.complete(now, ticket);
                let arrival = arrivals[ticket.slot as usize];
                fates.push(Fate { arrival, response: now.since(arrival.at) });
            }
            Next::Idle => now = arrivals[next].at,
            Next::WaitUntil(_) => panic!("it never waits for time"),
        }
    }
    fates
}

fn late(goals: &[Span], fates: &[Fate]) -> usize {
    fates.iter().filter(|fate| fate.response > goals[fate.arrival.tenant]).count()
}

/// A bound that nobody can beat who has half of the device for those on time: the fewest late ones
/// if all requests were there from the start.
fn fewest_late(goals: &[Span], arrivals: &[Arrival]) -> usize {
    let mut jobs: Vec<Job> = arrivals
        .iter()
        .map(|arrival| Job {
            service: Span(2 * arrival.service.0),
            deadline: arrival.at + goals[arrival.tenant],
        })
        .collect();
    jobs.sort_by_key(|job| job.deadline);
    let mut planner = Planner::default();
    planner.give_up(Nanos(0), jobs.into_iter()).iter().filter(|late| **late).count()
}

/// Poisson arrivals of requests of one to ten milliseconds, at `load_percent` of what the device
/// serves.
fn stream(seed: u64, tenants: usize, load_percent: u64, count: usize) -> Vec<Arrival> {
    let mut prng = Prng::new(seed);
    let gap = Span(5_500_000 * 100 / load_percent);
    let mut at = Nanos(0);
    let mut arrival = || {
        at += prng.exponential(gap);
        let tenant = usize::try_from(prng.below(tenants as u64)).unwrap();
        Arrival { at, tenant, service: Span::from_millis(1 + prng.below(10)) }
    };
    (0..count).map(|_| arrival()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Periodic tenants that pass the test for deadlines at the ends of periods, with room for the
    /// one long request that cannot be interrupted.
    #[test]
    fn feasible_streams_miss_nothing(
        tenants in prop::collection::vec((10u64..100, 1u64..8), 1..6), seed: u64,
    ) {
        let longest_ms = tenants.iter().map(|tenant| tenant.1).max().unwrap();
        let load: f64 = tenants.iter().map(|&(period, service)| {
            service as f64 / (period - longest_ms) as f64
        }).sum();
        prop_assume!(load <= 1.0);
        let goals: Vec<_> = tenants.iter().map(|tenant| Span::from_millis(tenant.0)).collect();
        let mut prng = Prng::new(seed);
        let mut arrivals = Vec::new();
        for (tenant, &(period_ms, service_ms)) in tenants.iter().enumerate() {
            let phase_ms = prng.below(period_ms);
            arrivals.extend((0..100).map(|round| Arrival {
                at: Nanos((phase_ms + round * period_ms) * 1_000_000),
                tenant,
                service: Span::from_millis(service_ms),
            }));
        }
        arrivals.sort_by_key(|arrival| arrival.at);
        prop_assert_eq!(late(&goals, &serve(&goals, &arrivals)), 0);
    }

    /// All there at once: what the plan says is what happens, in the half that is not for late
    /// ones. A plan cannot know who will be late by the next, and keeps some until then.
    #[test]
    fn a_crowd_is_late_as_seldom_as_can_be(
        jobs in prop::collection::vec((0usize..4, 1u64..20), 200..600),
    ) {
        let goals = [50, 200, 400, 900].map(Span::from_millis);
        let arrivals: Vec<_> = jobs.into_iter().map(|(tenant, service_ms)| Arrival {
            at: Nanos(0), tenant, service: Span::from_millis(service_ms),
        }).collect();
        let late = late(&goals, &serve(&goals, &arrivals));
        let fewest = fewest_late(&goals, &arrivals);
        prop_assert!(late as f64 <= fewest as f64 * 1.1, "{late} late, {fewest} must be");
    }
}

/// The bound knows what will come and may serve it early, which nobody can; the smaller the
/// overload, the more that is worth.
#[test]
fn a_stream_in_overload_is_late_little_more_than_with_foresight() {
    let goals = [100, 200, 400].map(Span::from_millis);
    let mut misses = Vec::new();
    for (seed, load_percent) in [(1, 105), (2, 120), (3, 150), (4, 200)] {
        let arrivals = stream(seed, 3, load_percent, 20_000);
        let (late, fewest) =
            (late(&goals, &serve(&goals, &arrivals)), fewest_late(&goals, &arrivals));
        let count = arrivals.len();
        println!("{load_percent} %: {late} of {count} late, {fewest} at half the speed");
        misses.push((late, fewest));
    }
    for (late, fewest) in misses {
        assert!(late as f64 <= fewest as f64 * 1.15, "{late} late, {fewest} must be");
    }
}

/// Who is late, or has no goal, and what it has of a device of which others ask for twice as much
/// as there is: half its share at least from the moment that its oldest request is late, and that
/// oldest first.
#[test]
fn nobody_starves_behind_those_who_can_be_met() {
    let goals = [Span::from_millis(50), Span::from_millis(50), Span::ZERO];
    let mut arrivals = stream(7, 2, 200, 20_000);
    // Tenant 1 asks for long requests only, which are given up first; tenant 2 has no goal, and
    // twenty requests once a second.
    for arrival in &mut arrivals {
        if arrival.tenant == 1 {
            arrival.service = Span::from_millis(12);
        }
    }
    let without_goal = |index: u64| Arrival {
        at: Nanos(index / 20 * 1_000_000_000),
        tenant: 2,
        service: Span::from_millis(5),
    };
    arrivals.extend((0..20 * 20).map(without_goal));
    arrivals.sort_by_key(|arrival| arrival.at);
    let last = arrivals.last().expect("there are some").at;
    let fates = serve(&goals, &arrivals);
    let served_ns = |tenant: usize| -> u64 {
        let served = fates.iter().filter(|fate| {
            fate.arrival.tenant == tenant && fate.arrival.at + fate.response <= last
        });
        served.map(|fate| fate.arrival.service.0).sum()
    };
    // A third of the device each, and half of that.
    assert!(served_ns(1) >= last.0 / 6 - 200_000_000, "{} ns of {}", served_ns(1), last.0);
    // 100 ms of service, at a sixth of the device.
    let longest = fates.iter().filter(|fate| fate.arrival.tenant == 2).map(|fate| fate.response);
    let longest = longest.max().expect("there are some");
    assert!(longest <= Span::from_millis(700), "{longest}");
    for tenant in [1, 2] {
        let mut arrived = Nanos(0);
        for fate in fates.iter().filter(|fate| fate.arrival.tenant == tenant) {
            let is_late = tenant == 2 || fate.response > goals[tenant] + fate.arrival.service;
            if is_late {
                assert!(fate.arrival.at >= arrived, "the oldest of the late goes first: {fate:?}");
                arrived = fate.arrival.at;
            }
        }
    }
}
