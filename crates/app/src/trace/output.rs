//! Writing a trace: to a file or stdout, packed as its name says, by a thread of its own.
//!
//! A file appears under its name only when it is complete; until then it is called `NAME.partial`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use anyhow::Context;
use evenkeel_core::time::Nanos;
use evenkeel_trace::codec::Encoder;
use evenkeel_trace::format::{Format, Options};
use evenkeel_trace::{Record, Sources};

use super::compression::{Compression, Packer};
use crate::exit::Exit;

/// Encoded bytes are handed to the thread that packs in pieces of this size.
const BLOCK_BYTES: usize = 256 << 10;

/// Pieces between the encoder and that thread.
const BLOCKS_MAX: usize = 8;

/// The name that means stdout.
pub const STDOUT: &str = "-";

/// A trace that is being written.
pub struct TraceWriter {
    encoder: Box<dyn Encoder>,
    format: Format,
    name: String,
    records: u64,
    /// The instant of the last one.
    last: Option<Nanos>,
    output: Vec<u8>,
    blocks: Option<SyncSender<Vec<u8>>>,
    emptied: Receiver<Vec<u8>>,
    thread: Option<JoinHandle<io::Result<()>>>,
    place: Place,
}

/// Where a trace goes.
#[derive(Clone, Debug)]
enum Place {
    /// To a file that is called otherwise until it is complete.
    File { partial: PathBuf, path: PathBuf },
    /// To something that is no file: a pipe, a device, stdout.
    Other,
}

impl TraceWriter {
    /// Starts a trace at `path`, or on stdout for `-`. Its format is told from its name unless
    /// `format` is given; `origin_ns` is the instant of its `at = 0` where that is known.
    ///
    /// # Errors
    /// [`Exit::Usage`] if the format cannot be told or cannot be written; whatever the system says
    /// of the file.
    pub fn create(
        path: &Path,
        format: Option<Format>,
        origin_ns: Option<u64>,
    ) -> anyhow::Result<Self> {
        let format = output_format(path, format)?;
        let options = Options { origin_ns: origin_ns.unwrap_or(0), ..Options::default() };
        let encoder = format.encoder(&options).ok_or_else(|| {
            let message = format!("traces cannot be written as {}; choose another", format.name());
            Exit::Usage.because(message)
        })?;
        let (file, place) =
            open(path).with_context(|| format!("cannot write {}", path.display()))?;
        let packer = Packer::new(file, Compression::of_name(path))?;
        let (blocks, taken) = sync_channel::<Vec<u8>>(BLOCKS_MAX);
        let (give_back, emptied) = sync_channel(BLOCKS_MAX + 2);
        let thread = std::thread::Builder::new()
            .name("trace-write".to_owned())
            .spawn(move || pack(packer, &taken, &give_back))?;
        Ok(Self {
            encoder,
            format,
            name: path.display().to_string(),
            records: 0,
            last: None,
            output: Vec::with_capacity(BLOCK_BYTES + 1024),
            blocks: Some(blocks),
            emptied,
            thread: Some(thread),
            place,
        })
    }

    /// Its name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Requests written so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Writes one record. The inner result is a text that says why the format cannot hold it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(
        &mut self,
        sources: &Sources,
        record: &Record,
    ) -> anyhow::Result<Result<(), String>> {
        if let Err(why) = self.encoder.encode(sources, record, &mut self.output) {
            return Ok(Err(why));
        }
        self.records += 1;
        self.last = Some(record.at);
        if self.output.len() >= BLOCK_BYTES {
            self.hand_on()?;
        }
        Ok(Ok(()))
    }

    /// Writes the policy that is in force from `at` on, or from the instant behind the last record
    /// on if that is later; `None` for one that is not known. The inner result is a text that says
    /// why the format cannot hold it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn policy(&mut self, at: Nanos, text: Option<&str>) -> anyhow::Result<Result<(), String>> {
        let behind = self.last.map_or(Nanos::ZERO, |last| Nanos(last.0.saturating_add(1)));
        let outcome = self.encoder.policy(at.max(behind), text, &mut self.output);
        if self.output.len() >= BLOCK_BYTES {
            self.hand_on()?;
        }
        Ok(outcome)
    }

    /// Completes the trace and returns how many records it holds.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> anyhow::Result<u64> {
        self.encoder.finish(&mut self.output);
        if !self.output.is_empty() {
            self.hand_on()?;
        }
        self.join()?;
        if let Place::File { partial, path } = &self.place {
            fs::rename(partial, path).with_context(|| format!("cannot name {}", path.display()))?;
        }
        self.place = Place::Other;
        Ok(self.records)
    }

    fn hand_on(&mut self) -> anyhow::Result<()> {
        let mut next = self.emptied.try_recv().unwrap_or_default();
        next.clear();
        let full = std::mem::replace(&mut self.output, next);
        let blocks = self.blocks.as_ref().expect("only the end takes it");
        if blocks.send(full).is_err() {
            self.join()?;
        }
        Ok(())
    }

    /// Lets the thread end and gives its error.
    fn join(&mut self) -> anyhow::Result<()> {
        self.blocks = None;
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let outcome = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match outcome {
            // Whoever read our output has seen enough; that is for the caller to judge.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(error.into()),
            Err(error) => Err(error).with_context(|| format!("cannot write {}", self.name)),
            Ok(()) => Ok(()),
        }
    }
}

impl Drop for TraceWriter {
    fn drop(&mut self) {
        self.blocks = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
        if let Place::File { partial, .. } = &self.place {
            // It was not completed; half of a trace helps nobody.
            let _ = fs::remove_file(partial);
        }
    }
}

/// The format to write at `path`.
///
/// # Errors
/// [`Exit::Usage`] if the name does not tell it.
pub(super) fn output_format(path: &Path, format: Option<Format>) -> anyhow::Result<Format> {
    let by_name = || {
        if path == Path::new(STDOUT) {
            return Some(Format::Native);
        }
        Format::for_writing(&Compression::plain_name(path))
    };
    format.or_else(by_name).ok_or_else(|| {
        let known: Vec<_> = Format::ALL.into_iter().map(Format::name).collect();
        let known = known.join(", ");
        Exit::Usage.because(format!(
            "the name {} does not tell its format; give it with --to (known are {known})",
            path.display()
        ))
    })
}

fn open(path: &Path) -> io::Result<(File, Place)> {
    if path == Path::new(STDOUT) {
        return Ok((File::from(io::stdout().as_fd().try_clone_to_owned()?), Place::Other));
    }
    let is_special = fs::metadata(path).is_ok_and(|about| !about.is_file());
    if is_special {
        return Ok((File::options().write(true).open(path)?, Place::Other));
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let file = File::create(&partial)?;
    Ok((file, Place::File { partial, path: path.to_path_buf() }))
}

fn pack(
    mut packer: Packer,
    blocks: &Receiver<Vec<u8>>,
    emptied: &SyncSender<Vec<u8>>,
) -> io::Result<()> {
    for block in blocks {
        packer.write_all(&block)?;
        let _ = emptied.try_send(block);
    }
    packer.finish()
}
