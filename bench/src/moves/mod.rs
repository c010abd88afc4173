//! `evenkeel-bench moves`: what moving extents between tiers costs the tenants, and what the gate's
//! work for a volume costs beside another build of it.
//!
//! ```text
//! stage      two devices, a gate with a volume over them, and a load whose heat moves on
//! accounts   what the gate says of tenants and moves
//! tenants    with moves and without them, by turns: the small tenant's wait, the big one's rate
//! builds     this gate and another one, by turns: processor time of a request
//! table      for people
//! ```
//!
//! Extents move where somebody's heat changes. Whose heat it is gains by the moves later, which
//! would hide what they cost meanwhile. So the big tenant goes round extents of the slow tier: it
//! asks for a few of them until they are worth moving, and leaves them for the next ones. When it
//! comes back, others have taken their place on the fast tier. All that is left is the price.

mod accounts;
mod builds;
mod stage;
mod table;
mod tenants;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use evenkeel_app::evidence::machine::Bears;
use serde::Serialize;

use crate::common::Common;
use crate::conclusion::Conclusion;
use crate::machine::{self, Machine};
use crate::peers;
use crate::seconds;

use stage::Programs;

/// What the policy says where it says nothing of how much may be with a device at once.
const DEPTH: u32 = 32;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel-bench moves --json figures.json
  evenkeel-bench moves --depth 4
  evenkeel-bench moves --evenkeel-old /path/to/another/evenkeel
  evenkeel-bench moves --smoke")]
pub(crate) struct Arguments {
    #[command(flatten)]
    common: Common,
    /// How long the tenants are watched, with moves and without, in each round
    #[arg(long, default_value_t = 15.0, value_name = "S", value_parser = seconds)]
    #[arg(conflicts_with = "smoke")]
    seconds: f64,
    /// What may be with the slow device at once
    #[arg(long, default_value_t = DEPTH, value_parser = clap::value_parser!(u32).range(1..=256))]
    depth: u32,
    /// The gate that processor time is held against; without it that is left out
    #[arg(long, value_name = "PATH")]
    evenkeel_old: Option<PathBuf>,
    /// Only this part
    #[arg(long, value_enum)]
    only: Option<Part>,
}

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// What the tenants lose by moves
    Tenants,
    /// The processor time of a request, beside another build's
    Builds,
}

impl Arguments {
    pub(crate) fn common(&self) -> &Common {
        &self.common
    }

    fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
struct Report {
    machine: Machine,
    rounds: u32,
    seconds: f64,
    depth: u32,
    smoke: bool,
    /// The slow device and the fast one, in words.
    devices: [&'static str; 2],
    tenants: tenants::Rounds,
    builds: Vec<builds::Row>,
    failures: Vec<String>,
}

/// Clients, gate and servers take half a core where the devices are slow. A request of the small
/// tenant takes milliseconds, and what is held against it was disturbed alike. Processor time is
/// counted.
const BEARS: Bears = Bears { cores: 1.0, late_median_ms: 1.0, late_p99_ms: 5.0, uses_disks: false };

/// Runs the comparison. A load that failed is a failure, and so is an aim that is missed on a quiet
/// machine without being a known shortfall.
pub(crate) fn moves(arguments: &Arguments) -> Result<ExitCode> {
    let common = &arguments.common;
    let (Some(fio), Some(nbdkit)) = (peers::find("fio"), peers::find("nbdkit")) else {
        println!("SKIPPED: fio or nbdkit is not installed; `cargo xtask setup` installs both");
        return Ok(ExitCode::SUCCESS);
    };
    ensure!(
        arguments.only != Some(Part::Builds) || arguments.evenkeel_old.is_some() || common.smoke,
        "builds are compared with another one; give --evenkeel-old PATH"
    );
    let scratch = common.folder()?;
    let programs = Programs { fio, nbdkit };
    let evenkeel = crate::gate(common)?;
    let mut report = empty_report(arguments);
    let watch = machine::watch(report.smoke, BEARS)?;
    if arguments.wants(Part::Tenants) {
        tenants::run(scratch.path(), &programs, &evenkeel, &mut report)?;
    }
    // A toy run sees that it works, whatever it is held against.
    let old = arguments.evenkeel_old.as_deref();
    let old = old.or_else(|| report.smoke.then_some(evenkeel.as_path()));
    if let Some(old) = old
        && arguments.wants(Part::Builds)
    {
        let old = fs::canonicalize(old)
            .with_context(|| format!("there is no gate at {}", old.display()))?;
        builds::run(scratch.path(), &programs, [&evenkeel, &old], &mut report)?;
    }
    report.machine.look_at_end(watch);
    let aims = table::aims(&report);
    let conclusion = Conclusion::of("moves", &report.machine, aims, &report.failures);
    print!("{}{}", table::render(&report), conclusion.text());
    common.keep(&report, &conclusion)?;
    Ok(conclusion.code())
}

fn empty_report(arguments: &Arguments) -> Report {
    let smoke = arguments.common.smoke;
    Report {
        machine: Machine::look(),
        rounds: arguments.common.rounds(),
        seconds: if smoke { crate::SMOKE_SECONDS } else { arguments.seconds },
        depth: arguments.depth,
        smoke,
        devices: stage::DEVICES,
        tenants: tenants::Rounds::default(),
        builds: Vec::new(),
        failures: Vec::new(),
    }
}
