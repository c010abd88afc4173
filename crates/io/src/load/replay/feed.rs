//! The requests of one client of a replay, as they come from the feed thread.

use std::task::{Context, Poll};

use evenkeel_core::time::{Nanos, Span};
use evenkeel_core::workload::Draw;
use tokio::sync::mpsc::Receiver;

use super::map::Step;

/// When the next request may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Now; it was due at this instant.
    Now(Nanos),
    /// Not before this instant.
    Later(Nanos),
    /// Not known: it has still to be read. The task is woken when it is there.
    Unknown,
    /// Never: the trace is at its end.
    Never,
}

/// The requests of one client, in order.
#[derive(Debug)]
pub(crate) struct Feed {
    batches: Receiver<Vec<Step>>,
    batch: std::vec::IntoIter<Step>,
    ended: bool,
    timing: Timing,
}

/// What instants count from.
#[derive(Clone, Copy, Debug)]
enum Timing {
    /// The start of the replay.
    Open { start: Nanos },
    /// The last answer.
    Closed { answered: Nanos },
}

impl Feed {
    pub(super) fn new(batches: Receiver<Vec<Step>>, start: Nanos, is_open: bool) -> Self {
        let timing =
            if is_open { Timing::Open { start } } else { Timing::Closed { answered: start } };
        Self { batches, batch: Vec::new().into_iter(), ended: false, timing }
    }

    /// When the next request may start.
    pub(crate) fn due(&mut self, cx: &mut Context<'_>, now: Nanos) -> Due {
        match self.peek(cx) {
            Poll::Pending => Due::Unknown,
            Poll::Ready(None) => Due::Never,
            Poll::Ready(Some(after)) => {
                let at = match self.timing {
                    Timing::Open { start } => start + after,
                    Timing::Closed { answered } => answered + after,
                };
                match (at > now, self.timing) {
                    (true, _) => Due::Later(at),
                    (false, Timing::Open { .. }) => Due::Now(at),
                    (false, Timing::Closed { .. }) => Due::Now(now),
                }
            }
        }
    }

    /// Takes the request that was due.
    pub(crate) fn take(&mut self) -> Draw {
        self.batch.next().expect("it was due").draw
    }

    /// A request was answered.
    pub(crate) fn answered(&mut self, now: Nanos) {
        if let Timing::Closed { answered } = &mut self.timing {
            *answered = now;
        }
    }

    /// Whether no request is left.
    pub(crate) fn is_over(&self) -> bool {
        self.ended && self.batch.len() == 0
    }

    fn peek(&mut self, cx: &mut Context<'_>) -> Poll<Option<Span>> {
        loop {
            if let Some(step) = self.batch.as_slice().first() {
                return Poll::Ready(Some(step.after));
            }
            match self.batches.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => {
                    self.ended = true;
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(batch)) => self.batch = batch.into_iter(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::ticket::Kind;
    use std::task::Waker;

    const DRAW: Draw = Draw { kind: Kind::Read, offset: 0, size_bytes: 512, fua: false };

    fn feed(after_ns: &[u64], is_open: bool) -> Feed {
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let steps = after_ns.iter().map(|&ns| Step { draw: DRAW, after: Span(ns) }).collect();
        sender.try_send(steps).unwrap();
        Feed::new(receiver, Nanos(1000), is_open)
    }

    #[test]
    fn late_requests_do_not_move_those_behind_them() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut feed = feed(&[10, 20, 300], true);
        assert_eq!(feed.due(&mut cx, Nanos(1005)), Due::Later(Nanos(1010)));
        assert_eq!(feed.due(&mut cx, Nanos(1200)), Due::Now(Nanos(1010)));
        feed.take();
        feed.answered(Nanos(1250));
        assert_eq!(feed.due(&mut cx, Nanos(1260)), Due::Now(Nanos(1020)));
        feed.take();
        assert_eq!(feed.due(&mut cx, Nanos(1260)), Due::Later(Nanos(1300)));
        feed.take();
        assert_eq!(feed.due(&mut cx, Nanos(1300)), Due::Never);
        assert!(feed.is_over());
    }

    #[test]
    fn a_closed_loop_thinks_from_the_last_answer() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut feed = feed(&[0, 50], false);
        assert_eq!(feed.due(&mut cx, Nanos(1400)), Due::Now(Nanos(1400)));
        feed.take();
        feed.answered(Nanos(1500));
        assert_eq!(feed.due(&mut cx, Nanos(1510)), Due::Later(Nanos(1550)));
    }
}
