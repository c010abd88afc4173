//! The head of a server: which volume it belongs to, which server of it, and what lies where.
//!
//! | byte | size | what |
//! |---|---|---|
//! | 48 | 4 | features without whose knowledge the server must not be touched; none yet |
//! | 52 | 4 | features that may be ignored; none yet |
//! | 56 | 4 | which server, from 0 |
//! | 60 | 4 | how many servers |
//! | 64 | 8 | bytes of an object |
//! | 72 | 8 | where the first slot begins, in bytes |
//! | 80 | 4 | slots of this server |
//! | 84 | 4 | objects of the volume |
//! | 88 | 4 | pages of the choices |
//! | 92 | 4 | candidates of each object |
//! | 96 | 4000 | zeroes |
//!
//! All fields lie in the first 512 bytes, which no drive tears. Generation 0 says that the volume
//! is not finished; each opening counts one up, on every server.

use crate::notes::VolumeId;
use crate::notes::block::{Block, BlockKind, Label, put_u32, put_u64, seal, u32_at, u64_at};
use crate::notes::head::{HeadError, label_of_head};

/// What the head of a server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::spread) struct Head {
    pub(in crate::spread) volume: VolumeId,
    pub(in crate::spread) generation: u64,
    pub(in crate::spread) features_optional: u32,
    pub(in crate::spread) server: u32,
    pub(in crate::spread) servers: u32,
    pub(in crate::spread) object_bytes: u64,
    pub(in crate::spread) data_offset: u64,
    pub(in crate::spread) slots: u32,
    pub(in crate::spread) objects: u32,
    pub(in crate::spread) pages: u32,
    pub(in crate::spread) candidates: u32,
}

impl Head {
    /// What a block says.
    pub(in crate::spread) fn decode(block: &Block) -> Result<Self, HeadError> {
        let label = label_of_head(BlockKind::SpreadHead, block)?;
        Ok(Self {
            volume: label.volume,
            generation: label.number,
            features_optional: u32_at(block, 52),
            server: u32_at(block, 56),
            servers: u32_at(block, 60),
            object_bytes: u64_at(block, 64),
            data_offset: u64_at(block, 72),
            slots: u32_at(block, 80),
            objects: u32_at(block, 84),
            pages: u32_at(block, 88),
            candidates: u32_at(block, 92),
        })
    }

    /// Makes the block that says this, for this offset of the server.
    pub(in crate::spread) fn encode(&self, offset: u64, block: &mut Block) {
        block.fill(0);
        put_u32(block, 52, self.features_optional);
        put_u32(block, 56, self.server);
        put_u32(block, 60, self.servers);
        put_u64(block, 64, self.object_bytes);
        put_u64(block, 72, self.data_offset);
        put_u32(block, 80, self.slots);
        put_u32(block, 84, self.objects);
        put_u32(block, 88, self.pages);
        put_u32(block, 92, self.candidates);
        let label = Label { volume: self.volume, number: self.generation, offset };
        seal(BlockKind::SpreadHead, &label, block);
    }
}
