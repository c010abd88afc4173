//! The flight recorder: a recording without an end and without a file, of which the last minutes
//! are kept in memory.
//!
//! ```text
//! lanes -> queue -> Writer thread: sorts, encodes -> Recent (16 MiB, 5 minutes) <- whoever asks
//! ```
//!
//! It is a [`Recorder`] like that of `--record`, beside it, and holds up the data path as little:
//! the requests of a queue that is full are dropped. Whoever asks for the trace holds up the
//! writer, for some milliseconds.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_core::time::{Nanos, Span};
use evenkeel_trace::format::native::{NativeEncoder, Recent, RecentBounds};

use super::{PrintPolicy, Recorder, Sink, locked};

/// What a flight recorder keeps: 16 MiB, which is more than a million requests, and no longer than
/// five minutes.
pub const FLIGHT_BOUNDS: RecentBounds =
    RecentBounds { bytes_max: 16 << 20, age_max: Span::from_secs(300) };

/// How long a request that has not ended keeps those behind it out of the trace: an export that
/// hangs must not hide what its neighbours ask.
const HELD_MAX: Span = Span::from_secs(10);

/// Keeps the last requests of one gate.
pub struct Flight {
    recorder: Arc<Recorder>,
    recent: Arc<Mutex<Recent>>,
    /// Requests that had been dropped when somebody last asked.
    dropped: AtomicU64,
}

impl Flight {
    /// Starts the thread that encodes. `print` writes the policies that the requests are served
    /// under.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(print: PrintPolicy) -> io::Result<Arc<Self>> {
        let recent = Arc::new(Mutex::new(Recent::new(FLIGHT_BOUNDS)));
        let sink = Box::new(InMemory(Arc::clone(&recent)));
        let encoder = Box::new(|| Box::new(NativeEncoder::endless()) as _);
        let name = "the flight recorder";
        let recorder = Recorder::holding(HELD_MAX, name, encoder, print, sink)?;
        Ok(Arc::new(Self { recorder, recent, dropped: AtomicU64::new(0) }))
    }

    /// What the lanes write to.
    pub(crate) fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    /// The trace of the last minutes, as a whole file. `now` is the gate's instant.
    pub(crate) fn trace(&self, now: Nanos) -> Vec<u8> {
        let dropped = self.recorder.report().dropped;
        let lately = dropped.saturating_sub(self.dropped.swap(dropped, Ordering::Relaxed));
        if lately > 0 {
            tracing::warn!(lately, "the flight recorder could not keep up, and dropped requests");
        }
        // The machine's clock may have been set since the gate started: reckoned from now.
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ns = u64::try_from(unix.as_nanos()).unwrap_or(0);
        let zero_ns = unix_ns.saturating_sub(now.since(self.recorder.started_at()).0);
        locked(&self.recent).file(zero_ns)
    }
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flight({} bytes)", locked(&self.recent).bytes())
    }
}

/// Where the recording goes.
struct InMemory(Arc<Mutex<Recent>>);

impl Sink for InMemory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        locked(&self.0).take(bytes).map_err(io::Error::other)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}
