//! A line for every request of a replay, handed in blocks to whoever writes it down.
//!
//! The thread that makes the load never waits for a disk: a block that cannot be handed over is
//! dropped and counted.

use std::cell::{Cell, RefCell};
use std::sync::mpsc::SyncSender;

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

/// Entries of one block.
const BLOCK_ENTRIES: usize = 1024;

/// How one request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Which export, by its index in the plan.
    pub target: u32,
    /// What it did.
    pub kind: Kind,
    /// First byte, in the export.
    pub offset: u64,
    /// Bytes.
    pub size_bytes: u32,
    /// When it ended, since the start of the replay.
    pub ended: Span,
    /// From the instant that it was due to the instant that it was sent.
    pub late: Span,
    /// From sending to the answer.
    pub service: Span,
}

/// The log of one client.
#[derive(Debug)]
pub(crate) struct RequestLog {
    target: u32,
    start: Nanos,
    block: RefCell<Vec<LogEntry>>,
    sink: SyncSender<Vec<LogEntry>>,
    dropped: Cell<u64>,
}

/// What the client knows of a request that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged {
    pub(crate) kind: Kind,
    pub(crate) offset: u64,
    pub(crate) size_bytes: u32,
    pub(crate) due: Nanos,
    pub(crate) sent: Nanos,
}

impl RequestLog {
    pub(super) fn new(target: u32, start: Nanos, sink: SyncSender<Vec<LogEntry>>) -> Self {
        let block = RefCell::new(Vec::with_capacity(BLOCK_ENTRIES));
        Self { target, start, block, sink, dropped: Cell::new(0) }
    }

    /// A request ended.
    pub(crate) fn ended(&self, now: Nanos, request: Logged) {
        let mut block = self.block.borrow_mut();
        block.push(LogEntry {
            target: self.target,
            kind: request.kind,
            offset: request.offset,
            size_bytes: request.size_bytes,
            ended: now.since(self.start),
            late: request.sent.since(request.due),
            service: now.since(request.sent),
        });
        if block.len() == BLOCK_ENTRIES {
            self.hand_over(&mut block);
        }
    }

    /// Hands over what is left and returns how many entries were dropped.
    pub(super) fn close(self) -> u64 {
        self.hand_over(&mut self.block.borrow_mut());
        self.dropped.get()
    }

    fn hand_over(&self, block: &mut Vec<LogEntry>) {
        let full = std::mem::replace(block, Vec::with_capacity(BLOCK_ENTRIES));
        let count = full.len() as u64;
        if count > 0 && self.sink.try_send(full).is_err() {
            self.dropped.set(self.dropped.get() + count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_takes_is_dropped_and_counted() {
        let (sink, taken) = std::sync::mpsc::sync_channel(1);
        let log = RequestLog::new(3, Nanos(100), sink);
        let request = Logged {
            kind: Kind::Read,
            offset: 8,
            size_bytes: 4,
            due: Nanos(110),
            sent: Nanos(115),
        };
        for _ in 0..2 * BLOCK_ENTRIES + 5 {
            log.ended(Nanos(130), request);
        }
        assert_eq!(log.close(), (BLOCK_ENTRIES + 5) as u64);
        let block = taken.try_recv().unwrap();
        assert_eq!((block.len(), block[0].target), (BLOCK_ENTRIES, 3));
        let first = block[0];
        assert_eq!((first.ended, first.late, first.service), (Span(30), Span(5), Span(15)));
    }
}
