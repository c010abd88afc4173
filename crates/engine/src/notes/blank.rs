//! Whether a device without a head is blank, so that a volume may be made on it.
//!
//! Heads are few, and may be lost: a device that has none may still hold all else of a volume. So
//! nothing is made over anything: where the volume would note something, be it the owner, a map, a
//! journal, a table or choices, the first and the last block have to be zeroes too. What an opening
//! that was cut short has left of itself does not count.

use super::block::{BLOCK_BYTES, Block, VolumeId, volume_of};
use crate::lease::{OWNER_OFFSET, Owner};

/// What is being made on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Making {
    /// A volume.
    New,
    /// A member that this volume is yet to get.
    Member(VolumeId),
}

/// The least that no drive tears.
const SECTOR: usize = 512;

impl Making {
    /// Whether a block that was read at this offset may be written over.
    pub(crate) fn may_replace(self, offset: u64, block: &Block) -> bool {
        let is_left_over = match self {
            // A claim comes right behind the head that nobody has found.
            Self::New => offset == OWNER_OFFSET && Owner::is_of_making(block),
            // What the member notes comes before its head. The last block may be torn.
            Self::Member(volume) => {
                volume_of(block) == Some(volume) || block[..SECTOR].iter().all(|byte| *byte == 0)
            }
        };
        is_left_over || block.iter().all(|byte| *byte == 0)
    }
}

/// Where the first and the last block of each of these areas begin, in bytes; areas are whole
/// blocks.
pub(crate) fn ends_of(areas: impl IntoIterator<Item = std::ops::Range<u64>>) -> Vec<u64> {
    let areas = areas.into_iter().filter(|area| !area.is_empty());
    areas.flat_map(|area| [area.start, area.end - BLOCK_BYTES]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{OwnerId, Settled};
    use crate::notes::block::{BLOCK, BlockKind, Label, seal};

    const OURS: VolumeId = VolumeId([3; 16]);

    fn block_of(kind: BlockKind, volume: VolumeId) -> Block {
        let mut block: Block = [0; BLOCK];
        seal(kind, &Label { volume, number: 1, offset: 0 }, &mut block);
        block
    }

    #[test]
    fn a_volume_is_made_over_zeroes_and_claims_that_came_to_nothing() {
        let mut block: Block = [0; BLOCK];
        assert!(Making::New.may_replace(OWNER_OFFSET, &block));
        let mut owner = Owner { id: OwnerId([1; 16]), ..Owner::default() };
        owner.encode(OURS, &mut block);
        assert!(Making::New.may_replace(OWNER_OFFSET, &block));
        assert!(!Making::New.may_replace(3 * BLOCK_BYTES, &block), "it has strayed");
        owner.settled = Settled { generation: 1, by: OwnerId([2; 16]), ..Settled::default() };
        owner.encode(OURS, &mut block);
        assert!(!Making::New.may_replace(OWNER_OFFSET, &block), "it knows of data");
        block = [0; BLOCK];
        block[BLOCK - 1] = 1;
        assert!(!Making::New.may_replace(OWNER_OFFSET, &block));
    }

    #[test]
    fn a_member_is_made_over_what_its_volume_had_begun_there() {
        let joins = Making::Member(OURS);
        let ours = block_of(BlockKind::Table, OURS);
        assert!(joins.may_replace(0, &ours) && !Making::New.may_replace(0, &ours));
        assert!(!joins.may_replace(0, &block_of(BlockKind::Table, VolumeId([4; 16]))));
        let mut torn: Block = [0; BLOCK];
        torn[SECTOR] = 1;
        assert!(joins.may_replace(0, &torn) && !Making::New.may_replace(0, &torn));
    }

    #[test]
    fn the_ends_of_areas_are_their_first_and_last_blocks() {
        assert_eq!(ends_of([4096..16384, 0..0, 20480..24576]), [4096, 12288, 20480, 20480]);
    }
}
