//! The disciplines beyond fair queuing, in an engine: floors, deadlines, several tiers at once, and
//! changes from each to each while requests are under way.

use evenkeel_core::sched::{Floor, Limit, Share};
use evenkeel_core::time::Span;
use evenkeel_engine::policy::{Discipline, Mode, Sharing};

use crate::closed::{Client, Loop, domain};

fn total(rates: &[f64]) -> f64 {
    rates.iter().sum()
}

#[test]
fn floors_are_met_by_mclock() {
    let mut clients = [Client::new(1.0); 9];
    clients[0].share.floor = Floor { rate_iops: 300, ..Floor::default() };
    clients[1].share.limit = Limit { rate_iops: 20, burst_requests: 2, ..Limit::default() };
    let mut run = Loop::new(&domain(Discipline::Mclock, &[1000], &clients), &[1000], &clients);
    run.run(Span::from_secs(2));
    let rates = run.run(Span::from_secs(20));
    assert!(rates[0][0] > 297.0, "{rates:.1?}");
    assert!((rates[1][0] - 20.0).abs() < 0.5, "its own limit, without another above: {rates:.1?}");
    let throttled: Vec<Span> = run.report().tenants.iter().map(|tenant| tenant.throttled).collect();
    assert!(throttled[1] > Span::from_secs(20 * 60), "most of its 64 requests, most of the time");
    assert_eq!([throttled[0], throttled[2]], [Span::ZERO; 2], "no limit");
    for rates in &rates[2..] {
        assert!((rates[0] / (680.0 / 7.0) - 1.0).abs() < 0.02, "the rest by weight: {rates:.1?}");
    }
}

#[test]
fn floors_and_limits_of_a_group_count_over_all_its_servers() {
    let rates_iops = [1000, 1000];
    let mut clients = [Client::new(0.5); 42];
    clients[0].share.floor = Floor { rate_iops: 300, ..Floor::default() };
    clients[1].share.weight_milli = 9000;
    clients[1].share.limit = Limit { rate_iops: 40, burst_requests: 2, ..Limit::default() };
    let served = |sharing| {
        let mut domain = domain(Discipline::Mclock, &rates_iops, &clients);
        domain.sharing = sharing;
        let mut run = Loop::new(&domain, &rates_iops, &clients);
        run.run(Span::from_secs(5));
        let rates = run.run(Span::from_secs(20));
        [total(&rates[0]), total(&rates[1])]
    };
    let [floor, limit] = served(Sharing::Local);
    assert!(floor > 590.0, "300 at each: {floor:.1}");
    assert!((limit - 80.0).abs() < 2.0, "40 at each: {limit:.1}");
    let [floor, limit] = served(Sharing::Total);
    assert!(floor > 295.0 && floor < 345.0, "300 in all: {floor:.1}");
    assert!((limit - 40.0).abs() < 2.0, "40 in all: {limit:.1}");
}

#[test]
fn deadlines_are_met_by_edf_where_fair_queuing_misses_them() {
    let mut clients = [Client::new(1.0); 9];
    let latency_goal = Span::from_millis(5);
    clients[0] = Client {
        share: Share { latency_goal, ..Share::default() },
        outstanding: 1,
        think: Span(10_300_000),
        ..clients[0]
    };
    let slowest = |discipline| {
        let mut run = Loop::new(&domain(discipline, &[1000], &clients), &[1000], &clients);
        run.run(Span::from_secs(10));
        run.slowest[0]
    };
    assert!(slowest(Discipline::Sfq) > latency_goal);
    assert!(slowest(Discipline::Edf) <= Span::from_millis(2), "the one in service, and its own");
}

#[test]
fn tiers_are_used_as_each_discipline_allows() {
    let rates_iops = [100, 5000];
    let clients = [0.5, 0.99].map(Client::new);
    let used = |discipline| {
        let domain = domain(discipline, &rates_iops, &clients);
        let mut run = Loop::new(&domain, &rates_iops, &clients);
        run.run(Span::from_secs(20));
        let rates = run.run(Span::from_secs(200));
        assert!((rates[0][0] + rates[1][0]) / 100.0 > 0.99, "the slow one is busy: {rates:.1?}");
        (rates[0][1] + rates[1][1]) / 5000.0
    };
    let fair = used(Discipline::Fair);
    assert!((fair - 0.058).abs() < 0.01, "{fair:.3}");
    let drf = used(Discipline::Drf);
    assert!((drf - 0.678).abs() < 0.03, "{drf:.3}");
    let baa = used(Discipline::Baa);
    assert!(baa > 0.96, "{baa:.3}");
}

#[test]
fn a_report_says_who_gets_how_much_of_the_tiers_and_why() {
    let rates_iops = [100, 500];
    let clients = [0.9, 0.5].map(Client::new);
    let allocation = |discipline, mode| {
        let mut domain = domain(discipline, &rates_iops, &clients);
        domain.mode = mode;
        let mut run = Loop::new(&domain, &rates_iops, &clients);
        run.run(Span::from_secs(20));
        run.report().allocation
    };
    let report = allocation(Discipline::Baa, Mode::Enforce).unwrap();
    assert!(report.counters.solves >= 20, "{:?}", report.counters);
    let given = report.last.explanation.clients.iter().map(|client| client.given_iops);
    for (given, expected) in given.zip([500.0, 100.0]) {
        assert!((given / expected - 1.0f64).abs() < 0.2, "{}", report.last.explanation);
    }
    assert!(allocation(Discipline::Baa, Mode::Shadow).is_some());
    assert!(allocation(Discipline::Baa, Mode::Observe).is_none(), "nothing is ordered");
    assert!(allocation(Discipline::Mclock, Mode::Enforce).is_none());
}

#[test]
fn the_shadow_of_tiers_holds_what_enforcing_would() {
    let rates_iops = [100, 5000];
    let clients = [0.5, 0.99].map(Client::new);
    let mut domain = domain(Discipline::Baa, &rates_iops, &clients);
    domain.mode = Mode::Shadow;
    let mut run = Loop::new(&domain, &rates_iops, &clients);
    run.run(Span::from_secs(20));
    assert!(run.with(0) > 32, "nothing waits but at the device");
    let report = run.report();
    assert!(report.tenants.iter().all(|tenant| tenant.shadow_held > Span::from_secs(1)));
    assert!(report.tenants.iter().all(|tenant| tenant.queue_time.mean() == Span::ZERO));
    run.end(Span::from_secs(10));
}

#[test]
fn a_change_from_any_discipline_to_any_other_loses_nothing() {
    let rates_iops = [300, 1000];
    let clients = [0.5, 0.9, 0.1].map(Client::new);
    for from in Discipline::ALL {
        for to in Discipline::ALL {
            let [from, to] = [from, to].map(|one| domain(one, &rates_iops, &clients));
            let mut run = Loop::new(&from, &rates_iops, &clients);
            run.run(Span::from_millis(500));
            run.reload(&to);
            let rates = run.run(Span::from_secs(1));
            assert!(rates[0][0] + rates[1][0] + rates[2][0] > 290.0, "{rates:.1?}");
            run.end(Span::from_secs(2));
        }
    }
}
