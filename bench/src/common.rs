//! What every comparison is told, and does, alike.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tempfile::TempDir;

use crate::conclusion::Conclusion;

/// Arguments of every comparison.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// Rounds over everything; medians of fewer than five prove little
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Run once at toy size, to see that everything works, and print no figure
    #[arg(long, conflicts_with = "rounds")]
    pub(crate) smoke: bool,
    /// Write everything that was measured to this file as well
    #[arg(long, value_name = "FILE", conflicts_with = "smoke")]
    json: Option<PathBuf>,
    /// The program under test [default: built from this tree]
    #[arg(long, value_name = "PATH")]
    pub(crate) evenkeel: Option<PathBuf>,
    /// Where files, sockets and logs go while it runs; on a real disk, please
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    pub(crate) scratch: PathBuf,
}

impl Common {
    /// Refuses figures of a build that is not optimised: parts of some contests run in this very
    /// process.
    pub(crate) fn check_build(&self, is_debug: bool) -> Result<()> {
        ensure!(
            self.smoke || !is_debug,
            "this evenkeel-bench is not optimised, and its figures would mean nothing; build it \
             with `cargo build --release -p evenkeel-bench`, or give --smoke"
        );
        Ok(())
    }

    pub(crate) fn rounds(&self) -> u32 {
        if self.smoke { 1 } else { self.rounds }
    }

    /// A folder that goes when it is dropped.
    pub(crate) fn folder(&self) -> Result<TempDir> {
        tempfile::Builder::new()
            .prefix("evenkeel-bench-")
            .tempdir_in(&self.scratch)
            .with_context(|| format!("cannot make a folder in {}", self.scratch.display()))
    }

    /// Writes the report, and how it ended, to the file that was asked for, if one was.
    pub(crate) fn keep(&self, report: &impl Serialize, conclusion: &Conclusion) -> Result<()> {
        #[derive(Serialize)]
        struct Document<'a, R> {
            #[serde(flatten)]
            report: &'a R,
            #[serde(flatten)]
            conclusion: &'a Conclusion,
        }
        let Some(file) = &self.json else { return Ok(()) };
        let document = Document { report, conclusion };
        let text = serde_json::to_string_pretty(&document).context("cannot write JSON")?;
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
    }
}

/// The bar over so many runs.
pub(crate) fn bar(runs: u64) -> Result<ProgressBar> {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {eta_precise} left  {msg}")
        .context("the progress bar's template is fixed")?;
    Ok(ProgressBar::new(runs).with_style(style))
}

/// Who could not take part, and what went wrong, a line each.
pub(crate) fn troubles(missing: &[&str], failures: &[String]) -> String {
    let missing = missing
        .iter()
        .map(|peer| format!("SKIPPED: {peer} is not installed; its rows are absent\n"));
    missing.chain(failures.iter().map(|failure| format!("FAILED: {failure}\n"))).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        common: Common,
    }

    #[test]
    fn only_a_smoke_run_takes_a_build_that_is_not_optimised() {
        let common = |line: &str| Line::parse_from(line.split(' ')).common;
        assert!(common("bench").check_build(false).is_ok());
        assert!(common("bench --smoke").check_build(true).is_ok());
        let error = common("bench").check_build(true).unwrap_err().to_string();
        assert!(error.contains("cargo build --release") && error.contains("--smoke"), "{error}");
    }
}
