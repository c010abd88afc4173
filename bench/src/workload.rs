//! The load: fio's nbd engine, a real client that is the same for every peer, or `evenkeel bench`.
//!
//! Both keep a fixed number of requests under way on each connection, for a fixed time, and report
//! in fio's JSON. fio gives every connection a part of the export to itself.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use evenkeel_io::child::ChildProcess;
use serde_json::Value;

use crate::matrix::{Direction, Pattern, Workload};
use crate::server::{Address, last_lines};

/// How long a load generator may take beyond the time that it measures.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// How often a running load generator is looked at; its own clock is the one that counts.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Who makes the load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Generator {
    /// fio at this path.
    Fio(PathBuf),
    /// The `bench` subcommand of this binary.
    Evenkeel(PathBuf),
}

/// One run of a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load<'a> {
    pub(crate) target: &'a Address,
    pub(crate) workload: Workload,
    pub(crate) connections: u32,
    pub(crate) runtime: Duration,
    /// Size of the export.
    pub(crate) size_bytes: u64,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// All requests of the run, to divide a whole run's processor time by.
    pub(crate) requests: u64,
    pub(crate) requests_per_second: f64,
    pub(crate) bytes_per_second: f64,
    /// The latency that one request in a hundred exceeds; nothing if the report does not say.
    pub(crate) p99: Option<Duration>,
}

/// A load that goes on until it is dropped.
#[derive(Debug)]
pub(crate) struct Background {
    child: ChildProcess,
    log: PathBuf,
}

impl Background {
    /// Starts it; what it says goes to a file of this name in `folder`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(command: &mut Command, folder: &Path, name: &str) -> Result<Self> {
        let log = folder.join(name);
        let output = File::create(&log).context("cannot make a file for the load's log")?;
        let errors = output.try_clone().context("cannot share a log file")?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors).current_dir(folder);
        let child = ChildProcess::spawn(command)
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self { child, log })
    }

    /// # Errors
    /// If it has ended meanwhile; with its last words.
    pub(crate) fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.ended().context("cannot watch the load generator")? {
            let text = fs::read(&self.log).unwrap_or_default();
            bail!("a load ended with {status}{}", last_lines(&String::from_utf8_lossy(&text)));
        }
        Ok(())
    }
}

impl fmt::Display for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fio(_) => "fio's nbd engine",
            Self::Evenkeel(_) => "evenkeel bench",
        })
    }
}

impl Generator {
    /// Runs a load to its end; its files go to `folder`.
    ///
    /// # Errors
    /// If it fails, does not end, or any of its requests failed.
    pub(crate) fn run(&self, load: &Load<'_>, folder: &Path) -> Result<Outcome> {
        let mut command = match self {
            Self::Fio(program) => fio(program, load),
            Self::Evenkeel(program) => evenkeel_bench(program, load),
        };
        let output = run(&mut command, load.runtime + PATIENCE, folder)?;
        outcome(&output, load.workload.direction)
    }
}

/// Writes every byte of the export once, so that no later request pays for memory that was never
/// touched.
///
/// # Errors
/// As [`Generator::run`].
pub(crate) fn write_once(
    generator: &Generator,
    target: &Address,
    size_bytes: u64,
    folder: &Path,
) -> Result<()> {
    let mut command = match generator {
        Generator::Fio(program) => {
            let mut command = fio_base(program, target);
            command.args(["--rw=write", "--bs=1m", "--iodepth=4", &format!("--size={size_bytes}")]);
            command
        }
        Generator::Evenkeel(program) => {
            let mut command = Command::new(program);
            let requests = (size_bytes >> 20).to_string();
            command.args(["bench", "--json", "--pattern=seq", "--read=0", "--size=1MiB"]);
            command.args(["--depth=4", "--requests", &requests]).arg(target.uri());
            command
        }
    };
    let output = run(&mut command, PATIENCE, folder)?;
    outcome(&output, Direction::Write).map(drop)
}

fn fio_base(program: &Path, target: &Address) -> Command {
    let mut command = Command::new(program);
    command.args(["--name=bench", "--ioengine=nbd", "--output-format=json", "--eta=never"]);
    command.arg(format!("--uri={}", target.uri()));
    command
}

/// fio's command for a load.
pub(crate) fn fio(program: &Path, load: &Load<'_>) -> Command {
    let Workload { direction, pattern, size_bytes, depth } = load.workload;
    let pattern = match (pattern, direction) {
        (Pattern::Random, Direction::Read) => "randread",
        (Pattern::Random, Direction::Write) => "randwrite",
        (Pattern::Sequential, Direction::Read) => "read",
        (Pattern::Sequential, Direction::Write) => "write",
    };
    let part_bytes = load.size_bytes / u64::from(load.connections);
    let mut command = fio_base(program, load.target);
    command.args(["--time_based", "--norandommap", "--group_reporting"]).args([
        format!("--rw={pattern}"),
        format!("--bs={size_bytes}"),
        format!("--iodepth={depth}"),
        format!("--numjobs={}", load.connections),
        format!("--size={part_bytes}"),
        format!("--offset_increment={part_bytes}"),
        format!("--runtime={}ms", load.runtime.as_millis()),
    ]);
    command
}

fn evenkeel_bench(program: &Path, load: &Load<'_>) -> Command {
    let Workload { direction, pattern, size_bytes, depth } = load.workload;
    let mut command = Command::new(program);
    command.args(["bench", "--json"]).args([
        format!("--pattern={}", if pattern == Pattern::Random { "random" } else { "seq" }),
        format!("--read={}", if direction == Direction::Read { 100 } else { 0 }),
        format!("--size={}KiB", size_bytes / 1024),
        format!("--depth={depth}"),
        format!("--clients={}", load.connections),
        format!("--runtime={}ms", load.runtime.as_millis()),
    ]);
    command.arg(load.target.uri());
    command
}

