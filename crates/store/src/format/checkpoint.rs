//! A checkpoint: the whole state of the store at one LSN, as chunks of items.
//!
//! ```text
//! area:   | chunk 0 | chunk 1 | .. |               each of whole blocks, at most 256 KiB
//! chunk:  | header 64 | item | item | .. | 0 |     no item spans two chunks
//! item:   | tag 1 | fields |
//! ```
//!
//! A chunk names its checkpoint and its place in it, and has a checksum of its own, so that each
//! chunk can be taken from whichever drive has it whole. The first item is the [`Root`]; that all
//! others are there, the superblock says, which knows how many chunks there are. Behind the whole
//! state come [increments](super::increment), each in chunks of its own.

use evenkeel_core::crc32c::crc32c;

use super::codec::{Defect, Reader, Writer};
use super::increment::{
    Increment, RecordRow, decode_increment, decode_record, encode_header, encode_increment,
    encode_record,
};
use super::record::{Kind, RecordHeader};
use super::segment::{decode_copy, encode_copy};
use super::volume::{VOLUME_SIZE_BLOCKS_MAX, VolumeRow, decode_row, encode_row};
use super::{VERSION, magic};
use crate::units::{Address, BLOCK_BYTES, Copies, Lsn, Mount, SegmentId, Uuid, VolumeId};

/// Bytes of a chunk at most, its header included.
pub const CHUNK_BYTES_MAX: usize = 256 << 10;

/// Blocks of a volume whose addresses make one item.
pub const LEAF_BLOCKS: usize = 1024;

/// Bytes of an item at most: a leaf without two neighbours in the log.
pub const ITEM_BYTES_MAX: usize = 1 + 12 + LEAF_BLOCKS * (2 + ADDRESS_BYTES + TAG_BYTES);

pub(crate) const CHUNK_HEADER_BYTES: usize = 64;
const ADDRESS_BYTES: usize = 5;
const TAG_BYTES: usize = 3;

/// Bytes of an item that shares leaves.
pub(crate) const SHARE_ITEM_BYTES: usize = 1 + 4 * 4;

const UNMAPPED: u16 = 1 << 15;
const ADDRESS_MAX: u64 = (1 << 40) - 1;

/// Which chunk this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkIdentity {
    /// The store.
    pub store: Uuid,
    /// The mount that made it.
    pub mount: Mount,
    /// The checkpoint's number.
    pub checkpoint: u64,
    /// The chunk's place in it, from 0.
    pub index: u32,
}

/// A piece of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// The counters; the first item.
    Root(Root),
    /// A segment that is in use or may be used before the next checkpoint.
    Segment(SegmentRow),
    /// A volume or snapshot.
    Volume(VolumeRow),
    /// Where some blocks of a volume are.
    Leaf(LeafRow),
    /// Leaves of a volume that are those of another one.
    Share(ShareRow),
    /// From here on, what has changed since.
    Increment(Increment),
    /// What a record did.
    Record(RecordRow),
    /// A segment is in use no more.
    Freed(SegmentId),
}

impl Item {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        encode_item(&mut writer, self);
        writer.into_bytes()
    }

    /// The bytes of [`Self::Record`], of this header, whose data starts at `data`.
    pub(crate) fn encode_record(header: &RecordHeader, data: Address) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u8(RECORD);
        encode_header(&mut writer, header, data);
        writer.into_bytes()
    }
}

/// Counters of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// The last user record that the checkpoint contains.
    pub lsn: Lsn,
    /// The last record of the cleaner that it contains.
    pub moved_sequence: u64,
    /// The generation that the next use of a segment gets.
    pub next_generation: u64,
    /// The number that the next volume or snapshot gets.
    pub next_volume: u32,
    /// Items of each kind that follow.
    pub segments: u32,
    /// Volumes and snapshots that follow.
    pub volumes: u32,
}

/// A segment in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRow {
    /// Which.
    pub segment: SegmentId,
    /// Which use of it.
    pub generation: u64,
    /// Whether recovery must look into it.
    pub phase: Phase,
    /// Whose records it holds.
    pub kind: Kind,
    /// Where its copies lie.
    pub copies: Copies,
    /// The store's LSN when it was opened.
    pub born: Lsn,
}

/// How far a segment has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is full, and the checkpoint contains all of it.
    Sealed,
    /// It may hold records behind the checkpoint, or get some before the next one.
    Replay,
}

/// The addresses of [`LEAF_BLOCKS`] blocks of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafRow {
    /// The volume.
    pub volume: VolumeId,
    /// The first block is this times [`LEAF_BLOCKS`].
    pub index: u64,
    /// Neighbours in the volume that are neighbours in the log or unmapped alike; together they
    /// are exactly [`LEAF_BLOCKS`].
    pub runs: Vec<LeafRun>,
    /// For each mapped block, the low 24 bits of its CRC-32C.
    pub tags: Vec<u32>,
}

