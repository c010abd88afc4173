//! `evenkeel volume`: tiered and spread volumes of a policy, checked and repaired.
//!
//! What is wrong is decided in `evenkeel_engine::care`, and how the members are reached in
//! `evenkeel_io::care`; here are the questions and the tables.

mod check;
mod repair;
mod text;

use std::path::PathBuf;

use clap::Subcommand;
use evenkeel_engine::policy::Policy;
use evenkeel_io::care::{CareError, Means};
use evenkeel_io::gate::DriveKind;

use crate::exit::Exit;
use crate::{config, emulate, terminal};

/// Arguments of `evenkeel volume`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel volume check policy.toml shelf
  evenkeel volume repair policy.toml shelf

A volume is a backend with `tiers` or `choices`; docs/volume-care.md is the manual. Volumes of a
store are looked after by `evenkeel store`.")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Find everything that is wrong with a volume. Nothing is written, also beside a gate.
    Check(check::Args),
    /// Mend what can be mended of a volume without a loss, while no gate has it.
    Repair(repair::Args),
}

/// Which volume.
#[derive(Debug, clap::Args)]
struct Which {
    /// The policy file of the gate that serves the volume.
    policy: PathBuf,
    /// The volume: its backend's name in the policy.
    volume: String,
    /// The data folder of that gate: what it remembers of the volume counts.
    #[arg(long, value_name = "DIR", default_value = crate::serve::DATA_DEFAULT)]
    data: PathBuf,
}

/// Runs the subcommand.
///
/// # Errors
/// A policy that is not valid, a volume that it does not have, a thread that cannot be made.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.action {
        Action::Check(args) => check::run(args),
        Action::Repair(args) => repair::run(args),
    }
}

impl Which {
    fn policy(&self) -> anyhow::Result<Policy> {
        let parsed = config::load(&self.policy).map_err(|error| Exit::Invalid.because(error))?;
        parsed.policy.ok_or_else(|| {
            let findings = parsed.diagnostics.render(terminal::colour_on_stderr());
            terminal::say(findings.trim_end());
            let file = self.policy.display();
            Exit::Invalid.because(format!("{file} is not valid; `evenkeel check` says the same"))
        })
    }

    fn means(&self, opens_stores: bool) -> Means {
        Means {
            state: Some(self.data.clone()),
            drive: DriveKind::default(),
            drive_models: emulate::model,
            opens_stores,
        }
    }
}

/// A failure with its exit code.
fn failure(error: &CareError) -> anyhow::Error {
    let exit = match error {
        CareError::UnknownVolume(_) => Exit::Invalid,
        CareError::Gate(_) => Exit::Runtime,
        CareError::Refused(_) => Exit::Failed,
    };
    exit.because(error)
}
