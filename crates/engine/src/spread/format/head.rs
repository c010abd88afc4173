//! The head of a server: which volume it belongs to, which server of it, and what lies where.
//!
//! | byte | size | what |
//! |---|---|---|
//! | 48 | 4 | features that must be known; none yet |
//! | 52 | 4 | features that may be ignored; none yet |
//! | 56 | 4 | the server's number, from 0 |
//! | 60 | 4 | how many servers objects may lie on |
//! | 64 | 8 | bytes of an object |
//! | 72 | 8 | where the first slot begins, in bytes |
//! | 80 | 4 | slots of this server |
//! | 84 | 4 | objects of the volume |
//! | 88 | 4 | pages of the choices |
//! | 92 | 4 | candidates of each object |
//! | 96 | 4 | how often the servers have changed |
//! | 100 | 4 | 1 if the volume was ever opened without a server, else 0 |
//! | 104 | 8 | whom objects were placed on before the last change: bit n for number n |
//! | 112 | 8 | whom they are placed on |
//! | 120 | 8 | who keeps the choices |
//! | 128 | 64 x 4 | slots of every server, by number; zero where there is none |
//! | 384 | 16 | the opening that wrote it |
//! | 400 | 16 | the last one before it that had come to its end with this server |
//! | 416 | 3680 | zeroes |
//!
//! All fields lie in the first 512 bytes, which no drive tears. Generation 0 says that the volume
//! is not finished; each opening counts one up, on every server.

use super::super::layout::SERVERS_MAX;
use super::super::members::Members;
use crate::lease::OwnerId;
use crate::notes::VolumeId;
use crate::notes::block::{Block, BlockKind, Label, put_u32, put_u64, seal, u32_at, u64_at};
use crate::notes::head::{HeadError, MemberHead, VolumeHead, label_of_head};

const PARTED: usize = 100;
const ALL_SLOTS: usize = 128;
const OPENING: usize = 384;
const AFTER: usize = 400;

/// What the head of a server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::spread) struct Head {
    pub(in crate::spread) volume: VolumeId,
    pub(in crate::spread) generation: u64,
    pub(in crate::spread) features_optional: u32,
    pub(in crate::spread) number: u32,
    pub(in crate::spread) members: Members,
    pub(in crate::spread) object_bytes: u64,
    pub(in crate::spread) data_offset: u64,
    pub(in crate::spread) slots: u32,
    pub(in crate::spread) objects: u32,
    pub(in crate::spread) pages: u32,
    pub(in crate::spread) candidates: u32,
    /// Whether the volume was ever opened without a server.
    pub(in crate::spread) is_parted: bool,
    /// Slots of every server, by number.
    pub(in crate::spread) all_slots: [u32; SERVERS_MAX],
    /// The opening that wrote this.
    pub(in crate::spread) opening: OwnerId,
    /// The last opening before that one that had come to its end with this server.
    pub(in crate::spread) after: OwnerId,
}

impl VolumeHead for Head {
    fn decode(block: &Block) -> Result<Self, HeadError> {
        let label = label_of_head(BlockKind::SpreadHead, 0, block)?;
        let members = members(block).ok_or(HeadError::Damaged)?;
        Ok(Self {
            volume: label.volume,
            generation: label.number,
            features_optional: u32_at(block, 52),
            number: u32_at(block, 56),
            members,
            object_bytes: u64_at(block, 64),
            data_offset: u64_at(block, 72),
            slots: u32_at(block, 80),
            objects: u32_at(block, 84),
            pages: u32_at(block, 88),
            candidates: u32_at(block, 92),
            is_parted: u32_at(block, PARTED) != 0,
            all_slots: std::array::from_fn(|number| u32_at(block, ALL_SLOTS + 4 * number)),
            opening: OwnerId::at(block, OPENING),
            after: OwnerId::at(block, AFTER),
        })
    }

    fn member(&self) -> MemberHead {
        let Self { volume, number, generation, .. } = *self;
        MemberHead { volume, number, generation }
    }

    fn opening(&self) -> OwnerId {
        self.opening
    }
}

impl Head {
    /// Makes the block that says this, for this offset of the server.
    pub(in crate::spread) fn encode(&self, offset: u64, block: &mut Block) {
        block.fill(0);
        put_u32(block, 52, self.features_optional);
        put_u32(block, 56, self.number);
        put_u32(block, 60, self.members.all().count_ones());
        put_u64(block, 64, self.object_bytes);
        put_u64(block, 72, self.data_offset);
        put_u32(block, 80, self.slots);
        put_u32(block, 84, self.objects);
        put_u32(block, 88, self.pages);
        put_u32(block, 92, self.candidates);
        for (number, slots) in self.all_slots.iter().enumerate() {
            put_u32(block, ALL_SLOTS + 4 * number, *slots);
        }
        block[OPENING..][..16].copy_from_slice(&self.opening.0);
        block[AFTER..][..16].copy_from_slice(&self.after.0);
        put_u32(block, 96, self.members.era.into());
        put_u32(block, PARTED, self.is_parted.into());
        put_u64(block, 104, self.members.before);
        put_u64(block, 112, self.members.after);
        put_u64(block, 120, self.members.keepers);
        let label = Label { volume: self.volume, number: self.generation, offset };
        seal(BlockKind::SpreadHead, &label, block);
    }
}

/// What a head says of the servers; none if that cannot be.
fn members(block: &Block) -> Option<Members> {
    let count = u32_at(block, 60) as usize;
    if !(2..=SERVERS_MAX).contains(&count) {
        return None;
    }
    let members = Members {
        era: u16::try_from(u32_at(block, 96)).ok()?,
        before: u64_at(block, 104),
        after: u64_at(block, 112),
        keepers: u64_at(block, 120),
    };
    (members.is_sound() && members.all().count_ones() as usize == count).then_some(members)
}
