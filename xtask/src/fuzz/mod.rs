//! Fuzz targets: found in `fuzz/Cargo.toml`, run by cargo-fuzz.
//!
//! The sanitizers need a nightly compiler's options. Where no nightly is installed, the stable one
//! is told to accept them; the code under test is the same.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

/// Runs one target for so long; fails on a crash, a hang or a leak.
pub(crate) fn run(name: &str, seconds: u64) -> Result<()> {
    let known = targets()?;
    if !known.iter().any(|target| target == name) {
        bail!("no fuzz target `{name}`; there are: {}", known.join(", "));
    }
    // One input longer than 10 s is a hang; 2 GiB is far above what any decoder may hold.
    let limits = ["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"];
    let mut command = cargo_fuzz();
    command.args(["run", name, "--"]).arg(format!("-max_total_time={seconds}")).args(limits);
    shell::run(&mut command)
}

/// Prints the targets.
pub(crate) fn list() -> Result<()> {
    for target in targets()? {
        println!("{target}");
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

fn cargo_fuzz() -> Command {
    // A proxy named cargo picks the toolchain; the one that runs us is already picked.
    let mut command = Command::new("cargo");
    command.current_dir(shell::root()).env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    if has_nightly() {
        command.arg("+nightly");
    } else {
        command.env("RUSTC_BOOTSTRAP", "1");
    }
    command.arg("fuzz");
    command
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
