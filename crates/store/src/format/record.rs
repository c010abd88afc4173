//! A record, the atomic unit of the log: one header block, and the data blocks behind it.
//!
//! ```text
//! header (4096 bytes)                                              data blocks
//! | fixed fields 128 | own body | body of the one before | 0 | seal |  block 0 | .. | block n-1 |
//! body: | extent | extent | .. | checksum * n |
//! ```
//!
//! The header says for each run of blocks where it belongs, and has a CRC-32C for each data block.
//! A record is whole if its header is, and each data block matches its checksum on some copy. All
//! of it counts or nothing: that makes a write of up to 1 MiB atomic, and several small writes
//! that share a record one write.
//!
//! Every header repeats that of the record before, so that no single bad sector makes the store
//! forget what a record wrote.
//!
//! | kind | sequence | extents |
//! |---|---|---|
//! | user | LSN, without gaps | volume, blocks, block within; unmapped: no data |
//! |  |  | volume, and what becomes of it as a whole |
//! | moved | the cleaner's own | the same as a user's, and the address that the data was at |

use super::codec::{Defect, Reader, SEAL_BYTES, Writer, unseal};
use super::extent::{decode_extent, encode_extent, extent_bytes};
use super::volume::VolumeChange;
use super::{VERSION, magic};
use crate::units::{Address, BLOCK_BYTES, Lsn, Mount, Uuid, VolumeId};

/// Data blocks of one record at most: 1 MiB.
pub const DATA_BLOCKS_MAX: usize = 256;

/// Blocks that a volume may have: 4 EiB.
pub const VOLUME_BLOCKS_MAX: u64 = 1 << 50;

const FIXED_BYTES: usize = 128;
const CHECKSUM_BYTES: usize = 4;

/// Whose record it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Written by clients; its sequence is an [`Lsn`].
    User,
    /// Copied by the cleaner; its sequence is the cleaner's own.
    Moved,
}

/// What an extent does to its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// They get the next data blocks of the record.
    Written,
    /// They read as zeroes from now on; there is no data.
    Unmapped,
    /// They get the next data blocks, those that are still at this address and behind it.
    Moved {
        /// Where the first of them was.
        from: Address,
    },
    /// Nothing to a single block, but to the volume as a whole.
    Volume(VolumeChange),
}

/// A run of blocks of a volume, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The volume.
    pub volume: VolumeId,
    /// Its first block within the volume.
    pub block: u64,
    /// How many; at least 1, and none of a change of the volume as a whole.
    pub blocks: u32,
    /// What becomes of them.
    pub change: Change,
}

/// The header of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Whose record it is, which says what the sequence counts and which extents it has.
    pub kind: Kind,
    /// The place and time that it belongs to.
    pub identity: Identity,
    /// [`Lsn`] of a user record, the cleaner's count of a moved one.
    pub sequence: u64,
    /// All user records up to here were durable when this record was written.
    pub durable: Lsn,
    /// All moved records up to this sequence were durable when this record was written.
    pub moved_durable: u64,
    /// What it does, in order.
    pub extents: Vec<Extent>,
    /// CRC-32C of each data block.
    pub checksums: Vec<u32>,
    /// What the header of the record before says, of the same kind and with the sequence before;
    /// none in the first record of a mount.
    pub previous: Option<Box<Previous>>,
}

/// A copy of a header in the header of the next record: all but what store, mount, kind and
/// sequence tell, and but for its own copy of one more before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Previous {
    /// The use of its segment.
    pub generation: u64,
    /// Its place.
    pub address: Address,
    /// As in that header.
    pub durable: Lsn,
    /// As in that header.
    pub moved_durable: u64,
    /// As in that header.
    pub extents: Vec<Extent>,
    /// As in that header.
    pub checksums: Vec<u32>,
}

/// Where and when a record was written; a header elsewhere or from another time is not it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The store.
    pub store: Uuid,
    /// The mount.
    pub mount: Mount,
    /// The use of the segment.
    pub generation: u64,
    /// The header's own place.
    pub address: Address,
}

impl Extent {
    /// Data blocks that it has in the record.
    pub fn data_blocks(&self) -> u32 {
        if self.change == Change::Unmapped { 0 } else { self.blocks }
    }

    /// A change of a volume as a whole.
    pub fn of_volume(volume: VolumeId, change: VolumeChange) -> Self {
        Self { volume, block: 0, blocks: 0, change: Change::Volume(change) }
    }

    /// Bytes that it takes of a header, its checksums included.
    pub fn header_bytes(&self) -> usize {
        extent_bytes(self) + self.data_blocks() as usize * CHECKSUM_BYTES
    }
}

impl RecordHeader {
    /// Bytes that the extents and checksums of one record have: half of what a header has room for,
    /// since it repeats those of the record before.
    pub const ROOM_BYTES: usize = (BLOCK_BYTES - SEAL_BYTES - FIXED_BYTES) / 2;

