//! The blocks of one die: free, open or closed, and who is collected next.
//!
//! ```text
//! free --open--> open for the host        --full--> closed --greedy victim--> erased --> free
//!          \---> open for moved units     --full-/
//! ```
//!
//! The host may not take the last free block: moving the valid units of one victim needs at most
//! one block beside the open one, so collection can always go on.

use std::collections::VecDeque;

use super::geometry::{Block, Die, Geometry, Slot};
use super::map::Map;

/// For whom a slot is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// New data.
    Host,
    /// Data moved by garbage collection.
    Moved,
}

/// Free blocks that are kept from the host.
const RESERVED: usize = 1;

/// The blocks of a die. See the [module](self).
#[derive(Clone, Debug)]
pub struct Pool {
    die: Die,
    free: VecDeque<Block>,
    open: [Option<Open>; 2],
    closed: Vec<bool>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    block: Block,
    written: u32,
}

impl Pool {
    /// The die with its first `closed` blocks in use and the others free.
    pub fn new(geometry: &Geometry, die: Die, closed: u32) -> Self {
        let blocks = geometry.blocks_per_plane;
        Self {
            die,
            free: (closed..blocks).map(|index| geometry.block(die, index)).collect(),
            open: [None, None],
            closed: (0..blocks).map(|index| index < closed).collect(),
        }
    }

    /// Free blocks, open ones not counted.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Whether new data can be written.
    pub fn takes_host(&self) -> bool {
        self.open[Stream::Host as usize].is_some() || self.free.len() > RESERVED
    }

    /// The next slot for `stream`. The caller has seen that there is one.
    pub fn take(&mut self, geometry: &Geometry, stream: Stream) -> Slot {
        let open = self.open[stream as usize].get_or_insert_with(|| {
            let block = self.free.pop_front().expect("a free block is reserved for collection");
            Open { block, written: 0 }
        });
        let slot = geometry.slot(open.block, open.written);
        open.written += 1;
        if open.written == geometry.units_per_block() {
            let index = open.block.0 - geometry.block(self.die, 0).0;
            self.closed[index as usize] = true;
            self.open[stream as usize] = None;
        }
        slot
    }

    /// The closed block with the fewest valid units, if collecting it would gain anything.
    /// O(blocks of the die).
    pub fn victim(&self, geometry: &Geometry, map: &Map) -> Option<Block> {
        let closed = self.closed.iter().zip(0..).filter(|&(&closed, _)| closed);
        let blocks = closed.map(|(_, index)| geometry.block(self.die, index));
        let best = blocks.min_by_key(|&block| map.valid_in(block))?;
        (map.valid_in(best) < geometry.units_per_block()).then_some(best)
    }

    /// Takes back a block that was erased.
    pub fn give_back(&mut self, geometry: &Geometry, block: Block) {
        let index = block.0 - geometry.block(self.die, 0).0;
        self.closed[index as usize] = false;
        self.free.push_back(block);
    }
}
