//! Reading a trace: from a file or stdin, packed or not, in memory that does not grow with it.
//!
//! ```text
//! thread "trace-read": disk -> unpack --8 x 256 KiB at most--> decoder -> batch of records
//!                          ^                               |
//!                          `------- emptied blocks --------'
//! ```
//!
//! Unpacking has a thread of its own, so that on two cores a trace is read as fast as the slower
//! of unpacking and decoding goes.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::Context;
use evenkeel_trace::codec::{Decoder, Defect, DefectAt, Place, RecordedPolicy};
use evenkeel_trace::format::{Format, Options, Order, TableOptions, foreign, understand};
use evenkeel_trace::{Record, Sources};

use super::compression::{Compression, unpacked};
use super::defects::{Defects, OnDefect};
use crate::exit::Exit;
use crate::terminal;

/// Bytes of one block.
const BLOCK_BYTES: usize = 256 << 10;

/// Blocks between the thread that reads and the decoder.
const BLOCKS_MAX: usize = 8;

/// The name that means stdin.
pub const STDIN: &str = "-";

/// How to read a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Its format; told from its bytes and its name if not given.
    pub format: Option<Format>,
    /// What becomes of pieces that are no records.
    pub on_defect: OnDefect,
    /// The name of the source in formats that tell none; otherwise the file's name.
    pub source: Option<String>,
    /// What is stated of a table's columns.
    pub table: TableOptions,
    /// In which order its records come.
    pub order: Order,
}

/// A trace and how to read it, for whoever reads it more than once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFile {
    /// Where it is.
    pub path: PathBuf,
    /// How to read it.
    pub options: ReadOptions,
}

impl TraceFile {
    /// Opens it.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub fn open(&self) -> anyhow::Result<TraceReader> {
        TraceReader::open(&self.path, &self.options)
    }
}

/// A trace that is being read.
pub struct TraceReader {
    name: String,
    format: Format,
    understood: Option<String>,
    decoder: Box<dyn Decoder>,
    blocks: Receiver<io::Result<Vec<u8>>>,
    emptied: SyncSender<Vec<u8>>,
    /// What the decoder has not used yet begins at `at`.
    input: Vec<u8>,
    at: usize,
    /// Nothing comes behind `input`.
    at_end: bool,
    is_over: bool,
    defects: Defects,
    progress: ReadProgress,
    batch: Vec<Record>,
}

/// How far a trace has been read; cheap to clone, usable from any thread.
#[derive(Clone, Debug, Default)]
pub struct ReadProgress {
    read_bytes: Arc<AtomicU64>,
    /// Zero if it is not known.
    size_bytes: u64,
}

impl ReadProgress {
    /// Of work that is counted in other bytes than those of a file.
    pub fn of_bytes(size_bytes: u64) -> Self {
        Self { read_bytes: Arc::default(), size_bytes }
    }

