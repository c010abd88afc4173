//! Who uses a server at present: the gate that claimed it last, and how often it has beaten since.
//!
//! | byte | size | what |
//! |---|---|---|
//! | 48 | 16 | the owner: bytes that a gate draws at random for each opening |
//! | 64 | 8 | the generation up to whose beginning all notes are known to be durable |
//! | 72 | 4 | 1 if the owner has let go, else 0 |
//! | 76 | 4 | bytes of the owner's name, at most 256 |
//! | 80 | 256 | the owner's name for people, UTF-8; then zeroes |
//! | 336 | 3760 | zeroes |
//!
//! The label's number counts the beats. The block is overwritten in place: all that ever changes of
//! it lies in its first 512 bytes, which no drive tears.

use super::super::layout::OWNER_OFFSET;
use crate::notes::VolumeId;
use crate::notes::block::{Block, BlockKind, Label, label, put_u32, put_u64, seal, u32_at, u64_at};

/// Most bytes of a name.
const NAME_BYTES_MAX: usize = 256;
const NAME: usize = 80;

/// What an owner is known by; each opening draws its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerId(
    /// 16 random bytes.
    pub [u8; 16],
);

/// What the block says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::spread) struct Owner {
    pub(in crate::spread) id: OwnerId,
    pub(in crate::spread) beat: u64,
    pub(in crate::spread) settled: u64,
    pub(in crate::spread) is_released: bool,
    pub(in crate::spread) name: String,
}

impl Owner {
    /// What a block says; none if it is no such block of this volume.
    pub(in crate::spread) fn decode(volume: VolumeId, block: &Block) -> Option<Self> {
        let label = label(BlockKind::Owner, block).ok()?;
        let name_bytes = u32_at(block, 76) as usize;
        let is_ours = label.volume == volume && label.offset == OWNER_OFFSET;
        if !is_ours || name_bytes > NAME_BYTES_MAX || u32_at(block, 72) > 1 {
            return None;
        }
        Some(Self {
            id: OwnerId(std::array::from_fn(|index| block[48 + index])),
            beat: label.number,
            settled: u64_at(block, 64),
            is_released: u32_at(block, 72) == 1,
            name: String::from_utf8(block[NAME..NAME + name_bytes].to_vec()).ok()?,
        })
    }

    /// Makes the block. A name that is too long loses its end.
    pub(in crate::spread) fn encode(&self, volume: VolumeId, block: &mut Block) {
        block.fill(0);
        block[48..64].copy_from_slice(&self.id.0);
        put_u64(block, 64, self.settled);
        put_u32(block, 72, u32::from(self.is_released));
        let name = &self.name[..self.name.floor_char_boundary(NAME_BYTES_MAX)];
        put_u32(block, 76, u32::try_from(name.len()).expect("cut above"));
        block[NAME..NAME + name.len()].copy_from_slice(name.as_bytes());
        let label = Label { volume, number: self.beat, offset: OWNER_OFFSET };
        seal(BlockKind::Owner, &label, block);
    }
}
