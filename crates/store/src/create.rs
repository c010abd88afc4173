//! Making drives into a store.
//!
//! The promise that a store never runs out of space inside its volumes is made here, by not
//! promising too much: volumes get what is left after the cleaner's reserve, the headers and the
//! over-provisioning that keeps cleaning cheap.

use crate::buffer::Buffer;
use crate::drive::zone::{DriveShape, Zoning};
use crate::drive::{Drive, DriveError, Durability};
use crate::error::{FormatError, OPEN_ZONES_MIN, ZoneProblem};
use crate::format;
use crate::format::checkpoint::{ChunkWriter, Item, Root};
use crate::format::layout::Layout;
use crate::format::superblock::{
    ADDRESS_BLOCKS_MAX, CheckpointPlace, DRIVES_MAX, DriveRow, DriveState, Features,
    SEGMENT_BLOCKS, Superblock,
};
use crate::format::volume::{VolumeKind, VolumeRow};
use crate::space::live_max;
use crate::units::{BLOCK_BYTES, BLOCK_BYTES_U64, DriveIndex, Lsn, Mount, Uuid, VolumeId};
use crate::volume::{
    LEAF_COST_BYTES, SEGMENT_COST_BYTES, VOLUME_COST_BYTES, VOLUMES_MAX, leaves_of,
};

/// How a store is made.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Its name, drawn at random by the caller.
    pub store: Uuid,
    /// The drives' names, one for each drive, likewise.
    pub drives: Vec<Uuid>,
    /// Copies of everything: 1, or 2 on different drives.
    pub copies: u8,
    /// Bytes of a segment: 64 KiB to 1 GiB, of whole blocks. 64 MiB suits disks; where a drive has
    /// zones, a segment is as long as one of them can hold, since each holds one.
    pub segment_bytes: u64,
    /// Percent of the room that volumes never get, 5 to 90: the less, the more cleaning.
    pub over_provisioning_percent: u8,
    /// Bytes of each volume, of whole blocks; volume 0 is the first.
    pub volume_bytes: Vec<u64>,
}

/// Segments that hold no data for clients: the open one of clients, and one before it; the
/// cleaner's open one, and two before that; one that a reader keeps from being freed.
const RESERVE_SEGMENTS: u64 = 6;

/// Sequences of the first superblocks, alike but for these: one for each slot, so that the next one
/// goes to where the older of them lies.
const FIRST_SEQUENCES: [u64; 2] = [1, 2];

/// Leaves of the map that even the smallest store has room for, beyond those of its volumes.
const LEAVES_MORE: u64 = 8;

/// Volumes and snapshots for which every store has room in its map beyond the first volumes; for
/// more, there are fewer leaves.
const VOLUMES_MORE: u64 = 16;

/// Makes the drives into a store. Whatever is on them is lost.
///
/// # Errors
/// [`FormatError`]; unless it is [`FormatError::Drive`], nothing was written.
pub async fn create<D: Drive>(drives: &[D], options: &CreateOptions) -> Result<(), FormatError> {
    let plan = Plan::new(drives, options)?;
    for (index, drive) in (0..).map(DriveIndex).zip(drives) {
        plan.write(index, drive).await.map_err(|error| FormatError::Drive(index, error))?;
    }
    Ok(())
}

/// Bytes that volumes can have together on drives of these shapes; of drives without zones, the
/// sizes are enough.
///
/// # Errors
/// [`FormatError::Option`] for options out of their range, [`FormatError::Zones`] for a drive whose
/// zones suit no store.
pub fn possible_bytes(
    drives: &[impl Into<DriveShape> + Copy],
    options: &CreateOptions,
) -> Result<u64, FormatError> {
    let drives: Vec<DriveShape> = drives.iter().map(|&drive| drive.into()).collect();
    check(&drives, options)?;
    // The more volumes may hold, the larger the checkpoint areas, the less the volumes.
    let (mut low, mut high) = (0, sum_blocks(&drives));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        let layouts = layouts(&drives, options, area_blocks(&drives, options, middle));
        if middle <= capacity_blocks(&layouts, options) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Ok(low * BLOCK_BYTES_U64)
}

/// What is to be written.
struct Plan {
    layouts: Vec<Layout>,
    superblock: Superblock,
    checkpoint: Buffer,
}

