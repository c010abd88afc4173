//! A depth and costs that are found, where a great depth would be for one tenant alone: what the
//! other asks for at a time is less.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::cost::{CostModel, Line};
use evenkeel_engine::policy::{Depth, Domain, Mode, Scheduling};
use evenkeel_engine::report::DomainReport;

use crate::simulated::{Client, Simulation, clients, domain};

/// Everything is found, before a share of four and one of one.
fn automatic() -> Domain {
    let mut domain = domain(Mode::Enforce, &[4, 1], 1, 1);
    for (_, scheduling) in &mut domain.servers {
        *scheduling = Scheduling {
            depth: Depth::Automatic,
            is_cost_learned: true,
            is_unit_found: true,
            ..Scheduling::default()
        };
    }
    domain
}

fn delivered(report: &DomainReport) -> [u64; 2] {
    [0, 1].map(|tenant: usize| {
        report.tenants[tenant].by_kind.iter().map(|kind| kind.delivered_requests).sum()
    })
}

/// The part of the second tenant, which reads 64 KiB at a time and has so much outstanding, from a
/// device that takes so long for a request of any size.
fn part(service: Span, outstanding: usize) -> f64 {
    let line = Line { fixed: service, rate_bytes: u64::MAX };
    let device = CostModel::Linear { read: line, write: line, flush: service };
    let mut all = clients(8, 0, Kind::Read, 4096);
    all.extend(clients(outstanding, 1, Kind::Read, 65_536));
    let never = (Nanos::ZERO, Span::ZERO);
    let mut simulation = Simulation::before(device, never, &automatic(), &all);
    let before = delivered(&simulation.run(Span::from_secs(3)));
    let after = delivered(&simulation.run(Span::from_secs(18)));
    let [small, large] = [0, 1].map(|tenant: usize| (after[tenant] - before[tenant]) as f64);
    large / (small + large)
}

#[test]
fn a_depth_that_only_changes_the_mix_gains_nothing() {
    for outstanding in [16, 24, 32, 48, 64] {
        for micros in [700, 850, 1000, 1150, 1300] {
            let part = part(Span::from_micros(micros), outstanding);
            assert!((0.17..0.23).contains(&part), "{outstanding}, {micros} us: {part}");
        }
    }
}

/// A device that takes this for a request, whatever its size, and serves one at a time.
const SERIAL: CostModel = {
    let line = Line { fixed: Span::from_micros(1050), rate_bytes: 1_000_000_000 };
    CostModel::Linear { read: line, write: line, flush: line.fixed }
};

/// The second tenant's part of the requests by second, from one to another.
fn parts(simulation: &mut Simulation, from: u64, to: u64) -> Vec<f64> {
    let mut before = delivered(&simulation.run(Span::from_secs(from)));
    let mut part = |second| {
        let after = delivered(&simulation.run(Span::from_secs(second)));
        let [small, large] = [0, 1].map(|tenant: usize| (after[tenant] - before[tenant]) as f64);
        before = after;
        large / (small + large)
    };
    (from + 1..=to).map(&mut part).collect()
}

fn both() -> Vec<Client> {
    let mut all = clients(8, 0, Kind::Read, 4096);
    all.extend(clients(32, 1, Kind::Read, 65_536));
    all
}

fn before(device: CostModel, domain: &Domain, seed: u64) -> Simulation {
    let never = (Nanos::ZERO, Span::ZERO);
    let simulation = Simulation::before(device, never, domain, &both());
    if seed == 0 { simulation } else { simulation.in_any_order(seed) }
}

#[test]
fn what_is_enforced_while_the_device_has_forty_requests_holds_from_then_on() {
    for seed in 0..20 {
        let looks = Domain { mode: Mode::Observe, ..automatic() };
        let mut simulation = before(SERIAL, &looks, seed);
        simulation.advance(Span::from_millis(2900 + 5 * seed));
        simulation.apply(&automatic());
        let parts = parts(&mut simulation, 3, 20);
        assert!(parts.iter().all(|part| (0.16..0.24).contains(part)), "{seed}: {parts:.2?}");
    }
}

#[test]
fn nothing_is_sent_on_top_of_what_fills_the_depth() {
    for depth in [Depth::Requests(4), Depth::Bytes(256 << 10), Depth::Automatic] {
        let mut enforced = automatic();
        enforced.servers[0].1.depth = depth;
        let looks = Domain { mode: Mode::Observe, ..enforced.clone() };
        let mut simulation = before(SERIAL, &looks, 0);
        simulation.advance(Span::from_secs(1));
        simulation.apply(&enforced);
        simulation.advance(Span::from_millis(1300));
        assert_eq!(simulation.in_service_max, 40, "{depth:?}");
    }
}

#[test]
fn a_request_that_never_comes_back_delays_a_change_for_a_moment_only() {
    let mut all = both();
    all.push(Client { hangs: true, ..all[0] });
    let looks = Domain { mode: Mode::Observe, ..automatic() };
    let mut simulation = Simulation::before(SERIAL, (Nanos::ZERO, Span::ZERO), &looks, &all);
    simulation.advance(Span::from_secs(1));
    simulation.apply(&automatic());
    let at = |simulation: &mut Simulation, millis: u64| {
        delivered(&simulation.run(Span::from_millis(millis))).iter().sum::<u64>()
    };
    // The forty of before are back after 42 ms; one more is waited for.
    let [waits, goes_on] = [1200, 1300].map(|millis| at(&mut simulation, millis));
    assert!(goes_on > waits + 30, "{waits}, {goes_on}");
}

/// The costs that were learned are wrong then by as much as the large ones were dearer, and hide
/// that nothing is lost at less depth.
#[test]
fn a_device_that_no_longer_serves_all_at_once_is_ordered_again() {
    for dearer in 0..8 {
        let line = Line { fixed: Span::from_micros(1050), rate_bytes: 65_536_000 / (1 + dearer) };
        let parallel = CostModel::Linear { read: line, write: line, flush: line.fixed };
        let mut simulation = before(parallel, &automatic(), dearer).serving_at_once(64);
        simulation.advance(Span::from_secs(8));
        simulation.becomes(SERIAL, 1);
        let parts = parts(&mut simulation, 28, 33);
        assert!(parts.iter().all(|part| (0.15..0.25).contains(part)), "{dearer}: {parts:.2?}");
    }
}

/// The database alone says nothing of what large requests take.
#[test]
fn a_backup_that_begins_later_pays_what_its_requests_take() {
    for (fixed_micros, rate_bytes) in
        [(100, 40_000_000), (1050, 1_000_000_000), (100, 500_000_000), (5000, 100_000_000)]
    {
        for size in [64 << 10, 256 << 10] {
            let line = Line { fixed: Span::from_micros(fixed_micros), rate_bytes };
            let device = CostModel::Linear { read: line, write: line, flush: line.fixed };
            let database = clients(8, 0, Kind::Read, 4096);
            let mut simulation =
                Simulation::before(device, (Nanos::ZERO, Span::ZERO), &automatic(), &database);
            simulation.advance(Span::from_secs(20));
            simulation.join(&clients(16, 1, Kind::Read, size));
            let [small_ns, large_ns] =
                [4096, size].map(|size| device.cost(Kind::Read, size).0 as f64);
            let of_time =
                |part: &f64| part * large_ns / (part * large_ns + (1.0 - part) * small_ns);
            let parts: Vec<f64> = parts(&mut simulation, 24, 40).iter().map(of_time).collect();
            let holds = |part: &f64| (0.14..0.26).contains(part);
            assert!(parts.iter().all(holds), "{line:?}, {size}: {parts:.2?}");
        }
    }
}
