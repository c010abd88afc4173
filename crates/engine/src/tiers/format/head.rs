//! The head of a tier: which volume it belongs to, which tier of it, and what lies where.
//!
//! | byte | size | what |
//! |---|---|---|
//! | 48 | 4 | features without whose knowledge the tier must not be touched; none yet |
//! | 52 | 4 | features that may be ignored; none yet |
//! | 56 | 4 | which tier, from 0 for the slowest |
//! | 60 | 4 | how many tiers |
//! | 64 | 8 | bytes of an extent |
//! | 72 | 8 | where the first slot begins, in bytes |
//! | 80 | 4 | slots of this tier |
//! | 84 | 4 | extents of the volume |
//! | 88 | 4 | blocks of one area of the map |
//! | 92 | 4 | records of the journal |
//! | 96 | 16 | the opening that wrote it |
//! | 112 | 3984 | zeroes |
//!
//! All fields lie in the first 512 bytes, which no drive tears. Generation 0 says that the volume
//! is not finished; each opening counts one up, on every tier.

use super::Block;
use crate::lease::OwnerId;
use crate::notes::block::{BlockKind, Label, VolumeId, put_u32, put_u64, seal, u32_at, u64_at};
use crate::notes::head::{HeadError, MemberHead, VolumeHead, label_of_head};

const OPENING: usize = 96;

/// What the head of a tier says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tiers) struct Head {
    pub(in crate::tiers) volume: VolumeId,
    pub(in crate::tiers) generation: u64,
    pub(in crate::tiers) features_optional: u32,
    pub(in crate::tiers) tier: u32,
    pub(in crate::tiers) tiers: u32,
    pub(in crate::tiers) extent_bytes: u64,
    pub(in crate::tiers) data_offset: u64,
    pub(in crate::tiers) slots: u32,
    pub(in crate::tiers) extents: u32,
    pub(in crate::tiers) checkpoint_blocks: u32,
    pub(in crate::tiers) journal_records: u32,
    /// The opening that wrote this.
    pub(in crate::tiers) opening: OwnerId,
}

impl VolumeHead for Head {
    fn decode(block: &Block) -> Result<Self, HeadError> {
        let label = label_of_head(BlockKind::Head, 0, block)?;
        Ok(Self {
            volume: label.volume,
            generation: label.number,
            features_optional: u32_at(block, 52),
            tier: u32_at(block, 56),
            tiers: u32_at(block, 60),
            extent_bytes: u64_at(block, 64),
            data_offset: u64_at(block, 72),
            slots: u32_at(block, 80),
            extents: u32_at(block, 84),
            checkpoint_blocks: u32_at(block, 88),
            journal_records: u32_at(block, 92),
            opening: OwnerId::at(block, OPENING),
        })
    }

    fn member(&self) -> MemberHead {
        let Self { volume, tier, generation, .. } = *self;
        MemberHead { volume, number: tier, generation }
    }

    fn opening(&self) -> OwnerId {
        self.opening
    }
}

impl Head {
    /// Makes the block that says this, for this offset of the tier.
    pub(in crate::tiers) fn encode(&self, offset: u64, block: &mut Block) {
        block.fill(0);
        put_u32(block, 52, self.features_optional);
        put_u32(block, 56, self.tier);
        put_u32(block, 60, self.tiers);
        put_u64(block, 64, self.extent_bytes);
        put_u64(block, 72, self.data_offset);
        put_u32(block, 80, self.slots);
        put_u32(block, 84, self.extents);
        put_u32(block, 88, self.checkpoint_blocks);
        put_u32(block, 92, self.journal_records);
        block[OPENING..][..16].copy_from_slice(&self.opening.0);
        let label = Label { volume: self.volume, number: self.generation, offset };
        seal(BlockKind::Head, &label, block);
    }
}
