//! The price of one request in the engine: arrive, poll, done and finish, with 100 tenants that all
//! keep a backlog, in enforce mode with accounts, attribution and share windows. The aim is 250 ns
//! in all, and 30 ns more where the requests go to a tiered volume.
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
use evenkeel_engine::lease::{Gate, Names, OwnerId};
use evenkeel_engine::notes::{Answer, Ask, Opens, PartDevice, VolumeId};
use evenkeel_engine::policy::{Domain, Mode, Moves, Scheduling, Sharing, TierPlan};
use evenkeel_engine::tiers::{Opening, Volume};
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
    fn new(mode: Mode, tenants: u32, volume: Option<Volume>) -> Self {
        let mut prng = Prng::new(42);
        let mut share = || {
            let weight_milli = u32::try_from(500 + prng.below(8_000)).expect("small");
            Share { weight_milli, ..Share::default() }
        };
        let domain = Domain {
            mode,
            sharing: Sharing::Local,
            tenants: (0..tenants).map(|tenant| (format!("t{tenant}"), share())).collect(),
            servers: ["slow", "fast"].map(|name| (name.into(), Scheduling::default())).into(),
            tiers: volume.as_ref().map(|volume| TierPlan {
                discipline: Scheduling::default().discipline,
                servers: vec![ServerId(0), ServerId(1)],
                extent_bytes: volume.layout().extent_bytes,
                moves: Moves::ByHeat,
                mover: TenantId(0),
                patience: Span::from_secs(30),
                late: Span::from_secs(30),
            }),
            ..Domain::default()
        };
        let mut engine = Engine::new(Nanos::ZERO, &domain);
        let is_tiered = volume.is_some();
        if let Some(volume) = volume {
            engine.handle(Nanos::ZERO, Input::Volume(Box::new(volume)));
            engine.handle(Nanos::ZERO, Input::Held { until: Nanos(u64::MAX) });
        }
        let target = |prng: &mut Prng| {
            // A quarter of the volume lies on the fast tier.
            let server = ServerId(u32::from(prng.below(4) == 0));
            if is_tiered { Target::Volume } else { Target::Server(server) }
        };
        let requests: Vec<Request> = (0..tenants * REQUESTS_PER_TENANT)
            .map(|slot| Request {
                slot,
                tenant: TenantId(slot % tenants),
                target: target(&mut prng),
                kind: if prng.below(3) == 0 { Kind::Write } else { Kind::Read },
                offset: prng.below(1 << 20) * 4096,
                length: 4096 * (1 + prng.below(16)),
                disk: 0,
                keeps_room: false,
            })
            .collect();
        let mut in_service = Vec::new();
        for &request in &requests {
            engine.handle(Nanos::ZERO, Input::Arrive(request));
        }
        loop {
            match engine.poll(Nanos::ZERO) {
                Output::Submit(unit) => in_service.push(unit.unit),
                Output::Move(_) => {}
                _ => break,
            }
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
                // The step is never done, so there is no other.
                Output::Move(_) | Output::Zeroes { .. } | Output::Refuse { .. } => {}
                Output::WaitUntil(_) | Output::Idle => return,
            }
        }
    }
}

/// A volume of 4 GiB and a little over two tiers.
fn volume() -> Volume {
    let device = |name: &str, size_bytes| PartDevice { name: name.into(), size_bytes };
    let devices = vec![device("slow", 3080 << 20), device("fast", 1040 << 20)];
    let (volume, owner) = (VolumeId([7; 16]), OwnerId([8; 16]));
    let names = Names { volume, owner, gate: Gate::default(), before: Vec::new() };
    let mut opening = Opening::new(names, 1 << 20, devices);
    // What tiers say of themselves; all else that is read of a new volume is zeroes.
    let mut fronts = [(); 2].map(|()| vec![0; 12 << 10]);
    let zeroes = vec![0; 12 << 10];
    let mut now = Nanos::ZERO;
    loop {
        let answer = match opening.poll(now) {
            Ask::Read { part, offset, length } => {
                let [start, length] =
                    [offset, length].map(|bytes| usize::try_from(bytes).expect("tiers are small"));
                Answer::Read(fronts[part].get(start..start + length).unwrap_or(&zeroes[..length]))
            }
            Ask::Write { part, offset, bytes } => {
                let start = usize::try_from(offset).expect("tiers are small");
                if let Some(front) = fronts[part].get_mut(start..start + bytes.len()) {
                    front.copy_from_slice(bytes);
                }
                Answer::Done
            }
            Ask::Wait(span) => {
                now += span;
                Answer::Done
            }
            Ask::Flush { .. } | Ask::Fence(_) => Answer::Done,
            Ask::Ready(volume) => return *volume,
            Ask::Refused(refusal) => panic!("{refusal}"),
        };
        opening.answer(answer);
    }
}

fn turns(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("engine/100");
    for (name, mode) in
        [("observe", Mode::Observe), ("shadow", Mode::Shadow), ("enforce", Mode::Enforce)]
    {
        let mut bench = Bench::new(mode, 100, None);
        group.bench_function(name, |b| b.iter(|| bench.turn()));
    }
    let mut bench = Bench::new(Mode::Enforce, 100, Some(volume()));
    group.bench_function("enforce_volume", |b| b.iter(|| bench.turn()));
    group.finish();
    let mut bench = Bench::new(Mode::Enforce, 10_000, None);
    criterion.bench_function("engine/10000/enforce", |b| b.iter(|| bench.turn()));
}

criterion_group!(benches, turns);
criterion_main!(benches);
