//! The one place where real time enters: nanoseconds since the gate started.
//!
//! Time that the machine was suspended counts: leases of other gates run on meanwhile.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel_core::time::{Nanos, Span};
use rustix::time::{ClockId, clock_gettime};

/// A monotonic clock with the gate's start as its epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: Nanos,
}

impl Clock {
    /// A clock that reads zero now.
    pub(crate) fn start() -> Self {
        Self { epoch: since_boot() }
    }

    /// Time since the epoch.
    pub(crate) fn now(self) -> Nanos {
        Nanos(since_boot().0 - self.epoch.0)
    }

    /// The instant as the runtime's timers want it. They stand still while the machine sleeps, so
    /// that it is reckoned from now.
    pub(crate) fn instant(self, at: Nanos) -> tokio::time::Instant {
        tokio::time::Instant::now() + duration(at.since(self.now()))
    }
}

/// Time since the machine was started, suspended or not: what leases and locks are judged by. The
/// runtime's clock stands still while the machine sleeps; other gates' clocks do not.
pub(crate) fn since_boot() -> Nanos {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = now.tv_sec.cast_unsigned();
    Nanos(seconds.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec.cast_unsigned()))
}

/// Seconds since 1970 by the machine's clock, which may be wrong and may be set: for people, and
/// for nothing that anything depends on.
pub(crate) fn unix_time_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// By which the kernel tells one start of the machine from the next; empty if it does not say.
pub(crate) fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim_ascii().to_owned()
}

/// The span as the standard library wants it.
pub(crate) fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.0)
}
