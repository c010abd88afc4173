//! Ranges of blocks that are being changed: overlapping changes wait for each other, in the order
//! in which they came.
//!
//! Two writes of the same block must not be under way at once, since one of them may be the rest
//! of a block that a client wrote in part, read before the other changed it.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use super::Signal;
use crate::units::VolumeId;

/// All ranges that are held or waited for, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    rows: RefCell<Vec<Row>>,
    next: Cell<u64>,
    released: Signal,
}

#[derive(Debug)]
struct Row {
    ticket: u64,
    volume: VolumeId,
    blocks: Range<u64>,
}

/// Holds a range until dropped.
#[derive(Debug)]
pub(crate) struct RangeHeld {
    ranges: Rc<Ranges>,
    ticket: u64,
}

impl Ranges {
    /// Waits until nobody who came earlier holds or wants a part of the range.
    pub(crate) async fn acquire(
        self: &Rc<Self>,
        volume: VolumeId,
        blocks: Range<u64>,
    ) -> RangeHeld {
        let ticket = self.next.replace(self.next.get() + 1);
        self.rows.borrow_mut().push(Row { ticket, volume, blocks });
        // From here on the row goes with the guard, also if the wait is given up.
        let held = RangeHeld { ranges: Rc::clone(self), ticket };
        self.released.until(|| self.is_first(ticket).then_some(())).await;
        held
    }

    fn is_first(&self, ticket: u64) -> bool {
        let rows = self.rows.borrow();
        let index = rows.iter().position(|row| row.ticket == ticket).expect("the guard keeps it");
        let (earlier, own) = (&rows[..index], &rows[index]);
        !earlier.iter().any(|row| {
            row.volume == own.volume
                && row.blocks.start < own.blocks.end
                && own.blocks.start < row.blocks.end
        })
    }
}

impl Drop for RangeHeld {
    fn drop(&mut self) {
        self.ranges.rows.borrow_mut().retain(|row| row.ticket != self.ticket);
        self.ranges.released.notify();
    }
}
