//! The structures on one drive, as they lie there: for people who want to know, and for support.
//!
//! Nothing is recovered, compared with other drives or written. A drive that no store would take
//! can be dumped as well; whatever is no structure is said to be none. Without a checkpoint, the
//! segments name themselves.

use crate::drive::zone::{DriveShape, ZoneState, Zoning};
use crate::drive::{Drive, DriveError};
use crate::format::Defect;
use crate::format::checkpoint::{CHUNK_BYTES_MAX, ChunkIdentity, Item, decode_chunk};
use crate::format::layout::Layout;
use crate::format::record::RecordHeader;
use crate::format::segment::SegmentHeader;
use crate::format::superblock::Superblock;
use crate::units::{BLOCK_BYTES, BLOCK_BYTES_U64};

/// What to show besides superblocks, and the root, volumes and segment table of the checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpOptions {
    /// The leaves of the map, and what records changed since: where every block of every volume is.
    pub leaves: bool,
    /// The headers in all slots: segments and records, those of earlier uses included.
    pub records: bool,
}

/// A structure on a drive, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// One of the four places of a superblock.
    Superblock {
        /// Where, in bytes from the start of the drive.
        offset_bytes: u64,
        /// What is there.
        found: Result<Superblock, Defect>,
    },
    /// The drive has zones.
    Zoning(Zoning),
    /// How far the zone of a slot is written, in bytes; nothing if the drive has given it up.
    Zone {
        /// The slot.
        slot: u32,
        /// The write pointer, from the start of the zone.
        written_bytes: Option<u64>,
    },
    /// A chunk of the checkpoint that the drive's newest superblock names; its items follow.
    Chunk {
        /// Where, in bytes from the start of the drive.
        offset_bytes: u64,
        /// Which chunk, from 0.
        index: u32,
        /// Its items, or what is wrong with it.
        found: Result<usize, Defect>,
    },
    /// An item of that checkpoint.
    Item(Item),
    /// The header of the segment in a slot.
    Segment {
        /// The slot.
        slot: u32,
        /// What it says.
        header: SegmentHeader,
    },
    /// The header of a record in a slot.
    Record {
        /// The slot.
        slot: u32,
        /// The block within it.
        block: u64,
        /// What it says.
        header: RecordHeader,
    },
    /// A range that cannot be read.
    Unreadable {
        /// Where, in bytes from the start of the drive.
        offset_bytes: u64,
    },
}

/// Shows the structures of a drive one by one.
///
/// # Errors
/// [`DriveError::Gone`] if the drive does not answer.
pub async fn dump<D: Drive>(
    drive: &D,
    options: DumpOptions,
    mut show: impl FnMut(Entry),
) -> Result<(), DriveError> {
    let Some(superblock) = dump_superblocks(drive, &mut show).await? else { return Ok(()) };
    let layout =
        Layout::of(DriveShape::of(drive), superblock.area_blocks, superblock.segment_blocks);
    let zones = dump_zones(drive, &mut show).await?;
    dump_checkpoint(drive, &superblock, &layout, options, &mut show).await?;
    if options.records {
        for slot in 0..layout.slots() {
            let zone = zones.get(slot as usize);
            dump_slot(drive, &layout, (slot, zone.copied()), &mut show).await?;
        }
    }
    Ok(())
}

/// Shows all four places; gives the newest.
async fn dump_superblocks<D: Drive>(
    drive: &D,
    show: &mut impl FnMut(Entry),
) -> Result<Option<Superblock>, DriveError> {
    let mut newest: Option<Superblock> = None;
    let Some(layout) = Layout::of_superblocks(DriveShape::of(drive)) else { return Ok(None) };
    for offset_bytes in (0..2).flat_map(|slot| layout.superblock_offsets_bytes(slot)) {
        let Some(block) = read(drive, offset_bytes, BLOCK_BYTES, show).await? else { continue };
        let found = Superblock::decode(&block);
        if let Ok(found) = &found
            && newest.as_ref().is_none_or(|known| known.sequence < found.sequence)
        {
            newest = Some(found.clone());
        }
        show(Entry::Superblock { offset_bytes, found });
    }
    Ok(newest)
}

