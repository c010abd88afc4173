//! One request of a trace, and who made it.

use std::collections::BTreeMap;

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

/// Who made a request, as a trace tells it apart: a disk, a volume, an ASU, a tenant of a gate.
/// An index into the trace's [`Sources`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it arrived, counted from the trace's first instant.
    pub at: Nanos,
    /// Who made it.
    pub source: SourceId,
    /// What for.
    pub kind: Kind,
    /// First byte.
    pub offset: u64,
    /// Bytes; zero for a flush.
    pub length: u64,
    /// How long its answer took, where the trace knows.
    pub response: Option<Span>,
}

/// The names of a trace's sources, in the order in which they first appeared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    names: Vec<String>,
    index: BTreeMap<String, SourceId>,
    names_bytes: usize,
}

impl Sources {
    /// The most sources that one trace may name: a line with a name of its own each is an error in
    /// the trace, not a trace of that many disks.
    pub const COUNT_MAX: usize = 1 << 20;

    /// The most bytes that all names may take together.
    pub const NAMES_BYTES_MAX: usize = 1 << 26;

    /// The id of a name, new or known; `None` once [`Self::COUNT_MAX`] names are taken, or
    /// [`Self::NAMES_BYTES_MAX`] bytes.
    pub fn intern(&mut self, name: &str) -> Option<SourceId> {
        if let Some(&id) = self.index.get(name) {
            return Some(id);
        }
        let names_bytes = self.names_bytes + name.len();
        if self.names.len() >= Self::COUNT_MAX || names_bytes > Self::NAMES_BYTES_MAX {
            return None;
        }
        self.names_bytes = names_bytes;
        let id = SourceId(u32::try_from(self.names.len()).expect("bounded by COUNT_MAX"));
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), id);
        Some(id)
    }

    /// The name of a source; empty for one that is unknown.
    pub fn name(&self, id: SourceId) -> &str {
        self.names.get(id.0 as usize).map_or("", String::as_str)
    }

    /// Every name, by id.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}