/// Leaves of a volume or snapshot that are those of another one of its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareRow {
    /// Who shares.
    pub volume: VolumeId,
    /// Whose leaves they are; it comes before.
    pub source: VolumeId,
    /// The index of the first.
    pub first: u32,
    /// How many, at least 1; those that the source does not have are missing on both.
    pub leaves: u32,
}

/// Some blocks in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafRun {
    /// How many, 1 to [`LEAF_BLOCKS`].
    pub blocks: u16,
    /// Where the first is; `None` if they read as zeroes.
    pub address: Option<Address>,
}

/// Cuts items into chunks.
#[derive(Debug)]
pub struct ChunkWriter {
    identity: ChunkIdentity,
    payload: Writer,
}

impl ChunkWriter {
    /// Begins the checkpoint of this number.
    pub fn new(store: Uuid, mount: Mount, checkpoint: u64) -> Self {
        Self::behind(ChunkIdentity { store, mount, checkpoint, index: 0 })
    }

    /// Begins with this chunk.
    pub fn behind(identity: ChunkIdentity) -> Self {
        Self { identity, payload: Writer::default() }
    }

    /// Takes an item; gives the chunk that had no room for it, if so.
    pub fn push(&mut self, item: &Item) -> Option<Vec<u8>> {
        self.push_encoded(&item.encode())
    }

    /// Takes the bytes of an item.
    pub fn push_encoded(&mut self, item: &[u8]) -> Option<Vec<u8>> {
        let is_full = CHUNK_HEADER_BYTES + self.payload.len() + item.len() > CHUNK_BYTES_MAX;
        let chunk = is_full.then(|| self.cut());
        self.payload.bytes(item);
        chunk
    }

    /// The last chunk, and how many chunks the checkpoint has with it.
    pub fn finish(mut self) -> (Vec<u8>, u32) {
        (self.cut(), self.identity.index)
    }

    fn cut(&mut self) -> Vec<u8> {
        let payload = std::mem::take(&mut self.payload).into_bytes();
        let mut writer = Writer::default();
        writer.bytes(&magic::CHECKPOINT);
        writer.u16(VERSION);
        writer.u16(0);
        writer.uuid(self.identity.store);
        writer.mount(self.identity.mount);
        writer.u64(self.identity.checkpoint);
        writer.u32(self.identity.index);
        writer.u32(u32::try_from(payload.len()).expect("a chunk is bounded"));
        writer.u32(crc32c(&payload));
        let mut bytes = writer.into_bytes();
        bytes.extend(crc32c(&bytes).to_le_bytes());
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        self.identity.index += 1;
        bytes
    }
}

/// Reads the chunk that `bytes` begin with; gives its items and its length in bytes.
///
/// # Errors
/// The first [`Defect`] found; `Identity` if it is whole but not the one expected.
pub fn decode_chunk(bytes: &[u8], expected: ChunkIdentity) -> Result<(Vec<Item>, usize), Defect> {
    let mut reader = Reader::new(bytes);
    let header = reader.take(CHUNK_HEADER_BYTES)?;
    let (fields, seal) = header.split_at(CHUNK_HEADER_BYTES - 4);
    let mut reader_of_header = Reader::new(fields);
    reader_of_header.magic(magic::CHECKPOINT)?;
    let version = reader_of_header.u16()?;
    if version != VERSION {
        return Err(Defect::Version(version));
    }
    if seal != crc32c(fields).to_le_bytes() {
        return Err(Defect::Checksum);
    }
    reader_of_header.u16()?;
    let identity = ChunkIdentity {
        store: reader_of_header.uuid()?,
        mount: reader_of_header.mount()?,
        checkpoint: reader_of_header.counter()?,
        index: reader_of_header.u32()?,
    };
    if identity != expected {
        return Err(Defect::Identity("checkpoint"));
    }
    let payload = reader.take(reader_of_header.u32()? as usize)?;
    if crc32c(payload) != reader_of_header.u32()? {
        return Err(Defect::Checksum);
    }
    let mut items = Vec::new();
    let mut reader = Reader::new(payload);
    while !reader.is_empty() {
        items.push(decode_item(&mut reader)?);
    }
    Ok((items, (CHUNK_HEADER_BYTES + payload.len()).next_multiple_of(BLOCK_BYTES)))
}

const ROOT: u8 = 0;
const SEGMENT: u8 = 1;
const VOLUME: u8 = 2;
const LEAF: u8 = 3;
const SHARE: u8 = 4;
const INCREMENT: u8 = 5;
const RECORD: u8 = 6;
const FREED: u8 = 7;

