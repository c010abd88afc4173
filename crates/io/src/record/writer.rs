//! The disk's end of a recording: puts the lanes' requests in order of arrival and writes them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use evenkeel_core::time::Nanos;
use evenkeel_trace::codec::Encoder;
use evenkeel_trace::{Record, SourceId, Sources};

use super::{Block, Counts, Sink};

/// How long the writer waits for a block before it looks at the watermarks again.
const ROUND: Duration = Duration::from_millis(200);

/// How often what was written is made readable: what a gate that is killed may lose.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// Requests that wait for older ones to end; with more, the oldest are written all the same.
pub(super) const PENDING_MAX: usize = 1 << 18;

/// Encoded bytes are handed on in pieces of about this size.
const OUTPUT_BYTES: usize = 256 << 10;

/// Orders, encodes and writes.
pub(super) struct Writer {
    encoder: Box<dyn Encoder>,
    /// None once it has failed.
    sink: Option<Box<dyn Sink>>,
    counts: Arc<Counts>,
    sources: Sources,
    /// By lane: its numbers for sources to ours.
    numbers: BTreeMap<u32, Vec<SourceId>>,
    /// In order of arrival but for what came in this round.
    pending: Vec<Record>,
    written_to: Nanos,
    output: Vec<u8>,
    /// Requests, and when, at the last flush.
    flushed: (u64, Instant),
}

impl Writer {
    pub(super) fn new(encoder: Box<dyn Encoder>, sink: Box<dyn Sink>, counts: Arc<Counts>) -> Self {
        Self {
            encoder,
            sink: Some(sink),
            counts,
            sources: Sources::default(),
            numbers: BTreeMap::new(),
            pending: Vec::new(),
            written_to: Nanos::ZERO,
            output: Vec::new(),
            flushed: (0, Instant::now()),
        }
    }

    /// Writes until every sender is gone. `watermark` tells what is complete.
    pub(super) fn run(mut self, blocks: &Receiver<Block>, watermark: impl Fn() -> Nanos) {
        loop {
            // Before the queue is emptied: all that the mark promises is in it.
            let complete_to = watermark();
            let first = blocks.recv_timeout(ROUND);
            let is_over = matches!(first, Err(RecvTimeoutError::Disconnected));
            first.into_iter().chain(blocks.try_iter()).for_each(|block| self.take(block));
            self.write(if is_over { Nanos(u64::MAX) } else { complete_to });
            if is_over {
                return self.finish();
            }
            self.flush();
        }
    }

    /// Takes a block in.
    fn take(&mut self, block: Block) {
        let numbers = self.numbers.entry(block.lane).or_default();
        for name in &block.names {
            // A gate has fewer tenants and exports than a trace may have sources.
            let known = self.sources.intern(name);
            numbers.push(known.unwrap_or_default());
        }
        let records = block
            .records
            .into_iter()
            .map(|record| Record { source: numbers[record.source.0 as usize], ..record });
        self.pending.extend(records);
    }

    /// Writes what arrived before `complete_to`, and more if too much waits.
    fn write(&mut self, complete_to: Nanos) {
        // The sort is stable and finds runs: what is in order costs one comparison each.
        self.pending.sort_by_key(|record| record.at);
        let complete = self.pending.partition_point(|record| record.at < complete_to);
        let count = complete.max(self.pending.len().saturating_sub(PENDING_MAX));
        let mut pending = std::mem::take(&mut self.pending);
        for record in pending.drain(..count) {
            self.encode(record);
        }
        self.pending = pending;
        self.hand_on();
    }

    fn encode(&mut self, mut record: Record) {
        if record.at < self.written_to {
            record.at = self.written_to;
            self.counts.late.fetch_add(1, Ordering::Relaxed);
        }
        self.written_to = record.at;
        if self.sink.is_none() {
            return self.counts.drop_requests(1);
        }
        match self.encoder.encode(&self.sources, &record, &mut self.output) {
            Ok(()) => {
                self.counts.requests.fetch_add(1, Ordering::Relaxed);
            }
            Err(what) => {
                tracing::warn!(what, "a request cannot be recorded");
                self.counts.drop_requests(1);
            }
        }
        if self.output.len() >= OUTPUT_BYTES {
            self.hand_on();
        }
    }

    fn hand_on(&mut self) {
        if let Some(sink) = &mut self.sink
            && !self.output.is_empty()
        {
            match sink.write(&self.output) {
                Ok(()) => {
                    self.counts.bytes.fetch_add(self.output.len() as u64, Ordering::Relaxed);
                }
                Err(error) => self.fail(&error),
            }
        }
        self.output.clear();
    }

    fn flush(&mut self) {
        let (requests, at) = self.flushed;
        let written = self.counts.requests.load(Ordering::Relaxed);
        if written == requests || at.elapsed() < FLUSH_EVERY {
            return;
        }
        self.flushed = (written, Instant::now());
        self.encoder.flush(&mut self.output);
        self.hand_on();
        if let Some(Err(error)) = self.sink.as_mut().map(|sink| sink.flush()) {
            self.fail(&error);
        }
    }

    fn finish(mut self) {
        self.encoder.finish(&mut self.output);
        self.hand_on();
        if let Some(sink) = self.sink.take()
            && let Err(error) = sink.finish()
        {
            self.fail(&error);
        }
    }

    fn fail(&mut self, error: &std::io::Error) {
        tracing::error!(%error, "the recording cannot be written; what follows is dropped");
        let _ = self.counts.trouble.set(error.to_string());
        self.sink = None;
    }
}
