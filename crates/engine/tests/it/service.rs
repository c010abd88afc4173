//! Device time is what the device took, whatever the policy says that requests cost.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::cost::{CostModel, Line};
use evenkeel_engine::policy::{Depth, Domain, Mode};
use evenkeel_engine::report::DomainReport;

use crate::simulated::{Simulation, clients, domain};

const NEVER: (Nanos, Span) = (Nanos::ZERO, Span::ZERO);

fn linear(fixed: Span, rate_bytes: u64) -> CostModel {
    let line = Line { fixed, rate_bytes };
    CostModel::Linear { read: line, write: line, flush: fixed }
}

/// 4 KiB take 0.3 ms of it, and 128 KiB 3.5 ms.
fn device() -> CostModel {
    linear(Span::from_micros(200), 40_000_000)
}

fn written(mode: Mode, cost: CostModel) -> Domain {
    let mut domain = domain(mode, &[1, 1], 1, 8);
    let scheduling = &mut domain.servers[0].1;
    (scheduling.cost, scheduling.depth) = (cost, Depth::Requests(8));
    domain
}

/// Device time of each tenant, of the server, and the time in which it was busy, in seconds.
fn accounted(report: &DomainReport) -> ([f64; 2], f64, f64) {
    let of = |tenant: usize| report.tenants[tenant].service_time.as_secs_f64();
    let server = &report.servers[0];
    ([of(0), of(1)], server.service_time.as_secs_f64(), server.busy.as_secs_f64())
}

#[test]
fn a_written_cost_that_is_ten_times_off_changes_nothing() {
    let costs = [
        linear(Span::from_micros(2000), 400_000_000),
        linear(Span::from_micros(20), 4_000_000),
        CostModel::PerRequest,
    ];
    for mode in [Mode::Observe, Mode::Shadow, Mode::Enforce] {
        for cost in costs {
            let mut all = clients(8, 0, Kind::Read, 4096);
            all.extend(clients(4, 1, Kind::Read, 128 << 10));
            let mut simulation = Simulation::before(device(), NEVER, &written(mode, cost), &all);
            let before = simulation.run(Span::from_secs(4));
            let after = simulation.run(Span::from_secs(14));
            let ([small, large], server, _) = accounted(&before);
            let ([small_after, large_after], server_after, busy) = accounted(&after);
            let requests = |report: &DomainReport, tenant: usize| -> u64 {
                let by_kind = &report.tenants[tenant].by_kind;
                by_kind.iter().map(|kind| kind.delivered_requests).sum()
            };
            let truly = |tenant: usize, length: u64| {
                let count = requests(&after, tenant) - requests(&before, tenant);
                count as f64 * device().cost(Kind::Read, length).0 as f64 / 1e9
            };
            let parts =
                [(small_after - small, truly(0, 4096)), (large_after - large, truly(1, 128 << 10))];
            for (part, truth) in parts {
                assert!((part - truth).abs() < 0.5, "{mode:?} {cost:?}: {part}, truly {truth}");
            }
            let whole = server_after - server;
            assert!((whole - 10.0).abs() < 0.1, "{mode:?}: {whole} of ten seconds");
            assert!((small_after + large_after - server_after).abs() < 1e-6);
            assert!(server_after <= busy, "{mode:?}: {server_after} of {busy}");
        }
    }
}

#[test]
fn of_a_device_that_serves_many_at_once_it_is_a_part_of_the_time() {
    let mut all = clients(8, 0, Kind::Read, 4096);
    all.extend(clients(8, 1, Kind::Read, 4096));
    let domain = written(Mode::Observe, device());
    let mut simulation = Simulation::before(device(), NEVER, &domain, &all).serving_at_once(8);
    let ([one, other], server, busy) = accounted(&simulation.run(Span::from_secs(10)));
    assert!(server <= busy && server > 9.9, "{server} of {busy}");
    assert!((one - other).abs() < 0.1, "{one} {other}");
}

#[test]
fn a_stall_is_given_to_nobody() {
    let stall = (Nanos(5_000_000_000), Span::from_secs(2));
    let all = clients(4, 0, Kind::Read, 4096);
    let domain = written(Mode::Enforce, device());
    let report = Simulation::before(device(), stall, &domain, &all).run(Span::from_secs(10));
    let ([one, _], server, busy) = accounted(&report);
    assert!((one - 8.0).abs() < 0.1 && (server - one).abs() < 1e-6, "{one} of {server}");
    assert!(busy > 9.9, "{busy}");
}

#[test]
fn who_asks_for_little_is_given_what_its_requests_take() {
    let mut all = clients(1, 0, Kind::Read, 4096);
    all[0].think = Span::from_millis(3);
    let mut simulation =
        Simulation::before(device(), NEVER, &written(Mode::Observe, CostModel::PerRequest), &all);
    let ([one, _], server, busy) = accounted(&simulation.run(Span::from_secs(10)));
    let truly = device().cost(Kind::Read, 4096).0 as f64 / 1e9 * 10.0 / 0.003_302_4;
    assert!((one - truly).abs() < 0.05 * truly, "{one}, truly {truly}");
    assert!(server <= busy, "{server} of {busy}");
}