fn encode_item(writer: &mut Writer, item: &Item) {
    match item {
        Item::Root(root) => {
            writer.u8(ROOT);
            writer.u64(root.lsn.0);
            writer.u64(root.moved_sequence);
            writer.u64(root.next_generation);
            writer.u32(root.next_volume);
            writer.u32(root.segments);
            writer.u32(root.volumes);
        }
        Item::Segment(row) => {
            writer.u8(SEGMENT);
            writer.u32(row.segment.0);
            writer.u64(row.generation);
            writer.u8(u8::from(row.phase == Phase::Replay));
            writer.u8(u8::from(row.kind == Kind::Moved));
            row.copies.iter().for_each(|&copy| encode_copy(writer, copy));
            writer.u64(row.born.0);
        }
        Item::Volume(row) => {
            writer.u8(VOLUME);
            encode_row(writer, row);
        }
        Item::Leaf(row) => encode_leaf(writer, row),
        Item::Share(row) => {
            writer.u8(SHARE);
            for field in [row.volume.0, row.source.0, row.first, row.leaves] {
                writer.u32(field);
            }
        }
        Item::Increment(increment) => {
            writer.u8(INCREMENT);
            encode_increment(writer, increment);
        }
        Item::Record(row) => {
            writer.u8(RECORD);
            encode_record(writer, row);
        }
        Item::Freed(segment) => {
            writer.u8(FREED);
            writer.u32(segment.0);
        }
    }
}

fn encode_leaf(writer: &mut Writer, row: &LeafRow) {
    writer.u8(LEAF);
    writer.u32(row.volume.0);
    writer.u64(row.index);
    for run in &row.runs {
        match run.address {
            None => writer.u16(run.blocks | UNMAPPED),
            Some(address) => {
                assert!(address.0 <= ADDRESS_MAX, "the address space has 40 bits");
                writer.u16(run.blocks);
                writer.bytes(&address.0.to_le_bytes()[..ADDRESS_BYTES]);
            }
        }
    }
    for tag in &row.tags {
        writer.bytes(&tag.to_le_bytes()[..TAG_BYTES]);
    }
}

fn decode_item(reader: &mut Reader<'_>) -> Result<Item, Defect> {
    match reader.u8()? {
        ROOT => Ok(Item::Root(Root {
            lsn: Lsn(reader.counter()?),
            moved_sequence: reader.counter()?,
            next_generation: reader.counter()?,
            next_volume: reader.u32()?,
            segments: reader.u32()?,
            volumes: reader.u32()?,
        })),
        SEGMENT => Ok(Item::Segment(SegmentRow {
            segment: SegmentId(reader.u32()?),
            generation: reader.counter()?,
            phase: if reader.u8()? == 0 { Phase::Sealed } else { Phase::Replay },
            kind: if reader.u8()? == 0 { Kind::User } else { Kind::Moved },
            copies: [decode_copy(reader)?, decode_copy(reader)?],
            born: Lsn(reader.counter()?),
        })),
        VOLUME => decode_row(reader).map(Item::Volume),
        LEAF => decode_leaf(reader).map(Item::Leaf),
        SHARE => Ok(Item::Share(ShareRow {
            volume: VolumeId(reader.u32()?),
            source: VolumeId(reader.u32()?),
            first: reader.u32()?,
            leaves: reader.u32()?,
        })),
        INCREMENT => decode_increment(reader).map(Item::Increment),
        RECORD => decode_record(reader).map(Item::Record),
        FREED => Ok(Item::Freed(SegmentId(reader.u32()?))),
        _ => Err(Defect::Field("item")),
    }
}

fn decode_leaf(reader: &mut Reader<'_>) -> Result<LeafRow, Defect> {
    let (volume, index) = (VolumeId(reader.u32()?), reader.u64()?);
    if index >= VOLUME_SIZE_BLOCKS_MAX / LEAF_BLOCKS as u64 {
        return Err(Defect::Field("leaf"));
    }
    let (mut runs, mut covered, mut mapped) = (Vec::new(), 0, 0);
    while covered < LEAF_BLOCKS {
        let flagged = reader.u16()?;
        let blocks = flagged & !UNMAPPED;
        let address = if flagged & UNMAPPED == 0 { Some(decode_address(reader)?) } else { None };
        covered += usize::from(blocks);
        mapped += if address.is_some() { usize::from(blocks) } else { 0 };
        if blocks == 0 || covered > LEAF_BLOCKS {
            return Err(Defect::Field("leaf"));
        }
        runs.push(LeafRun { blocks, address });
    }
    let tags = reader.take(mapped * TAG_BYTES)?.chunks_exact(TAG_BYTES);
    let tags = tags.map(|tag| u32::from_le_bytes([tag[0], tag[1], tag[2], 0])).collect();
    Ok(LeafRow { volume, index, runs, tags })
}

