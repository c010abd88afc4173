//! Limits, floors, demands and presence, over both devices together.

use evenkeel_core::id::TenantId;
use evenkeel_core::sched::{Floor, Limit, Scheduler, Share};
use evenkeel_core::share::explain::HeldBy;
use evenkeel_core::time::{Nanos, Span};

use super::world::{Client, Service, World, usual};

const SECOND: Span = Span::from_secs(1);

fn total(rates: &[f64]) -> f64 {
    rates.iter().sum()
}

#[test]
fn a_limit_holds_over_both_devices_together() {
    let limit = Limit { rate_iops: 300, burst_requests: 10, ..Limit::default() };
    let mut clients = [0.5, 0.99].map(Client::new).to_vec();
    clients[1].share.limit = limit;
    let mut world = World::new(&[100, 5000], usual(), clients);
    for _ in 0..10 {
        let rates = world.run(Span::from_secs(2));
        assert!(total(&rates[1]) * 2.0 <= 2.0 * 300.0 + 64.0 + 10.0, "{rates:?}");
    }
    // Which tier a request is for is drawn: in 20 s that alone is worth 3 %.
    let rates = world.run(Span::from_secs(200));
    // Now and then its whole window waits at the slow tier, and its tokens overflow.
    assert!((total(&rates[1]) / 300.0 - 1.0).abs() < 0.02, "{rates:?}");
    assert!((total(&rates[0]) / 194.0 - 1.0).abs() < 0.03, "the rest of the slow device");
    let throttled = [0, 1].map(|lane: usize| world.lanes[lane].throttled(Nanos(0), TenantId(1)));
    assert!(throttled.iter().all(|span| *span > SECOND), "{throttled:?}");
}

#[test]
fn a_floor_is_met_on_both_devices_however_many_come() {
    let mut clients = [0.5; 6].map(Client::new).to_vec();
    clients[0].share.floor = Floor { rate_iops: 120, ..Floor::default() };
    let mut world = World::new(&[100, 5000], usual(), clients).service(Service::Constant);
    world.run(Span::from_secs(20));
    let rates = world.run(Span::from_secs(100));
    assert!(total(&rates[0]) > 0.98 * 120.0, "{rates:?}");
    for rates in &rates[1..] {
        assert!((total(rates) / 16.0 - 1.0).abs() < 0.1, "a fifth of 80 each: {rates:?}");
    }
}

#[test]
fn floors_that_no_longer_fit_are_scaled_and_counted() {
    let floor = Floor { rate_iops: 1500, ..Floor::default() };
    let share = Share { floor, ..Share::default() };
    let clients = [0.99, 0.99].map(|h| Client { share, ..Client::new(h) }).to_vec();
    let mut world = World::new(&[100, 5000], usual(), clients);
    world.run(Span::from_secs(30));
    let settled = world.lanes[0].counters().floors_scaled;
    world.clients[1].hits = vec![0.9];
    world.run(Span::from_secs(30));
    assert!(world.lanes[0].counters().floors_scaled > settled + 20, "15 + 150 on the slow one");
    let status = world.lanes[1].status().unwrap();
    assert!((status.floors_kept - 100.0 / 165.0).abs() < 0.1, "{status:?}");
}

#[test]
fn who_asks_for_little_gets_it_at_once_and_leaves_others_the_rest() {
    let mut clients = [0.5, 0.5, 0.99].map(Client::new).to_vec();
    clients[0].outstanding = 1;
    clients[0].think = Span::from_millis(100);
    let mut world = World::new(&[100, 5000], usual(), clients);
    world.run(Span::from_secs(20));
    let rates = world.run(Span::from_secs(60));
    assert!(total(&rates[0]) > 7.5, "one per 100 ms and its service: {rates:?}");
    let status = world.lanes[0].status().unwrap();
    assert_eq!(status.explanation.clients[0].held_by, HeldBy::Cap, "{}", status.explanation);
    assert!(world.utilisation(&rates)[1] > 0.90, "{rates:?}");
}

#[test]
fn who_comes_back_has_its_share_within_a_second_and_no_credit() {
    let mut clients = [0.5, 0.5].map(Client::new).to_vec();
    clients[1].outstanding = 0;
    let mut world = World::new(&[100, 5000], usual(), clients);
    world.run(Span::from_secs(30));
    world.join(1, 64);
    world.run(SECOND);
    let rates = world.run(Span::from_secs(40));
    assert!((total(&rates[0]) / total(&rates[1]) - 1.0).abs() < 0.1, "{rates:?}");
}

#[test]
fn weights_hold_on_a_device_whose_neighbour_is_slower_than_stated() {
    // The slow device serves a tenth of what the options say, so whoever waits for it lags ever
    // further behind those who only use the fast one.
    let mut clients = [0.0, 1.0, 1.0].map(Client::new).to_vec();
    clients[1].share.weight_milli = 3000;
    let mut world = World::new(&[1000, 5000], usual(), clients).really(&[100, 5000]);
    world.run(Span::from_secs(300));
    let rates = world.run(Span::from_secs(20));
    assert!((rates[1][1] / rates[2][1] - 3.0).abs() < 0.1, "{rates:?}");
    // A newcomer on the fast device starts with the laggard, and yet others are served again soon.
    world.clients[0].hits = vec![0.99];
    let starved = world.run(Span::from_secs(20));
    assert!(starved[1][1] > 500.0 && starved[2][1] > 150.0, "{starved:?}");
}

#[test]
fn shares_are_of_device_time_also_while_requests_grow() {
    let mut clients = [0.5, 0.5].map(Client::new).to_vec();
    clients[1].cost = 4;
    let mut world = World::new(&[200, 1000], usual(), clients).service(Service::Constant);
    world.run(Span::from_secs(10));
    let rates = world.run(Span::from_secs(20));
    assert!((rates[0][0] / rates[1][0] / 4.0 - 1.0).abs() < 0.05, "{rates:.1?}");
    // Sixteen times as dear from now on, which the solver learns within some hundred requests.
    world.clients[1].cost = 64;
    let rates = world.run(Span::from_secs(60));
    assert!(rates[0][0] > 90.0, "half of the slow device: {rates:.1?}");
}
