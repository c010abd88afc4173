//! Two tenants while extents move and while none does, by turns.
//!
//! ```text
//! the big tenant   ----------------------------------------------------------------->
//! moves            off | settle | watched | heat | settle | watched | off | settle | ..
//! the small one                  --------                  --------
//! ```

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use super::Report;
use super::accounts::Accounts;
use super::stage::{Behind, Moves, Programs, Setting, Stage, Tenant, Wandering};
use crate::common::bar;
use crate::matrix::{Direction, Pattern, Workload};
use crate::workload::{Background, Generator, Load, PATIENCE};

/// Between a change of the policy and the first look: heat has to come up, and a move under way to
/// end.
const SETTLE: Duration = Duration::from_secs(5);
const SMOKE_SETTLE: Duration = Duration::from_millis(200);

/// The small tenant: one request of 4 KiB at a time, anywhere in the volume.
const SMALL: Workload =
    Workload { direction: Direction::Read, pattern: Pattern::Random, size_bytes: 4096, depth: 1 };

/// The big one. By what the devices cost, an exchange of extents pays for itself from 64 requests
/// on. Of requests at random not every extent gets as many as the others.
const BIG: Wandering =
    Wandering { direction: Direction::Read, size_bytes: 16 << 10, depth: 32, accesses: 80 };

/// Extents that have to move in each second of a round that is to be judged.
const MOVED_PER_SECOND_MIN: f64 = 1.0;

/// One setting in one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Sample {
    /// What one request in a hundred of the small tenant exceeds, as its client saw it.
    pub(super) small_p99_ms: f64,
    pub(super) accounts: Accounts,
    /// Of the gate, for each request of either tenant.
    pub(super) cpu_us_per_request: f64,
}

impl Sample {
    pub(super) fn big_bytes_per_second(&self) -> f64 {
        self.accounts.big.bytes as f64 / self.accounts.seconds
    }

    pub(super) fn moved_per_second(&self) -> f64 {
        self.accounts.moved_extents.unwrap_or(0) as f64 / self.accounts.seconds
    }
}

/// All rounds; nothing where a load failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Rounds {
    pub(super) with: Vec<Option<Sample>>,
    pub(super) without: Vec<Option<Sample>>,
}

impl Rounds {
    /// The rounds that can be judged, with moves and without: extents moved all the while, and
    /// none did.
    pub(super) fn judged(&self) -> Vec<[Sample; 2]> {
        let pairs = self.with.iter().zip(&self.without);
        let pairs = pairs.filter_map(|(with, without)| Some([(*with)?, (*without)?]));
        let is_judged = |[with, without]: &[Sample; 2]| {
            with.moved_per_second() >= MOVED_PER_SECOND_MIN
                && without.accounts.moved_extents == Some(0)
        };
        pairs.filter(is_judged).collect()
    }
}

/// Runs all rounds, who begins changing each time.
pub(super) fn run(
    scratch: &Path,
    programs: &Programs,
    evenkeel: &Path,
    report: &mut Report,
) -> Result<()> {
    let behind =
        if report.smoke { Behind::Tiers } else { Behind::PacedTiers { depth: report.depth } };
    let setting = Setting { behind, is_small: report.smoke, limit: None };
    let stage = Stage::start(&scratch.join("tenants"), programs, evenkeel, setting)?;
    let settle = if report.smoke { SMOKE_SETTLE } else { SETTLE };
    let runtime = Duration::from_secs_f64(report.seconds);
    let all = 2 * report.rounds * (settle + runtime + PATIENCE);
    let mut big = stage.wander(&programs.fio, BIG, all);
    let mut big = Background::start(&mut big, stage.folder(), "big.log")?;
    let progress = bar(2 * u64::from(report.rounds))?;
    for round in 0..report.rounds {
        let mut order = [Moves::Off, Moves::Heat];
        order.rotate_left(round as usize % 2);
        for moves in order {
            let (message, rounds) = match moves {
                Moves::Heat => ("extents move", &mut report.tenants.with),
                Moves::Off => ("no extent moves", &mut report.tenants.without),
            };
            progress.set_message(message);
            stage.set(moves)?;
            thread::sleep(settle);
            let sample = watch(&stage, programs, runtime);
            big.check().context("the big tenant")?;
            if let Err(error) = &sample {
                report.failures.push(format!("{message}: {error:#}"));
            }
            rounds.push(sample.ok());
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    Ok(())
}

/// Lets the small tenant ask for a time, and sees what everybody gets meanwhile.
fn watch(stage: &Stage, programs: &Programs, runtime: Duration) -> Result<Sample> {
    let load = Load {
        target: &stage.address(Tenant::Small),
        workload: SMALL,
        connections: 1,
        runtime,
        size_bytes: stage.size_bytes(),
    };
    let (before, cpu_before) = (stage.accounts()?, stage.cpu()?);
    let outcome = Generator::Fio(programs.fio.clone()).run(&load, stage.folder())?;
    let cpu = stage.cpu()?.saturating_sub(cpu_before);
    let accounts = stage.accounts()?.since(&before);
    let requests = accounts.small.requests + accounts.big.requests;
    let p99 = outcome.p99.context("fio tells no percentiles")?;
    Ok(Sample {
        small_p99_ms: p99.as_secs_f64() * 1e3,
        accounts,
        cpu_us_per_request: cpu.as_secs_f64() * 1e6 / requests as f64,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::accounts::Served;
    use super::*;

    /// A sample of ten seconds.
    pub(in super::super) fn sample(p99_ms: f64, big_mib: u64, moved: u64) -> Sample {
        let served = |service_seconds| Served { service_seconds, ..Served::default() };
        let accounts = Accounts {
            seconds: 10.0,
            big: Served { bytes: (10 * big_mib) << 20, ..served(8.0) },
            moves: served(if moved > 0 { 2.0 } else { 0.0 }),
            moved_extents: Some(moved),
            ..Accounts::default()
        };
        Sample { small_p99_ms: p99_ms, accounts, cpu_us_per_request: 20.0 }
    }

    #[test]
    fn a_round_in_which_nothing_moved_or_something_did_that_should_not_is_not_judged() {
        let [still, moving] = [sample(2.0, 10, 0), sample(3.0, 8, 50)];
        let rounds = |with, without| Rounds { with: vec![with], without: vec![without] };
        assert_eq!(rounds(Some(moving), Some(still)).judged(), [[moving, still]]);
        for (with, without) in [
            (Some(sample(3.0, 8, 5)), Some(still)),
            (Some(moving), Some(sample(2.0, 10, 1))),
            (None, Some(still)),
            (Some(moving), None),
        ] {
            assert!(rounds(with, without).judged().is_empty());
        }
    }
}
