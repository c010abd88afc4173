//! One server: what its clients have alone, and what the README's policy makes of both together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use evenkeel_core::time::Span;
use evenkeel_wire::nbd::uri::NbdUri;

use super::server::{Kind, Server};
use super::{Scale, TENANTS, policy};
use crate::stage::{FioJob, FioPattern, FioResult, FioRun, GateProcess, Stage};
use crate::status;

/// How often the database reads in a second while it is no load.
const SPARSE_IOPS: u32 = 100;

/// Fixed depths beside which the one that was found is held.
const DEPTHS: [u32; 4] = [1, 4, 16, 64];

/// Bytes of the backup's reads.
const LARGE_BYTES: u32 = 256 << 10;

/// How often the gate is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What came of one server.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Bytes per second that each has alone, without a gate.
    pub(super) alone: [f64; 2],
    /// While both always ask, by the policy as it is printed.
    pub(super) together: [f64; 2],
    /// The part of that time for which each had requests waiting at the gate.
    pub(super) backlogged: [f64; 2],
    /// The database's while it reads little: alone without a gate, and beside the backup.
    pub(super) sparse_p99: [Span; 2],
    /// What the gate has found.
    pub(super) found: Found,
    /// What both have at the fixed depth that is best, and that depth; none in a quick run.
    pub(super) best_fixed: Option<(f64, u32)>,
}

/// What a gate has found of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) depth: Option<u32>,
    pub(super) unit_bytes: u64,
    /// What one of the backup's units takes, in seconds.
    pub(super) unit_seconds: f64,
}

/// Carries it out.
pub(super) fn run(kind: &Kind, scale: &Scale) -> anyhow::Result<Outcome> {
    let stage = Stage::new()?;
    let server = kind.start(&stage)?;
    let direct = [server.uri(TENANTS[0])?, server.uri(TENANTS[1])?];
    let short =
        |jobs| FioRun { ramp: scale.ramp_alone, runtime: scale.alone, seed: scale.seed, jobs };
    let [database, backup] = direct;
    let alone = [
        short(vec![saturated(0, database.clone())]).run(&stage)?[0].rate_bytes,
        short(vec![saturated(1, backup)]).run(&stage)?[0].rate_bytes,
    ];
    let own_p99 = p99(&short(vec![sparse(database)]).run(&stage)?[0])?;

    let gate = GateProcess::start(&stage, "gate", &policy(&server.uri("")?, None))?;
    let (together, backlogged) = together(&stage, &gate, scale)?;
    let found = Found::of(&gate)?;
    let jobs = vec![sparse(gate.uri(TENANTS[0])?), saturated(1, gate.uri(TENANTS[1])?)];
    let Scale { ramp, runtime, seed, .. } = *scale;
    let beside_p99 = p99(&FioRun { ramp, runtime, seed, jobs }.run(&stage)?[0])?;
    drop(gate);

    let mut outcome = Outcome {
        alone,
        together,
        backlogged,
        sparse_p99: [own_p99, beside_p99],
        found,
        best_fixed: None,
    };
    if !scale.is_quick {
        outcome.best_fixed = best_fixed(&stage, &server, &outcome, scale)?;
    }
    Ok(outcome)
}

/// Without a single read there is nothing to judge.
fn p99(result: &FioResult) -> anyhow::Result<Span> {
    result.p99.context("the database read nothing")
}

/// Both always ask; what they have, and for which part of the time each has requests waiting.
fn together(
    stage: &Stage,
    gate: &GateProcess,
    scale: &Scale,
) -> anyhow::Result<([f64; 2], [f64; 2])> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| backlogged(gate, scale.ramp, &over));
        let results = both(stage, gate, scale.ramp, scale);
        over.store(true, Ordering::Relaxed);
        let backlogged = watcher.join().expect("the watcher does not panic")?;
        Ok((results?.map(|one| one.rate_bytes), backlogged))
    })
}

