//! The price of one scheduling decision: enqueue, poll and complete, with every tenant backlogged.
//!
//! Each decision replaces the ticket that it dispatched, so the backlog never changes. The aims are
//! 100 ns with 100 tenants and 300 ns with 10,000, on one core; with floors 200 ns and 400 ns. Over
//! tiers, a decision is taken for one of two devices, and the other one is polled in vain.
//!
//! `cargo bench -p evenkeel-bench --bench decision` measures; as a test (`cargo test --benches`)
//! each measurement is made once, so that it cannot rot. That nothing allocates is checked by a
//! test of `evenkeel-core`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use evenkeel_core::id::TenantId;
use evenkeel_core::prng::Prng;
use evenkeel_core::sched::depth::DepthPolicy;
use evenkeel_core::sched::edf::Edf;
use evenkeel_core::sched::limit::Limited;
use evenkeel_core::sched::mclock::Mclock;
use evenkeel_core::sched::sfq::{Sfq, SfqOptions};
use evenkeel_core::sched::tiered::{DeviceOptions, TieredLane, TieredOptions, lanes};
use evenkeel_core::sched::{Floor, Limit, Next, Scheduler, Share};
use evenkeel_core::ticket::{Cost, Kind, Ticket};
use evenkeel_core::time::{Nanos, Span};

const DEPTH: u32 = 32;
const QUEUED_PER_TENANT: u32 = 4;

/// A scheduler with `tenants` backlogged tenants and a full device.
struct Bench<S> {
    scheduler: S,
    in_service: Vec<Ticket>,
    oldest: usize,
    now: Nanos,
}

impl<S: Scheduler> Bench<S> {
    fn new(scheduler: S, tenants: u32, limit: Limit) -> Self {
        Self::under(scheduler, tenants, limit, Floor::default())
    }

    /// Half of what the decisions stand for (one per 100 ns) is promised.
    fn with_floors(scheduler: S, tenants: u32, limit: Limit) -> Self {
        let rate_iops = 5_000_000 / u64::from(tenants);
        Self::under(scheduler, tenants, limit, Floor { rate_iops, ..Floor::default() })
    }

    fn under(mut scheduler: S, tenants: u32, limit: Limit, floor: Floor) -> Self {
        let mut prng = Prng::new(42);
        for tenant in 0..tenants {
            let weight_milli = u32::try_from(500 + prng.below(8_000)).expect("small");
            // Only some disciplines care: goals that about half of all requests can meet.
            let latency_goal = Span::from_millis(1 + prng.below(100));
            let share = Share { weight_milli, limit, floor, latency_goal, ..Share::default() };
            scheduler.configure(Nanos(0), TenantId(tenant), share);
        }
        for slot in 0..tenants * QUEUED_PER_TENANT + DEPTH {
            // Costs of a linear model: 4 to 64 KiB at 500 MiB/s after 100 us.
            let size_bytes = 4096 * (1 + prng.below(16));
            let cost = Cost(100_000 + size_bytes * 2);
            let tenant = TenantId(slot % tenants);
            let kind = Kind::Read;
            let ticket = Ticket { tenant, kind, slot, size_bytes, cost, cost_elsewhere: Cost(0) };
            scheduler.enqueue(Nanos(0), ticket);
        }
        let mut in_service = Vec::new();
        while let Next::Dispatch(ticket) = scheduler.poll(Nanos(0)) {
            in_service.push(ticket);
        }
        assert_eq!(in_service.len(), DEPTH as usize, "the device is full");
        Self { scheduler, in_service, oldest: 0, now: Nanos(0) }
    }

    /// The oldest ticket completes and its client asks again; the scheduler chooses the next.
    fn decide(&mut self) {
        self.now += Span(100);
        let finished = self.in_service[self.oldest];
        self.scheduler.complete(self.now, finished);
        self.scheduler.enqueue(self.now, finished);
        let Next::Dispatch(next) = black_box(self.scheduler.poll(self.now)) else {
            panic!("a backlogged scheduler dispatches when there is room");
        };
        self.in_service[self.oldest] = next;
        self.oldest = (self.oldest + 1) % self.in_service.len();
    }
}

