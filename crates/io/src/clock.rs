//! The one place where real time enters: nanoseconds since the gate started.

use std::time::{Duration, Instant};

use evenkeel_core::time::{Nanos, Span};
use rustix::time::{ClockId, clock_gettime};

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

/// Time since the machine was started, suspended or not: what leases and locks are judged by. The
/// runtime's clock stands still while the machine sleeps; other gates' clocks do not.
pub(crate) fn since_boot() -> Nanos {
    let now = clock_gettime(ClockId::Boottime);
    let [seconds, nanos] = [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    Nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// The span as the standard library wants it.
pub(crate) fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.0)
}
