//! What the gate of a run would have recorded: every request that it answered, as a trace.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_trace::{Record, SourceId, Sources};

use super::tables::Request;

/// A recording as a gate makes it: sources are `tenant/export`.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Who made the requests.
    pub sources: Sources,
    /// In the order of arrival at the gate, with response times; failed requests have none.
    pub records: Vec<Record>,
    /// By target of the world.
    ids: Vec<SourceId>,
}

impl Recording {
    /// Another target.
    pub(super) fn add_target(&mut self, name: &str) {
        let id = self.sources.intern(name);
        self.ids.push(id.expect("a scenario has fewer targets than a trace may have sources"));
    }

    /// The gate answers a request.
    pub(super) fn answered(&mut self, now: Nanos, request: &Request, base_bytes: u64) {
        let Request { target, kind, offset, length, reached_at, ok, .. } = *request;
        self.records.push(Record {
            at: reached_at,
            source: self.ids[target as usize],
            kind,
            offset: offset - base_bytes,
            length: if kind == Kind::Flush { 0 } else { length },
            response: ok.then(|| Span(now.since(reached_at).0)),
        });
    }

    /// In the order in which a trace has them.
    pub(super) fn sorted(mut self) -> Self {
        self.records.sort_by_key(|record| record.at);
        self
    }
}
