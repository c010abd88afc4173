//! Reads beside a memory hog, with real processes: three data servers that serve from the page
//! cache, one of them on a host that has next to no memory left, and two volumes over such servers.
//!
//! ```text
//!                            +--> nbdkit, 256 MiB of memory      page cache, or a disk
//! reader --> gate: a volume -+--> nbdkit, 256 MiB                that is as slow as one
//!                            +--> nbdkit, 24 MiB: a hog has the rest
//! ```
//!
//! Objects of one volume are spread by room alone, a third to each server as by hashing; those of
//! the other one prefer hosts with free memory, as these tell over HTTP. Both are read in turns.

use std::time::{Duration, Instant};

use evenkeel_core::time::Span;
use evenkeel_core::workload::Pattern;
use evenkeel_io::load::{LoadPlan, LoadReport, LoadSpec, WeightedSize};

use super::super::Options;
use super::super::claim::{self, Claim, Verdict};
use super::reference::{LiveDisk, MemoryLive};
use super::serving::percent;
use crate::evidence::machine::Bears;
use crate::exit::Exit;
use crate::load::measure;
use crate::stage::{GateProcess, Host, HostOptions, Stage, find_nbdkit, no_groups};
use crate::status::Spread;

/// Room of a server, as a part of the image: one alone must not be full.
const DISKS: u64 = 2;
/// How long the hosts may take to tell of themselves.
const TOLD_WITHIN: Duration = Duration::from_secs(30);

/// Where nothing waits for a disk, gate, reader and servers take two cores. Rates over seconds are
/// compared, of requests that take milliseconds where they wait.
const BEARS: Bears = Bears { cores: 2.0, late_median_ms: 0.5, late_p99_ms: 5.0, uses_disks: true };

/// A gate with a volume over hosts of its own.
struct Site {
    gate: GateProcess,
    _hosts: Vec<Host>,
}

/// Why it cannot be done here, if that is so.
pub(super) fn missing() -> Option<String> {
    find_nbdkit().err().map(|error| error.to_string()).or_else(no_groups)
}

/// Measures it, with each kind of disk.
pub(super) fn claims(row: &MemoryLive, options: &Options) -> anyhow::Result<Vec<Claim>> {
    if let Some(why) = missing() {
        return Err(Exit::Unreachable.because(why));
    }
    let of_disk = |disk| claim::live(BEARS, || Ok(vec![on_disk(row, disk, options)?]));
    let claims = row.disk.iter().map(of_disk).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(claims.concat())
}

fn on_disk(row: &MemoryLive, disk: &LiveDisk, options: &Options) -> anyhow::Result<Claim> {
    let stage = Stage::new()?;
    let site = |prefer| Site::start(&stage, row, disk, prefer);
    let sites = [site("space")?, site("memory")?];
    for site in &sites {
        site.fill(row)?;
        // What is cached is what was read, no more what was written.
        site.read(row, Span::from_secs(5), options.seed)?;
    }
    let (rounds, seconds) = if options.quick { (3, 2) } else { (5, 4) };
    let mut gains = Vec::new();
    let mut rates = [0.0; 2];
    for round in 0..rounds {
        for (site, rate) in sites.iter().zip(&mut rates) {
            *rate = site.read(row, Span::from_secs(seconds), options.seed + 1 + round)?;
        }
        gains.push(rates[1] / rates[0]);
    }
    gains.sort_by(f64::total_cmp);
    let gain = gains[gains.len() / 2];
    let beside = [sites[0].objects_beside_hog(row)?, sites[1].objects_beside_hog(row)?];
    let demanded = disk.at_least.map(|least| (percent(least), Verdict::of(gain >= least)));
    let (tolerance, verdict) = demanded
        .map_or((String::new(), Verdict::Shown), |(least, verdict)| {
            (format!("at least {least}"), verdict)
        });
    Ok(Claim {
        paper: percent(row.paper),
        measured: format!(
            "{} (last {:.0} instead of {:.0} MB/s; {} instead of {} objects beside the hog)",
            percent(gain),
            rates[1] / 1e6,
            rates[0] / 1e6,
            beside[1],
            beside[0]
        ),
        value: gain,
        tolerance,
        verdict,
        ..Claim::shown(
            disk.id.clone(),
            format!("hosts with free memory, live, disks: {}: throughput", disk.what),
        )
    })
}

