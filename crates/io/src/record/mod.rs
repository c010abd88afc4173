//! The gate's own recording: every request that it served, as a trace.
//!
//! ```text
//! worker: domain -> Lane, a block of 1024 --try_send--> queue of 256 blocks
//!                     |                                        |
//!                     `-- watermark                       Writer thread: sorts by arrival,
//!                                                         encodes, writes
//! ```
//!
//! A request is recorded when it ends, with the instant at which it arrived; a trace is in the
//! order of arrival. Each lane therefore tells a *watermark*, the arrival of the oldest of its
//! requests still under way: what arrived before the least watermark of all lanes is complete and
//! can be written.
//!
//! Policies do not take the lanes' way. The gate notes each one, with its instant, before any
//! worker hears of it; the writer looks for them after it emptied the queue and before it writes:
//!
//! ```text
//! gate     [lock, clock: t, note, unlock]  tell every worker   requests under it: at >= t
//! writer   requests up to r taken   [lock, take notes, unlock]   write; a later note: t >= r
//! ```
//!
//! So a policy stands in front of every request that was admitted under it. A worker takes it up
//! between two of its turns: what reaches it after `t` and before that is recorded behind the
//! policy, though it was admitted under the one before.
//!
//! There may be two of them: the recording that somebody asked for, and the [flight](Flight)
//! recorder, which every gate that is served has (`Both`).
//!
//! The data path never waits for the disk. A block that finds the queue full is dropped and
//! counted, as is everything after the disk refused to write.

mod both;
mod flight;
mod lane;
mod writer;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};

use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::policy::Policy;
use evenkeel_trace::Record;
use evenkeel_trace::codec::{Encoder, RecordedPolicy};

pub(crate) use both::{Both, Lanes};
pub use flight::{FLIGHT_BOUNDS, Flight};
pub(crate) use lane::{Lane, RecordedAs, Started};
use writer::Writer;

/// Blocks that wait for the writer: a quarter of a million requests.
const QUEUE_BLOCKS: usize = 256;

/// With so many of them it does not wait for its next round.
const WAKING_BLOCKS: u64 = 64;

/// Policies that wait for the writer. With more, the last of them is recorded as not known.
const POLICIES_MAX: usize = 64;

/// Where the bytes of a recording go, and what becomes of them there (compression, say).
pub trait Sink: Send {
    /// Takes bytes.
    ///
    /// # Errors
    /// If they cannot be kept; the recording is over then.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes all that it took readable by others.
    ///
    /// # Errors
    /// If it cannot be written; the recording is over then.
    fn flush(&mut self) -> io::Result<()>;

    /// Takes no more: completes what was written.
    ///
    /// # Errors
    /// If it cannot be completed.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Makes the encoder of a recording, on the thread that will use it.
pub type MakeEncoder = Box<dyn FnOnce() -> Box<dyn Encoder> + Send>;

/// Writes a policy as the text that a recording keeps: complete, and without secrets.
pub type PrintPolicy = fn(&Policy) -> String;

/// Policies that wait for the writer, in the order of their instants.
type Notes = Arc<Mutex<Vec<RecordedPolicy>>>;

/// A recording under way. Give it to a gate to fill, and [`finish`](Self::finish) it.
pub struct Recorder {
    name: String,
    counts: Arc<Counts>,
    /// Arrivals count from here: when the first worker took part.
    started: OnceLock<Nanos>,
    /// By lane. A lane that has ended holds `u64::MAX`.
    watermarks: Arc<Mutex<Vec<Arc<AtomicU64>>>>,
    lanes: AtomicU32,
    print: PrintPolicy,
    notes: Notes,
    queue: Mutex<Option<Queue>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// How a recording stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingReport {
    /// Where it goes, for people.
    pub name: String,
    /// Requests written.
    pub requests: u64,
    /// Requests dropped because the disk could not keep up, or refused.
    pub dropped: u64,
    /// Requests among the written whose arrival is stated later than it was: they took so long
    /// that those behind them had been written.
    pub late: u64,
    /// Bytes of the trace, before compression.
    pub bytes: u64,
    /// Why the disk refused, if it did.
    pub trouble: Option<String>,
}

/// What the data path hands to the writer.
#[derive(Debug)]
struct Block {
    lane: u32,
    /// Names of sources that are new in this block, in the order of the lane's numbers.
    names: Vec<String>,
    /// With the lane's numbers for sources.
    records: Vec<Record>,
    /// Nothing more comes of the lane.
    is_last: bool,
}

/// The way to the writer.
#[derive(Clone, Debug)]
struct Queue {
    blocks: SyncSender<Block>,
    /// Blocks in it, but for what is being sent or taken.
    waiting: Arc<AtomicU64>,
    writer: Thread,
}

#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    dropped: AtomicU64,
    late: AtomicU64,
    bytes: AtomicU64,
    trouble: OnceLock<String>,
}