    /// So many more bytes are done.
    pub fn advance(&self, bytes: u64) {
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of the file read so far, packed as it is.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the file in all, if it is a file.
    pub fn size_bytes(&self) -> Option<u64> {
        (self.size_bytes > 0).then_some(self.size_bytes)
    }
}

impl TraceReader {
    /// Opens the trace at `path`, or that on stdin for `-`.
    ///
    /// # Errors
    /// [`Exit::Invalid`] if its format cannot be told, or as a table may mean several things;
    /// [`Exit::Usage`] if columns are stated of something else; whatever the system says of the
    /// file.
    pub fn open(path: &Path, options: &ReadOptions) -> anyhow::Result<Self> {
        let mut progress = ReadProgress::default();
        let is_stdin = path == Path::new(STDIN);
        let input: Box<dyn Read + Send> = if is_stdin {
            Box::new(io::stdin())
        } else {
            let file = File::open(path).with_context(|| cannot_read(path))?;
            let about = file.metadata().with_context(|| cannot_read(path))?;
            progress.size_bytes = if about.is_file() { about.len() } else { 0 };
            Box::new(file)
        };
        let name = if is_stdin { "stdin".to_owned() } else { path.display().to_string() };
        let counted = Counted { input, read_bytes: Arc::clone(&progress.read_bytes) };
        let (blocks, emptied) = read_ahead(counted).with_context(|| cannot_read(path))?;
        let first = next_block(&blocks, &name)?;
        let at_end = first.is_none();
        let head = first.unwrap_or_default();
        let plain = Compression::plain_name(path);
        let format = format_of(options, &head, &plain, &name)?;
        let understood = understood(format, options, &head, &name)?;
        let source = options.source.clone().unwrap_or_else(|| source_of(&plain, is_stdin));
        let decoder = format.decoder(&Options {
            source,
            table: options.table.clone(),
            order: options.order,
            ..Options::default()
        });
        let defects = Defects::new(options.on_defect);
        Ok(Self {
            name,
            format,
            understood,
            decoder,
            blocks,
            emptied,
            input: head,
            at: 0,
            at_end,
            is_over: false,
            defects,
            progress,
            batch: Vec::new(),
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

    /// Says on stderr how it is read, where its bytes leave that open.
    pub fn tell_understood(&self) {
        if let Some(text) = &self.understood {
            terminal::say(&format!("{}: {text}", self.name));
        }
    }

    /// The sources that have appeared so far.
    pub fn sources(&self) -> &Sources {
        self.decoder.sources()
    }

    /// What was left out so far.
    pub fn defects(&self) -> &Defects {
        &self.defects
    }

    /// The instant that became `at = 0`; see [`Decoder::origin_ns`].
    pub fn origin_ns(&self) -> Option<u64> {
        self.decoder.origin_ns()
    }

    /// The policies that its requests were served under, as far as it has told; see
    /// [`Decoder::policies`].
    pub fn policies(&self) -> &[RecordedPolicy] {
        self.decoder.policies()
    }

    /// How far it has been read.
    pub fn progress(&self) -> ReadProgress {
        self.progress.clone()
    }

    /// Replaces `records` by the next ones, some thousands at once. False at the end, when there
    /// are none.
    ///
    /// # Errors
    /// [`Exit::Invalid`] for a piece that is no record, unless such are skipped; whatever the
    /// system or the unpacking says.
    pub fn next_batch(&mut self, records: &mut Vec<Record>) -> anyhow::Result<bool> {
        records.clear();
        while records.is_empty() && !self.is_over {
            match self.decoder.decode(&self.input[self.at..], self.at_end, records) {
                Ok(used) => {
                    self.at += used;
                    self.is_over = self.at_end;
                    if !self.at_end {
                        self.refill()?;
                    }
                }
                Err(DefectAt { defect, used }) => {
                    self.at += used;
                    self.defects.note(&self.name, &defect)?;
                }
            }
        }
        self.defects.note_passed_over(self.decoder.passed_over());
        Ok(!records.is_empty())
    }

    /// Calls `take` with every record, and the sources so far, until it breaks.
    ///
    /// # Errors
    /// As [`Self::next_batch`], and those of `take`.
    pub fn each(
        &mut self,
        mut take: impl FnMut(&Sources, &Record) -> anyhow::Result<ControlFlow<()>>,
    ) -> anyhow::Result<()> {
        let mut batch = std::mem::take(&mut self.batch);
        while self.next_batch(&mut batch)? {
            let sources = self.decoder.sources();
            for record in &batch {
                if take(sources, record)?.is_break() {
                    return Ok(());
                }
            }
        }
        self.batch = batch;
        Ok(())
    }

    /// Moves what is left to the front and appends the next block.
    fn refill(&mut self) -> anyhow::Result<()> {
        self.input.drain(..self.at);
        self.at = 0;
        let next = match self.blocks.recv() {
            Ok(Ok(block)) => Some(block),
            Ok(Err(error)) => {
                // What was packed behind this place cannot be found.
                let reason = format!("cannot be unpacked from here on: {error}");
                let place = Place::Byte(self.progress.read_bytes());
                self.defects.note(&self.name, &Defect { place, reason })?;
                None
            }
            Err(_) => None,
        };
        match next {
            None => self.at_end = true,
            Some(block) if self.input.is_empty() => {
                let emptied = std::mem::replace(&mut self.input, block);
                // With nobody to fill it again it is not needed again.
                let _ = self.emptied.try_send(emptied);
            }
            Some(block) => {
                self.input.extend_from_slice(&block);
                let _ = self.emptied.try_send(block);
            }
        }
        Ok(())
    }
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

/// The format of a trace that starts with `head`.
fn format_of(
    options: &ReadOptions,
    head: &[u8],
    plain_name: &str,
    name: &str,
) -> anyhow::Result<Format> {
    let told = options.format.or_else(|| Format::detect(head, plain_name));
    if let Some(format) = told {
        return Ok(format);
    }
    if let Some(foreign) = foreign(head) {
        // Titles of which none is known say enough together with what is stated.
        if !options.table.is_empty() && std::str::from_utf8(head).is_ok() {
            return Ok(Format::Csv);
        }
        let remedy = foreign.remedy.replace("FILE", name);
        return Err(Exit::Invalid.because(format!("{name} is {}; {remedy}", foreign.what)));
    }
    if head.is_empty() {
        return Err(Exit::Invalid.because(format!("{name} is empty; a trace has requests")));
    }
    let known: Vec<_> = Format::ALL.into_iter().map(Format::name).collect();
    let known = known.join(", ");
    Err(Exit::Invalid.because(format!(
        "cannot tell the format of {name} from its first bytes or its name; give it with \
         --format (known are {known})"
    )))
}

/// How a trace is read, where its bytes leave that open.
fn understood(
    format: Format,
    options: &ReadOptions,
    head: &[u8],
    name: &str,
) -> anyhow::Result<Option<String>> {
    if format != Format::Csv && !options.table.is_empty() {
        return Err(Exit::Usage.because(format!(
            "--column, --unit and --assume say how to read a table (csv); {name} is {}",
            format.name()
        )));
    }
    match format {
        Format::Csv => {
            // A block that is not full is the whole trace.
            let is_all = head.len() < BLOCK_BYTES;
            let understood = understand(head, is_all, &options.table);
            understood.map(|it| Some(it.text)).map_err(|unclear| {
                let lead = match unclear.problems.len() {
                    1 => format!("{name}: "),
                    _ => format!("{name} leaves open what it means:\n  "),
                };
                Exit::Invalid.because(lead + &unclear.problems.join("\n  "))
            })
        }
        Format::Heimdall if options.format.is_none() => Ok(Some(
            "read as heimdall: times in ms, starts and lengths in bytes, 1 = read".to_owned(),
        )),
        _ => Ok(None),
    }
}

/// What formats without sources call theirs: the file's name up to its first dot.
fn source_of(plain_name: &str, is_stdin: bool) -> String {
    let stem = plain_name.split('.').next().unwrap_or_default();
    if is_stdin || stem.is_empty() { "trace".to_owned() } else { stem.to_owned() }
}

/// Counts the bytes that are read.
struct Counted {
    input: Box<dyn Read + Send>,
    read_bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.input.read(buffer)?;
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

type Blocks = (Receiver<io::Result<Vec<u8>>>, SyncSender<Vec<u8>>);

/// Starts the thread that reads and unpacks. It ends with the input, or when nobody listens.
fn read_ahead(input: Counted) -> io::Result<Blocks> {
    let (blocks, taken) = sync_channel(BLOCKS_MAX);
    let (emptied, to_fill) = sync_channel::<Vec<u8>>(BLOCKS_MAX + 2);
    std::thread::Builder::new().name("trace-read".to_owned()).spawn(move || {
        let mut input = match unpacked(input) {
            Ok(input) => input,
            Err(error) => return drop(blocks.send(Err(error))),
        };
        loop {
            let mut block = to_fill.try_recv().unwrap_or_default();
            let outcome = fill(&mut input, &mut block);
            // What came before an error counts.
            if !block.is_empty() && blocks.send(Ok(block)).is_err() {
                return;
            }
            match outcome {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return drop(blocks.send(Err(error))),
            }
        }
    })?;
    Ok((taken, emptied))
}

/// Fills a block; false if the input ended before it was full. After an error it has what came
/// before that.
fn fill(input: &mut dyn Read, block: &mut Vec<u8>) -> io::Result<bool> {
    block.resize(BLOCK_BYTES, 0);
    let mut filled = 0;
    while filled < BLOCK_BYTES {
        match input.read(&mut block[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                block.truncate(filled);
                return Err(error);
            }
        }
    }
    block.truncate(filled);
    Ok(filled == BLOCK_BYTES)
}

fn next_block(
    blocks: &Receiver<io::Result<Vec<u8>>>,
    name: &str,
) -> anyhow::Result<Option<Vec<u8>>> {
    match blocks.recv() {
        Ok(Ok(block)) => Ok(Some(block)),
        Ok(Err(error)) => {
            let message = format!("cannot read {name}: {error}; is the file complete?");
            Err(Exit::Invalid.because(message))
        }
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests;
