//! Fuzz targets: found in `fuzz/Cargo.toml`, built by cargo-fuzz, run by themselves.
//!
//! ```text
//! corpus     what the tree keeps, packed       campaign   several targets, two at once
//! ```
//!
//! The sanitizers need a nightly compiler's options. Where no nightly is installed, the stable one
//! accepts them by a variable; the code under test is the same.

mod campaign;
mod corpus;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::shell;

pub(crate) use campaign::{Campaign, Seed};

#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask fuzz                                list the targets
  cargo xtask fuzz policy_file --seconds 300
  cargo xtask fuzz --all --seconds 10             what the test ladder does
  cargo xtask fuzz --all --seconds 60 --keep      grow the corpora in the tree; read the diff
  cargo xtask fuzz trace_decode --seconds 0 --keep   only minimise")]
pub(crate) struct Options {
    /// The targets; without any, list them
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Every target
    #[arg(long, conflicts_with = "targets")]
    all: bool,
    /// How long each target runs
    #[arg(long, default_value_t = 60, value_name = "S")]
    seconds: u64,
    /// Put into the tree what was found, without what reaches no code of its own
    #[arg(long)]
    keep: bool,
}

/// Lists targets, or builds and runs them; fails on a crash, a hang or a leak.
pub(crate) fn run(options: &Options) -> Result<()> {
    let known = targets()?;
    if let Some(name) = options.targets.iter().find(|name| !known.contains(name)) {
        bail!("no fuzz target `{name}`; there are: {}", known.join(", "));
    }
    let chosen = if options.all { known.clone() } else { options.targets.clone() };
    if chosen.is_empty() {
        for target in &known {
            println!("{target}");
        }
        return Ok(());
    }
    shell::run(&mut build_command())?;
    let campaign = Campaign { seconds: options.seconds, seed: Seed::Random };
    if options.seconds > 0 {
        campaign.run(&chosen, &mut Vec::new())?;
    }
    if options.keep {
        chosen.iter().try_for_each(|target| campaign::keep(target))?;
    }
    Ok(())
}

/// The names of all targets; empty if the project has no `fuzz` folder.
pub(crate) fn targets() -> Result<Vec<String>> {
    let path = shell::root().join("fuzz/Cargo.toml");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let manifest = std::fs::read_to_string(&path).context("cannot read fuzz/Cargo.toml")?;
    Ok(binaries(&manifest))
}

/// The names under `[[bin]]` of a manifest.
fn binaries(manifest: &str) -> Vec<String> {
    let mut in_binary = false;
    let mut names = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            in_binary = line == "[[bin]]";
        } else if let Some((key, value)) = line.split_once('=')
            && in_binary
            && key.trim() == "name"
        {
            names.push(value.trim().trim_matches('"').to_owned());
        }
    }
    names
}

/// Builds every target.
pub(crate) fn build_command() -> Command {
    // A proxy named cargo picks the toolchain; the one that runs us is already picked.
    let mut command = Command::new("cargo");
    command.current_dir(shell::root()).env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    if has_nightly() {
        command.arg("+nightly");
    } else {
        command.env("RUSTC_BOOTSTRAP", "1");
    }
    command.args(["fuzz", "build", "--target-dir", "fuzz/target"]);
    command
}

/// The program of a target, once it is built, which cargo-fuzz always does for a named platform.
fn program(target: &str) -> PathBuf {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    shell::root().join("fuzz/target").join(platform).join("release").join(target)
}

fn has_nightly() -> bool {
    let version = Command::new("cargo")
        .args(["+nightly", "--version"])
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN")
        // Asking must not download a toolchain.
        .env("RUSTUP_AUTO_INSTALL", "0")
        .output();
    version.is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_binaries_of_the_manifest() {
        let manifest = "[package]\nname = \"fuzz\"\n[[bin]]\nname = \"one\"\npath = \"one.rs\"\n\
                        [profile.release]\nname = \"no\"\n\
                        [[bin]]\npath = \"two.rs\"\nname=\"two\"\n";
        assert_eq!(binaries(manifest), ["one", "two"]);
    }
}
