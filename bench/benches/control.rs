//! The price of one step of a controller of response times, with 1,000 hosts of one tenant each.
//!
//! Half of the flows are strict, and all together ask a fifth more than the device gives, so that
//! the step has to choose. The aim is 1 ms on one core; a step is due ten times a second.
//!
//! `cargo bench -p evenkeel-bench --bench control` measures; as a test each measurement is made
//! once, so that it cannot rot.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use evenkeel_core::control::drg::{Borrowing, Drg};
use evenkeel_core::control::name::TenantNumber;
use evenkeel_core::control::peers::{Known, Patience, Peers};
use evenkeel_core::control::shares::{Shares, SharesOptions};
use evenkeel_core::control::slack::{Slack, SlackOptions};
use evenkeel_core::control::summary::{FlowSummary, HostId, Summary};
use evenkeel_core::control::target::Target;
use evenkeel_core::control::{Controller, View};
use evenkeel_core::prng::Prng;
use evenkeel_core::ticket::Cost;
use evenkeel_core::time::{Nanos, Span};

const HOSTS: u32 = 1_000;

/// A period of a host before a device of 100,000 requests per second at some 20 ms.
fn summary(host: u32, period: u64, prng: &mut Prng) -> Summary {
    let completions = u32::try_from(8 + prng.below(5)).expect("small");
    let device = Span::from_millis(20 * u64::from(completions));
    let bound_ms = if host.is_multiple_of(2) { 25 } else { 80 };
    let flow = FlowSummary {
        tenant: TenantNumber(1 + host % 10),
        weight_milli: 1000,
        target: Some(Target::mean(Span::from_millis(bound_ms), Span::from_secs(1))),
        arrivals: 12,
        completions,
        cost: Cost(10_000 * u64::from(completions)),
        device_time: device,
        response_time: Span::from_millis(25 * u64::from(completions)),
        slot_time: device,
        outstanding: 2,
        queued: u32::try_from(prng.below(4)).expect("small"),
        expected_per_s: 120,
        ..FlowSummary::default()
    };
    Summary { host: HostId(host), period, flows: vec![flow], ..Summary::default() }
}

fn known(period: u64, prng: &mut Prng) -> Vec<Known> {
    let mut peers = Peers::new(HostId(0), (0..HOSTS).map(HostId), Patience::default());
    for host in 1..HOSTS {
        peers.receive(period, summary(host, period, prng)).expect("news of a peer");
    }
    peers.known(summary(0, period, prng))
}

fn steps(criterion: &mut Criterion) {
    let mut prng = Prng::new(7);
    let periods: Vec<Vec<Known>> = (0..16).map(|period| known(period, &mut prng)).collect();
    let controllers: [(&str, Box<dyn Controller>); 3] = [
        ("shares", Box::new(Shares::new(SharesOptions::default()))),
        ("slack", Box::new(Slack::new(SlackOptions::default()))),
        ("drg", Box::new(Drg::new(Borrowing::Yes))),
    ];
    let mut group = criterion.benchmark_group(format!("control/{HOSTS}"));
    for (name, mut controller) in controllers {
        let mut turn = 0u64;
        group.bench_function(name, |b| {
            b.iter(|| {
                turn += 1;
                let known = &periods[usize::try_from(turn % 16).expect("below the periods")];
                let now = Nanos::ZERO + Span::from_millis(100 * turn);
                black_box(controller.step(&View {
                    own: HostId(0),
                    now,
                    known,
                    lost: &[],
                    missing: 0,
                }))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, steps);
criterion_main!(benches);