async fn dump_checkpoint<D: Drive>(
    drive: &D,
    superblock: &Superblock,
    layout: &Layout,
    options: DumpOptions,
    show: &mut impl FnMut(Entry),
) -> Result<(), DriveError> {
    let place = superblock.checkpoint;
    let mut at_block = 0;
    for index in 0..place.chunks {
        let rest_bytes = place.blocks.saturating_sub(at_block) * BLOCK_BYTES_U64;
        let length = usize::try_from(rest_bytes).unwrap_or(usize::MAX).min(CHUNK_BYTES_MAX);
        if length == 0 {
            return Ok(());
        }
        let (store, mount) = (superblock.store, superblock.mount);
        let expected = ChunkIdentity { store, mount, checkpoint: place.number, index };
        let mut whole = None;
        for offset_bytes in layout.chunk_offsets_bytes(&place, at_block) {
            let Some(bytes) = read(drive, offset_bytes, length, show).await? else { continue };
            let decoded = decode_chunk(&bytes, expected);
            let found = decoded.as_ref().map(|(items, _)| items.len()).map_err(|&defect| defect);
            show(Entry::Chunk { offset_bytes, index, found });
            whole = whole.or_else(|| decoded.ok());
        }
        // Where the next one begins is known from this one only.
        let Some((items, length)) = whole else { return Ok(()) };
        let is_wanted = |item: &Item| {
            options.leaves || !matches!(item, Item::Leaf(_) | Item::Share(_) | Item::Record(_))
        };
        items.into_iter().filter(is_wanted).for_each(|item| show(Entry::Item(item)));
        at_block += (length / BLOCK_BYTES) as u64;
    }
    Ok(())
}

/// Tells whether the drive has zones; gives the states of those that are slots.
async fn dump_zones<D: Drive>(
    drive: &D,
    show: &mut impl FnMut(Entry),
) -> Result<Vec<ZoneState>, DriveError> {
    let Some(zoning) = drive.zoning() else { return Ok(Vec::new()) };
    show(Entry::Zoning(zoning));
    let mut zones = drive.report_zones().await?;
    let conventional = zones.len().min(zoning.conventional_zones as usize);
    zones.drain(..conventional);
    Ok(zones)
}

/// The headers in a slot, as far as one leads to the next, and no further than its zone is written.
async fn dump_slot<D: Drive>(
    drive: &D,
    layout: &Layout,
    (slot, zone): (u32, Option<ZoneState>),
    show: &mut impl FnMut(Entry),
) -> Result<(), DriveError> {
    let written_bytes = match zone {
        None | Some(ZoneState::Conventional) => u64::MAX,
        Some(ZoneState::Sequential { written_bytes }) => written_bytes,
        Some(ZoneState::Unusable) => 0,
    };
    if let Some(zone) = zone {
        let is_usable = zone != ZoneState::Unusable;
        show(Entry::Zone { slot, written_bytes: is_usable.then_some(written_bytes) });
    }
    let written_blocks = written_bytes / BLOCK_BYTES_U64;
    if written_blocks == 0 {
        return Ok(());
    }
    let first = layout.block_offset_bytes(slot, 0);
    let Some(block) = read(drive, first, BLOCK_BYTES, show).await? else { return Ok(()) };
    if let Ok(header) = SegmentHeader::decode(&block) {
        show(Entry::Segment { slot, header });
    }
    let mut block = 1;
    while block < u64::from(layout.segment_blocks).min(written_blocks) {
        let offset_bytes = layout.block_offset_bytes(slot, block);
        let Some(bytes) = read(drive, offset_bytes, BLOCK_BYTES, show).await? else { break };
        let Ok(header) = RecordHeader::decode(&bytes) else { break };
        let next = block + header.record_blocks();
        show(Entry::Record { slot, block, header });
        block = next;
    }
    Ok(())
}

/// A range; what cannot be read is shown as such.
async fn read<D: Drive>(
    drive: &D,
    offset_bytes: u64,
    length: usize,
    show: &mut impl FnMut(Entry),
) -> Result<Option<crate::buffer::Buffer>, DriveError> {
    match drive.read(offset_bytes, length).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(DriveError::Gone) => Err(DriveError::Gone),
        Err(_) => {
            show(Entry::Unreadable { offset_bytes });
            Ok(None)
        }
    }
}
