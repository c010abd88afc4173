//! The first block of a segment: which segment of which store this is, and since when.
//!
//! Recovery does not need it, since the checkpoint names the segments that may hold records behind
//! it and every record names its own place. It is for people and tools that stand before a drive
//! without a checkpoint.

use super::codec::{Defect, Writer, unseal};
use super::{VERSION, magic};
use crate::units::{Copies, DriveIndex, Mount, SegmentId, Slot, Uuid};

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The store it belongs to.
    pub store: Uuid,
    /// Its row in the segment table.
    pub segment: SegmentId,
    /// Tells this use of the row and its slots from all earlier ones.
    pub generation: u64,
    /// The mount that wrote it.
    pub mount: Mount,
    /// Where both copies lie.
    pub copies: Copies,
}

impl SegmentHeader {
    /// One sealed block.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.bytes(&magic::SEGMENT);
        writer.u16(VERSION);
        writer.pad_to(8);
        writer.uuid(self.store);
        writer.u64(self.generation);
        writer.mount(self.mount);
        writer.u32(self.segment.0);
        for copy in self.copies {
            encode_copy(&mut writer, copy);
        }
        writer.into_sealed_block()
    }

    /// Reads one block.
    ///
    /// # Errors
    /// The first [`Defect`] found.
    pub fn decode(block: &[u8]) -> Result<Self, Defect> {
        let mut reader = unseal(block, magic::SEGMENT)?;
        reader.u16()?;
        Ok(Self {
            store: reader.uuid()?,
            generation: reader.u64()?,
            mount: reader.mount()?,
            segment: SegmentId(reader.u32()?),
            copies: [decode_copy(&mut reader)?, decode_copy(&mut reader)?],
        })
    }
}

/// No drive has this number; it stands for a missing copy.
const NO_DRIVE: u8 = 0xff;

/// Five bytes: the drive, or 0xff for none, and the slot.
pub(super) fn encode_copy(writer: &mut Writer, copy: Option<Slot>) {
    writer.u8(copy.map_or(NO_DRIVE, |slot| slot.drive.0));
    writer.u32(copy.map_or(0, |slot| slot.slot));
}

pub(super) fn decode_copy(reader: &mut super::codec::Reader<'_>) -> Result<Option<Slot>, Defect> {
    let drive = reader.u8()?;
    let slot = reader.u32()?;
    Ok((drive != NO_DRIVE).then_some(Slot { drive: DriveIndex(drive), slot }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Nonce;

    #[test]
    fn a_header_comes_back_as_it_was() {
        let header = SegmentHeader {
            store: Uuid([3; 16]),
            segment: SegmentId(70_000),
            generation: 5,
            mount: Mount { epoch: 2, nonce: Nonce(u64::MAX) },
            copies: [Some(Slot { drive: DriveIndex(1), slot: 9 }), None],
        };
        let mut block = header.encode();
        assert_eq!(SegmentHeader::decode(&block), Ok(header));
        block[100] = 1;
        assert_eq!(SegmentHeader::decode(&block), Err(Defect::Checksum));
    }
}
