//! What a request costs this gate and another build of it: before one device, before a volume of
//! which nothing moves, and before one whose extents move.
//!
//! The devices are as fast as this machine, so that the gates have enough to do for processor time
//! to be counted in. Both gates run the whole time, and one of them is asked.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::Report;
use super::stage::{Behind, Moves, Programs, Setting, Stage, Wandering};
use crate::common::bar;
use crate::matrix::Direction;
use crate::workload::{self, PATIENCE};

/// How long each load lasts: tenths of thousands of requests.
const RUNTIME: Duration = Duration::from_secs(2);

/// What moving may take, alike for both: otherwise the one that moves more would cost more.
const LIMIT: &str = "50 MiB/s";

/// Whom the client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Work {
    /// A gate before one device.
    Device,
    /// A gate before a volume of which nothing moves.
    StillTiers,
    /// A gate before a volume whose extents move.
    MovingTiers,
}

/// All rounds of one kind of work; nothing where a load failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) work: Work,
    pub(super) direction: Direction,
    /// Processor time for each request, in microseconds.
    pub(super) new_us: Vec<Option<f64>>,
    pub(super) old_us: Vec<Option<f64>>,
}

/// One build, before one device and before a volume.
struct Build {
    device: Stage,
    tiers: Stage,
}

impl Row {
    /// Short and stable, for programs.
    pub(super) fn id(&self) -> String {
        let work = match self.work {
            Work::Device => "device",
            Work::StillTiers => "still-tiers",
            Work::MovingTiers => "moving-tiers",
        };
        let direction = match self.direction {
            Direction::Read => "read",
            Direction::Write => "write",
        };
        format!("cpu/{work}/4k-random-{direction}-depth32")
    }
}

impl Build {
    fn start(folder: &Path, programs: &Programs, evenkeel: &Path, is_small: bool) -> Result<Self> {
        let start = |name: &str, behind| {
            let setting = Setting { behind, is_small, limit: Some(LIMIT) };
            let folder = folder.with_extension(name);
            Stage::start(&folder, programs, evenkeel, setting)
        };
        Ok(Self { device: start("device", Behind::Device)?, tiers: start("tiers", Behind::Tiers)? })
    }

    /// Processor time for each request of one load.
    fn measure(&self, fio: &Path, row: &Row, runtime: Duration, is_smoke: bool) -> Result<f64> {
        let stage = if row.work == Work::Device { &self.device } else { &self.tiers };
        let moves = if row.work == Work::MovingTiers { Moves::Heat } else { Moves::Off };
        if row.work != Work::Device {
            stage.set(moves)?;
        }
        // By the policy's defaults an exchange of extents pays for itself from 77 requests on.
        let direction = row.direction;
        let how = Wandering { direction, size_bytes: 4096, depth: 32, accesses: 128 };
        let mut command = stage.wander(fio, how, runtime);
        let (before, cpu_before) = (stage.accounts()?, stage.cpu()?);
        let output = workload::run(&mut command, runtime + PATIENCE, stage.folder())?;
        let outcome = workload::outcome(&output, direction)?;
        let cpu = stage.cpu()?.saturating_sub(cpu_before);
        let extents = stage.accounts()?.since(&before).moved_extents.unwrap_or(0);
        let is_as_meant = is_smoke || (extents > 0) == (moves == Moves::Heat);
        ensure!(is_as_meant, "{extents} extents moved, which is not what the policy says");
        Ok(cpu.as_secs_f64() * 1e6 / outcome.requests as f64)
    }
}

/// Runs all rounds, who begins changing each time.
pub(super) fn run(
    scratch: &Path,
    programs: &Programs,
    [new, old]: [&Path; 2],
    report: &mut Report,
) -> Result<()> {
    let start =
        |name: &str, evenkeel| Build::start(&scratch.join(name), programs, evenkeel, report.smoke);
    let builds = [start("new", new)?, start("old", old)?];
    let runtime =
        if report.smoke { Duration::from_secs_f64(crate::SMOKE_SECONDS) } else { RUNTIME };
    let works = [Work::Device, Work::StillTiers, Work::MovingTiers];
    let row = |work, direction| Row { work, direction, new_us: Vec::new(), old_us: Vec::new() };
    let pairs = works.map(|work| [row(work, Direction::Read), row(work, Direction::Write)]);
    report.builds = pairs.into_iter().flatten().collect();
    let runs = 2 * report.builds.len() as u64 * u64::from(report.rounds);
    let progress = bar(runs)?;
    for round in 0..report.rounds {
        for row in &mut report.builds {
            let mut order = [0, 1];
            order.rotate_left(round as usize % 2);
            progress.set_message(row.id());
            for index in order {
                let cost = builds[index].measure(&programs.fio, row, runtime, report.smoke);
                if let Err(error) = &cost {
                    let build = ["this build", "the other one"][index];
                    report.failures.push(format!("{}, {build}: {error:#}", row.id()));
                }
                let rounds = if index == 0 { &mut row.new_us } else { &mut row.old_us };
                rounds.push(cost.ok());
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    Ok(())
}
