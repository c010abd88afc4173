//! Merges sorted runs. Of equal instants that of the earlier run goes first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use evenkeel_core::time::Nanos;
use evenkeel_trace::Record;

use super::runs::Run;

/// The records of some runs, in order.
pub(super) struct Merge {
    runs: Vec<Run>,
    /// The next record of each run that has one.
    next: Vec<Option<Record>>,
    order: BinaryHeap<Reverse<(Nanos, usize)>>,
}

impl Merge {
    /// Merges these runs, the oldest first.
    ///
    /// # Errors
    /// If one cannot be read.
    pub(super) fn new(runs: Vec<Run>) -> io::Result<Self> {
        let next = vec![None; runs.len()];
        let mut merge = Self { runs, next, order: BinaryHeap::new() };
        for run in 0..merge.runs.len() {
            merge.advance(run)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, run: usize) -> io::Result<()> {
        self.next[run] = self.runs[run].next()?;
        if let Some(record) = &self.next[run] {
            self.order.push(Reverse((record.at, run)));
        }
        Ok(())
    }
}

impl Iterator for Merge {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((_, run)) = self.order.pop()?;
        let record = self.next[run].take().expect("it was put in order with its record");
        Some(self.advance(run).map(|()| record))
    }
}
