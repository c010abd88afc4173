//! The price of one request in the engine: arrive, poll, done and finish, with 100 tenants that all
//! keep a backlog, in enforce mode with accounts, attribution and share windows. The aim is 250 ns
//! in all.
//!
//! `cargo bench -p evenkeel-bench --bench engine` measures; as a test (`cargo test --benches`) each
//! measurement is made once.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::prng::Prng;
use evenkeel_core::sched::Share;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::policy::{Domain, Mode, Scheduling, Sharing};
use evenkeel_engine::{Engine, Input, Output, Request, Target};

const REQUESTS_PER_TENANT: u32 = 4;

/// An engine with every tenant backlogged and a full device.
struct Bench {
    engine: Engine,
    requests: Vec<Request>,
    /// Units with the device, in a ring.
    in_service: Vec<u32>,
    oldest: usize,
    now: Nanos,
}

impl Bench {
    fn new(mode: Mode, tenants: u32) -> Self {
        let mut prng = Prng::new(42);
        let mut share = || {
            let weight_milli = u32::try_from(500 + prng.below(8_000)).expect("small");
            Share { weight_milli, ..Share::default() }
        };
        let domain = Domain {
            mode,
            sharing: Sharing::Local,
            tenants: (0..tenants).map(|tenant| (format!("t{tenant}"), share())).collect(),
            servers: vec![("server".into(), Scheduling::default())],
            tiers: None,
        };
        let mut engine = Engine::new(Nanos::ZERO, &domain);
        let requests: Vec<Request> = (0..tenants * REQUESTS_PER_TENANT)
            .map(|slot| Request {
                slot,
                tenant: TenantId(slot % tenants),
                target: Target::Server(ServerId(0)),
                kind: if prng.below(3) == 0 { Kind::Write } else { Kind::Read },
                offset: prng.below(1 << 20) * 4096,
                length: 4096 * (1 + prng.below(16)),
            })
            .collect();
        let mut in_service = Vec::new();
        for &request in &requests {
            engine.handle(Nanos::ZERO, Input::Arrive(request));
        }
        while let Output::Submit(unit) = engine.poll(Nanos::ZERO) {
            in_service.push(unit.unit);
        }
        let mut bench = Self { engine, requests, in_service, oldest: 0, now: Nanos::ZERO };
        // Until every tenant has its histograms: the first values of each allocate.
        for _ in 0..tenants * 20 {
            bench.turn();
        }
        bench
    }

    /// The oldest unit is done, its request finishes, its client sends the next, and the engine
    /// chooses what goes.
    fn turn(&mut self) {
        self.now += Span(10_000);
        let unit = self.in_service[self.oldest];
        self.engine.handle(self.now, Input::Done { unit, ok: true });
        loop {
            match black_box(self.engine.poll(self.now)) {
                Output::Finish { slot, .. } => {
                    let request = self.requests[slot as usize];
                    self.engine.handle(self.now, Input::Arrive(request));
                }
                Output::Submit(unit) => {
                    self.in_service[self.oldest] = unit.unit;
                    self.oldest = (self.oldest + 1) % self.in_service.len();
                }
                Output::Move(step) => panic!("no volume, yet {step:?}"),
                Output::WaitUntil(_) | Output::Idle => return,
            }
        }
    }
}

fn turns(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("engine/100");
    for (name, mode) in
        [("observe", Mode::Observe), ("shadow", Mode::Shadow), ("enforce", Mode::Enforce)]
    {
        let mut bench = Bench::new(mode, 100);
        group.bench_function(name, |b| b.iter(|| bench.turn()));
    }
    group.finish();
    let mut bench = Bench::new(Mode::Enforce, 10_000);
    criterion.bench_function("engine/10000/enforce", |b| b.iter(|| bench.turn()));
}

criterion_group!(benches, turns);
criterion_main!(benches);
