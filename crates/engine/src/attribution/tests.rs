//! The book of waits by hand: units that are queued, dispatched and served at given instants.

use evenkeel_core::ticket::{Cost, Kind};

use super::*;

const MS: u64 = 1_000_000;

fn ticket(tenant: u32, cost_ns: u64) -> Ticket {
    Ticket {
        tenant: TenantId(tenant),
        kind: Kind::Read,
        slot: tenant,
        size_bytes: 4096,
        cost: Cost(cost_ns),
        cost_elsewhere: Cost(0),
    }
}

/// Ticks, and returns who waited.
fn tick(ledger: &mut Ledger, at_ms: u64, pairs: &mut PairTable) -> Vec<(u32, u64)> {
    let mut waits = Vec::new();
    let told = |tenant: TenantId, wait: Wait, _| {
        if wait.in_all > Span::ZERO {
            waits.push((tenant.0, wait.in_all.0 / MS));
        }
    };
    ledger.tick(Nanos(at_ms * MS), |_| Span::ZERO, told, pairs);
    waits
}

/// Pairs of tenants, and what each waited.
fn named(pairs: &PairTable) -> Vec<(u32, u32, u64)> {
    let all = pairs.report().0;
    let named = all.iter().filter_map(|pair| match pair.culprit {
        Culprit::Tenant(culprit) => Some((pair.victim.0, culprit.0, pair.waited.0 / MS)),
        Culprit::Device => None,
    });
    named.collect()
}

/// What a tenant waited for the device itself.
fn for_device(pairs: &PairTable, victim: u32) -> u64 {
    let all = pairs.report().0;
    let is_it = |pair: &&crate::report::Interference| {
        pair.victim.0 == victim && pair.culprit == Culprit::Device
    };
    all.iter().find(is_it).map_or(0, |pair| pair.waited.0 / MS)
}

/// A unit of a tenant is queued.
fn queue(ledger: &mut Ledger, at: Nanos, tenant: u32) {
    ledger.queued(at, &ticket(tenant, MS), Cost(MS));
}

fn dispatch(ledger: &mut Ledger, at: Nanos, ticket: &Ticket) {
    ledger.weigh(ticket, ticket.cost);
    ledger.dispatched(at, ticket);
}

#[test]
fn a_wait_is_divided_by_who_held_the_server() {
    let (mut ledger, mut pairs) = (Ledger::default(), PairTable::default());
    for tenant in [0, 1] {
        queue(&mut ledger, Nanos(0), tenant);
        dispatch(&mut ledger, Nanos(0), &ticket(tenant, [MS, 3 * MS][tenant as usize]));
    }
    queue(&mut ledger, Nanos(0), 0);
    assert_eq!(tick(&mut ledger, 7, &mut pairs), [(0, 7)]);
    assert_eq!(named(&pairs), [(0, 1, 5), (0, 0, 1)]);
}

#[test]
fn waits_for_a_slow_export_of_ones_own_are_nobody_elses() {
    let (mut ledger, mut pairs) = (Ledger::default(), PairTable::default());
    for tenant in [0, 1] {
        queue(&mut ledger, Nanos(0), tenant);
        dispatch(&mut ledger, Nanos(0), &ticket(tenant, MS));
    }
    queue(&mut ledger, Nanos(0), 0);
    ledger.parked(Nanos(0), TenantId(0));
    assert_eq!(ledger.waited_for_slots(Nanos(3 * MS), TenantId(0)), Span(3 * MS));
    ledger.unparked(Nanos(5 * MS), TenantId(0));
    ledger.served_late(Nanos(5 * MS), &ticket(0, MS), Span(5 * MS));
    assert_eq!(ledger.waited_for_slots(Nanos(6 * MS), TenantId(0)), Span(9 * MS));
    assert_eq!(tick(&mut ledger, 6, &mut pairs), [(0, 1)]);
    assert_eq!(ledger.waited_for_slots(Nanos(6 * MS), TenantId(1)), Span::ZERO);
}

#[test]
fn an_idle_server_makes_nobody_wait() {
    let (mut ledger, mut pairs) = (Ledger::default(), PairTable::default());
    queue(&mut ledger, Nanos(0), 0);
    dispatch(&mut ledger, Nanos(0), &ticket(0, 5 * MS));
    ledger.served(Nanos(5 * MS), &ticket(0, 5 * MS), Span(5 * MS));
    assert_eq!(tick(&mut ledger, 100, &mut pairs), []);
}

