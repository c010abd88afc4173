//! The price of a solve: who gets how much of two tiers, for 1,000 tenants.
//!
//! `solve` is the allocator alone, with its verification; the aim is 50 us. `epoch` is all that a
//! dispatcher does once per second around it: estimates and offers of every tenant, the solve, new
//! weights, and every tenant's place in the heaps.
//!
//! `cargo bench -p evenkeel-bench --bench shares` measures; as a test (`cargo test --benches`) each
//! measurement is made once, so that it cannot rot.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use evenkeel_core::id::TenantId;
use evenkeel_core::prng::Prng;
use evenkeel_core::sched::depth::DepthPolicy;
use evenkeel_core::sched::tiered::{DeviceOptions, TieredOptions, lanes};
use evenkeel_core::sched::{Scheduler, Share};
use evenkeel_core::share::{BottleneckAware, Client, Demand, Discipline, Problem, solve};
use evenkeel_core::ticket::{Cost, Kind, Ticket};
use evenkeel_core::time::{Nanos, Span};

const TENANTS: u32 = 1_000;
/// Requests of each tenant before measuring, so that hit ratios are not all a guess.
const WARM_UP: u32 = 50;

fn of_the_allocator(criterion: &mut Criterion) {
    let mut prng = Prng::new(42);
    let mut client = || {
        let weight = 0.5 + 8.0 * prng.unit_f64();
        Client::backlogged(weight, Demand::hit_ratio(prng.unit_f64()))
    };
    let clients: Vec<Client> = (0..TENANTS).map(|_| client()).collect();
    let problem = || Problem::new(&[1_000.0, 20_000.0], clients.clone()).expect("a proper one");
    let mut group = criterion.benchmark_group(format!("shares/{TENANTS}"));
    let baa = Discipline::BottleneckAware(BottleneckAware::default());
    for (name, discipline) in [("baa", baa), ("drf", Discipline::Drf)] {
        group.bench_function(format!("solve_{name}"), |b| {
            b.iter(|| black_box(solve(&problem(), discipline, &[])));
        });
    }
    group.finish();
}

fn of_the_dispatcher(criterion: &mut Criterion) {
    let device = |capacity_cost_per_second| DeviceOptions {
        depth: DepthPolicy::Requests(16),
        capacity_cost_per_second,
    };
    let usual = TieredOptions::usual(vec![device(1_000_000_000), device(20_000_000_000)]);
    // Every request ends an epoch.
    let mut lanes = lanes(&TieredOptions { epoch: Span(1), ..usual });
    let mut prng = Prng::new(42);
    for tenant in 0..TENANTS {
        let weight_milli = u32::try_from(500 + prng.below(8_000)).expect("small");
        let share = Share { weight_milli, ..Share::default() };
        lanes[0].configure(Nanos(0), TenantId(tenant), share);
    }
    let ticket = |slot: u32| Ticket {
        tenant: TenantId(slot % TENANTS),
        kind: Kind::Read,
        slot,
        size_bytes: 4096,
        cost: Cost(100_000),
        cost_elsewhere: Cost(0),
    };
    let hits: Vec<u64> = (0..TENANTS).map(|_| prng.below(1_000)).collect();
    for slot in 0..TENANTS * WARM_UP {
        let hit = prng.below(1_000) < hits[(slot % TENANTS) as usize];
        lanes[usize::from(hit)].enqueue(Nanos(0), ticket(slot));
    }
    let mut slot = TENANTS * WARM_UP;
    criterion.bench_function(&format!("shares/{TENANTS}/epoch"), |b| {
        b.iter(|| {
            slot += 1;
            lanes[0].enqueue(Nanos(u64::from(slot)), ticket(slot));
            assert!(lanes[0].withdraw(Nanos(u64::from(slot)), ticket(slot)), "it waits");
        });
    });
    assert_eq!(lanes[0].counters().fallbacks, 0, "weights are those of the discipline");
}

criterion_group!(benches, of_the_allocator, of_the_dispatcher);
criterion_main!(benches);
