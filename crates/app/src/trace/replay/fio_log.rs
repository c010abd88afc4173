//! Logs in fio's format, one line for every request, for the tools that plot fio's:
//!
//! ```text
//! time of the end in ms, value, direction, bytes, offset, priority
//! ```
//!
//! | file | value |
//! |---|---|
//! | `PREFIX_slat.N.log` | how late the request started, ns |
//! | `PREFIX_clat.N.log` | from sending to the answer, ns |
//! | `PREFIX_lat.N.log` | both together: from the instant that it was due to the answer, ns |
//! | `PREFIX_bw.N.log`, `PREFIX_iops.N.log` | rates of every interval, KiB and requests a second |
//!
//! `N` counts the exports from 1. A direction is 0 for reads, 1 for writes and zeroes, 2 for trims;
//! flushes are in no log, as in fio's.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use anyhow::Context;
use evenkeel_core::ticket::Kind;
use evenkeel_io::load::IntervalReport;
use evenkeel_io::load::replay::{LogEntry, ReplayReport};

/// Blocks of entries between the replay and the disk.
const BLOCKS_MAX: usize = 1024;

/// Logs that are being written.
pub(super) struct FioLog {
    prefix: PathBuf,
    sink: Option<SyncSender<Vec<LogEntry>>>,
    thread: JoinHandle<io::Result<()>>,
}

impl FioLog {
    /// Starts the thread that writes.
    pub(super) fn start(prefix: &Path) -> anyhow::Result<Self> {
        let (sink, blocks) = sync_channel(BLOCKS_MAX);
        // Tried here and now: an hour's replay should not end with a folder that is not there.
        let first = Files::create(prefix, 0)
            .with_context(|| format!("cannot write logs to {}_*.log", prefix.display()))?;
        let to = prefix.to_path_buf();
        let thread = std::thread::Builder::new()
            .name("fio-log".to_owned())
            .spawn(move || write(&to, &blocks, first))?;
        Ok(Self { prefix: prefix.to_path_buf(), sink: Some(sink), thread })
    }

    /// Where entries go.
    pub(super) fn sink(&self) -> SyncSender<Vec<LogEntry>> {
        self.sink.clone().expect("only the end takes it")
    }

    /// Completes the logs.
    pub(super) fn finish(mut self, report: &ReplayReport) -> anyhow::Result<()> {
        self.sink = None;
        let written = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written
            .and_then(|()| write_rates(&self.prefix, report))
            .with_context(|| format!("cannot write logs to {}_*.log", self.prefix.display()))
    }
}

/// The logs of one export.
struct Files {
    /// Late, service, both.
    logs: [BufWriter<File>; 3],
}

impl Files {
    fn create(prefix: &Path, target: usize) -> io::Result<Self> {
        let open = |name| create(prefix, name, target);
        Ok(Self { logs: [open("slat")?, open("clat")?, open("lat")?] })
    }

    fn add(&mut self, entry: &LogEntry) -> io::Result<()> {
        let Some(direction) = direction(entry.kind) else { return Ok(()) };
        let (late, service) = (entry.late.0, entry.service.0);
        let LogEntry { offset, size_bytes, ended, .. } = *entry;
        let ended_ms = ended.0 / 1_000_000;
        for (log, value_ns) in self.logs.iter_mut().zip([late, service, late + service]) {
            writeln!(log, "{ended_ms}, {value_ns}, {direction}, {size_bytes}, {offset}, 0")?;
        }
        Ok(())
    }
}

fn create(prefix: &Path, name: &str, target: usize) -> io::Result<BufWriter<File>> {
    let mut path = prefix.as_os_str().to_owned();
    path.push(format!("_{name}.{}.log", target + 1));
    Ok(BufWriter::with_capacity(64 << 10, File::create(path)?))
}

fn direction(kind: Kind) -> Option<u8> {
    match kind {
        Kind::Read | Kind::Cache => Some(0),
        Kind::Write | Kind::WriteZeroes => Some(1),
        Kind::Trim => Some(2),
        Kind::Flush => None,
    }
}

fn write(prefix: &Path, blocks: &Receiver<Vec<LogEntry>>, first: Files) -> io::Result<()> {
    let mut files = vec![first];
    for block in blocks {
        for entry in block {
            let target = entry.target as usize;
            while files.len() <= target {
                files.push(Files::create(prefix, files.len())?);
            }
            files[target].add(&entry)?;
        }
    }
    files.iter_mut().flat_map(|files| &mut files.logs).try_for_each(Write::flush)
}

fn write_rates(prefix: &Path, report: &ReplayReport) -> io::Result<()> {
    for (target, group) in report.load.groups.iter().enumerate() {
        let mut bw = create(prefix, "bw", target)?;
        let mut iops = create(prefix, "iops", target)?;
        for entry in &group.series {
            let end_ms = (entry.start.0 + entry.length.0) / 1_000_000;
            for (direction, requests, bytes) in directions(entry) {
                let seconds = entry.length.as_secs_f64().max(1e-9);
                let kib = bytes as f64 / 1024.0 / seconds;
                writeln!(bw, "{end_ms}, {kib:.0}, {direction}, 0, 0, 0")?;
                let requests = requests as f64 / seconds;
                writeln!(iops, "{end_ms}, {requests:.0}, {direction}, 0, 0, 0")?;
            }
        }
        bw.flush()?;
        iops.flush()?;
    }
    Ok(())
}

fn directions(entry: &IntervalReport) -> [(u8, u64, u64); 2] {
    [(0, entry.reads, entry.read_bytes), (1, entry.writes, entry.write_bytes)]
}
