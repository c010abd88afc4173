//! Where decoders put their records: what holds for all of them is made sure of here.

use super::timeline::Timeline;
use super::trouble::Trouble;
use crate::{Record, Sources};

/// Where a decoder puts its records.
pub(crate) struct Sink<'a> {
    /// The names of the trace.
    pub(crate) sources: &'a mut Sources,
    timeline: &'a mut Timeline,
    records: &'a mut Vec<Record>,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(
        sources: &'a mut Sources,
        timeline: &'a mut Timeline,
        records: &'a mut Vec<Record>,
    ) -> Self {
        Self { sources, timeline, records }
    }

    /// The instants of the trace count from its start: they stay what they are. Before any record.
    pub(crate) fn count_from_zero(&mut self) {
        self.timeline.count_from_zero();
    }

    /// Takes a record whose `at` counts from the format's own epoch.
    #[inline]
    pub(crate) fn push(&mut self, record: Record) -> Result<(), Trouble> {
        if record.offset.checked_add(record.length).is_none() {
            return Err(too_far(&record));
        }
        self.timeline.push(record, self.records).map_err(Trouble::Text)
    }
}

#[cold]
fn too_far(record: &Record) -> Trouble {
    let Record { offset, length, .. } = record;
    Trouble::Text(format!("{length} bytes from byte {offset} end beyond 64 bits"))
}
