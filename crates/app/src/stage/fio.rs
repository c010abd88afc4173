//! fio as a load generator that is not ours: all jobs of one process, which start together.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

use anyhow::Context;
use evenkeel_core::time::Span;
use evenkeel_wire::nbd::uri::NbdUri;
use serde::Deserialize;

use super::Stage;
use crate::exit::Exit;

/// What to say where fio is missing.
const FIO_MISSING: &str = "fio is not installed, and the experiment needs it to make load: \
     `apt install fio` (Debian, Ubuntu), `dnf install fio` (Fedora, RHEL), `zypper install fio` \
     (SUSE)";

/// Where a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FioPattern {
    /// Anywhere.
    Random,
    /// One after the other.
    Sequential,
}

/// One client that reads, with a number of reads outstanding all the time on each connection.
#[derive(Clone, Debug)]
pub struct FioJob {
    /// Of letters, digits and hyphens.
    pub name: String,
    /// What it reads.
    pub uri: NbdUri,
    /// Where.
    pub pattern: FioPattern,
    /// Connections.
    pub sessions: u32,
    /// Reads outstanding on each.
    pub depth: u32,
    /// Bytes of each read.
    pub size_bytes: u32,
    /// No more reads per second than this on each connection.
    pub rate_iops: Option<u32>,
}

/// Jobs that run together.
#[derive(Clone, Debug)]
pub struct FioRun {
    /// Before anything is measured.
    pub ramp: Span,
    /// The measured time.
    pub runtime: Span,
    /// Determines the offsets.
    pub seed: u64,
    /// All of them.
    pub jobs: Vec<FioJob>,
}

/// What a client got.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FioResult {
    /// Bytes per second on all of its connections.
    pub rate_bytes: f64,
    /// The 99th percentile of its latencies, of the slowest connection; none if it read nothing.
    pub p99: Option<Span>,
}

/// What the name of a job ends with that sends before anything is measured.
const RAMP: &str = "-ramp";

/// What fio prints.
#[derive(Debug, Deserialize)]
struct Document {
    jobs: Vec<Job>,
}

/// One session.
#[derive(Debug, Deserialize)]
struct Job {
    jobname: String,
    error: i32,
    read: Read,
}

#[derive(Debug, Deserialize)]
struct Read {
    io_bytes: u64,
    /// Milliseconds.
    runtime: u64,
    clat_ns: Latencies,
}

#[derive(Debug, Deserialize)]
struct Latencies {
    /// By percent; none if nothing was read.
    #[serde(default)]
    percentile: BTreeMap<String, u64>,
}