fn decode_address(reader: &mut Reader<'_>) -> Result<Address, Defect> {
    let mut bytes = [0; 8];
    bytes[..ADDRESS_BYTES].copy_from_slice(reader.take(ADDRESS_BYTES)?);
    Ok(Address(u64::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::volume::VolumeKind;
    use crate::units::{DriveIndex, Nonce, Slot};

    const STORE: Uuid = Uuid([5; 16]);
    const MOUNT: Mount = Mount { epoch: 2, nonce: Nonce(u64::MAX) };

    fn leaf(index: u64) -> Item {
        // No two blocks are neighbours in the log: the longest leaf there is.
        let address = |block: u64| Some(Address(index * 10_000 + block * 2));
        let runs = (0..LEAF_BLOCKS as u64)
            .map(|block| LeafRun { blocks: 1, address: address(block) })
            .collect();
        let tags = (0..1024).map(|block| block * 16_000).collect();
        Item::Leaf(LeafRow { volume: VolumeId(0), index, runs, tags })
    }

    fn items() -> Vec<Item> {
        let slot = Some(Slot { drive: DriveIndex(0), slot: 8 });
        let row = SegmentRow {
            segment: SegmentId(8),
            generation: 77,
            phase: Phase::Replay,
            kind: Kind::Moved,
            copies: [slot, None],
            born: Lsn(4),
        };
        let gap = LeafRow {
            volume: VolumeId(1),
            index: 3,
            runs: vec![
                LeafRun { blocks: 1000, address: None },
                LeafRun { blocks: 24, address: Some(Address(ADDRESS_MAX)) },
            ],
            tags: vec![7; 24],
        };
        let volume = VolumeRow {
            volume: VolumeId(0),
            kind: VolumeKind::Snapshot,
            family: VolumeId(1),
            origin: Some(VolumeId(3)),
            blocks: 1 << 30,
            since: Lsn(5),
        };
        let share =
            ShareRow { volume: VolumeId(1), source: VolumeId(0), first: 4, leaves: u32::MAX };
        let mut items = vec![
            Item::Root(Root { lsn: Lsn(9), next_volume: 41, ..Root::default() }),
            Item::Segment(row),
            Item::Volume(volume),
            Item::Leaf(gap),
            Item::Share(share),
        ];
        items.extend((0..40).map(leaf));
        items
    }

    fn chunks(items: &[Item]) -> Vec<Vec<u8>> {
        let mut writer = ChunkWriter::new(STORE, MOUNT, 6);
        let mut chunks: Vec<_> = items.iter().filter_map(|item| writer.push(item)).collect();
        let (last, count) = writer.finish();
        chunks.push(last);
        assert_eq!(chunks.len(), count as usize);
        chunks
    }

    fn identity(index: u32) -> ChunkIdentity {
        ChunkIdentity { store: STORE, mount: MOUNT, checkpoint: 6, index }
    }

    #[test]
    fn items_come_back_whole_and_in_order_over_several_chunks() {
        let chunks = chunks(&items());
        assert_eq!(chunks.len(), 2);
        let mut decoded = Vec::new();
        for (index, chunk) in (0..).zip(&chunks) {
            assert!(chunk.len() <= CHUNK_BYTES_MAX);
            let mut with_more_behind = chunk.clone();
            with_more_behind.extend([0xee; 5000]);
            let (items, length) = decode_chunk(&with_more_behind, identity(index)).unwrap();
            assert_eq!(length, chunk.len());
            decoded.extend(items);
        }
        assert_eq!(decoded, items());
    }

    #[test]
    fn a_chunk_of_another_checkpoint_mount_or_place_is_not_taken() {
        let chunk = chunks(&items()).remove(0);
        let twin = Mount { nonce: Nonce(1), ..MOUNT };
        for expected in [
            identity(1),
            ChunkIdentity { checkpoint: 7, ..identity(0) },
            ChunkIdentity { mount: twin, ..identity(0) },
        ] {
            assert_eq!(decode_chunk(&chunk, expected), Err(Defect::Identity("checkpoint")));
        }
    }

    #[test]
    fn the_longest_item_has_its_stated_length() {
        let mut writer = Writer::default();
        encode_item(&mut writer, &leaf(0));
        assert_eq!(writer.len(), ITEM_BYTES_MAX);
    }

    #[test]
    fn a_rotten_byte_anywhere_is_noticed() {
        let chunk = chunks(&items()[..5]).remove(0);
        for byte in [0, 5, 20, 40, 63, 64, 70, 100] {
            let mut rotten = chunk.clone();
            rotten[byte] ^= 1;
            assert!(decode_chunk(&rotten, identity(0)).is_err(), "byte {byte}");
        }
        assert_eq!(decode_chunk(&chunk[..70], identity(0)), Err(Defect::Truncated));
    }
}