impl Plan {
    fn new<D: Drive>(drives: &[D], options: &CreateOptions) -> Result<Self, FormatError> {
        let shapes: Vec<DriveShape> = drives.iter().map(DriveShape::of).collect();
        let possible_bytes = possible_bytes(&shapes, options)?;
        let wanted_bytes =
            options.volume_bytes.iter().fold(0, |sum: u64, &bytes| sum.saturating_add(bytes));
        if wanted_bytes > possible_bytes {
            let area_blocks = area_blocks(&shapes, options, wanted_bytes / BLOCK_BYTES_U64);
            check_zones(&shapes, options, area_blocks)?;
            return Err(FormatError::TooSmall { wanted_bytes, possible_bytes });
        }
        let capacity_blocks = possible_bytes / BLOCK_BYTES_U64;
        let area_blocks = area_blocks(&shapes, options, capacity_blocks);
        let layouts = layouts(&shapes, options, area_blocks);
        let (checkpoint, place) = first_checkpoint(options);
        let rows = options.drives.iter().zip(&layouts).map(|(&uuid, layout)| DriveRow {
            uuid,
            slots: layout.slots(),
            state: DriveState::InSync,
            zones: layout.zones,
        });
        let mut superblock = Superblock {
            store: options.store,
            drive: DriveIndex(0),
            sequence: FIRST_SEQUENCES[0],
            mount: Mount::default(),
            features: Features::default(),
            copies: options.copies,
            segment_blocks: segment_blocks(options),
            area_blocks,
            capacity_blocks,
            checkpoint: place,
            unix_time_s: 0,
            drives: rows.collect(),
        };
        superblock.settle_features();
        Ok(Self { layouts, superblock, checkpoint })
    }

    /// Old superblocks go first, and the new ones come last: a drive is half made at no time.
    ///
    /// Both slots get one. With a single one, a drive whose two places of that slot turn out to be
    /// unreadable before the first mount has written the other slot would not be known any more.
    async fn write<D: Drive>(&self, index: DriveIndex, drive: &D) -> Result<(), DriveError> {
        let layout = &self.layouts[index.index()];
        let zeroes = Buffer::zeroed(BLOCK_BYTES);
        for offset in (0..2).flat_map(|slot| layout.superblock_offsets_bytes(slot)) {
            drive.write(offset, vec![zeroes.clone()], Durability::Volatile).await?;
        }
        let area = layout.area_offset_bytes(self.superblock.checkpoint.area);
        drive.write(area, vec![self.checkpoint.clone()], Durability::Volatile).await?;
        drive.flush().await?;
        for sequence in FIRST_SEQUENCES {
            let superblock = Superblock { drive: index, sequence, ..self.superblock.clone() };
            let block = Buffer::copy_of(&superblock.encode());
            for offset in layout.superblock_offsets_bytes(superblock.slot()) {
                drive.write(offset, vec![block.clone()], Durability::Volatile).await?;
            }
        }
        drive.flush().await
    }
}

fn check(drives: &[DriveShape], options: &CreateOptions) -> Result<(), FormatError> {
    let is_whole = |bytes: &u64| bytes.is_multiple_of(BLOCK_BYTES_U64);
    let checks = [
        ((1..=DRIVES_MAX).contains(&drives.len()), "a store has 1 to 32 drives; give as many"),
        (
            sum_blocks(drives) <= ADDRESS_BLOCKS_MAX,
            "a store has at most 256 TiB of drives; make several stores",
        ),
        (options.drives.len() == drives.len(), "every drive needs a uuid; give as many"),
        (matches!(options.copies, 1 | 2), "copies are 1 or 2; choose one of them"),
        (
            usize::from(options.copies) <= drives.len(),
            "two copies need two drives; give another drive, or choose one copy",
        ),
        (
            is_whole(&options.segment_bytes) && SEGMENT_BLOCKS.contains(&segment_blocks(options)),
            "a segment has 64 KiB to 1 GiB in multiples of 4 KiB; choose such a size",
        ),
        (
            (5..=90).contains(&options.over_provisioning_percent),
            "over-provisioning is 5 to 90 percent; choose within",
        ),
        (
            options.volume_bytes.iter().all(is_whole),
            "a volume has a size in multiples of 4 KiB; choose such sizes",
        ),
        (
            options.volume_bytes.len() < VOLUMES_MAX,
            "a store has at most 4096 volumes and snapshots; choose fewer",
        ),
    ];
    match checks.iter().find(|(holds, _)| !holds) {
        None => check_zones(drives, options, area_blocks(drives, options, 0)),
        Some((_, remedy)) => Err(FormatError::Option(remedy)),
    }
}

fn check_zones(
    drives: &[DriveShape],
    options: &CreateOptions,
    area_blocks: u64,
) -> Result<(), FormatError> {
    let layouts = layouts(drives, options, area_blocks);
    for (index, (drive, layout)) in (0..).map(DriveIndex).zip(drives.iter().zip(layouts)) {
        if let Some(problem) = drive.zoning.and_then(|zoning| problem_of(zoning, &layout)) {
            return Err(FormatError::Zones(index, problem));
        }
    }
    Ok(())
}