/// Runs a program to its end and gives what it printed.
pub(crate) fn run(command: &mut Command, patience: Duration, folder: &Path) -> Result<String> {
    let name = command.get_program().display().to_string();
    let (output, errors) = (folder.join("load.json"), folder.join("load.log"));
    command
        .stdin(Stdio::null())
        .stdout(File::create(&output).context("cannot make a file for the load's report")?)
        .stderr(File::create(&errors).context("cannot make a file for the load's log")?)
        .current_dir(folder);
    let mut child = ChildProcess::spawn(command).with_context(|| format!("cannot start {name}"))?;
    let deadline = Instant::now() + patience;
    let status = loop {
        if let Some(status) = child.ended().context("cannot watch the load generator")? {
            break status;
        }
        if Instant::now() >= deadline {
            bail!("{name} does not end within {patience:?}: the server seems to hang");
        }
        thread::sleep(LOOK_EVERY);
    };
    let text = |path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    ensure!(status.success(), "{name} ended with {status}{}", last_lines(&text(errors)));
    Ok(text(output))
}

/// Reads a report in fio's JSON.
pub(crate) fn outcome(output: &str, direction: Direction) -> Result<Outcome> {
    // The nbd engine greets on the same stream before the report starts.
    let from = output.find('{').context("the load generator printed no report")?;
    let report: Value =
        serde_json::from_str(&output[from..]).context("the load generator's report is no JSON")?;
    let job = &report["jobs"][0];
    ensure!(job["error"] == 0, "the load generator met error {}", job["error"]);
    let done = match direction {
        Direction::Read => &job["read"],
        Direction::Write => &job["write"],
    };
    // `evenkeel bench` counts what it measured there, and all that it asked for elsewhere.
    let requests = match &report["evenkeel"]["requests_in_all"] {
        Value::Null => &done["total_ios"],
        all => all,
    };
    let outcome = Outcome {
        requests: requests.as_u64().context("the report counts no requests")?,
        requests_per_second: done["iops"].as_f64().context("the report has no rate")?,
        bytes_per_second: done["bw_bytes"].as_f64().context("the report has no bandwidth")?,
        p99: done["clat_ns"]["percentile"]["99.000000"].as_u64().map(Duration::from_nanos),
    };
    ensure!(outcome.requests > 0, "the load generator did nothing");
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"fio: connected to NBD server
{ "fio version" : "fio-3.33", "jobs" : [ { "jobname" : "bench", "error" : 0,
  "read" : { "bw_bytes" : 89868673, "iops" : 21940.594059, "total_ios" : 2216,
    "clat_ns" : { "percentile" : { "99.000000" : 61184 } } },
  "write" : { "bw_bytes" : 0, "iops" : 0.0, "total_ios" : 0 } } ] }
"#;

    #[test]
    fn a_report_is_read_past_the_greeting() {
        let outcome = outcome(REPORT, Direction::Read).unwrap();
        assert_eq!((outcome.requests, outcome.p99), (2216, Some(Duration::from_nanos(61_184))));
        assert!((outcome.requests_per_second - 21_940.594_059).abs() < 1e-6);
        assert!((outcome.bytes_per_second - 89_868_673.0).abs() < 1e-6);
    }

    #[test]
    fn the_count_of_our_own_generator_includes_what_it_did_not_measure() {
        let ours =
            REPORT.replace("\"jobs\"", "\"evenkeel\": {\"requests_in_all\": 3000}, \"jobs\"");
        assert_eq!(outcome(&ours, Direction::Read).unwrap().requests, 3000);
    }

    #[test]
    fn a_run_without_requests_or_with_errors_is_no_result() {
        let refusal = |text: &str, direction| outcome(text, direction).unwrap_err().to_string();
        assert!(refusal(REPORT, Direction::Write).contains("did nothing"));
        let failed = REPORT.replace("\"error\" : 0", "\"error\" : 5");
        assert!(refusal(&failed, Direction::Read).contains("error 5"));
        assert!(refusal("fio: connected", Direction::Read).contains("no report"));
        assert!(refusal("{ ", Direction::Read).contains("no JSON"));
    }

    #[test]
    fn connections_share_the_export_without_overlap() {
        let target = Address::Tcp(9);
        let load = Load {
            target: &target,
            workload: Workload::ALL[5],
            connections: 4,
            runtime: Duration::from_millis(1500),
            size_bytes: 1 << 30,
        };
        let command = fio(Path::new("fio"), &load);
        let arguments: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        for wanted in [
            "--rw=write",
            "--bs=65536",
            "--iodepth=16",
            "--numjobs=4",
            "--size=268435456",
            "--offset_increment=268435456",
            "--runtime=1500ms",
            "--uri=nbd://127.0.0.1:9/bench",
        ] {
            assert!(arguments.iter().any(|word| word == wanted), "{wanted} in {arguments:?}");
        }
    }

    #[test]
    fn a_load_in_the_background_that_ends_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo nobody there; exit 1"]);
        let mut load = Background::start(&mut command, folder.path(), "load.log").unwrap();
        let deadline = Instant::now() + PATIENCE;
        let error = loop {
            match load.check() {
                Err(error) => break error.to_string(),
                Ok(()) => assert!(Instant::now() < deadline, "it ends at once"),
            }
            thread::sleep(LOOK_EVERY);
        };
        assert!(error.contains("\n    nobody there"), "{error}");
    }

    #[test]
    fn a_load_that_fails_is_reported_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo nobody there >&2; exit 1"]);
        let error = run(&mut command, PATIENCE, folder.path()).unwrap_err().to_string();
        assert!(error.contains("\n    nobody there"), "{error}");
    }
}
