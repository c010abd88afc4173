//! The disk's end of a recording: puts the lanes' requests in order of arrival and writes them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use evenkeel_core::time::{Nanos, Span};
use evenkeel_trace::codec::{Encoder, RecordedPolicy};
use evenkeel_trace::{Record, SourceId, Sources};

use super::{Block, Counts, QUEUE_BLOCKS, Sink};

/// How often the writer looks for blocks and at the watermarks. A block does not wake it, but many
/// do: under load that would be hundreds of times a second, and who wakes pays for it too.
const ROUND: Duration = Duration::from_millis(50);

/// How often what was written is made readable. With a round, and what quiet domains have not
/// handed over, a gate that is killed loses less than a second.
const FLUSH_EVERY: Duration = Duration::from_millis(400);

/// Requests that wait for older ones to end; with more, the oldest are written all the same.
pub(super) const PENDING_MAX: usize = 1 << 18;

/// Names of sources that are kept before those are forgotten that no lane knows any more.
const NAMES_KEPT: usize = 1 << 14;

/// Encoded bytes are handed on in pieces of about this size.
const OUTPUT_BYTES: usize = 256 << 10;

/// What a round leaves in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queued {
    PerhapsMore,
    Nothing,
    /// Every lane and the recorder are gone.
    NothingEver,
}

/// Orders, encodes and writes.
pub(super) struct Writer {
    encoder: Box<dyn Encoder>,
    /// None once it has failed.
    sink: Option<Box<dyn Sink>>,
    counts: Arc<Counts>,
    /// How long requests wait for older ones to end.
    held_max: Span,
    sources: Sources,
    /// With so many, those that no lane knows are forgotten.
    sources_max: usize,
    /// By lane: its numbers for sources to ours.
    numbers: BTreeMap<u32, Vec<SourceId>>,
    /// In order of arrival but for what came in this round.
    pending: Vec<Record>,
    /// The instant of the last request written.
    written_to: Option<Nanos>,
    /// In the order of their instants.
    policies: VecDeque<RecordedPolicy>,
    /// The text of the last one written.
    policy: Option<String>,
    output: Vec<u8>,
    /// Whether anything was written since the last flush, and when that was.
    flushed: (bool, Instant),
}

impl Writer {
    pub(super) fn new(
        encoder: Box<dyn Encoder>,
        sink: Box<dyn Sink>,
        counts: Arc<Counts>,
        held_max: Span,
    ) -> Self {
        Self {
            encoder,
            sink: Some(sink),
            counts,
            held_max,
            sources: Sources::default(),
            sources_max: NAMES_KEPT,
            numbers: BTreeMap::new(),
            pending: Vec::new(),
            written_to: None,
            policies: VecDeque::new(),
            policy: None,
            output: Vec::new(),
            flushed: (true, Instant::now()),
        }
    }

    /// Writes until every sender is gone. `watermark` tells what is complete, `notes` gives the
    /// policies that were put in force.
    pub(super) fn run(
        mut self,
        (blocks, waiting): (&Receiver<Block>, &AtomicU64),
        watermark: impl Fn() -> Nanos,
        notes: impl Fn() -> Vec<RecordedPolicy>,
    ) {
        let mut queue = Queued::Nothing;
        loop {
            if queue == Queued::Nothing {
                // Whoever ends the recording does not wait for the round to end.
                std::thread::park_timeout(ROUND);
            }
            // Before blocks are taken: all that the mark promises is among the next ones.
            let complete_to = watermark();
            queue = self.take_blocks(blocks, waiting);
            // After they were taken: a policy noted later begins behind all that is here.
            self.policies.extend(notes());
            if queue == Queued::NothingEver {
                self.write(Nanos(u64::MAX));
                return self.finish();
            }
            self.write(complete_to);
            self.flush();
        }
    }

    /// Takes as many blocks as the queue holds, and tells what is left there. Lanes may be quicker
    /// than this thread: whoever went on until nothing is left would keep all in memory, and write
    /// none of it.
    pub(super) fn take_blocks(&mut self, blocks: &Receiver<Block>, waiting: &AtomicU64) -> Queued {
        for _ in 0..QUEUE_BLOCKS {
            match blocks.try_recv() {
                Ok(block) => {
                    waiting.fetch_sub(1, Ordering::Relaxed);
                    self.take(block);
                }
                Err(TryRecvError::Empty) => return Queued::Nothing,
                Err(TryRecvError::Disconnected) => return Queued::NothingEver,
            }
        }
        Queued::PerhapsMore
    }

