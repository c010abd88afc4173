//! What lies where when the drive is new to us: nothing, everything in order, or the disorder that
//! random overwrites leave in the long run. Nothing is stored; both directions are computed.
//!
//! The units are ranked, by themselves (in order) or by a pseudo-random permutation, and the ranks
//! fill *rows*: the blocks of the same index of all dies. Row `r` holds `v(r)` valid units per die.
//!
//! In order, every row is full. After random overwrites, rows are found in all stages of decay: a
//! full block loses a fixed part of what it still holds in each time step until it is collected, so
//! that from the newest to the oldest the valid parts are `q, q^2, q^3, ..`, with the one `q` for
//! which they add up to the capacity. (Greedy collection of uniform writes takes blocks nearly in
//! the order of age; hence `v = exp(-(1 - v) / U)` for the part `v` still valid in a victim, which
//! is the same statement: Desnoyers, "Analytic modeling of SSD write performance", SYSTOR 2012.)
//!
//! ```text
//! unit --permutation--> rank --rows--> (row, die, i) --scatter--> slot index = i * stride mod size
//! ```
//!
//! The scatter spreads the valid slots evenly over a block, as decay does. Every step has its
//! inverse, so that the owner of a slot is computed as quickly.

use evenkeel_core::prng::Prng;
use serde::Deserialize;

use super::geometry::{Block, Die, Geometry, Slot, Unit};

/// The state in which a simulation finds the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precondition {
    /// Nothing was ever written.
    #[default]
    Fresh,
    /// Written once, from the first byte to the last.
    Sequential,
    /// Filled, then overwritten at random for so long that garbage collection is in balance.
    Random,
}

/// The computed placement of all units. See the [module](self).
#[derive(Clone, Debug)]
pub struct Layout {
    geometry: Geometry,
    /// `ranks[r]` is the first rank in row `r`; one more entry ends the last row.
    ranks: Vec<u64>,
    disorder: Option<Disorder>,
}

#[derive(Clone, Debug)]
struct Disorder {
    permutation: Permutation,
    stride: u64,
    /// `stride * inverse = 1` modulo the slots of a block.
    inverse: u64,
}

impl Layout {
    /// The placement after `precondition`, in blocks `0..rows` of each die; none if fresh.
    pub fn new(
        geometry: &Geometry,
        precondition: Precondition,
        rows: u32,
        seed: u64,
    ) -> Option<Self> {
        let (units, dies) = (u64::from(geometry.units()), u64::from(geometry.dies()));
        let size = u64::from(geometry.units_per_block());
        let per_die = units.div_ceil(dies);
        let (valid, disorder) = match precondition {
            Precondition::Fresh => return None,
            Precondition::Sequential => {
                // A partly written row is a whole number of programs.
                let step = u64::from(geometry.units_per_program());
                let total = per_die.div_ceil(step) * step;
                let left = |row: u64| total.saturating_sub(row * size);
                ((0..u64::from(rows)).map(|row| left(row).min(size)).collect(), None)
            }
            Precondition::Random => {
                (decayed(rows, size, per_die), Some(Disorder::new(units, size, seed)))
            }
        };
        let ends = valid.into_iter().scan(0, |rank, valid: u64| {
            *rank += valid * dies;
            Some((*rank).min(units))
        });
        let ranks = std::iter::once(0).chain(ends).collect();
        Some(Self { geometry: *geometry, ranks, disorder })
    }

    /// Where a unit lies.
    pub fn slot_of(&self, unit: Unit) -> Slot {
        let rank = match &self.disorder {
            Some(disorder) => disorder.permutation.forward(u64::from(unit.0)),
            None => u64::from(unit.0),
        };
        let row = self.ranks.partition_point(|&first| first <= rank) - 1;
        let within = rank - self.ranks[row];
        let (die, index) = match &self.disorder {
            Some(disorder) => {
                let dies = u64::from(self.geometry.dies());
                (within % dies, within / dies * disorder.stride % self.size())
            }
            None => self.striped(within),
        };
        let block = self.geometry.block(Die(narrow(die)), narrow(row as u64));
        self.geometry.slot(block, narrow(index))
    }

    /// The unit that lies at a slot, if any.
    pub fn unit_at(&self, slot: Slot) -> Option<Unit> {
        let (block, index) = self.geometry.place(slot);
        let (die, row) = self.die_and_row(block.0);
        let index = u64::from(index);
        let dies = u64::from(self.geometry.dies());
        let within = if let Some(disorder) = &self.disorder {
            index * disorder.inverse % self.size() * dies + die
        } else {
            let step = u64::from(self.geometry.units_per_program());
            (index / step * dies + die) * step + index % step
        };
        let rank = *self.ranks.get(row)? + within;
        if rank >= *self.ranks.get(row + 1)? {
            return None;
        }
        let unit = self.disorder.as_ref().map_or(rank, |it| it.permutation.backward(rank));
        Some(Unit(narrow(unit)))
    }

    /// How many valid units a block holds.
    pub fn valid_in(&self, block: Block) -> u32 {
        let (die, row) = self.die_and_row(block.0);
        if row + 1 >= self.ranks.len() {
            return 0;
        }
        let count = self.ranks[row + 1] - self.ranks[row];
        let dies = u64::from(self.geometry.dies());
        let step = match self.disorder {
            Some(_) => 1,
            None => u64::from(self.geometry.units_per_program()),
        };
        // Steps go round the dies; only the last one may be short.
        let (whole, rest) = (count / step, count % step);
        let steps = whole / dies + u64::from(whole % dies > die);
        narrow(steps * step + if whole % dies == die { rest } else { 0 })
    }

