//! The addresses of the blocks of one leaf, as runs or one by one, whichever is smaller.
//!
//! A block keeps 5 bytes when listed, a run 12 however long it is:
//!
//! ```text
//! listed  | 700 | 701 | 702 | -  | 33 | 9 | ..        1024 * 5 bytes
//! runs    (from 0, 3 blocks, at 700) (from 4, 1 block, at 33) ..
//! ```
//!
//! Data written in sequence takes a few runs for 4 MiB. When runs would take more than the list,
//! they become one, for good: a leaf that was scattered once tends to be again.

use crate::format::checkpoint::{LEAF_BLOCKS, LeafRun};
use crate::units::Address;

const LEAF_BLOCKS_U16: u16 = 1024;
const _: () = assert!(LEAF_BLOCKS_U16 as usize == LEAF_BLOCKS);

const RUN_BYTES: usize = size_of::<Run>();
const RUNS_MAX: usize = LEAF_BLOCKS * size_of::<Listed>() / RUN_BYTES;

/// Addresses of [`LEAF_BLOCKS`] blocks. See the [module](self).
#[derive(Clone, Debug)]
pub(super) enum Addresses {
    Runs(Vec<Run>),
    Listed(Box<[Listed; LEAF_BLOCKS]>),
}

/// Blocks in a row that are neighbours in the log; runs are in order and never touch in both
/// spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    from: u16,
    blocks: u16,
    high: u16,
    middle: u16,
    low: u32,
}

/// An address in 40 bits, little-endian; all ones for none.
type Listed = [u8; 5];

const NOWHERE: Listed = [0xff; 5];

impl Run {
    fn new(from: usize, blocks: usize, address: Address) -> Self {
        let narrow = |value: usize| u16::try_from(value).expect("within a leaf");
        let bytes = address.0.to_le_bytes();
        Self {
            from: narrow(from),
            blocks: narrow(blocks),
            high: u16::from_le_bytes([bytes[6], bytes[7]]),
            middle: u16::from_le_bytes([bytes[4], bytes[5]]),
            low: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
        }
    }

    fn from(&self) -> usize {
        usize::from(self.from)
    }

    fn end(&self) -> usize {
        usize::from(self.from) + usize::from(self.blocks)
    }

    fn address(&self) -> Address {
        let high = (u64::from(self.high) << 16) | u64::from(self.middle);
        Address((high << 32) | u64::from(self.low))
    }

    /// The part from block `from` up to before `end`, if there is one.
    fn cut(&self, from: usize, end: usize) -> Option<Self> {
        let (from, end) = (from.max(self.from()), end.min(self.end()));
        let skipped = from.checked_sub(self.from())? as u64;
        (from < end).then(|| Self::new(from, end - from, self.address().plus(skipped)))
    }

    /// This run and one that continues it in both spaces, as one.
    fn joined(&self, next: &Self) -> Option<Self> {
        let is_next = self.end() == next.from()
            && self.address().plus(u64::from(self.blocks)) == next.address();
        is_next.then(|| Self::new(self.from(), next.end() - self.from(), self.address()))
    }
}

impl Default for Addresses {
    fn default() -> Self {
        Self::Runs(Vec::new())
    }
}

impl Addresses {
    /// Where a block is.
    pub(super) fn at(&self, block: usize) -> Option<Address> {
        match self {
            Self::Runs(runs) => {
                let after = runs.partition_point(|run| run.from() <= block);
                let run = runs.get(after.checked_sub(1)?)?.cut(block, block + 1)?;
                Some(run.address())
            }
            Self::Listed(list) => unpacked(list[block]),
        }
    }

    /// Every mapped block and where it is, in order: one by one it would be sought anew.
    pub(super) fn mapped(&self) -> impl Iterator<Item = (usize, Address)> {
        let (runs, list) = match self {
            Self::Runs(runs) => (&runs[..], None),
            Self::Listed(list) => (&[][..], Some(list)),
        };
        let of_run = |run: &Run| (run.from()..run.end()).zip((run.address().0..).map(Address));
        let listed = list.into_iter().flat_map(|list| list.iter().enumerate());
        let of_list = listed.filter_map(|(block, &listed)| Some((block, unpacked(listed)?)));
        runs.iter().flat_map(of_run).chain(of_list)
    }

    /// Puts `blocks` blocks at the addresses that start with this one, or nowhere.
    pub(super) fn set(&mut self, block: usize, blocks: usize, address: Option<Address>) {
        match self {
            Self::Runs(runs) => {
                replace(runs, block, blocks, address);
                if runs.len() > RUNS_MAX {
                    *self = Self::Listed(self.listed());
                }
            }
            Self::Listed(list) => {
                for (offset, entry) in (0..).zip(&mut list[block..block + blocks]) {
                    *entry = address.map_or(NOWHERE, |first| packed(first.plus(offset)));
                }
            }
        }
    }

    /// All of it as runs that cover the leaf.
    pub(super) fn runs(&self) -> Vec<LeafRun> {
        match self {
            Self::Runs(runs) => covering(runs),
            Self::Listed(list) => {
                let mut runs: Vec<LeafRun> = Vec::new();
                for address in list.iter().map(|&listed| unpacked(listed)) {
                    match runs.last_mut() {
                        Some(run) if continues(run, address) => run.blocks += 1,
                        _ => runs.push(LeafRun { blocks: 1, address }),
                    }
                }
                runs
            }
        }
    }