/// Makes sure that fio is there; the version it tells.
///
/// # Errors
/// [`Exit::Unreachable`], with the way to install it.
pub fn find_fio() -> anyhow::Result<String> {
    let output = Command::new("fio").arg("--version").output();
    let output = output.map_err(|_| Exit::Unreachable.because(FIO_MISSING))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl FioRun {
    /// Carries it out. Returns what each job got, in their order.
    ///
    /// # Errors
    /// If fio cannot be started or fails; what it said is part of the error.
    pub fn run(&self, stage: &Stage) -> anyhow::Result<Vec<FioResult>> {
        let (jobs, result) = (stage.path("jobs.fio"), stage.path("fio.json"));
        fs::write(&jobs, self.job_file()).context("cannot write to the scratch folder")?;
        let mut command = Command::new("fio");
        command.arg("--output-format=json").arg("--output").arg(&result).arg(&jobs);
        let output = command.stdin(Stdio::null()).output().context("cannot start fio")?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if !output.status.success() {
            let status = output.status;
            return Err(Exit::Runtime.because(format!("fio ended with {status}; it said: {said}")));
        }
        let text = fs::read_to_string(&result).context("fio has left no result")?;
        self.results(&text)
    }

    fn job_file(&self) -> String {
        let Self { ramp, runtime, seed, jobs } = self;
        let milliseconds = |span: &Span| span.0 / 1_000_000;
        let mut text = format!(
            "[global]\nioengine=nbd\nthread=1\nnorandommap=1\ntime_based=1\n\
             ramp_time={}ms\nruntime={}ms\nrandseed={seed}\n",
            milliseconds(ramp),
            milliseconds(runtime)
        );
        for job in jobs {
            let ramp_ms = milliseconds(ramp);
            let Some(rate) = job.rate_iops else {
                text += &job.section("", "");
                continue;
            };
            // After a ramp fio catches up with a rate for as long as that took. So another job
            // sends at this rate until then.
            let rate = format!("rate_iops={rate}\nramp_time=0\n");
            if ramp_ms > 0 {
                text += &job.section(RAMP, &format!("{rate}runtime={ramp_ms}ms\n"));
            }
            text += &job.section("", &format!("{rate}startdelay={ramp_ms}ms\n"));
        }
        text
    }

    fn results(&self, text: &str) -> anyhow::Result<Vec<FioResult>> {
        // What fio has to say otherwise stands before the document.
        let document = text.get(text.find('{').unwrap_or(0)..).unwrap_or_default();
        let document: Document =
            serde_json::from_str(document).with_context(|| format!("fio printed {text:?}"))?;
        let result = |job: &FioJob| {
            let sessions = document.jobs.iter().filter(|one| one.jobname == job.name);
            let sessions: Vec<&Job> = sessions.collect();
            if let Some(failed) = sessions.iter().find(|one| one.error != 0) {
                let error = std::io::Error::from_raw_os_error(failed.error);
                let said = format!("a session of {} failed: {error}", job.name);
                return Err(Exit::Runtime.because(said));
            }
            let rate_bytes = sessions.iter().map(|one| one.read.rate_bytes()).sum();
            let p99 = sessions.iter().filter_map(|one| one.read.p99()).max();
            Ok(FioResult { rate_bytes, p99 })
        };
        self.jobs.iter().map(result).collect()
    }
}

impl FioJob {
    fn section(&self, suffix: &str, options: &str) -> String {
        let Self { name, uri, sessions, depth, size_bytes, .. } = self;
        let pattern = match self.pattern {
            FioPattern::Random => "randread",
            FioPattern::Sequential => "read",
        };
        format!(
            "\n[{name}{suffix}]\nuri={uri}\nrw={pattern}\nnumjobs={sessions}\niodepth={depth}\n\
             bs={size_bytes}\n{options}"
        )
    }
}

impl Read {
    fn rate_bytes(&self) -> f64 {
        self.io_bytes as f64 / (self.runtime as f64 / 1e3).max(1e-3)
    }

    fn p99(&self) -> Option<Span> {
        self.clat_ns.percentile.get("99.000000").copied().map(Span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> FioRun {
        let job = |name: &str, sessions| FioJob {
            name: name.to_owned(),
            uri: "nbd+unix:///x?socket=/tmp/gate.sock".parse().unwrap(),
            pattern: FioPattern::Random,
            sessions,
            depth: 8,
            size_bytes: 65536,
            rate_iops: (sessions == 2).then_some(100),
        };
        let jobs = vec![job("one", 1), job("many", 2)];
        FioRun { ramp: Span::from_secs(1), runtime: Span::from_millis(2500), seed: 7, jobs }
    }

    #[test]
    fn all_jobs_are_in_one_file() {
        let text = run().job_file();
        assert!(text.contains("ramp_time=1000ms\nruntime=2500ms\nrandseed=7\n"), "{text}");
        let many = "\nuri=nbd+unix:///x?socket=/tmp/gate.sock\nrw=randread\nnumjobs=2\n\
                    iodepth=8\nbs=65536\nrate_iops=100\nramp_time=0\n";
        let ramp = format!("[many-ramp]{many}runtime=1000ms\n");
        assert!(text.ends_with(&format!("{ramp}\n[many]{many}startdelay=1000ms\n")), "{text}");
    }

    #[test]
    fn sessions_of_a_job_add_up() {
        let job = |name: &str, bytes: u64, error: i32| {
            format!(
                "{{\"jobname\": \"{name}\", \"error\": {error}, \
                 \"read\": {{\"io_bytes\": {bytes}, \"runtime\": 2000, \"clat_ns\": \
                 {{\"percentile\": {{\"99.000000\": {bytes}000}}}}}}}}"
            )
        };
        let text = |error| {
            let jobs = [job("one", 100, 0), job("many", 200, 0), job("many", 300, error)];
            format!("note: something\n{{\"fio version\": \"x\", \"jobs\": [{}]}}", jobs.join(","))
        };
        let results = run().results(&text(0)).unwrap();
        let one = FioResult { rate_bytes: 50.0, p99: Some(Span::from_micros(100)) };
        let many = FioResult { rate_bytes: 250.0, p99: Some(Span::from_micros(300)) };
        assert_eq!(results, [one, many]);
        let error = run().results(&text(5)).unwrap_err().to_string();
        assert!(error.contains("a session of many failed: Input/output error"), "{error}");
        assert!(run().results("nothing").is_err());
    }
}
