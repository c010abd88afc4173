//! Carrying out the increments of a checkpoint on the state that the whole one gave.

use crate::error::OpenError;
use crate::format::checkpoint::{Item, SegmentRow};
use crate::format::increment::{Increment, RecordRow};
use crate::format::record::Kind;
use crate::state::{Effect, State};
use crate::units::SegmentId;
use crate::volume::Impossible;

/// Leaves of deleted volumes that are taken apart at once.
const TAKE_APART_LEAVES: usize = 1024;

/// The state so far, and the increment that is being taken in. See the [module](self).
#[derive(Debug)]
pub(super) struct Increments {
    state: State,
    head: Increment,
    records: u64,
    freed: Vec<SegmentId>,
    rows: Vec<SegmentRow>,
}

impl Increments {
    /// The first one begins.
    pub(super) fn begin(state: State, head: Increment) -> Self {
        Self { state, head, records: 0, freed: Vec::new(), rows: Vec::new() }
    }

    pub(super) fn take(&mut self, item: Item) -> Result<(), OpenError> {
        match item {
            Item::Record(row) => self.take_record(&row)?,
            Item::Freed(segment) => self.freed.push(segment),
            Item::Segment(row) => self.rows.push(row),
            Item::Increment(head) => {
                self.complete()?;
                self.head = head;
            }
            _ => return Err(OpenError::Inconsistent("an increment of something else")),
        }
        Ok(())
    }

    /// The state behind the last one.
    pub(super) fn finish(mut self) -> Result<State, OpenError> {
        self.complete()?;
        Ok(self.state)
    }

    fn take_record(&mut self, row: &RecordRow) -> Result<(), OpenError> {
        let state = &mut self.state;
        self.records += 1;
        let blocks = row.tags.len() as u64;
        if blocks > 0 && !state.space.is_in_use(row.data, blocks) {
            return Err(OpenError::Inconsistent("a record in a segment that is not in use"));
        }
        let sequence = match row.kind {
            Kind::User => state.applied.next().0,
            Kind::Moved => state.moved_sequence + 1,
        };
        let RecordRow { kind, data, ref extents, tags: ref checksums } = *row;
        let carried = state.carry_out(Effect { kind, sequence, extents, checksums, data });
        carried.map_err(|Impossible| OpenError::Inconsistent("a record of no volume"))?;
        if row.kind == Kind::Moved {
            state.moved_sequence = sequence;
        }
        Ok(())
    }

    /// All of the increment is there: these segments are free, and these are new.
    fn complete(&mut self) -> Result<(), OpenError> {
        let (freed, rows) = (std::mem::take(&mut self.freed), std::mem::take(&mut self.rows));
        let counts = (self.records, freed.len(), rows.len());
        let head = self.head;
        self.records = 0;
        if counts != (head.records, head.freed as usize, head.segments as usize) {
            return Err(OpenError::Inconsistent("items of an increment are missing"));
        }
        let state = &mut self.state;
        if (state.applied, state.moved_sequence) != (head.lsn, head.moved_sequence) {
            return Err(OpenError::Inconsistent("records of an increment are missing"));
        }
        while state.map.is_any_condemned() {
            state.map.take_apart(TAKE_APART_LEAVES, |replaced| state.space.lose(replaced));
        }
        for segment in freed {
            if !state.space.unload(segment) {
                return Err(OpenError::Inconsistent("a freed segment is in use"));
            }
        }
        for row in rows {
            if !state.space.reload(&row) {
                return Err(OpenError::Inconsistent("a segment twice"));
            }
        }
        state.next_generation = head.next_generation;
        state.claimed = head.lsn;
        (state.durable, state.said_durable, state.last_change) = (head.lsn, head.lsn, head.lsn);
        state.moved_applied = head.moved_sequence;
        state.moved_durable = head.moved_sequence;
        Ok(())
    }
}
