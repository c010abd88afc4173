//! The one place where real time enters: nanoseconds since the gate started.

use std::time::{Duration, Instant};

use evenkeel_core::time::{Nanos, Span};

/// A monotonic clock with the gate's start as its epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: Instant,
}

impl Clock {
    /// A clock that reads zero now.
    pub(crate) fn start() -> Self {
        Self { epoch: Instant::now() }
    }

    /// Time since the epoch.
    pub(crate) fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The instant as the runtime's timers want it.
    pub(crate) fn instant(&self, at: Nanos) -> tokio::time::Instant {
        (self.epoch + Duration::from_nanos(at.0)).into()
    }
}

/// The span as the standard library wants it.
pub(crate) fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.0)
}