    /// Bytes of memory behind it.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Runs(runs) => runs.capacity() * RUN_BYTES,
            Self::Listed(_) => LEAF_BLOCKS * size_of::<Listed>(),
        }
    }

    fn listed(&self) -> Box<[Listed; LEAF_BLOCKS]> {
        let mut list = Box::new([NOWHERE; LEAF_BLOCKS]);
        for (block, address) in self.mapped() {
            list[block] = packed(address);
        }
        list
    }
}

/// The runs, and the gaps between them.
fn covering(runs: &[Run]) -> Vec<LeafRun> {
    let mut covering = Vec::with_capacity(2 * runs.len() + 1);
    let mut end = 0;
    let gap = |end: u16, next: u16, covering: &mut Vec<LeafRun>| {
        if end < next {
            covering.push(LeafRun { blocks: next - end, address: None });
        }
    };
    for run in runs {
        gap(end, run.from, &mut covering);
        covering.push(LeafRun { blocks: run.blocks, address: Some(run.address()) });
        end = run.from + run.blocks;
    }
    gap(end, LEAF_BLOCKS_U16, &mut covering);
    covering
}

fn continues(run: &LeafRun, address: Option<Address>) -> bool {
    match (run.address, address) {
        (Some(first), Some(next)) => first.plus(u64::from(run.blocks)) == next,
        (first, next) => first == next,
    }
}

/// Cuts the range out of the runs, puts the new run in, and joins it with its neighbours.
fn replace(runs: &mut Vec<Run>, block: usize, blocks: usize, address: Option<Address>) {
    let end = block + blocks;
    let first = runs.partition_point(|run| run.end() <= block);
    let last = runs.partition_point(|run| run.from() < end).max(first);
    let before = runs[first..last].first().and_then(|run| run.cut(0, block));
    let after = runs[first..last].last().and_then(|run| run.cut(end, LEAF_BLOCKS));
    let middle = address.map(|address| Run::new(block, blocks, address));
    let start = first.saturating_sub(1);
    let stop = (last + 1).min(runs.len());
    let around = runs[start..first].iter().copied().chain(before).chain(middle).chain(after);
    let mut joined: Vec<Run> = Vec::with_capacity(5);
    for run in around.chain(runs[last..stop].iter().copied()) {
        match joined.last().and_then(|last| last.joined(&run)) {
            Some(longer) => *joined.last_mut().expect("it was just joined") = longer,
            None => joined.push(run),
        }
    }
    runs.splice(start..stop, joined);
}

fn packed(address: Address) -> Listed {
    let bytes = address.0.to_le_bytes();
    [bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]]
}

fn unpacked(listed: Listed) -> Option<Address> {
    let mut bytes = [0; 8];
    bytes[..listed.len()].copy_from_slice(&listed);
    (listed != NOWHERE).then(|| Address(u64::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_run_takes_12_bytes() {
        assert_eq!(RUN_BYTES, 12);
        let run = Run::new(1, 2, Address(0x01_2345_6789));
        assert_eq!((run.from(), run.end(), run.address()), (1, 3, Address(0x01_2345_6789)));
    }

    #[test]
    fn sequential_writes_are_one_run() {
        let mut addresses = Addresses::default();
        for block in [0, 2, 1, 3] {
            addresses.set(block * 256, 256, Some(Address(500 + 256 * block as u64)));
        }
        let Addresses::Runs(runs) = &addresses else { panic!("few runs are not listed") };
        assert_eq!(*runs, [Run::new(0, 1024, Address(500))]);
    }

    proptest! {
        #[test]
        fn both_forms_agree_with_a_plain_list(
            changes in prop::collection::vec(
                (0..LEAF_BLOCKS, 1..300_usize, prop::option::of(0..3000_u64)), 1..600)
        ) {
            let mut plain = vec![None; LEAF_BLOCKS];
            let mut addresses = Addresses::default();
            for (index, (block, blocks, address)) in changes.into_iter().enumerate() {
                // Short changes fragment the leaf, long ones mend it.
                let blocks = if index % 8 == 0 { blocks } else { 1 };
                let blocks = blocks.min(LEAF_BLOCKS - block);
                let address = address.map(Address);
                addresses.set(block, blocks, address);
                for (offset, entry) in (0..).zip(&mut plain[block..block + blocks]) {
                    *entry = address.map(|first| first.plus(offset));
                }
                if let Addresses::Runs(runs) = &addresses {
                    prop_assert!(runs.len() <= RUNS_MAX);
                    let apart = |a: &Run, b: &Run| a.end() <= b.from() && a.joined(b).is_none();
                    prop_assert!(runs.is_sorted_by(apart));
                }
            }
            let mapped: Vec<_> = addresses.mapped().collect();
            let expected = plain.iter().enumerate();
            let expected: Vec<_> =
                expected.filter_map(|(block, address)| Some((block, (*address)?))).collect();
            prop_assert_eq!(mapped, expected);
            for (block, expected) in plain.iter().enumerate() {
                prop_assert_eq!(addresses.at(block), *expected);
            }
            let runs = addresses.runs();
            prop_assert_eq!(runs.iter().map(|run| usize::from(run.blocks)).sum::<usize>(), 1024);
            let spread = runs.iter().flat_map(|run| {
                (0..u64::from(run.blocks)).map(|offset| run.address.map(|first| first.plus(offset)))
            });
            prop_assert_eq!(spread.collect::<Vec<_>>(), plain);
        }
    }
}