    fn striped(&self, within: u64) -> (u64, u64) {
        let step = u64::from(self.geometry.units_per_program());
        let dies = u64::from(self.geometry.dies());
        let (program, offset) = (within / step, within % step);
        (program % dies, program / dies * step + offset)
    }

    fn die_and_row(&self, block: u32) -> (u64, usize) {
        let per_die = self.geometry.blocks_per_plane;
        (u64::from(block / per_die), (block % per_die) as usize)
    }

    fn size(&self) -> u64 {
        u64::from(self.geometry.units_per_block())
    }
}

/// Valid units per block, from the newest to the oldest of `rows` blocks of `size`, that add up to
/// `total`: a geometric sequence, rounded, the rest spread over the rows.
fn decayed(rows: u32, size: u64, total: u64) -> Vec<u64> {
    let sum_of = |quotient: f64| -> Vec<u64> {
        // Only multiplications, which IEEE 754 rounds alike everywhere; no library's power.
        let parts = std::iter::successors(Some(quotient), |part| Some(part * quotient));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to size")]
        parts.take(rows as usize).map(|part| (part * size as f64) as u64).collect()
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if sum_of(middle).iter().sum::<u64>() <= total { low = middle } else { high = middle }
    }
    let mut valid = sum_of(low);
    let mut missing = total - valid.iter().sum::<u64>();
    while missing > 0 {
        for row in valid.iter_mut().filter(|row| **row < size) {
            let add = missing.min(1);
            *row += add;
            missing -= add;
        }
    }
    valid
}

impl Disorder {
    fn new(units: u64, size: u64, seed: u64) -> Self {
        // Near the golden section, multiples modulo the size spread most evenly.
        let near = size * 618 / 1000;
        let stride = (near.max(1)..=size).find(|&stride| gcd(stride, size) == 1);
        let stride = stride.expect("the size less one is coprime with it");
        let inverse = (0..size).find(|&it| it * stride % size == 1 % size);
        Self {
            permutation: Permutation::new(units, seed),
            stride,
            inverse: inverse.expect("a coprime number has an inverse"),
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).expect("checked: every slot has a number of 32 bits")
}

/// A pseudo-random bijection of `0..length`: four Feistel rounds over the next even power of two,
/// repeated until the result lies in the range (Black and Rogaway, "Ciphers with arbitrary finite
/// domains", CT-RSA 2002).
#[derive(Clone, Debug)]
struct Permutation {
    length: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Permutation {
    fn new(length: u64, seed: u64) -> Self {
        let bits = u64::BITS - length.saturating_sub(1).leading_zeros();
        let mut prng = Prng::new(seed);
        let keys = std::array::from_fn(|_| prng.next_u64());
        Self { length, half_bits: bits.div_ceil(2).max(1), keys }
    }

    fn forward(&self, mut number: u64) -> u64 {
        loop {
            let (mut left, mut right) = self.split(number);
            for key in self.keys {
                (left, right) = (right, left ^ self.round(right, key));
            }
            number = left << self.half_bits | right;
            if number < self.length {
                return number;
            }
        }
    }

    fn backward(&self, mut number: u64) -> u64 {
        loop {
            let (mut left, mut right) = self.split(number);
            for key in self.keys.into_iter().rev() {
                (left, right) = (right ^ self.round(left, key), left);
            }
            number = left << self.half_bits | right;
            if number < self.length {
                return number;
            }
        }
    }

    fn split(&self, number: u64) -> (u64, u64) {
        (number >> self.half_bits, number & ((1 << self.half_bits) - 1))
    }

    fn round(&self, half: u64, key: u64) -> u64 {
        let mixed = (half ^ key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> (64 - self.half_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(capacity_units: u64) -> Geometry {
        Geometry {
            capacity_bytes: capacity_units * 4096,
            channels: 3,
            dies_per_channel: 1,
            planes_per_die: 2,
            blocks_per_plane: 12,
            pages_per_block: 8,
            page_bytes: 8192,
            unit_bytes: 4096,
        }
    }

    #[test]
    fn every_unit_has_a_slot_of_its_own_and_every_slot_knows_its_unit() {
        for precondition in [Precondition::Sequential, Precondition::Random] {
            for units in [1, 95, 600, 700, 960] {
                let geometry = small(units);
                let layout = Layout::new(&geometry, precondition, 10, 3).unwrap();
                let mut owners = vec![None; usize::try_from(geometry.slots()).unwrap()];
                for unit in (0..geometry.units()).map(Unit) {
                    let slot = layout.slot_of(unit);
                    let owner = owners[slot.0 as usize].replace(unit);
                    assert_eq!(owner, None, "{precondition:?}: {slot:?} is taken twice");
                }
                let found = (0..).map(Slot).take(owners.len()).map(|slot| layout.unit_at(slot));
                assert!(found.eq(owners.iter().copied()), "{precondition:?} of {units}");
                for block in (0..geometry.blocks()).map(Block) {
                    let first = geometry.slot(block, 0).0 as usize;
                    let slots = &owners[first..first + geometry.units_per_block() as usize];
                    let valid = slots.iter().flatten().count();
                    assert_eq!(
                        layout.valid_in(block) as usize,
                        valid,
                        "{precondition:?} {block:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn decay_leaves_what_theory_says_in_the_oldest_block() {
        // v = exp(-(1 - v) / U) at U = 0.8 has the solution 0.6291.
        let valid = decayed(1000, 4608, 4608 * 800);
        assert_eq!(valid.iter().sum::<u64>(), 4608 * 800);
        let oldest = *valid.last().unwrap() as f64 / 4608.0;
        assert!((oldest - 0.6291).abs() < 0.002, "{oldest}");
        assert!(valid.is_sorted_by(|newer, older| newer >= older));
    }
}
