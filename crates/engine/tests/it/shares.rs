//! Shares hold at the level of the engine, in virtual time.

use evenkeel_core::sched::Limit;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Span;
use evenkeel_engine::policy::{Mode, Sharing};

use crate::simulated::{Client, Simulation, clients, delivered, domain};

const TEN_SECONDS: Span = Span::from_secs(10);

fn assert_within(what: &str, actual: f64, expected: f64, tolerance: f64) {
    let error = (actual / expected - 1.0).abs();
    assert!(error <= tolerance, "{what}: {actual:.4}, expected {expected:.4}");
}

#[test]
fn backlogged_tenants_get_their_weights() {
    for weight in [1, 2, 4, 8, 16] {
        let mut all = clients(32, 0, Kind::Write, 65_536);
        all.extend(clients(32, 1, Kind::Write, 65_536));
        let domain = domain(Mode::Enforce, &[weight, 1], 1, 8);
        let report = Simulation::new(&domain, &all).run(TEN_SECONDS);
        let got = delivered(&report);
        assert_within("ratio", got[0] / got[1], f64::from(weight), 0.01);
        assert_within("total, since the device is never idle", got[0] + got[1], 10.0, 0.001);
        let window = report.tenants[0].window;
        let entitled = f64::from(weight) / f64::from(weight + 1);
        assert_within("entitled", window.entitled, entitled, 0.001);
        assert_within("delivered", window.delivered, entitled, 0.01);
        assert_within("attainable", window.attainable, entitled, 0.01);
        assert!(window.backlogged > 0.999);
    }
}

#[test]
fn in_observe_mode_whoever_sends_more_gets_more_and_nothing_waits_at_the_gate() {
    let mut all = clients(60, 0, Kind::Read, 4096);
    all.extend(clients(4, 1, Kind::Read, 4096));
    let report = Simulation::new(&domain(Mode::Observe, &[1, 15], 1, 8), &all).run(TEN_SECONDS);
    let got = delivered(&report);
    assert_within("ratio", got[0] / got[1], 15.0, 0.01);
    assert_eq!(report.tenants[1].queue_time.max(), Span::ZERO);
    assert_eq!(report.tenants[1].shadow_held_units, 0);
}

#[test]
fn shadow_mode_holds_nothing_and_tells_who_would_be_held() {
    let mut all = clients(60, 0, Kind::Read, 4096);
    all.extend(clients(4, 1, Kind::Read, 4096));
    let mut simulation = Simulation::new(&domain(Mode::Shadow, &[1, 1], 1, 8), &all);
    let report = simulation.run(TEN_SECONDS);
    assert_within("ratio", delivered(&report)[0] / delivered(&report)[1], 15.0, 0.01);
    assert!(report.tenants.iter().all(|tenant| tenant.queue_time.max() == Span::ZERO));
    let mean_held = |tenant: usize| {
        let tenant = &report.tenants[tenant];
        tenant.shadow_held.as_secs_f64() / tenant.device_time.count() as f64
    };
    assert!(mean_held(0) > 10.0 * mean_held(1), "{} and {}", mean_held(0), mean_held(1));
}

#[test]
fn small_and_large_requests_share_device_time_not_requests() {
    let mut all = clients(32, 0, Kind::Read, 4096);
    all.extend(clients(8, 1, Kind::Write, 4 << 20));
    let report = Simulation::new(&domain(Mode::Enforce, &[1, 1], 1, 4), &all).run(TEN_SECONDS);
    let got = delivered(&report);
    assert_within("device time", got[0] / got[1], 1.0, 0.02);
    let bytes =
        |tenant: usize, kind: Kind| report.tenants[tenant].by_kind[kind.index()].delivered_bytes;
    assert!(bytes(1, Kind::Write) > 10 * bytes(0, Kind::Read));
}

#[test]
fn a_huge_write_zeroes_takes_its_share_and_no_more() {
    let mut all = clients(8, 0, Kind::Read, 4096);
    all.extend(clients(1, 1, Kind::WriteZeroes, 4 << 40));
    let mut simulation = Simulation::new(&domain(Mode::Enforce, &[1, 1], 1, 4), &all);
    let report = simulation.run(TEN_SECONDS);
    let got = delivered(&report);
    assert_within("device time", got[0] / got[1], 1.0, 0.02);
    assert!(simulation.in_service_max <= 4);
    // One unit of zeroes takes about 1.1 ms here; a read waits for what is in service at most.
    let read_wait = report.tenants[0].queue_time.max();
    assert!(read_wait <= Span::from_millis(4 * 2), "a read waited for {read_wait}");
    assert_eq!(report.tenants[1].in_flight, 1);
}

#[test]
fn where_nothing_is_delayed_a_huge_write_zeroes_is_bounded_all_the_same() {
    let all = clients(1, 0, Kind::WriteZeroes, 4 << 40);
    let mut simulation = Simulation::new(&domain(Mode::Observe, &[1], 1, 4), &all);
    let _ = simulation.run(Span::from_secs(1));
    assert_eq!(simulation.in_service_max, 32);
}

#[test]
fn total_shares_count_over_all_servers() {
    // Tenant 0 is alone on server 1 and shares server 0 with tenant 1.
    let on_server = |server: u32, tenant: u32| {
        let all = clients(16, tenant, Kind::Read, 65_536);
        all.into_iter().map(|client| Client { server, ..client }).collect::<Vec<_>>()
    };
    let all = [on_server(0, 0), on_server(1, 0), on_server(0, 1)].concat();
    let ratio_under = |sharing: Sharing| {
        let domain =
            evenkeel_engine::policy::Domain { sharing, ..domain(Mode::Enforce, &[1, 1], 2, 4) };
        let report = Simulation::new(&domain, &all).run(TEN_SECONDS);
        delivered(&report)[0] / delivered(&report)[1]
    };
    assert_within("local", ratio_under(Sharing::Local), 3.0, 0.02);
    assert_within("total", ratio_under(Sharing::Total), 1.0, 0.05);
    let hybrid = ratio_under(Sharing::Hybrid { min_share_milli: 500 });
    assert_within("hybrid: a third of server 0 at least", hybrid, (1.0 + 1.0 / 3.0) * 1.5, 0.05);
}

#[test]
fn a_limit_holds_and_its_time_is_throttled_time() {
    let mut domain = domain(Mode::Enforce, &[1, 1], 1, 8);
    let limit = Limit { rate_iops: 100, burst_requests: 1, ..Limit::default() };
    domain.tenants[0].1.limit = limit;
    let mut all = clients(4, 0, Kind::Read, 4096);
    all.extend(clients(4, 1, Kind::Read, 4096));
    let report = Simulation::new(&domain, &all).run(TEN_SECONDS);
    let limited = &report.tenants[0];
    let requests = limited.by_kind[Kind::Read.index()].delivered_requests;
    assert!((995..=1001).contains(&requests), "{requests} in ten seconds at 100 per second");
    assert_within("four wait all the time", limited.throttled.as_secs_f64(), 40.0, 0.02);
    assert!(limited.waited < Span::from_secs(1), "it waits for itself, not for others");
    assert_eq!(report.tenants[1].throttled, Span::ZERO);
}
