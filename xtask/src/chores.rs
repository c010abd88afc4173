//! The small chores: bless, docs, bench.

use anyhow::Result;

use crate::shell;

/// Runs the tests with scripted goldens so that they rewrite their files.
pub(crate) fn bless() -> Result<()> {
    let mut command = shell::cargo("test --workspace --quiet golden");
    shell::run(command.env("EVENKEEL_BLESS", "1"))?;
    shell::run(
        std::process::Command::new("git").args(["diff", "--stat"]).current_dir(shell::root()),
    )
}

/// Has the product write its own manual pages and list of metrics.
pub(crate) fn docs() -> Result<()> {
    shell::run(&mut shell::cargo("run --quiet --package evenkeel-app -- docs docs"))
}

/// Runs the comparisons with named peers.
pub(crate) fn bench(smoke: bool) -> Result<()> {
    let size = if smoke { "--smoke" } else { "" };
    let line = format!("run --release --package evenkeel-bench -- compare {size}");
    shell::run(&mut shell::cargo(&line))
}