/// Two devices as one scheduler: every other ticket is for the second one.
struct Pair {
    lanes: Vec<TieredLane>,
}

impl Pair {
    fn new() -> Self {
        let device = |capacity_cost_per_second| DeviceOptions {
            depth: DepthPolicy::Requests(DEPTH / 2),
            capacity_cost_per_second,
        };
        let usual = TieredOptions::usual(vec![device(1_000_000_000), device(20_000_000_000)]);
        // What a solve costs is measured by itself.
        Self { lanes: lanes(&TieredOptions { epoch: Span(u64::MAX), ..usual }) }
    }

    fn lane(&mut self, ticket: &Ticket) -> &mut TieredLane {
        &mut self.lanes[usize::from(ticket.size_bytes / 4096 % 2 == 1)]
    }
}

impl Scheduler for Pair {
    fn enqueue(&mut self, now: Nanos, ticket: Ticket) {
        self.lane(&ticket).enqueue(now, ticket);
    }

    fn complete(&mut self, now: Nanos, ticket: Ticket) {
        self.lane(&ticket).complete(now, ticket);
    }

    fn poll(&mut self, now: Nanos) -> Next {
        let [first, second] = &mut self.lanes[..] else { unreachable!("two devices") };
        match first.poll(now) {
            Next::Dispatch(ticket) => Next::Dispatch(ticket),
            _ => second.poll(now),
        }
    }

    fn configure(&mut self, now: Nanos, tenant: TenantId, share: Share) {
        self.lanes[0].configure(now, tenant, share);
    }

    fn withdraw(&mut self, now: Nanos, ticket: Ticket) -> bool {
        self.lane(&ticket).withdraw(now, ticket)
    }

    fn drain(&mut self) -> Vec<Ticket> {
        self.lanes.iter_mut().flat_map(TieredLane::drain).collect()
    }

    fn queued(&self) -> usize {
        self.lanes.iter().map(TieredLane::queued).sum()
    }
}

fn decisions(criterion: &mut Criterion) {
    // A limit that never holds: the price is that of asking.
    let generous = Limit {
        rate_iops: 1_000_000_000,
        rate_bytes: 1 << 50,
        burst_requests: 1 << 20,
        burst_bytes: 1 << 40,
    };
    let sfq = || Sfq::new(SfqOptions { depth: DepthPolicy::Requests(DEPTH), hold: Span::ZERO });
    let held = || {
        let hold = Span::from_millis(1);
        Sfq::new(SfqOptions { depth: DepthPolicy::Requests(DEPTH), hold })
    };
    for tenants in [100, 10_000] {
        let mut group = criterion.benchmark_group(format!("decision/{tenants}"));
        let mut bench = Bench::new(sfq(), tenants, Limit::default());
        group.bench_function("sfq", |b| b.iter(|| bench.decide()));
        let mut bench = Bench::new(held(), tenants, Limit::default());
        group.bench_function("sfq_with_hold", |b| b.iter(|| bench.decide()));
        let mut bench = Bench::new(Limited::new(sfq()), tenants, Limit::default());
        group.bench_function("limited_sfq_without_limits", |b| b.iter(|| bench.decide()));
        let mut bench = Bench::new(Limited::new(sfq()), tenants, generous);
        group.bench_function("limited_sfq_with_limits", |b| b.iter(|| bench.decide()));
        let mclock = || Mclock::new(DepthPolicy::Requests(DEPTH));
        let mut bench = Bench::new(mclock(), tenants, Limit::default());
        group.bench_function("mclock", |b| b.iter(|| bench.decide()));
        let mut bench = Bench::with_floors(mclock(), tenants, generous);
        group.bench_function("mclock_with_floors_and_limits", |b| b.iter(|| bench.decide()));
        let edf = Edf::new(DepthPolicy::Requests(DEPTH));
        let mut bench = Bench::new(edf, tenants, Limit::default());
        group.bench_function("edf", |b| b.iter(|| bench.decide()));
        let mut bench = Bench::new(Pair::new(), tenants, Limit::default());
        group.bench_function("tiered", |b| b.iter(|| bench.decide()));
        group.finish();
    }
}

criterion_group!(benches, decisions);
criterion_main!(benches);
