//! Garbage collection of one die: move the valid units of the emptiest block, erase it, repeat
//! until enough blocks are free.
//!
//! It works in *steps* of one program, each a job of the die like any other, so that the host's
//! requests come in between. A step takes the next valid units of the victim in the order of their
//! slots. What a step costs:
//!
//! ```text
//! array reads   the most pages that any plane must read for it (planes read side by side)
//! channel       out to the controller, corrected there, and back in
//! program       once, over all planes; slots left over are padded
//! ```
//!
//! Write amplification is what the flash programs over what the host made it program.

use super::geometry::{Block, Geometry, Unit};
use super::map::Map;
use super::pool::{Pool, Stream};

/// A collection under way. See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collection {
    /// The block that is emptied.
    pub victim: Block,
    /// Slots of it before this one hold nothing valid.
    next_index: u32,
}

/// What one step moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Units; zero if the victim holds nothing valid any more.
    pub units: u32,
    /// Slots written with nothing.
    pub padding: u32,
    /// Array reads in the plane that has the most.
    pub reads: u32,
}

impl Collection {
    /// Starts on the victim that greed chooses, if there is one.
    pub fn start(geometry: &Geometry, pool: &Pool, map: &Map) -> Option<Self> {
        let victim = pool.victim(geometry, map)?;
        Some(Self { victim, next_index: 0 })
    }

    /// Moves the next valid units in `map` to slots of `pool`.
    pub fn step(&mut self, geometry: &Geometry, pool: &mut Pool, map: &mut Map) -> Moved {
        let (units, reads) = self.gather(geometry, map);
        if units.is_empty() {
            return Moved::default();
        }
        for &unit in &units {
            let slot = pool.take(geometry, Stream::Moved);
            map.assign(unit, slot);
        }
        let moved = u32::try_from(units.len()).expect("at most one program");
        let padding = geometry.units_per_program() - moved;
        for _ in 0..padding {
            map.pad(pool.take(geometry, Stream::Moved));
        }
        Moved { units: moved, padding, reads }
    }

    /// The next valid units, at most a program of them, and the array reads that they take.
    fn gather(&mut self, geometry: &Geometry, map: &Map) -> (Vec<Unit>, u32) {
        let wanted = geometry.units_per_program().min(map.valid_in(self.victim)) as usize;
        let mut units = Vec::with_capacity(wanted);
        let mut reads = vec![0; geometry.planes_per_die as usize];
        let mut last_page = None;
        while units.len() < wanted {
            let slot = geometry.slot(self.victim, self.next_index);
            if let Some(unit) = map.unit_at(slot) {
                units.push(unit);
                let page = self.next_index / geometry.units_per_page();
                if last_page.replace(page) != Some(page) {
                    reads[geometry.plane_of(self.next_index) as usize] += 1;
                }
            }
            self.next_index += 1;
        }
        (units, reads.into_iter().max().unwrap_or(0))
    }
}