    /// Blocks of the whole record.
    pub fn record_blocks(&self) -> u64 {
        1 + self.checksums.len() as u64
    }

    /// One sealed block. The extents fit, see [`Extent::header_bytes`], and are of the kind.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.checksums.len() <= DATA_BLOCKS_MAX, "a record has a bound");
        let mut writer = Writer::default();
        writer.bytes(&magic::RECORD);
        writer.u16(VERSION);
        writer.u16(match self.kind {
            Kind::User => 0,
            Kind::Moved => 1,
        });
        writer.uuid(self.identity.store);
        writer.mount(self.identity.mount);
        writer.u64(self.identity.generation);
        writer.u64(self.identity.address.0);
        writer.u64(self.sequence);
        writer.u64(self.durable.0);
        writer.u64(self.moved_durable);
        encode_counts(&mut writer, &self.extents, &self.checksums);
        writer.u32(u32::from(self.previous.is_some()));
        if let Some(previous) = &self.previous {
            writer.u64(previous.generation);
            writer.u64(previous.address.0);
            writer.u64(previous.durable.0);
            writer.u64(previous.moved_durable);
            encode_counts(&mut writer, &previous.extents, &previous.checksums);
        }
        writer.pad_to(FIXED_BYTES);
        encode_body(&mut writer, &self.extents, &self.checksums);
        if let Some(previous) = &self.previous {
            encode_body(&mut writer, &previous.extents, &previous.checksums);
        }
        writer.into_sealed_block()
    }

    /// The header of the record before, from its copy in this one. What that one says of the record
    /// before itself is not in the copy.
    pub fn restore_previous(&self, before: Option<Box<Previous>>) -> Option<Self> {
        let Previous { generation, address, durable, moved_durable, extents, checksums } =
            self.previous.as_deref()?.clone();
        Some(Self {
            kind: self.kind,
            identity: Identity { generation, address, ..self.identity },
            sequence: self.sequence.checked_sub(1)?,
            durable,
            moved_durable,
            extents,
            checksums,
            previous: before,
        })
    }

    /// Reads one block.
    ///
    /// # Errors
    /// The first [`Defect`] found. Whether it is the record that belongs here is for
    /// [`Self::identity`] to say.
    pub fn decode(block: &[u8]) -> Result<Self, Defect> {
        let mut reader = unseal(block, magic::RECORD)?;
        let kind = match reader.u16()? {
            0 => Kind::User,
            1 => Kind::Moved,
            _ => return Err(Defect::Field("kind")),
        };
        let identity = Identity {
            store: reader.uuid()?,
            mount: reader.mount()?,
            generation: reader.counter()?,
            address: Address(reader.counter()?),
        };
        let (sequence, durable) = (reader.counter()?, Lsn(reader.counter()?));
        let moved_durable = reader.counter()?;
        let counts = decode_counts(&mut reader)?;
        let before = match reader.u32()? {
            0 => None,
            1 => Some(decode_before(&mut reader)?),
            _ => return Err(Defect::Field("record before")),
        };
        let mut reader = Reader::new(&block[FIXED_BYTES..BLOCK_BYTES - SEAL_BYTES]);
        let (extents, checksums) = decode_body(&mut reader, kind, counts)?;
        let previous = match before {
            None => None,
            Some((fields, counts)) => {
                let (extents, checksums) = decode_body(&mut reader, kind, counts)?;
                Some(Box::new(Previous { extents, checksums, ..fields }))
            }
        };
        Ok(Self { kind, identity, sequence, durable, moved_durable, extents, checksums, previous })
    }
}

impl Previous {
    /// What the next header repeats of this one.
    pub fn of(header: &RecordHeader) -> Self {
        Self {
            generation: header.identity.generation,
            address: header.identity.address,
            durable: header.durable,
            moved_durable: header.moved_durable,
            extents: header.extents.clone(),
            checksums: header.checksums.clone(),
        }
    }
}

/// How many extents and data blocks a record has.
type Counts = (u16, usize);

fn encode_counts(writer: &mut Writer, extents: &[Extent], checksums: &[u32]) {
    writer.u16(u16::try_from(extents.len()).expect("the extents fit a block"));
    writer.u16(u16::try_from(checksums.len()).expect("at most DATA_BLOCKS_MAX"));
}

fn decode_counts(reader: &mut Reader<'_>) -> Result<Counts, Defect> {
    let (extents, data_blocks) = (reader.u16()?, usize::from(reader.u16()?));
    if data_blocks > DATA_BLOCKS_MAX {
        return Err(Defect::Field("data blocks"));
    }
    Ok((extents, data_blocks))
}

/// The fixed fields of the record before.
fn decode_before(reader: &mut Reader<'_>) -> Result<(Previous, Counts), Defect> {
    let fields = Previous {
        generation: reader.counter()?,
        address: Address(reader.counter()?),
        durable: Lsn(reader.counter()?),
        moved_durable: reader.counter()?,
        extents: Vec::new(),
        checksums: Vec::new(),
    };
    Ok((fields, decode_counts(reader)?))
}

