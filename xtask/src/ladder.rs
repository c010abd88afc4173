//! The test ladder: every check of the project, cheapest first, in half an hour on two processors.
//!
//! Everything is compiled once: all steps that run code share one set of features and one profile,
//! and what takes long in full has a short form here and a long one in [`crate::nightly`]. Tests
//! mostly wait for each other's processes, so the fuzz targets are compiled beside them.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use crate::fuzz::{self, Campaign, Seed};
use crate::steps::{self, Step};
use crate::{chores, failures, layers, setup, shell, tidy};

/// Fuzzing per target; the corpora in the tree have what longer runs found.
const FUZZ_SECONDS: u64 = 10;

/// Tests that mostly wait, beside one that computes on each processor; `waiting` and `heavy` of
/// `.config/nextest.toml` bound them.
const WAITING_TESTS: usize = 5;

/// The file to which tests append what they skip, one `test: why` per line.
pub(crate) const SKIPS_VARIABLE: &str = "EVENKEEL_SKIPS";

#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Leave out what takes long: real peers, documents, benchmarks, fuzzing
    #[arg(long)]
    quick: bool,
    /// Seconds per fuzz target, 0 for none
    #[arg(long, default_value_t = FUZZ_SECONDS, value_name = "S")]
    fuzz_seconds: u64,
}

impl Options {
    fn fuzz_seconds(&self) -> u64 {
        if self.quick { 0 } else { self.fuzz_seconds }
    }
}

/// Climbs; fails if any step failed.
pub(crate) fn climb(options: &Options) -> Result<()> {
    let found = if options.quick { setup::look() } else { setup::install() };
    let skips_file = SkipsFile::new()?;
    let steps = steps(options, &found, &skips_file.path)?;
    steps::climb(steps, || {
        let mut skips = found.skips();
        skips.extend(skips_file.read());
        if options.quick {
            skips.push("real peers, documents, benchmarks and fuzzing (--quick)".into());
        }
        skips
    })
}

fn steps(options: &Options, found: &setup::Found, skips_file: &Path) -> Result<Vec<Step>> {
    let mut steps = vec![
        Step::new("format", || {
            shell::run(&mut shell::cargo("fmt --all --check"))?;
            shell::run(&mut shell::cargo("fmt --manifest-path fuzz/Cargo.toml --check"))
        }),
        Step::new("house rules", tidy::run),
        Step::new("layers", layers::run),
        cargo("lints", "clippy --locked --workspace --all-features --all-targets -- -D warnings"),
        cargo("the build that the README makes", "check --locked"),
        cargo("a build without features", "check --locked --no-default-features"),
    ];
    let fuzz_seconds = options.fuzz_seconds();
    let fuzzes = fuzz_seconds > 0 && found.has_cargo_fuzz();
    let mut tests = tests(found.has_nextest(), options.quick, skips_file);
    if fuzzes {
        let build = Step::new("fuzz targets built", || shell::run_aside(&fuzz::build_command()));
        let first = tests.remove(0);
        tests.insert(0, first.beside(build));
    }
    steps.extend(tests);
    steps.push(cargo("examples in documents", "test --locked --workspace --all-features --doc"));
    if !options.quick {
        steps.push(Step::new("documents", || {
            let mut command = shell::cargo("doc --locked --workspace --all-features --no-deps");
            shell::run(command.env("RUSTDOCFLAGS", "-D warnings"))
        }));
        steps.push(Step::new("benchmarks at toy size", chores::bench_smoke));
    }
    if fuzzes {
        let targets = fuzz::targets()?;
        let name = format!("{} fuzz targets for {fuzz_seconds} s each", targets.len());
        let campaign = Campaign { seconds: fuzz_seconds, seed: Seed::Fixed };
        steps.push(Step::with_failures(name, move |failures| campaign.run(&targets, failures)));
    }
    Ok(steps)
}

fn cargo(name: &str, line: &'static str) -> Step {
    Step::new(name, move || shell::run(&mut shell::cargo(line)))
}

/// The tests, all features on. Nextest runs each in its own process and several at once; those
/// that judge time have the machine for themselves, at the end. Plain cargo will do without it.
fn tests(nextest: bool, quick: bool, skips_file: &Path) -> Vec<Step> {
    const NEXTEST: &str = "nextest run --locked --workspace --all-features --no-fail-fast";
    const PLAIN: &str = "test --locked --workspace --all-features --lib --bins --no-fail-fast";
    let step = |name: &str, line: String| {
        let skips_file = skips_file.to_path_buf();
        Step::with_failures(name, move |failures| {
            let mut command = shell::cargo(&line);
            let (outcome, failed) = failures::watch(command.env(SKIPS_VARIABLE, &skips_file));
            failures.extend(failed);
            outcome
        })
    };
    let threads = shell::processors() + WAITING_TESTS;
    let together = format!("{NEXTEST} --test-threads {threads} -E not(group(alone))");
    match (nextest, quick) {
        (true, false) => vec![
            step("tests", together),
            step("tests that judge time", format!("{NEXTEST} -E group(alone)")),
        ],
        (true, true) => vec![step("tests", format!("{NEXTEST} --profile quick"))],
        (false, false) => vec![step("tests", format!("{PLAIN} --tests"))],
        (false, true) => vec![step("tests", PLAIN.to_owned())],
    }
}

/// Where tests of a run say what they skip; gone when it is dropped.
pub(crate) struct SkipsFile {
    path: PathBuf,
}

impl SkipsFile {
    pub(crate) fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("evenkeel-skips-{}", std::process::id()));
        std::fs::write(&path, "")?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What was skipped so far, each once.
    pub(crate) fn read(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let mut skips: Vec<_> = text.lines().map(str::to_owned).collect();
        skips.sort();
        skips.dedup();
        skips
    }
}

impl Drop for SkipsFile {
    fn drop(&mut self) {
        // A leftover in the temporary folder is no reason to fail.
        drop(std::fs::remove_file(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_means_no_fuzzing_whatever_was_asked() {
        assert_eq!(Options { quick: true, fuzz_seconds: 5 }.fuzz_seconds(), 0);
        assert_eq!(Options { quick: false, fuzz_seconds: 5 }.fuzz_seconds(), 5);
    }
}
