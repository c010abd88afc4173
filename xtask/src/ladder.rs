//! The test ladder: every check of the project, cheapest first, with a summary at the end.
//!
//! A step that fails does not stop the ladder: one run tells everything that is wrong. What could
//! not be tested on this machine is told at the end as well, since silence would pass for success,
//! and so are the names of the tests that failed: often the end is all of a run that is kept.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;

use crate::{failures, fuzz, layers, setup, shell, tidy};

/// Fuzzing per target where a run should be thorough, and where somebody waits for it.
const FUZZ_SECONDS_CI: u64 = 60;
const FUZZ_SECONDS_LOCAL: u64 = 10;

/// The file to which tests append what they skip, one `test: why` per line.
const SKIPS_VARIABLE: &str = "EVENKEEL_SKIPS";

#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Leave out what takes long: real peers, documents, benchmarks, fuzzing.
    #[arg(long)]
    quick: bool,
    /// Seconds per fuzz target; 60 in CI and 10 elsewhere unless given, 0 for none.
    #[arg(long)]
    fuzz_seconds: Option<u64>,
}

impl Options {
    fn fuzz_seconds(&self) -> u64 {
        let is_ci = std::env::var_os("CI").is_some();
        let usual = if is_ci { FUZZ_SECONDS_CI } else { FUZZ_SECONDS_LOCAL };
        if self.quick { 0 } else { self.fuzz_seconds.unwrap_or(usual) }
    }
}

/// Climbs; fails if any step failed.
pub(crate) fn climb(options: &Options) -> Result<()> {
    let mut skips = Vec::new();
    let found = if options.quick { setup::look() } else { setup::install() };
    skips.extend(found.skips());
    let skips_file = fresh_skips_file()?;
    let steps = steps(options, &found, &skips_file)?;
    let count = steps.len();
    let mut results = Vec::new();
    let mut failures = Vec::new();
    for (index, step) in steps.into_iter().enumerate() {
        eprintln!("\n=== [{}/{count}] {}", index + 1, step.name);
        let start = Instant::now();
        let outcome = (step.work)(&mut failures);
        if let Err(error) = &outcome {
            eprintln!("error: {error:#}");
        }
        results.push((step.name, start.elapsed(), outcome.is_ok()));
    }
    skips.extend(read_skips(&skips_file));
    if options.quick {
        skips.push("real peers, documents, benchmarks and fuzzing (--quick)".into());
    }
    summarise(&results, &skips, &failures)
}

/// Does a step, and adds a line for each thing in it that failed and has a name.
type Work = dyn Fn(&mut Vec<String>) -> Result<()>;

/// One rung.
struct Step {
    name: String,
    work: Box<Work>,
}

impl Step {
    fn new(name: impl Into<String>, work: impl Fn() -> Result<()> + 'static) -> Self {
        Self { name: name.into(), work: Box::new(move |_| work()) }
    }

    fn cargo(name: &str, line: &'static str) -> Self {
        Self::new(name, move || shell::run(&mut shell::cargo(line)))
    }

    fn tests(line: &'static str, skips_file: PathBuf) -> Self {
        let work = move |failures: &mut Vec<String>| {
            let mut command = shell::cargo(line);
            let (outcome, failed) = failures::watch(command.env(SKIPS_VARIABLE, &skips_file));
            failures.extend(failed);
            outcome
        };
        Self { name: "tests".into(), work: Box::new(work) }
    }
}

fn steps(options: &Options, found: &setup::Found, skips_file: &Path) -> Result<Vec<Step>> {
    let (quick, skips_file) = (options.quick, skips_file.to_path_buf());
    let nextest = found.has_nextest();
    let mut steps = vec![
        Step::new("format", || {
            shell::run(&mut shell::cargo("fmt --all --check"))?;
            shell::run(&mut shell::cargo("fmt --manifest-path fuzz/Cargo.toml --check"))
        }),
        Step::new("house rules", tidy::run),
        Step::new("layers", layers::run),
        Step::cargo(
            "lints",
            "clippy --locked --workspace --all-features --all-targets -- -D warnings",
        ),
        Step::tests(tests_line(nextest, quick), skips_file),
        Step::cargo("examples in documents", "test --locked --workspace --all-features --doc"),
    ];
    if !quick {
        steps.push(Step::new("documents", || {
            let mut command = shell::cargo("doc --locked --workspace --all-features --no-deps");
            shell::run(command.env("RUSTDOCFLAGS", "-D warnings"))
        }));
        steps.push(Step::new("benchmarks at toy size", || crate::chores::bench(true)));
    }
    let seconds = options.fuzz_seconds();
    if seconds > 0 && found.has_cargo_fuzz() {
        for target in fuzz::targets()? {
            let name = format!("fuzz {target} for {seconds} s");
            steps.push(Step::new(name, move || fuzz::run(&target, seconds)));
        }
    }
    Ok(steps)
}

/// Nextest runs each test in its own process and several at once; plain cargo will do without it.
/// All features are on; the benchmarks build the product without, so that either way is compiled.
fn tests_line(nextest: bool, quick: bool) -> &'static str {
    match (nextest, quick) {
        (true, false) => "nextest run --locked --workspace --all-features --no-fail-fast",
        (true, true) => {
            "nextest run --locked --workspace --all-features --no-fail-fast --profile quick"
        }
        (false, false) => {
            "test --locked --workspace --all-features --lib --bins --tests --no-fail-fast"
        }
        (false, true) => "test --locked --workspace --all-features --lib --bins --no-fail-fast",
    }
}

fn fresh_skips_file() -> Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("evenkeel-skips-{}", std::process::id()));
    std::fs::write(&path, "")?;
    Ok(path)
}

fn read_skips(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut skips: Vec<_> = text.lines().map(str::to_owned).collect();
    skips.sort();
    skips.dedup();
    // A leftover in the temporary folder is no reason to fail.
    drop(std::fs::remove_file(path));
    skips
}

fn summarise(
    results: &[(String, Duration, bool)],
    skips: &[String],
    failures: &[String],
) -> Result<()> {
    eprintln!("\n=== summary");
    // What failed comes first: of a long summary only the beginning may be kept.
    for failure in failures {
        eprintln!("  failed  {failure}");
    }
    for (name, time, passed) in results {
        let verdict = if *passed { "ok" } else { "FAILED" };
        eprintln!("{verdict:>8} {:>7.1} s  {name}", time.as_secs_f64());
    }
    for skip in skips {
        eprintln!(" SKIPPED  {skip}");
    }
    let failed = results.iter().filter(|(_, _, passed)| !passed).count();
    let total: Duration = results.iter().map(|(_, time, _)| time).sum();
    let minutes = total.as_secs_f64() / 60.0;
    if failed > 0 {
        bail!("{failed} of {} steps failed ({minutes:.1} min)", results.len());
    }
    eprintln!("all {} steps passed in {minutes:.1} min; {} skipped", results.len(), skips.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_fails_the_climb() {
        let result = |passed| ("step".to_owned(), Duration::ZERO, passed);
        assert!(summarise(&[result(true)], &["skipped".into()], &[]).is_ok());
        assert!(summarise(&[result(true), result(false)], &[], &["a test".into()]).is_err());
    }

    #[test]
    fn quick_means_no_fuzzing_whatever_was_asked() {
        assert_eq!(Options { quick: true, fuzz_seconds: Some(5) }.fuzz_seconds(), 0);
        assert_eq!(Options { quick: false, fuzz_seconds: Some(5) }.fuzz_seconds(), 5);
    }
}