#[test]
fn a_wait_in_the_device_counts_when_it_ends_and_finds_its_culprit() {
    let (mut ledger, mut pairs) = (Ledger::default(), PairTable::default());
    for (tenant, cost_ms) in [(0, 1), (1, 9)] {
        queue(&mut ledger, Nanos(0), tenant);
        dispatch(&mut ledger, Nanos(0), &ticket(tenant, cost_ms * MS));
    }
    ledger.served(Nanos(9 * MS), &ticket(1, 9 * MS), Span(9 * MS));
    assert_eq!(tick(&mut ledger, 9, &mut pairs), []);
    ledger.served(Nanos(10 * MS), &ticket(0, MS), Span(10 * MS));
    assert_eq!(tick(&mut ledger, 10, &mut pairs), [(0, 9)]);
    assert_eq!(named(&pairs), [(0, 1, 9)]);
}

#[test]
fn time_held_by_the_own_limit_is_no_interference() {
    let (mut ledger, mut pairs) = (Ledger::default(), PairTable::default());
    queue(&mut ledger, Nanos(0), 0);
    let mut total = Span::ZERO;
    let throttled = |_| Span(30 * MS);
    ledger.tick(Nanos(40 * MS), throttled, |_, wait, _| total += wait.in_all, &mut pairs);
    ledger.tick(Nanos(50 * MS), throttled, |_, wait, _| total += wait.in_all, &mut pairs);
    assert_eq!(total, Span(20 * MS));
}

#[test]
fn what_was_learned_weighs_whatever_the_policy_says_that_requests_cost() {
    let (mut ledger, mut pairs) = (Ledger::default(), PairTable::default());
    for tenant in [0, 1] {
        queue(&mut ledger, Nanos(0), tenant);
        ledger.weigh(&ticket(tenant, MS), Cost([1, 9][tenant as usize]));
        ledger.dispatched(Nanos(0), &ticket(tenant, MS));
    }
    for _ in 0..10 {
        queue(&mut ledger, Nanos(0), 0);
    }
    tick(&mut ledger, 10, &mut pairs);
    let by = named(&pairs);
    assert_eq!(by.iter().map(|(.., waited)| waited).sum::<u64>(), 100, "{by:?}");
    assert_eq!((by[0].0, by[0].1, by[0].2), (0, 1, 90), "{by:?}");
}

#[test]
fn a_stall_is_the_devices_whoever_has_most_there() {
    let (mut ledger, mut pairs) = (Ledger::default(), PairTable::default());
    let mut at = 0;
    let mut serve = |ledger: &mut Ledger, length_ms: u64| {
        for tenant in [0, 1] {
            queue(ledger, Nanos(at * MS), tenant);
            dispatch(ledger, Nanos(at * MS), &ticket(tenant, MS));
        }
        at += length_ms;
        for tenant in [0, 1] {
            ledger.served(Nanos(at * MS), &ticket(tenant, MS), Span(length_ms * MS));
        }
        at
    };
    for _ in 0..100 {
        serve(&mut ledger, 2);
    }
    tick(&mut ledger, 200, &mut pairs);
    assert_eq!(for_device(&pairs, 0) + for_device(&pairs, 1), 0);
    let before = named(&pairs).iter().map(|(.., waited)| waited).sum::<u64>();
    let at = serve(&mut ledger, 1000);
    let waits = tick(&mut ledger, at, &mut pairs);
    assert_eq!(waits, [(0, 999), (1, 999)]);
    for tenant in [0, 1] {
        assert!(for_device(&pairs, tenant) >= 980, "{}", for_device(&pairs, tenant));
    }
    let blamed = named(&pairs).iter().map(|(.., waited)| waited).sum::<u64>() - before;
    assert!(blamed <= 38, "{blamed}");
}

#[test]
fn who_has_the_server_for_itself_waits_for_the_device() {
    let (mut ledger, mut pairs) = (Ledger::default(), PairTable::default());
    queue(&mut ledger, Nanos(0), 0);
    dispatch(&mut ledger, Nanos(0), &ticket(0, MS));
    ledger.served(Nanos(4 * MS), &ticket(0, MS), Span(4 * MS));
    assert_eq!(tick(&mut ledger, 4, &mut pairs), [(0, 3)]);
    assert_eq!((for_device(&pairs, 0), named(&pairs).len()), (3, 0));
}