fn both(
    stage: &Stage,
    gate: &GateProcess,
    ramp: Span,
    scale: &Scale,
) -> anyhow::Result<[FioResult; 2]> {
    let jobs = vec![saturated(0, gate.uri(TENANTS[0])?), saturated(1, gate.uri(TENANTS[1])?)];
    let results = FioRun { ramp, runtime: scale.runtime, seed: scale.seed, jobs }.run(stage)?;
    Ok([results[0], results[1]])
}

fn backlogged(gate: &GateProcess, ramp: Span, over: &AtomicBool) -> anyhow::Result<[f64; 2]> {
    // A window of shares lies within the measured time when it is two seconds old.
    std::thread::park_timeout(Duration::from_nanos(ramp.0) + Duration::from_secs(2));
    let (mut sums, mut looks) = ([0.0; 2], 0.0);
    while !over.load(Ordering::Relaxed) {
        let status = gate.status()?;
        for (sum, name) in sums.iter_mut().zip(TENANTS) {
            let tenants = status.domains.iter().flat_map(|domain| &domain.tenants);
            *sum += tenants
                .filter(|one| one.name == name)
                .map(|one| one.window.backlogged)
                .sum::<f64>();
        }
        looks += 1.0;
        std::thread::park_timeout(LOOK_EVERY);
    }
    Ok(sums.map(|sum| sum / f64::max(looks, 1.0)))
}

/// The fixed depth at which both have most, in parts of what they have alone.
fn best_fixed(
    stage: &Stage,
    server: &Server,
    outcome: &Outcome,
    scale: &Scale,
) -> anyhow::Result<Option<(f64, u32)>> {
    let mut best: Option<(f64, u32)> = None;
    for depth in DEPTHS {
        let policy = policy(&server.uri("")?, Some(depth));
        let gate = GateProcess::start(stage, &format!("gate-{depth}"), &policy)?;
        let rates = both(stage, &gate, scale.ramp_fixed, scale)?.map(|one| one.rate_bytes);
        let sum = outcome.parts(rates).iter().sum::<f64>();
        if best.is_none_or(|(most, _)| sum > most) {
            best = Some((sum, depth));
        }
    }
    Ok(best)
}

/// A client that always has requests outstanding: the database's small reads or the backup's large
/// ones.
fn saturated(index: usize, uri: NbdUri) -> FioJob {
    let (pattern, depth, size_bytes) = match index {
        0 => (FioPattern::Random, 32, 4096),
        _ => (FioPattern::Sequential, 16, LARGE_BYTES),
    };
    let name = TENANTS[index].to_owned();
    FioJob { name, uri, pattern, sessions: 1, depth, size_bytes, rate_iops: None }
}

/// The database while it reads little.
fn sparse(uri: NbdUri) -> FioJob {
    FioJob { rate_iops: Some(SPARSE_IOPS), ..saturated(0, uri) }
}

impl Outcome {
    /// Rates in parts of what each has alone: the time of the device that each takes.
    pub(super) fn parts(&self, rates: [f64; 2]) -> [f64; 2] {
        [0, 1].map(|one: usize| rates[one] / self.alone[one].max(1.0))
    }

    /// The database's part of what both have while both always ask.
    pub(super) fn share(&self) -> f64 {
        let [database, backup] = self.parts(self.together);
        database / (database + backup).max(1e-9)
    }
}

impl Found {
    fn of(gate: &GateProcess) -> anyhow::Result<Self> {
        let status = gate.status()?;
        let servers = status.domains.iter().flat_map(|domain| &domain.servers);
        Ok(servers
            .filter(|one| one.name == "array")
            .map(Self::of_server)
            .next()
            .unwrap_or_default())
    }

    fn of_server(server: &status::Server) -> Self {
        let unit_bytes = server.unit_bytes;
        let size_mib = unit_bytes.min(u64::from(LARGE_BYTES)) as f64 / f64::from(1 << 20);
        let read = server.cost_found.unwrap_or_default().read;
        let unit_seconds = read.fixed_seconds + read.mib_seconds * size_mib;
        Self { depth: server.depth_found, unit_bytes, unit_seconds }
    }
}
