//! What clients do. The words mean what they mean to the live load generator, so that one plan can
//! run in both worlds; the simulator adds think time, bursts, start and stop, and recorded traces.

use std::ops::Range;

use evenkeel_core::time::{Nanos, Span};
use evenkeel_core::workload::{Bursts, Layout, Mix, Pace, Pattern, Turn, WeightedSize};

use crate::link::LinkSpec;

/// Clients that one scenario may have, and records of replays under way beside them.
pub const CLIENTS_MAX: u32 = 1 << 20;

/// What one group of equal clients does.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Its name in the summary.
    pub name: String,
    /// The tenant that its requests count for; `None` lets the policy's matches decide by export.
    pub tenant: Option<String>,
    /// The exports of the policy that it uses; a backend's name stands for the whole backend.
    pub targets: Vec<String>,
    /// How the clients use several targets.
    pub layout: Layout,
    /// How many clients.
    pub clients: u32,
    /// Requests that each client has under way at most.
    pub depth: u32,
    /// When the next request starts.
    pub arrivals: Arrivals,
    /// Sizes to draw from.
    pub sizes: Vec<WeightedSize>,
    /// Offsets to draw.
    pub pattern: Pattern,
    /// Part of the requests that read, 0 to 100; the others write.
    pub read_percent: u8,
    /// Flush after so many writes have been acknowledged; zero never flushes.
    pub flush_every: u32,
    /// The part of each target to use; `None` uses all of it.
    pub range: Option<Range<u64>>,
    /// Requests of all clients together, flushes included; `None` is bounded by the run's length.
    pub requests: Option<u64>,
    /// When the clients begin.
    pub start: Span,
    /// When they send no more; `None` is the end of the run.
    pub stop: Option<Span>,
    /// Intervals in which no request starts.
    pub idle: Vec<Range<Span>>,
    /// The way of each client to the gate and back.
    pub link: LinkSpec,
}

impl Default for Workload {
    /// One client that reads 4 KiB at random, one at a time, from the first instant to the last.
    fn default() -> Self {
        Self {
            name: "load".to_owned(),
            tenant: None,
            targets: Vec::new(),
            layout: Layout::Spread,
            clients: 1,
            depth: 1,
            arrivals: Arrivals::Closed { think: Span::ZERO },
            sizes: vec![WeightedSize { size_bytes: 4096, weight: 1 }],
            pattern: Pattern::Uniform,
            read_percent: 100,
            flush_every: 0,
            range: None,
            requests: None,
            start: Span::ZERO,
            stop: None,
            idle: Vec::new(),
            link: LinkSpec::default(),
        }
    }
}

impl Workload {
    pub(crate) fn mix(&self) -> Mix<'_> {
        Mix {
            sizes: &self.sizes,
            pattern: self.pattern,
            read_percent: self.read_percent,
            fua_percent: 0,
            flush_every: self.flush_every,
        }
    }

    /// When client `index` starts its requests, with the group beginning at `start`.
    pub(crate) fn pace(&self, start: Nanos, index: u32, seed: u64) -> Pace {
        let turn = Turn { start, index, clients: self.clients };
        match self.arrivals {
            Arrivals::Closed { .. } => Pace::closed(),
            Arrivals::Constant { per_second } => Pace::constant(per_second, None, turn),
            Arrivals::OnOff { per_second, on, off } => {
                Pace::constant(per_second, Some(Bursts { on, off }), turn)
            }
            Arrivals::Poisson { per_second } => Pace::poisson(per_second, turn, seed),
        }
    }
}

/// When the next request starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// As soon as a previous one has ended and the client has thought for so long.
    Closed {
        /// From an answer to the next request in its place.
        think: Span,
    },
    /// At equal distances, so many per second over all clients of the group.
    Constant {
        /// Requests per second.
        per_second: f64,
    },
    /// At random, memorylessly, so many per second on average.
    Poisson {
        /// Requests per second.
        per_second: f64,
    },
    /// Bursts: at equal distances while on, not at all while off; the first burst begins with the
    /// workload.
    OnOff {
        /// Requests per second while on, over all clients.
        per_second: f64,
        /// Length of a burst.
        on: Span,
        /// From the end of a burst to the next.
        off: Span,
    },
}

/// A recorded trace as load. Its records are the next stream that the run was given.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// Its name in the summary.
    pub name: String,
    /// Where the records of each source go, by [`evenkeel_trace::SourceId`].
    pub routes: Vec<Route>,
    /// Where the records of all further sources go.
    pub otherwise: Option<Route>,
    /// When each record's request starts.
    pub timing: ReplayTiming,
    /// When the trace's first instant is.
    pub start: Span,
    /// When it sends no more; `None` is the end of the trace or of the run.
    pub stop: Option<Span>,
    /// It goes on for the replay before it in the list: what that one still has under way takes
    /// places of this one.
    pub continues: bool,
    /// Requests that are sent at once; further ones wait before they are, and their waiting counts.
    /// `None` sends all.
    pub window: Option<u32>,
    /// The way to the gate and back.
    pub link: LinkSpec,
}

/// Where the records of one source go.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The tenant that they count for; `None` lets the policy's matches decide by export.
    pub tenant: Option<String>,
    /// The export, or the backend as a whole. Offsets beyond its size wrap around.
    pub target: String,
}

/// When a record's request starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayTiming {
    /// When the trace says, whatever happened to earlier ones (open loop).
    Recorded {
        /// How many times as fast, in thousandths; 1000 keeps the recorded pace.
        speed_milli: u32,
    },
    /// As soon as fewer than so many are under way (closed loop); the trace's instants play no
    /// part.
    Closed {
        /// Requests under way.
        depth: u32,
        /// From an answer to the next request in its place.
        think: Span,
    },
}

impl Default for ReplayTiming {
    fn default() -> Self {
        Self::Recorded { speed_milli: 1000 }
    }
}
