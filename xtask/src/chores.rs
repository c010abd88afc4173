//! The small chores: bless, docs, bench.

use std::process::Command;

use anyhow::Result;

use crate::shell;

/// Tests that see this variable rewrite what they would compare with.
const BLESS: &str = "EVENKEEL_BLESS";

/// Runs the tests that hold files to what the code says, so that they rewrite those files.
pub(crate) fn bless() -> Result<()> {
    docs()?;
    let mut goldens = shell::cargo(
        "test --quiet -p evenkeel-core -p evenkeel-engine -p evenkeel-sim -p evenkeel-store \
         -p evenkeel-wire",
    );
    shell::run(goldens.env(BLESS, "1"))?;
    let mut changes = Command::new("git");
    shell::run(changes.args(["diff", "--stat"]).current_dir(shell::root()))
}

/// Has the product write the documents that are made from its code: metrics, status, exit codes.
pub(crate) fn docs() -> Result<()> {
    let mut documents = shell::cargo("test --quiet -p evenkeel-app --lib");
    shell::run(documents.env(BLESS, "1"))
}

/// What the comparisons with named peers are called.
const COMPARISONS: [&str; 7] =
    ["offline", "place", "exchange", "disk", "spread", "moves", "compare"];

/// Runs the benchmarks of single functions, and then the comparisons with named peers.
pub(crate) fn bench() -> Result<()> {
    shell::run(&mut shell::cargo("bench -p evenkeel-bench"))?;
    for comparison in COMPARISONS {
        shell::run(shell::cargo("run --release -p evenkeel-bench --").arg(comparison))?;
    }
    Ok(())
}

/// Runs every benchmark once at toy size, to see that it still works, on what the tests were
/// built from: the same features and the same profile, so that nothing is compiled twice.
pub(crate) fn bench_smoke() -> Result<()> {
    // Under `cargo test` each benchmark runs once.
    shell::run(&mut shell::cargo("test --quiet --locked --workspace --all-features --bench *"))?;
    shell::run(&mut shell::cargo("build --quiet --locked --workspace --all-features --bins"))?;
    let folder = shell::target().join("debug");
    for comparison in COMPARISONS {
        let mut command = Command::new(folder.join("evenkeel-bench"));
        command.args([comparison, "--smoke", "--evenkeel"]).arg(folder.join("evenkeel"));
        shell::run(command.current_dir(shell::root()))?;
    }
    Ok(())
}