fn encode_body(writer: &mut Writer, extents: &[Extent], checksums: &[u32]) {
    for extent in extents {
        encode_extent(writer, extent);
    }
    for &checksum in checksums {
        writer.u32(checksum);
    }
}

fn decode_body(
    reader: &mut Reader<'_>,
    kind: Kind,
    (extents, data_blocks): Counts,
) -> Result<(Vec<Extent>, Vec<u32>), Defect> {
    let extents =
        (0..extents).map(|_| decode_extent(reader, kind)).collect::<Result<Vec<_>, _>>()?;
    let named: u64 = extents.iter().map(|extent| u64::from(extent.data_blocks())).sum();
    if named != data_blocks as u64 {
        return Err(Defect::Field("data blocks"));
    }
    let checksums = (0..data_blocks).map(|_| reader.u32()).collect::<Result<_, _>>()?;
    Ok((extents, checksums))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::volume::VolumeKind;
    use crate::units::Nonce;

    fn header(kind: Kind, extents: Vec<Extent>) -> RecordHeader {
        let blocks = extents.iter().map(Extent::data_blocks).sum::<u32>();
        RecordHeader {
            kind,
            identity: Identity {
                store: Uuid([1; 16]),
                mount: Mount { epoch: 3, nonce: Nonce(u64::MAX) },
                generation: 4,
                address: Address(77),
            },
            sequence: 12,
            durable: Lsn(9),
            moved_durable: 7,
            extents,
            checksums: (0..blocks).map(|block| block.wrapping_mul(0x9e37_79b9)).collect(),
            previous: None,
        }
    }

    fn extent(block: u64, blocks: u32, change: Change) -> Extent {
        Extent { volume: VolumeId(0), block, blocks, change }
    }

    #[test]
    fn headers_of_both_kinds_come_back_as_they_were() {
        let user = vec![
            extent(5, 200, Change::Written),
            extent(1 << 40, 1 << 30, Change::Unmapped),
            extent(0, 1, Change::Written),
            Extent::of_volume(
                VolumeId(7),
                VolumeChange::Clone { of: VolumeId(6), kind: VolumeKind::Thin },
            ),
        ];
        let moved = vec![extent(5, 2, Change::Moved { from: Address(9) })];
        for header in [header(Kind::User, user), header(Kind::Moved, moved)] {
            assert_eq!(RecordHeader::decode(&header.encode()), Ok(header));
        }
    }

    #[test]
    fn a_header_has_room_for_many_single_blocks_or_a_whole_mebibyte_twice() {
        // In a volume of a TiB, and at worst.
        let room =
            |block, change| RecordHeader::ROOM_BYTES / extent(block, 1, change).header_bytes();
        let far = Address((1 << 40) - 1);
        assert_eq!(room(1 << 27, Change::Written), 198);
        assert_eq!(room(1 << 27, Change::Moved { from: Address(1 << 28) }), 132);
        let worst = Extent {
            volume: VolumeId(u32::MAX),
            ..extent(VOLUME_BLOCKS_MAX - 1, 1, Change::Moved { from: far })
        };
        assert_eq!(RecordHeader::ROOM_BYTES / worst.header_bytes(), 82);
        assert!(extent(0, 256, Change::Written).header_bytes() < RecordHeader::ROOM_BYTES);
        let full = |kind, count, change| {
            header(kind, (0..count).map(|block| extent(block, 1, change)).collect())
        };
        for before in [
            full(Kind::User, 198, Change::Written),
            full(Kind::Moved, 132, Change::Moved { from: Address(1 << 28) }),
        ] {
            let previous = Some(Box::new(Previous::of(&before)));
            let header = RecordHeader { previous, ..before };
            assert_eq!(RecordHeader::decode(&header.encode()), Ok(header));
        }
    }

    #[test]
    fn a_header_is_restored_from_the_next_to_the_last_byte() {
        let first = header(Kind::User, vec![extent(1, 9, Change::Written)]);
        let lost = RecordHeader {
            sequence: 13,
            identity: Identity { address: Address(87), ..first.identity },
            previous: Some(Box::new(Previous::of(&first))),
            ..header(Kind::User, vec![extent(5, 2, Change::Written)])
        };
        let next = RecordHeader {
            sequence: 14,
            durable: Lsn(12),
            previous: Some(Box::new(Previous::of(&lost))),
            ..header(Kind::User, Vec::new())
        };
        let next = RecordHeader::decode(&next.encode()).expect("it is whole");
        let restored = next.restore_previous(lost.previous.clone()).expect("it has a copy");
        assert_eq!(restored.encode(), lost.encode());
        assert_eq!(first.restore_previous(None), None);
    }
}
