//! The figures of the paper's talk, from a dispatcher that has to estimate the hit ratios itself.

use evenkeel_core::share::Discipline;
use evenkeel_core::time::Span;

use super::world::{Client, Service, World, usual};

/// How busy a slow device of 100 and a fast one of 5000 requests per second are.
fn utilisation(discipline: Discipline, hits: &[f64], service: Service) -> [f64; 2] {
    let clients = hits.iter().map(|&h| Client::new(h)).collect();
    let mut world = World::new(&[100, 5000], discipline, clients).service(service);
    world.run(Span::from_secs(20));
    let rates = world.run(Span::from_secs(100));
    let used = world.utilisation(&rates);
    [used[0], used[1]]
}

#[track_caller]
fn assert_fast(hits: &[f64], discipline: Discipline, expected: f64, tolerance: f64) {
    for service in [Service::Constant, Service::Exponential] {
        let [slow, fast] = utilisation(discipline, hits, service);
        assert!((slow - 1.0).abs() < 0.03, "{service:?}: slow device {slow:.3}");
        assert!((fast - expected).abs() < tolerance, "{service:?}: {fast:.3}, not {expected}");
    }
}

#[test]
fn two_clients_fill_the_fast_device_to_what_each_discipline_allows() {
    let hits = [0.5, 0.99];
    assert_fast(&hits, Discipline::FairQueuing, 0.058, 0.01);
    assert_fast(&hits, Discipline::Drf, 0.678, 0.02);
    assert_fast(&hits, usual(), 1.0, 0.03);
}

#[test]
fn a_third_client_bounds_the_fast_device_by_fairness() {
    let hits = [0.5, 0.99, 0.8];
    assert_fast(&hits, Discipline::FairQueuing, 0.065, 0.03);
    assert_fast(&hits, Discipline::Drf, 0.439, 0.03);
    assert_fast(&hits, usual(), 0.693, 0.03);
}

#[test]
fn a_change_of_a_hit_ratio_is_made_good_within_ten_seconds() {
    let clients = [0.45, 0.95].map(Client::new).to_vec();
    let mut world = World::new(&[200, 3000], usual(), clients);
    world.run(Span::from_secs(60));
    let before = world.run(Span::from_secs(60));
    assert!((world.utilisation(&before)[1] - 0.6606).abs() < 0.03, "{before:?}");
    world.clients[0].hits = vec![0.2];
    world.run(Span::from_secs(10));
    assert_eq!(world.lanes[0].counters().changes, 1);
    let after = world.run(Span::from_secs(60));
    assert!((world.utilisation(&after)[1] - 0.6417).abs() < 0.03, "stale weights give 0.526");
}

#[test]
fn three_tiers_are_shared_by_the_linear_program() {
    // Slow, middle, fast; the allocation is 3500, 1166.7 and 333.3 requests per second.
    let hits = [[0.1, 0.9], [0.3, 0.7], [0.9, 0.0]];
    let clients = hits.map(|hits| Client { hits: hits.to_vec(), ..Client::new(0.0) }).to_vec();
    let mut world = World::new(&[100, 1000, 5000], usual(), clients);
    world.run(Span::from_secs(30));
    let rates = world.run(Span::from_secs(60));
    let totals: Vec<f64> = rates.iter().map(|of| of.iter().sum()).collect();
    for (total, expected) in totals.iter().zip([3500.0, 1166.7, 333.3]) {
        assert!((total / expected - 1.0).abs() < 0.1, "{totals:.0?}");
    }
}
