//! Several targets for a time each, one on each processor.
//!
//! A target reads the corpus of the tree and what this machine found before, and puts what is new
//! with the latter, so that no run changes the tree. What it prints goes to a file and is shown
//! only if it failed: two at once would be hard to read.

use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail};

use super::{corpus, program};
use crate::shell;

/// One input longer than 10 s is a hang; 2 GiB is far above what any decoder may hold.
const LIMITS: [&str; 2] = ["-timeout=10", "-rss_limit_mb=2048"];

/// Lines of a failed run that are shown; the report of a crash with its input has about 60.
const LAST_LINES: usize = 100;

/// How inputs are chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seed {
    /// Alike in every run: a run that fails fails again.
    Fixed,
    /// Others in every run.
    Random,
}

/// What every target of a run has in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Campaign {
    /// How long each runs; at least 1.
    pub(crate) seconds: u64,
    pub(crate) seed: Seed,
}

impl Campaign {
    /// Runs targets that are built, and adds a line for each that failed.
    ///
    /// # Errors
    /// If one of them crashed, hung, leaked or could not be started; the others ran to their end.
    pub(crate) fn run(self, targets: &[String], failures: &mut Vec<String>) -> Result<()> {
        let (waiting, failed) = (Mutex::new(targets.iter()), Mutex::new(Vec::new()));
        let next = || waiting.lock().expect("no thread panics with it").next();
        let work = || {
            while let Some(target) = next() {
                match self.run_one(target) {
                    Ok(line) => eprintln!("fuzz {target}: {line}"),
                    Err(error) => {
                        eprintln!("fuzz {target}: FAILED: {error:#}");
                        let first = format!("{error:#}").lines().next().unwrap_or("").to_owned();
                        let line = format!("fuzz {target}: {first}");
                        failed.lock().expect("no thread panics with it").push(line);
                    }
                }
            }
        };
        thread::scope(|scope| {
            (0..shell::processors()).for_each(|_| drop(scope.spawn(work)));
        });
        let failed = failed.into_inner().expect("all threads have ended");
        let count = failed.len();
        failures.extend(failed);
        if count > 0 {
            bail!("{count} of {} fuzz targets failed", targets.len());
        }
        Ok(())
    }

    /// Returns what it did, for people.
    fn run_one(self, target: &str) -> Result<String> {
        let (found, seeds) = (corpus::found(target)?, corpus::unpack(target)?);
        let mut command = command(target)?;
        command.args(LIMITS).arg("-print_final_stats=1");
        command.arg(format!("-max_total_time={}", self.seconds));
        if let Seed::Fixed = self.seed {
            command.arg("-seed=1");
        }
        let printed = run_logged(target, command.arg(&found).arg(&seeds))?;
        let figure = |name: &str| figure(&printed, name).unwrap_or("?").to_owned();
        Ok(format!(
            "{} inputs in {} s, {} of them new",
            figure("stat::number_of_executed_units:"),
            self.seconds,
            figure("stat::new_units_added:"),
        ))
    }
}

/// Minimises what the tree and this machine have of a target, and puts it into the tree.
pub(super) fn keep(target: &str) -> Result<()> {
    let (seeds, found) = (corpus::unpack(target)?, corpus::found(target)?);
    let minimised = corpus::minimised(target)?;
    let mut command = command(target)?;
    command.args(LIMITS).arg("-merge=1").args([&minimised, &seeds, &found]);
    run_logged(target, &mut command)?;
    let count = corpus::pack(target, &minimised)?;
    eprintln!("fuzz {target}: {count} inputs in {}", corpus::file(target).display());
    Ok(())
}

fn command(target: &str) -> Result<Command> {
    let artifacts = shell::root().join("fuzz/artifacts").join(target);
    std::fs::create_dir_all(&artifacts)
        .with_context(|| format!("cannot make {}", artifacts.display()))?;
    let mut command = Command::new(program(target));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    // Crates that are linked twice are not what is looked for.
    command.env("ASAN_OPTIONS", "detect_odr_violation=0");
    command.current_dir(shell::root());
    Ok(command)
}

/// Runs a target to its end and returns what it printed; if it fails the end of that is the error.
fn run_logged(target: &str, command: &mut Command) -> Result<String> {
    let log = log_file(target)?;
    let file = File::create(&log).with_context(|| format!("cannot make {}", log.display()))?;
    let errors = file.try_clone().context("cannot share a log")?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    let status = command.status().with_context(|| {
        format!("cannot start {}; `cargo fuzz build` makes it", program(target).display())
    })?;
    let printed = read_lossy(&log)?;
    if !status.success() {
        bail!("{}", report(&printed, &status.to_string()));
    }
    Ok(printed)
}

fn log_file(target: &str) -> Result<PathBuf> {
    let folder = shell::root().join("fuzz/target/logs");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder.join(format!("{target}.log")))
}

/// Inputs that are printed need be no UTF-8.
fn read_lossy(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What a failed run said: first why, then the end of all it printed.
fn report(printed: &str, status: &str) -> String {
    let lines: Vec<&str> = printed.lines().collect();
    let panic = lines.iter().position(|line| line.contains("panicked at"));
    let said = panic.and_then(|at| lines.get(at + 1)).copied();
    let error = || lines.iter().find(|line| line.contains("ERROR: ")).copied();
    let mut text = said.or_else(error).unwrap_or(status).trim().to_owned();
    for line in &lines[lines.len().saturating_sub(LAST_LINES)..] {
        write!(text, "\n  {line}").expect("strings take everything");
    }
    text
}

/// The figure behind a name that begins a line.
fn figure<'a>(printed: &'a str, name: &str) -> Option<&'a str> {
    printed.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_begins_with_what_the_panic_said() {
        let printed = "#12 NEW\nthread '<unnamed>' panicked at src/lib.rs:4:9:\nleft is not right\n\
                       ==7== ERROR: libFuzzer: deadly signal\nBase64: AAA=\n";
        let text = report(printed, "exit status: 77");
        assert!(text.starts_with("left is not right\n"), "{text}");
        assert!(text.ends_with("Base64: AAA="), "{text}");
        let hang = "#12 NEW\n==7== ERROR: libFuzzer: timeout after 10 seconds\n";
        assert!(report(hang, "exit status: 70").starts_with("==7== ERROR: libFuzzer: timeout"));
        assert!(report("", "signal: 9").starts_with("signal: 9"));
    }

    #[test]
    fn figures_stand_behind_their_names() {
        let printed = "x\nstat::number_of_executed_units: 1234\nstat::new_units_added:  5\n";
        assert_eq!(figure(printed, "stat::number_of_executed_units:"), Some("1234"));
        assert_eq!(figure(printed, "stat::new_units_added:"), Some("5"));
        assert_eq!(figure(printed, "stat::none:"), None);
    }
}
