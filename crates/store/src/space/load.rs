//! The segment table from the rows of a checkpoint and its increments.

use super::{Segment, Space, State, UNUSED};
use crate::format::checkpoint::{Phase, SegmentRow};
use crate::units::{SegmentId, Slot};

impl Space {
    /// Takes in a segment of a checkpoint; whether it is possible.
    pub(crate) fn load(&mut self, row: &SegmentRow) -> bool {
        if !self.free_segments.remove(&row.segment) {
            return false;
        }
        // Until replay is over, every segment may still get data.
        self.segments[row.segment.index()] = Segment {
            state: State::Open,
            generation: row.generation,
            kind: row.kind,
            born: row.born,
            is_covered: row.phase == Phase::Sealed,
            ..UNUSED
        };
        self.load_copies(row)
    }

    /// Takes in a segment of an increment, be it new or known; whether it is possible.
    pub(crate) fn reload(&mut self, row: &SegmentRow) -> bool {
        let Some(known) = self.segments.get_mut(row.segment.index()) else { return false };
        if known.state == State::Free {
            return self.load(row);
        }
        if (known.generation, known.kind) != (row.generation, row.kind) {
            return false;
        }
        (known.born, known.is_covered) = (row.born, row.phase == Phase::Sealed);
        let copies = std::mem::take(&mut known.copies);
        self.give_back(copies);
        self.load_copies(row)
    }

    fn load_copies(&mut self, row: &SegmentRow) -> bool {
        for slot in row.copies.iter().flatten() {
            let Some(slots) = self.free_slots.get_mut(slot.drive.index()) else { return false };
            if let Some(slots) = slots
                && !slots.remove(&slot.slot)
            {
                return false;
            }
        }
        self.segments[row.segment.index()].copies = row.copies;
        true
    }

    /// A segment of the checkpoint is not one of an increment any more; whether nothing is in it.
    pub(crate) fn unload(&mut self, segment: SegmentId) -> bool {
        let row = self.segments.get(segment.index());
        let is_dead = row.is_some_and(|row| row.state != State::Free && row.live == 0);
        if is_dead {
            self.free(segment);
        }
        is_dead
    }

    /// The segments taken in, as they were loaded.
    pub(crate) fn rows_loaded(&self) -> Vec<SegmentRow> {
        let phase = |row: &Segment| if row.is_covered { Phase::Sealed } else { Phase::Replay };
        self.rows_with(phase)
    }

    /// Takes copies off a segment that was loaded, unless they count.
    pub(crate) fn take_off(&mut self, segment: SegmentId, counts: impl Fn(&Slot) -> bool) {
        for place in 0..2 {
            let copy = &mut self.segments[segment.index()].copies[place];
            let gone = copy.take_if(|slot| !counts(slot));
            self.give_back([gone, None]);
        }
    }

    /// All of the checkpoint is loaded.
    pub(crate) fn count_thin_in_checkpoint(&mut self) {
        let in_use = self.segments.iter().filter(|row| row.state != State::Free);
        self.thin_in_checkpoint = in_use.filter(|row| self.lacks_copy(row.copies)).count();
    }

    /// Replay is over: seals what was loaded.
    pub(crate) fn loaded(&mut self) {
        for index in 0..self.segments.len() {
            if self.segments[index].state == State::Open {
                self.segments[index].state = State::Sealed;
                self.settle(SegmentId(u32::try_from(index).expect("segments are bounded")));
            }
        }
    }
}
