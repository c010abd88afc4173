//! Footprint: how many different blocks were touched, and how many written.
//!
//! Every source is a device of its own, so that block 7 of one is not block 7 of another. Up to a
//! bound, shared by all sources, blocks are kept one by one and the count is exact; from then on
//! each source has two sketches, which also take in what had been kept. Blocks are 4 KiB.
//!
//! ```text
//! write 0-1, write 1-2, read 9      touched 0 1 2 9: four     written 0 1 2: three of four blocks
//!                                                             written, a quarter is overwritten
//! ```

use evenkeel_core::cache::table::{SlotTable, mix};

use super::hyperloglog::HyperLogLog;

/// Blocks of 4 KiB in 2^64 bytes take so many bits, and the row stands above them.
const BLOCK_BITS: u32 = 52;

/// The most rows whose blocks can be told apart.
pub(super) const ROWS_MAX: usize = 1 << (u64::BITS - BLOCK_BITS);

/// The registers of a source's sketch (4 KiB), and of the total's (16 KiB).
const ROW_SKETCH_BITS: u32 = 12;
const TOTAL_SKETCH_BITS: u32 = 14;

/// A number of different things, and how it was found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distinct {
    /// How many.
    pub count: u64,
    /// The standard deviation of an estimate by its value; 0 if the count is exact.
    pub relative_error: f64,
}

impl Distinct {
    /// Whether the count is exact.
    pub fn is_exact(&self) -> bool {
        self.relative_error <= 0.0
    }
}

/// The footprints of all rows.
#[derive(Clone, Debug)]
pub(super) struct Footprints {
    exact: Option<Exact>,
    exact_max: usize,
    rows: Vec<Counts>,
    sketches: Vec<Sketches>,
    total: Sketches,
}

#[derive(Clone, Debug)]
struct Exact {
    table: SlotTable,
    keys: Vec<u64>,
    is_written: Vec<bool>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    touched: u64,
    written: u64,
}

#[derive(Clone, Debug)]
struct Sketches {
    touched: HyperLogLog,
    written: HyperLogLog,
}

impl Sketches {
    fn new(bits: u32) -> Self {
        Self { touched: HyperLogLog::new(bits), written: HyperLogLog::new(bits) }
    }

    #[inline]
    fn add(&mut self, hash: u64, is_write: bool) {
        self.touched.add(hash);
        if is_write {
            self.written.add(hash);
        }
    }

    fn distinct(&self) -> [Distinct; 2] {
        [&self.touched, &self.written].map(|sketch| Distinct {
            count: sketch.estimate(),
            relative_error: sketch.relative_error(),
        })
    }
}

impl Footprints {
    /// Keeps up to so many blocks one by one.
    pub(super) fn new(exact_max: usize) -> Self {
        let table = SlotTable::with_capacity(0);
        Self {
            exact: Some(Exact { table, keys: Vec::new(), is_written: Vec::new() }),
            exact_max,
            rows: Vec::new(),
            sketches: Vec::new(),
            total: Sketches::new(TOTAL_SKETCH_BITS),
        }
    }

    /// Adds a row; rows are counted from 0 and below [`ROWS_MAX`].
    pub(super) fn add_row(&mut self) {
        self.rows.push(Counts::default());
        if self.exact.is_none() {
            self.sketches.push(Sketches::new(ROW_SKETCH_BITS));
        }
    }

    /// Notes that a block was touched.
    #[inline]
    pub(super) fn add(&mut self, row: usize, block: u64, is_write: bool) {
        let key = (row as u64) << BLOCK_BITS | block & ((1 << BLOCK_BITS) - 1);
        let Some(exact) = &mut self.exact else {
            let hash = mix(key);
            self.total.add(hash, is_write);
            self.sketches[row].add(hash, is_write);
            return;
        };
        let counts = &mut self.rows[row];
        let slot = exact.table.find(key, |slot| exact.keys[slot as usize]);
        let slot = slot.map_or_else(
            || {
                counts.touched += 1;
                exact.insert(key)
            },
            |slot| slot as usize,
        );
        if is_write && !std::mem::replace(&mut exact.is_written[slot], true) {
            counts.written += 1;
        }
        if exact.keys.len() > self.exact_max {
            self.estimate_from_now_on();
        }
    }

    /// Blocks touched and blocks written, of one row.
    pub(super) fn row(&self, row: usize) -> [Distinct; 2] {
        match self.exact {
            Some(_) => {
                let Counts { touched, written } = self.rows[row];
                [touched, written].map(|count| Distinct { count, relative_error: 0.0 })
            }
            None => self.sketches[row].distinct(),
        }
    }

    /// Blocks touched and blocks written, of all rows.
    pub(super) fn total(&self) -> [Distinct; 2] {
        if self.exact.is_none() {
            return self.total.distinct();
        }
        let sum = |count: fn(&Counts) -> u64| self.rows.iter().map(count).sum();
        [sum(|counts| counts.touched), sum(|counts| counts.written)]
            .map(|count| Distinct { count, relative_error: 0.0 })
    }

    #[cold]
    fn estimate_from_now_on(&mut self) {
        let Some(exact) = self.exact.take() else { return };
        self.sketches = self.rows.iter().map(|_| Sketches::new(ROW_SKETCH_BITS)).collect();
        for (&key, &is_written) in exact.keys.iter().zip(&exact.is_written) {
            let row = usize::try_from(key >> BLOCK_BITS).expect("twelve bits are left");
            self.sketches[row].add(mix(key), is_written);
            self.total.add(mix(key), is_written);
        }
    }
}

impl Exact {
    fn insert(&mut self, key: u64) -> usize {
        let slot = self.keys.len();
        self.table.insert(key, u32::try_from(slot).expect("bounded by exact_max"));
        self.keys.push(key);
        self.is_written.push(false);
        slot
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn exact_counts_are_those_of_plain_sets(
            touches in proptest::collection::vec((0usize..3, 0u64..50, any::<bool>()), 0..300)
        ) {
            let mut footprints = Footprints::new(1_000);
            (0..3).for_each(|_| footprints.add_row());
            let (mut touched, mut written) = (BTreeSet::new(), BTreeSet::new());
            for (row, block, is_write) in touches {
                footprints.add(row, block, is_write);
                touched.insert((row, block));
                if is_write {
                    written.insert((row, block));
                }
            }
            for row in 0..3 {
                let of_row = |set: &BTreeSet<(usize, u64)>| {
                    set.iter().filter(|(other, _)| *other == row).count() as u64
                };
                let got = footprints.row(row).map(|distinct| distinct.count);
                prop_assert_eq!(got, [of_row(&touched), of_row(&written)]);
            }
            let got = footprints.total().map(|distinct| distinct.count);
            prop_assert_eq!(got, [touched.len() as u64, written.len() as u64]);
        }
    }

    #[test]
    fn beyond_the_bound_estimates_take_in_what_was_exact() {
        let mut footprints = Footprints::new(1_000);
        footprints.add_row();
        footprints.add_row();
        for block in 0..20_000 {
            footprints.add(0, block, block % 2 == 0);
            footprints.add(1, block % 100, false);
        }
        let near = |distinct: Distinct, expected: f64| {
            assert!(!distinct.is_exact());
            let error = (distinct.count as f64 - expected).abs() / expected;
            assert!(error <= 4.0 * distinct.relative_error, "{distinct:?} for {expected}");
        };
        let [touched, written] = footprints.row(0);
        near(touched, 20_000.0);
        near(written, 10_000.0);
        near(footprints.row(1)[0], 100.0);
        near(footprints.total()[0], 20_100.0);
    }
}
