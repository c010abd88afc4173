//! The data path's end of a recording: one domain's requests, gathered into blocks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_core::id::TenantId;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;
use evenkeel_trace::{Record, SourceId};

use super::{Block, Counts, Queue};

/// Requests of one block.
const BLOCK_RECORDS: usize = 1024;

/// Sources that a lane of a recording without an end may name: exports come and go for years.
const SOURCES_MAX: usize = 4096;

/// Bytes of their names, likewise.
const NAMES_BYTES_MAX: usize = 1 << 20;

/// One domain's part in a recording.
#[derive(Debug)]
pub(crate) struct Lane {
    id: u32,
    started: Nanos,
    queue: Queue,
    watermark: Arc<AtomicU64>,
    counts: Arc<Counts>,
    /// Numbers of the sources seen so far.
    sources: BTreeMap<String, SourceId>,
    /// Bytes of their names.
    names_bytes: usize,
    /// Names that no block has carried yet.
    names: Vec<String>,
    records: Vec<Record>,
}

/// What a connection is called in a recording; kept by the connection, so that its name need not
/// be looked up for every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordedAs {
    lane: u32,
    tenant: TenantId,
    source: SourceId,
}

/// A request that will be recorded when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Started {
    lane: u32,
    source: SourceId,
    at: Nanos,
}

impl Lane {
    pub(super) fn new(
        (id, started): (u32, Nanos),
        queue: Queue,
        watermark: Arc<AtomicU64>,
        counts: Arc<Counts>,
    ) -> Self {
        let (names, records) = (Vec::new(), Vec::with_capacity(BLOCK_RECORDS));
        Self {
            id,
            started,
            queue,
            watermark,
            counts,
            sources: BTreeMap::new(),
            names_bytes: 0,
            names,
            records,
        }
    }

    /// A request of a connection arrived. `known` is what the connection is called, if it has been
    /// asked before; `name` tells its tenant's and its export's names.
    pub(crate) fn arrived(
        &mut self,
        now: Nanos,
        tenant: TenantId,
        known: &mut Option<RecordedAs>,
        name: impl FnOnce() -> String,
    ) -> Started {
        let source = match *known {
            Some(known) if known.lane == self.id && known.tenant == tenant => known.source,
            _ => {
                let source = self.source(name());
                *known = Some(RecordedAs { lane: self.id, tenant, source });
                source
            }
        };
        Started { lane: self.id, source, at: Nanos(now.since(self.started).0) }
    }

    /// A request ended. `range` is its first byte and its length in the export; `ok` if it was
    /// answered well. True if the block is full: it is time to [flush](Self::flush).
    pub(crate) fn ended(
        &mut self,
        now: Nanos,
        started: Started,
        kind: Kind,
        range: (u64, u64),
        ok: bool,
    ) -> bool {
        if started.lane != self.id {
            // It arrived under an earlier recording.
            return false;
        }
        let ended = Nanos(now.since(self.started).0);
        let (offset, length) = range;
        self.records.push(Record {
            at: started.at,
            source: started.source,
            kind,
            offset,
            length,
            response: ok.then(|| ended.since(started.at)),
        });
        self.records.len() >= BLOCK_RECORDS
    }

    /// Whether it has named so many sources that another lane should take its place.
    pub(crate) fn is_worn(&self) -> bool {
        self.sources.len() >= SOURCES_MAX || self.names_bytes >= NAMES_BYTES_MAX
    }

    /// Hands over what has gathered. `under_way` are the requests that have not ended.
    pub(crate) fn flush(&mut self, now: Nanos, under_way: impl Iterator<Item = Started>) {
        if !self.records.is_empty() {
            self.hand_over(false);
        }
        let own = under_way.filter(|started| started.lane == self.id);
        let oldest = own.map(|started| started.at).min();
        let mark = oldest.unwrap_or_else(|| Nanos(now.since(self.started).0));
        // Release: whoever sees the mark finds the block in the queue.
        self.watermark.store(mark.0, Ordering::Release);
    }

    fn hand_over(&mut self, is_last: bool) {
        let records = std::mem::replace(&mut self.records, Vec::with_capacity(BLOCK_RECORDS));
        let names = std::mem::take(&mut self.names);
        let block = Block { lane: self.id, names, records, is_last };
        if let Err(block) = self.queue.send(block) {
            self.counts.drop_requests(block.records.len() as u64);
            // Later blocks refer to these names.
            self.names = block.names;
            self.records = block.records;
            self.records.clear();
        }
    }

    fn source(&mut self, name: String) -> SourceId {
        let next = SourceId(u32::try_from(self.sources.len()).expect("clients are bounded"));
        let source = *self.sources.entry(name.clone()).or_insert(next);
        if source == next {
            self.names_bytes += name.len();
            self.names.push(name);
        }
        source
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.hand_over(true);
        self.watermark.store(u64::MAX, Ordering::Release);
    }
}

const _: () = assert!(size_of::<Record>() <= 48, "a block is at most 48 KiB");
