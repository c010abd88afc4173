//! What a client does next: a request drawn from its seed, or the next one of a trace.

use std::task::Context;

use evenkeel_core::time::Nanos;
use evenkeel_core::workload::{self, Draw, Drawer, Pace, Schedule};

use super::replay::{Due, Feed};

/// The source of a client's requests.
#[derive(Debug)]
pub(super) enum Work {
    /// Drawn, at a pace.
    Drawn(Box<Drawer>, Pace),
    /// Replayed.
    Replayed(Feed),
}

impl Work {
    /// When the next request may start. A replay keeps the times of its trace.
    pub(super) fn due(&mut self, cx: &mut Context<'_>, now: Nanos, schedule: &Schedule) -> Due {
        match self {
            Self::Drawn(_, pace) => match schedule.due(now, pace) {
                workload::Due::At(due) => Due::Now(due),
                workload::Due::Later(at) => Due::Later(at),
                workload::Due::Never => Due::Never,
            },
            Self::Replayed(feed) => feed.due(cx, now),
        }
    }

    /// Requests that were due and never started, of so many at most.
    pub(super) fn overdue(&self, schedule: &Schedule, most: u64) -> u64 {
        match self {
            Self::Drawn(_, pace) => schedule.overdue(&mut pace.clone(), most),
            Self::Replayed(_) => 0,
        }
    }

    /// Takes the request that is due.
    pub(super) fn take(&mut self) -> Draw {
        match self {
            Self::Drawn(drawer, _) => drawer.draw(),
            Self::Replayed(feed) => feed.take(),
        }
    }

    /// The request that was taken starts.
    pub(super) fn started(&mut self) {
        if let Self::Drawn(_, pace) = self {
            pace.advance();
        }
    }

    /// A request was answered; a write among them, and well.
    pub(super) fn answered(&mut self, now: Nanos, is_good_write: bool) {
        match self {
            Self::Drawn(drawer, _) if is_good_write => drawer.write_acknowledged(),
            Self::Drawn(..) => {}
            Self::Replayed(feed) => feed.answered(now),
        }
    }

    /// Whether no request is left.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Replayed(feed) if feed.is_over())
    }
}
