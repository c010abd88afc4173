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

/// Runs the benchmarks of single functions, and then the comparisons with named peers.
pub(crate) fn bench(smoke: bool) -> Result<()> {
    if smoke {
        // Under `cargo test` each benchmark runs once, to see that it still works.
        shell::run(&mut shell::cargo("test --quiet -p evenkeel-bench --all-features --benches"))?;
    } else {
        shell::run(&mut shell::cargo("bench -p evenkeel-bench"))?;
    }
    for comparison in ["offline", "place", "exchange", "disk", "spread", "compare"] {
        let mut command = shell::cargo("run --release -p evenkeel-bench --");
        shell::run(command.arg(comparison).args(smoke.then_some("--smoke")))?;
    }
    Ok(())
}
