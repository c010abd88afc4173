//! What a whole process costs, from its start to its end: processor time and memory at its peak.
//!
//! GNU time waits for the process and tells what the kernel counted for it, threads and children
//! included. Times come in hundredths of a second, so that what is measured should take a second.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::peers;

/// User time, system time and the largest resident set.
const FORMAT: &str = "%U %S %M";

/// How much of what a failed process wrote is shown.
const LAST_WORDS_CHARS: usize = 400;

/// One run of a process.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    /// User and system time.
    pub(super) cpu_seconds: f64,
    /// The largest resident set.
    pub(super) peak_bytes: u64,
    /// The JSON document that it printed.
    pub(super) output: Value,
}

/// Runs processes, and keeps what is measured in a folder.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    time: PathBuf,
    figures: PathBuf,
}

impl Meter {
    /// A meter that writes into this folder.
    ///
    /// # Errors
    /// If there is no GNU time.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let time = peers::find("time").context(
            "GNU time is missing (package time); `cargo xtask setup` installs what is needed",
        )?;
        Ok(Self { time, figures: folder.join("figures") })
    }

    /// Runs a command line to its end; it has to print one JSON document.
    ///
    /// # Errors
    /// If it cannot be started, fails, or prints something else.
    pub(super) fn run(&self, line: &[String]) -> Result<Run> {
        let output = Command::new(&self.time)
            .args(["--quiet", "--format", FORMAT, "--output"])
            .arg(&self.figures)
            .args(line)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {}", self.time.display()))?;
        ensure!(
            output.status.success(),
            "`{}` ended with {}: {}",
            line.join(" "),
            output.status,
            last_words(&output.stderr)
        );
        let output = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("`{}` printed no JSON", line.join(" ")))?;
        let figures = fs::read_to_string(&self.figures).context("GNU time wrote no figures")?;
        let (cpu_seconds, peak_bytes) = parse(&figures)
            .with_context(|| format!("GNU time wrote what is no figure: {figures}"))?;
        Ok(Run { cpu_seconds, peak_bytes, output })
    }
}

/// Reads what [`FORMAT`] makes; memory is in KiB there.
fn parse(figures: &str) -> Option<(f64, u64)> {
    let mut words = figures.split_whitespace();
    let user: f64 = words.next()?.parse().ok()?;
    let system: f64 = words.next()?.parse().ok()?;
    let peak_kib: u64 = words.next()?.parse().ok()?;
    words.next().is_none().then_some((user + system, peak_kib.checked_mul(1024)?))
}

fn last_words(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let text = text.trim();
    let skipped = text.chars().count().saturating_sub(LAST_WORDS_CHARS);
    text.chars().skip(skipped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_added_and_memory_is_in_bytes() {
        assert_eq!(parse("1.25 0.50 2048\n"), Some((1.75, 2 << 20)));
    }

    #[test]
    fn other_words_are_no_figures() {
        for text in ["", "1.0 2.0", "1.0 2.0 x", "1.0 2.0 3 4"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_failure_is_told_with_its_end() {
        let long = "x".repeat(LAST_WORDS_CHARS) + "the end";
        assert_eq!(last_words(long.as_bytes()).chars().count(), LAST_WORDS_CHARS);
        assert!(last_words(long.as_bytes()).ends_with("the end"));
    }
}
