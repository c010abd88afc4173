//! A timer that fires to the microsecond. The runtime's own timers round up to whole milliseconds,
//! which an open loop would count as latency, and an emulated drive would be slower by.

#![expect(unsafe_code, reason = "a descriptor is registered with the reactor")]

use std::io;
use std::task::{Context, Poll, ready};

use evenkeel_core::time::Span;
use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// One timer of the kernel.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: AsyncFd<OwnedFd>,
}

impl Alarm {
    /// A timer that is not set. Must be called on the runtime that will poll it.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: the descriptor is owned by what `AsyncFd` takes in, names the same open timer for
        // all of that time, and is closed only after it was taken off the reactor.
        let timer = unsafe { AsyncFd::register(timer)? };
        Ok(Self { timer })
    }

    /// Fires once after `span`, in place of whatever was set before.
    pub(crate) fn set(&self, span: Span) -> io::Result<()> {
        // A span of zero would disarm the timer.
        let ns = i64::try_from(span.0.max(1)).unwrap_or(i64::MAX);
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
        let spec = Itimerspec { it_interval: zero, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec)?;
        Ok(())
    }

    /// Ready once for each time that it fired.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.timer.poll_read_ready(cx))?;
            let mut count = [0; 8];
            match rustix::io::read(&self.timer, &mut count) {
                Ok(_) => return Poll::Ready(Ok(())),
                Err(rustix::io::Errno::AGAIN) => guard.clear_ready(),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn it_fires_after_the_span_and_not_before() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let alarm = Alarm::new().unwrap();
            let start = Instant::now();
            alarm.set(Span::from_micros(300)).unwrap();
            std::future::poll_fn(|cx| alarm.poll(cx)).await.unwrap();
            assert!(start.elapsed() >= Duration::from_micros(300));
        });
    }
}