impl Site {
    fn start(
        stage: &Stage,
        row: &MemoryLive,
        disk: &LiveDisk,
        prefer: &str,
    ) -> anyhow::Result<Self> {
        let mut hosts = Vec::new();
        for number in 0..row.hosts {
            let options = HostOptions {
                memory_bytes: row.memory_bytes,
                hogged_bytes: if number + 1 == row.hosts { row.hogged_bytes } else { 0 },
                disk_bytes: row.image_bytes * DISKS,
                disk_reads: disk.reads,
            };
            hosts.push(Host::start(stage, &format!("{prefer}-{number}"), &options)?);
        }
        let gate = GateProcess::start(stage, prefer, &policy(row, prefer, &hosts)?)?;
        let site = Self { gate, _hosts: hosts };
        let deadline = Instant::now() + TOLD_WITHIN;
        while !site.volume()?.is_some_and(|volume| volume.warnings.is_empty()) {
            if Instant::now() > deadline {
                return Err(Exit::Runtime.because("a volume was not ready in time"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(site)
    }

    fn volume(&self) -> anyhow::Result<Option<Spread>> {
        Ok(self.gate.status()?.domains.into_iter().find_map(|domain| domain.spread))
    }

    fn objects_beside_hog(&self, row: &MemoryLive) -> anyhow::Result<u32> {
        let servers = self.volume()?.map_or_else(Vec::new, |volume| volume.servers);
        Ok(servers.get(row.hosts as usize - 1).map_or(0, |server| server.used_slots))
    }

    /// Writes the whole image.
    fn fill(&self, row: &MemoryLive) -> anyhow::Result<()> {
        let group = LoadSpec {
            pattern: Pattern::Sequential,
            read_percent: 0,
            requests: Some(row.image_bytes / u64::from(row.request_bytes)),
            ..self.spec(row)?
        };
        let plan = LoadPlan { groups: vec![group], runtime: None, ..LoadPlan::default() };
        served(&measure(&plan)?)
    }

    fn spec(&self, row: &MemoryLive) -> anyhow::Result<LoadSpec> {
        let sizes = vec![WeightedSize { size_bytes: row.request_bytes, weight: 1 }];
        let targets = vec![self.gate.uri("disk")?];
        Ok(LoadSpec { targets, depth: row.depth, sizes, ..LoadSpec::default() })
    }

    /// Bytes per second of one reader.
    fn read(&self, row: &MemoryLive, runtime: Span, seed: u64) -> anyhow::Result<f64> {
        let (groups, ramp) = (vec![self.spec(row)?], Span::from_millis(500));
        let plan = LoadPlan { groups, ramp, runtime: Some(runtime), seed, ..LoadPlan::default() };
        let report = measure(&plan)?;
        served(&report)?;
        Ok(report.groups[0].read.bytes as f64 / report.measured.as_secs_f64())
    }
}

/// What failed was not served, and would look quick.
fn served(report: &LoadReport) -> anyhow::Result<()> {
    match &report.groups[0].first_error {
        Some(why) => Err(Exit::Runtime.because(format!("requests have failed: {why}"))),
        None => Ok(()),
    }
}

fn policy(row: &MemoryLive, prefer: &str, hosts: &[Host]) -> anyhow::Result<String> {
    let mut text = "mode = \"enforce\"\n".to_owned();
    for (number, host) in hosts.iter().enumerate() {
        text += &format!(
            "\n[[backend]]\nname = \"s{number}\"\nupstream = \"{}\"\nmetrics = \"{}\"\n",
            host.uri()?,
            host.metrics()
        );
    }
    let names: Vec<_> = (0..hosts.len()).map(|number| format!("\"s{number}\"")).collect();
    Ok(text
        + &format!(
            "\n[[backend]]\nname = \"pool\"\nchoices = [{}]\nprefer = [\"{prefer}\"]\n\
             object = \"{} KiB\"\nsize = \"{} KiB\"\n\n[[export]]\nname = \"disk\"\n\
             backend = \"pool\"\n",
            names.join(", "),
            row.object_bytes >> 10,
            row.image_bytes >> 10
        ))
}