    /// Takes a block in.
    fn take(&mut self, block: Block) {
        for name in &block.names {
            if self.sources.intern(name).is_none() {
                self.forget_names();
            }
            // A gate has fewer tenants and exports at once than a trace may have sources.
            let known = self.sources.intern(name).unwrap_or_default();
            self.numbers.entry(block.lane).or_default().push(known);
        }
        let numbers = self.numbers.entry(block.lane).or_default();
        let records = block
            .records
            .into_iter()
            .map(|record| Record { source: numbers[record.source.0 as usize], ..record });
        self.pending.extend(records);
        if block.is_last {
            self.numbers.remove(&block.lane);
        }
        if self.sources.names().len() >= self.sources_max {
            self.forget_names();
        }
    }

    /// Forgets the names that are of no use any more. The others get other numbers.
    fn forget_names(&mut self) {
        // The next block of the encoder names its sources again.
        self.encoder.flush(&mut self.output);
        let before = std::mem::take(&mut self.sources);
        let numbers = self.numbers.values_mut().flatten();
        for source in numbers.chain(self.pending.iter_mut().map(|record| &mut record.source)) {
            *source = self.sources.intern(before.name(*source)).unwrap_or_default();
        }
        self.sources_max = NAMES_KEPT.max(2 * self.sources.names().len());
    }

    /// Writes what arrived before `complete_to`, and more if too much waits, or too long.
    fn write(&mut self, complete_to: Nanos) {
        // The sort is stable and finds runs: what is in order costs one comparison each.
        self.pending.sort_by_key(|record| record.at);
        let newest = self.pending.last().map_or(Nanos::ZERO, |record| record.at);
        let complete_to = complete_to.max(Nanos(newest.0.saturating_sub(self.held_max.0)));
        let complete = self.pending.partition_point(|record| record.at < complete_to);
        let count = complete.max(self.pending.len().saturating_sub(PENDING_MAX));
        let mut pending = std::mem::take(&mut self.pending);
        for record in pending.drain(..count) {
            self.encode_policies(record.at);
            self.encode(record);
        }
        self.pending = pending;
        // Whatever comes now arrived later than these.
        self.encode_policies(Nanos(complete_to.0.saturating_sub(1)));
        self.hand_on();
    }

    /// Encodes the policies that came into force up to `until`.
    fn encode_policies(&mut self, until: Nanos) {
        while self.policies.front().is_some_and(|policy| policy.at <= until) {
            let policy = self.policies.pop_front().expect("looked at");
            self.encode_policy(policy);
        }
    }

    fn encode_policy(&mut self, policy: RecordedPolicy) {
        if policy.text == self.policy || self.sink.is_none() {
            return;
        }
        // A clock may show two threads the same instant.
        let behind = self.written_to.map_or(Nanos::ZERO, |last| Nanos(last.0.saturating_add(1)));
        let at = policy.at.max(behind);
        self.flushed.0 = false;
        // What was held back comes behind it, whenever it arrived.
        self.written_to = Some(at);
        self.policy = policy.text;
        let Err(what) = self.encoder.policy(at, self.policy.as_deref(), &mut self.output) else {
            return;
        };
        tracing::warn!(what, "the policy cannot be recorded; the trace says that it is not known");
        self.policy = None;
        if let Err(what) = self.encoder.policy(at, None, &mut self.output) {
            tracing::warn!(what, "the recording cannot say that its policy is not known");
        }
    }

    fn encode(&mut self, mut record: Record) {
        if let Some(written_to) = self.written_to.filter(|&written_to| record.at < written_to) {
            record.at = written_to;
            self.counts.late.fetch_add(1, Ordering::Relaxed);
        }
        self.written_to = Some(record.at);
        self.flushed.0 = false;
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
        let (is_flushed, at) = self.flushed;
        if is_flushed || at.elapsed() < FLUSH_EVERY {
            return;
        }
        self.flushed = (true, Instant::now());
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
