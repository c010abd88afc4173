//! Where a gate's recording goes: a new file in the native format, packed as its name says.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use evenkeel_io::record::{Recorder, RecordingReport, Sink};
use evenkeel_trace::format::{Format, Options};

use super::compression::{Compression, Packer};
use crate::exit::Exit;
use crate::{config, human};

/// Recordings of one name in one folder.
const FILES_MAX: u32 = 10_000;

/// Starts a recording at `path`, or beside it if there is a file of that name: no recording is
/// ever overwritten, and a gate that is started again must not be stopped by what it wrote before.
///
/// # Errors
/// If the file cannot be made.
pub fn start(path: &Path) -> anyhow::Result<Arc<Recorder>> {
    let (file, path) =
        create(path).with_context(|| format!("cannot record to {}", path.display()))?;
    let packer = Packer::new(file, Compression::of_name(&path))?;
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let origin_ns = u64::try_from(since_epoch.as_nanos()).unwrap_or(0);
    let encoder = move || {
        let options = Options { origin_ns, ..Options::default() };
        Format::Native.encoder(&options).expect("the native format can be written")
    };
    let name = path.display().to_string();
    let sink = Box::new(RecordFile(packer));
    Ok(Recorder::start(&name, Box::new(encoder), config::recorded, sink)?)
}

/// Writes a whole trace to a new file, packed as its name says.
///
/// # Errors
/// If there is a file of that name, or it cannot be written; none is left then.
pub(crate) fn save(path: &Path, trace: &[u8]) -> anyhow::Result<()> {
    let file = match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let message = format!("{} is there already; choose another name", path.display());
            return Err(Exit::Usage.because(message));
        }
        outcome => outcome.with_context(|| format!("cannot write {}", path.display()))?,
    };
    let write = || {
        let mut packer = Packer::new(file, Compression::of_name(path))?;
        packer.write_all(trace)?;
        packer.finish()
    };
    write().with_context(|| {
        let _ = std::fs::remove_file(path);
        format!("cannot write {}", path.display())
    })
}

/// A line for people about a recording that has ended.
pub fn summary(report: &RecordingReport) -> String {
    let RecordingReport { name, requests, dropped, late, .. } = report;
    let mut text = format!("{requests} requests are in {name}");
    if *dropped > 0 {
        text += &format!(", {} were dropped", human::count(*dropped as f64));
    }
    if *late > 0 {
        text += &format!(", {} are stated later than they came", human::count(*late as f64));
    }
    if let Some(trouble) = &report.trouble {
        text += &format!("; it could not go on: {trouble}");
    }
    text
}

/// The first name that is free: `gate.ektrace.zst`, `gate.2.ektrace.zst`, ..
fn create(path: &Path) -> io::Result<(File, PathBuf)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (stem, rest) = name.split_once('.').unwrap_or((&name, "ektrace"));
    for number in 1..FILES_MAX {
        let path = match number {
            1 => path.to_path_buf(),
            _ => path.with_file_name(format!("{stem}.{number}.{rest}")),
        };
        match File::create_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            outcome => return Ok((outcome?, path)),
        }
    }
    Err(io::Error::other("there are 10000 recordings of this name; move some away"))
}

/// The file of a recording.
struct RecordFile(Packer);

impl Sink for RecordFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    /// What was written so far can be read even if the gate is killed.
    fn flush(&mut self) -> io::Result<()> {
        self.0.end_part()
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::input::{ReadOptions, TraceReader};

    #[test]
    fn a_recording_never_overwrites_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gate.ektrace.zst");
        let names: Vec<String> = (0..3)
            .map(|_| {
                let path = create(&path).unwrap().1;
                path.file_name().unwrap().to_string_lossy().into_owned()
            })
            .collect();
        assert_eq!(names, ["gate.ektrace.zst", "gate.2.ektrace.zst", "gate.3.ektrace.zst"]);
    }

    #[test]
    fn a_recording_of_nothing_is_a_trace_of_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gate.ektrace.zst");
        let report = start(&path).unwrap().finish();
        assert_eq!((report.requests, report.trouble), (0, None));
        let mut reader = TraceReader::open(&path, &ReadOptions::default()).unwrap();
        assert!(!reader.next_batch(&mut Vec::new()).unwrap());
    }
}