impl Recorder {
    /// Starts the thread that writes. `name` tells people where the trace goes.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(
        name: &str,
        encoder: MakeEncoder,
        print: PrintPolicy,
        sink: Box<dyn Sink>,
    ) -> io::Result<Arc<Self>> {
        Self::holding(Span(u64::MAX), name, encoder, print, sink)
    }

    /// The same for one where requests wait no longer than this for older ones that have not ended;
    /// those are then stated later than they came.
    fn holding(
        held_max: Span,
        name: &str,
        encoder: MakeEncoder,
        print: PrintPolicy,
        sink: Box<dyn Sink>,
    ) -> io::Result<Arc<Self>> {
        let (sender, blocks) = sync_channel(QUEUE_BLOCKS);
        let waiting = Arc::<AtomicU64>::default();
        let counts = Arc::<Counts>::default();
        let watermarks = Arc::<Mutex<Vec<Arc<AtomicU64>>>>::default();
        let notes = Notes::default();
        let (known, policies, counted) =
            (Arc::clone(&watermarks), Arc::clone(&notes), Arc::clone(&counts));
        let taken = Arc::clone(&waiting);
        let writer = std::thread::Builder::new().name("record".to_owned()).spawn(move || {
            let take_notes = || std::mem::take(&mut *locked(&policies));
            let writer = Writer::new(encoder(), sink, counted, held_max);
            writer.run((&blocks, &taken), || least(&known), take_notes);
        })?;
        let queue = Queue { blocks: sender, waiting, writer: writer.thread().clone() };
        Ok(Arc::new(Self {
            name: name.to_owned(),
            counts,
            started: OnceLock::new(),
            watermarks,
            lanes: AtomicU32::new(0),
            print,
            notes,
            queue: Mutex::new(Some(queue)),
            writer: Mutex::new(Some(writer)),
        }))
    }

    /// How it stands.
    pub fn report(&self) -> RecordingReport {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RecordingReport {
            name: self.name.clone(),
            requests: count(&self.counts.requests),
            dropped: count(&self.counts.dropped),
            late: count(&self.counts.late),
            bytes: count(&self.counts.bytes),
            trouble: self.counts.trouble.get().cloned(),
        }
    }

    /// Writes what is left and completes the trace. No gate may be filling it any more.
    pub fn finish(&self) -> RecordingReport {
        drop(locked(&self.queue).take());
        if let Some(writer) = locked(&self.writer).take()
            && join(writer).is_err()
        {
            // Its own panic has been shown; the trace is what it is.
            let _ = self.counts.trouble.set("the writer ended early; this is a bug".to_owned());
        }
        self.report()
    }

    /// A policy is about to be put in force; `clock` tells the instant. Before the first lane it is
    /// the one that the recording opens with.
    pub(crate) fn policy(&self, policy: &Policy, clock: impl FnOnce() -> Nanos) {
        let text = (self.print)(policy);
        let mut notes = locked(&self.notes);
        // The writer cannot look meanwhile: what it has written came before this instant.
        let at = self.started.get().map_or(Nanos::ZERO, |started| Nanos(clock().since(*started).0));
        if notes.len() < POLICIES_MAX {
            notes.push(RecordedPolicy { at, text: Some(text) });
        } else if let Some(last) = notes.last_mut() {
            tracing::warn!("the recording cannot keep up with the policies; one is left out");
            last.text = None;
        }
    }

    /// The instant that arrivals count from; zero while there is no lane.
    pub(crate) fn started_at(&self) -> Nanos {
        self.started.get().copied().unwrap_or_default()
    }

    /// A lane for a domain, from `now` on; none once the recording is finished.
    pub(crate) fn lane(&self, now: Nanos) -> Option<Lane> {
        let queue = locked(&self.queue).clone()?;
        let started = *self.started.get_or_init(|| now);
        let watermark = Arc::new(AtomicU64::new(now.since(started).0));
        locked(&self.watermarks).push(Arc::clone(&watermark));
        let id = self.lanes.fetch_add(1, Ordering::Relaxed);
        Some(Lane::new((id, started), queue, watermark, Arc::clone(&self.counts)))
    }
}

impl Queue {
    /// Hands a block to the writer, or gives it back if there is no room.
    fn send(&self, block: Block) -> Result<(), Block> {
        // Before it is there: the writer may take it at once.
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        self.blocks.try_send(block).map_err(|refused| {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            match refused {
                TrySendError::Full(block) | TrySendError::Disconnected(block) => block,
            }
        })?;
        if before + 1 == WAKING_BLOCKS {
            self.writer.unpark();
        }
        Ok(())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.finish();
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder({})", self.name)
    }
}

impl Counts {
    fn drop_requests(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }
}

/// The least watermark: what arrived before it has been handed over, or dropped.
fn least(watermarks: &Mutex<Vec<Arc<AtomicU64>>>) -> Nanos {
    let mut watermarks = locked(watermarks);
    // Acquire: with the mark come the blocks that were sent before it.
    watermarks.retain(|mark| mark.load(Ordering::Acquire) < u64::MAX);
    let marks = watermarks.iter().map(|mark| mark.load(Ordering::Acquire));
    Nanos(marks.min().unwrap_or(0))
}

/// Wakes the writer and waits until it has ended.
fn join(writer: JoinHandle<()>) -> std::thread::Result<()> {
    writer.thread().unpark();
    writer.join()
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
