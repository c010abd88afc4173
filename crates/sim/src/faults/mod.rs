//! What goes wrong in a run: a list of faults, each with its window of time.

mod device;
mod warp;

use std::ops::Range;

use evenkeel_core::time::{Nanos, Span};

pub(crate) use device::Faulty;

/// One fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What.
    pub what: FaultKind,
    /// When it begins, counted from the start of the run.
    pub start: Span,
    /// For how long.
    pub length: Span,
}

impl Fault {
    /// Its instants.
    pub(crate) fn window(&self) -> Range<Nanos> {
        let start = Nanos::ZERO + self.start;
        start..start + self.length
    }
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// The device of a backend takes longer for everything.
    SlowDevice {
        /// The backend.
        backend: String,
        /// How much longer, in percent; 100 is no change, 250 takes two and a half times as long.
        time_percent: u32,
    },
    /// It answers nothing; what it was doing goes on afterwards.
    StuckDevice {
        /// The backend.
        backend: String,
    },
    /// It answers some requests with an error.
    FailingDevice {
        /// The backend.
        backend: String,
        /// Requests that fail, in thousandths.
        permille: u32,
    },
    /// It acknowledges writes and flushes at once and performs none of them. The gate cannot know;
    /// the summary does.
    LyingDevice {
        /// The backend.
        backend: String,
    },
    /// The gate dies with all that it knows, and comes back at the end of the window. Clients send
    /// again whatever was not answered.
    GateRestart,
    /// A link loses or delays more than usual.
    Link {
        /// Which.
        place: LinkPlace,
        /// Messages lost beside the link's own losses, in millionths.
        loss_ppm: u32,
        /// Added to the propagation delay.
        delay: Span,
    },
}

/// One link of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkPlace {
    /// From the gate to this backend.
    Backend(String),
    /// From the clients of this workload or replay to the gate.
    Workload(String),
}
