//! An increment of a checkpoint: what has changed since the whole one, or since the increment
//! before.
//!
//! ```text
//! area: | whole: root, segments, volumes, leaves | increment | increment | ..
//! increment: header | record * n | freed segment * n | segment * n
//! ```
//!
//! The records are those of the log, clients' and cleaner's, in the order in which they took
//! effect, without their data: where it lies, and a tag of three bytes for each block. Whoever
//! carries them out has the map as it was, and needs no segment for that. Then these segments were
//! free, and these are new or of another phase.

use super::codec::{Defect, Reader, Writer};
use super::extent::{decode_extent, encode_extent};
use super::record::{DATA_BLOCKS_MAX, Extent, Kind, RecordHeader};
use crate::units::{Address, Lsn};

/// What an increment begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Increment {
    /// The last user record that it contains.
    pub lsn: Lsn,
    /// The last record of the cleaner that it contains.
    pub moved_sequence: u64,
    /// The generation that the next use of a segment gets.
    pub next_generation: u64,
    /// Records that follow.
    pub records: u64,
    /// Freed segments that follow.
    pub freed: u32,
    /// Segments that follow.
    pub segments: u32,
}

/// A record without its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordRow {
    /// Whose it is.
    pub kind: Kind,
    /// Where its first data block is.
    pub data: Address,
    /// What it does, in order.
    pub extents: Vec<Extent>,
    /// Of each data block, the low 24 bits of its CRC-32C.
    pub tags: Vec<u32>,
}

const TAG_BYTES: usize = 3;

pub(super) fn encode_increment(writer: &mut Writer, increment: &Increment) {
    writer.u64(increment.lsn.0);
    writer.u64(increment.moved_sequence);
    writer.u64(increment.next_generation);
    writer.u64(increment.records);
    writer.u32(increment.freed);
    writer.u32(increment.segments);
}

pub(super) fn decode_increment(reader: &mut Reader<'_>) -> Result<Increment, Defect> {
    Ok(Increment {
        lsn: Lsn(reader.counter()?),
        moved_sequence: reader.counter()?,
        next_generation: reader.counter()?,
        records: reader.counter()?,
        freed: reader.u32()?,
        segments: reader.u32()?,
    })
}

pub(super) fn encode_record(writer: &mut Writer, row: &RecordRow) {
    encode_fields(writer, (row.kind, row.data), &row.extents, &row.tags);
}

/// The same of a record whose header is at hand, and whose data starts at `data`.
pub(super) fn encode_header(writer: &mut Writer, header: &RecordHeader, data: Address) {
    encode_fields(writer, (header.kind, data), &header.extents, &header.checksums);
}

/// Of checksums, the low bits are the tags.
fn encode_fields(
    writer: &mut Writer,
    (kind, data): (Kind, Address),
    extents: &[Extent],
    checksums: &[u32],
) {
    writer.u8(u8::from(kind == Kind::Moved));
    writer.varint(data.0);
    writer.varint(extents.len() as u64);
    for extent in extents {
        encode_extent(writer, extent);
    }
    for checksum in checksums {
        writer.bytes(&checksum.to_le_bytes()[..TAG_BYTES]);
    }
}

pub(super) fn decode_record(reader: &mut Reader<'_>) -> Result<RecordRow, Defect> {
    let kind = match reader.u8()? {
        0 => Kind::User,
        1 => Kind::Moved,
        _ => return Err(Defect::Field("kind")),
    };
    let (data, count) = (Address(reader.varint()?), reader.varint()?);
    let mut extents = Vec::new();
    let mut blocks = 0;
    for _ in 0..count {
        let extent = decode_extent(reader, kind)?;
        blocks += extent.data_blocks() as usize;
        if blocks > DATA_BLOCKS_MAX {
            return Err(Defect::Field("data blocks"));
        }
        extents.push(extent);
    }
    let tag = |reader: &mut Reader<'_>| {
        let bytes = reader.take(TAG_BYTES)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]))
    };
    let tags = (0..blocks).map(|_| tag(reader)).collect::<Result<_, _>>()?;
    Ok(RecordRow { kind, data, extents, tags })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::Change;
    use crate::format::volume::VolumeChange;
    use crate::units::VolumeId;

    fn extent(block: u64, blocks: u32, change: Change) -> Extent {
        Extent { volume: VolumeId(3), block, blocks, change }
    }

    #[test]
    fn records_come_back_as_they_were_and_single_blocks_are_short() {
        let user = RecordRow {
            kind: Kind::User,
            data: Address(1 << 39),
            extents: vec![
                extent(5, 2, Change::Written),
                extent(1 << 40, 1 << 30, Change::Unmapped),
                Extent::of_volume(VolumeId(7), VolumeChange::Resize { blocks: 1 << 30 }),
            ],
            tags: vec![0x00ab_cdef, 1],
        };
        let moved = RecordRow {
            kind: Kind::Moved,
            data: Address(1 << 28),
            extents: vec![extent(1 << 27, 1, Change::Moved { from: Address(1 << 27) }); 70],
            tags: (0..70).collect(),
        };
        for (row, bytes_max) in [(user, 80), (moved, 70 * 15)] {
            let mut writer = Writer::default();
            encode_record(&mut writer, &row);
            let bytes = writer.into_bytes();
            assert!(bytes.len() <= bytes_max, "{} bytes", bytes.len());
            let mut reader = Reader::new(&bytes);
            assert_eq!((decode_record(&mut reader), reader.is_empty()), (Ok(row), true));
            let cut = decode_record(&mut Reader::new(&bytes[..bytes.len() - 1]));
            assert_eq!(cut, Err(Defect::Truncated));
        }
    }
}