/// Why a drive with these zones cannot be divided like this, if it cannot.
pub(crate) fn problem_of(zoning: Zoning, layout: &Layout) -> Option<ZoneProblem> {
    let Zoning { zone_bytes, capacity_bytes, .. } = zoning;
    let is_odd = [zone_bytes, capacity_bytes].iter().any(|n| !n.is_multiple_of(BLOCK_BYTES_U64));
    if is_odd || zone_bytes == 0 || capacity_bytes > zone_bytes {
        return Some(ZoneProblem::Odd);
    }
    if capacity_bytes < u64::from(layout.segment_blocks) * BLOCK_BYTES_U64 {
        return Some(ZoneProblem::Capacity { capacity_bytes });
    }
    if let Some(zones) = zoning.open_zones_max.filter(|&zones| zones < OPEN_ZONES_MIN) {
        return Some(ZoneProblem::Open { zones });
    }
    let (needed_bytes, have_bytes) = (layout.overhead_bytes(), zoning.conventional_bytes());
    (!layout.has_room_for_areas()).then_some(ZoneProblem::Conventional { needed_bytes, have_bytes })
}

fn sum_blocks(drives: &[DriveShape]) -> u64 {
    drives.iter().map(|drive| drive.size_bytes / BLOCK_BYTES_U64).sum()
}

fn segment_blocks(options: &CreateOptions) -> u32 {
    u32::try_from(options.segment_bytes / BLOCK_BYTES_U64).unwrap_or(u32::MAX)
}

/// Blocks of the largest checkpoint, with increments: no two neighbours of any volume are
/// neighbours in the log, and snapshots have as many leaves of their own as volumes.
fn area_blocks(drives: &[DriveShape], options: &CreateOptions, capacity_blocks: u64) -> u64 {
    let segments = sum_blocks(drives) / u64::from(segment_blocks(options));
    let volumes = options.volume_bytes.len() as u64 + VOLUMES_MORE;
    let leaves = 2 * leaves_of(capacity_blocks) + options.volume_bytes.len() as u64 + LEAVES_MORE;
    format::area::with_increments(format::area::area_blocks(
        (segments + 1) * SEGMENT_COST_BYTES
            + volumes * VOLUME_COST_BYTES
            + leaves * LEAF_COST_BYTES,
    ))
}

fn layouts(drives: &[DriveShape], options: &CreateOptions, area_blocks: u64) -> Vec<Layout> {
    let segment_blocks = segment_blocks(options);
    drives.iter().map(|&drive| Layout::of(drive, area_blocks, segment_blocks)).collect()
}

/// Blocks that can be promised on drives divided like this.
fn capacity_blocks(layouts: &[Layout], options: &CreateOptions) -> u64 {
    let slots: Vec<u64> = layouts.iter().map(|layout| u64::from(layout.slots())).collect();
    let (sum, largest) = (slots.iter().sum::<u64>(), slots.iter().copied().max().unwrap_or(0));
    let segments = if options.copies == 1 { sum } else { (sum / 2).min(sum - largest) };
    let usable = u64::from(live_max(segment_blocks(options)));
    let blocks = segments.saturating_sub(RESERVE_SEGMENTS) * usable;
    blocks * u64::from(100 - options.over_provisioning_percent) / 100
}

fn first_checkpoint(options: &CreateOptions) -> (Buffer, CheckpointPlace) {
    let volumes: Vec<VolumeRow> = (0..)
        .map(VolumeId)
        .zip(&options.volume_bytes)
        .map(|(volume, bytes)| VolumeRow {
            volume,
            kind: VolumeKind::Provisioned,
            family: volume,
            origin: None,
            blocks: bytes / BLOCK_BYTES_U64,
            since: Lsn(0),
        })
        .collect();
    let count = u32::try_from(volumes.len()).expect("volumes fit memory");
    let mut writer = ChunkWriter::new(options.store, Mount::default(), 1);
    let root = Item::Root(Root { next_volume: count, volumes: count, ..Root::default() });
    let mut bytes = Vec::new();
    for item in std::iter::once(root).chain(volumes.into_iter().map(Item::Volume)) {
        bytes.extend(writer.push(&item).unwrap_or_default());
    }
    let (last, chunks) = writer.finish();
    let last_blocks = last.len() as u64 / BLOCK_BYTES_U64;
    bytes.extend(last);
    let blocks = bytes.len() as u64 / BLOCK_BYTES_U64;
    let last_block = blocks - last_blocks;
    let place = CheckpointPlace { number: 1, area: 0, chunks, blocks, last_block, copies: 1 };
    (Buffer::copy_of(&bytes), place)
}
