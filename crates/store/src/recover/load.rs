//! Loading a checkpoint: its chunks from whichever drive has each whole, its items checked against
//! each other.

use std::collections::{BTreeMap, BTreeSet};

use super::census::Census;
use super::members::Found;
use crate::buffer::Buffer;
use crate::chain::{Chain, Member};
use crate::clean::Pace;
use crate::drive::Drive;
use crate::error::OpenError;
use crate::format::Defect;
use crate::format::checkpoint::{
    CHUNK_BYTES_MAX, ChunkIdentity, Item, LEAF_BLOCKS, LeafRow, Phase, Root, SegmentRow,
    decode_chunk,
};
use crate::format::superblock::{CheckpointPlace, Superblock};
use crate::format::volume::VolumeRow;
use crate::log::Work;
use crate::map::{LoadError, Map};
use crate::rules::Rules;
use crate::space::{Measures, Space};
use crate::state::{Counters, State};
use crate::units::{BLOCK_BYTES, BLOCK_BYTES_U64, DriveIndex, SegmentId, VolumeId};

/// The state at the checkpoint, and the segments that may hold records behind it.
pub(super) async fn load<D: Drive>(
    found: &Found<D>,
    rules: Rules,
) -> Result<(State, Vec<SegmentId>), OpenError> {
    let superblock = &found.superblock;
    let mut loader = Loader::new(found, rules);
    let place = superblock.checkpoint;
    let mut at_block = 0;
    for index in 0..place.chunks {
        let (store, mount) = (superblock.store, superblock.mount);
        let expected = ChunkIdentity { store, mount, checkpoint: place.number, index };
        let (items, blocks) = read_chunk(found.chain.active(), &place, at_block, expected).await?;
        for item in items {
            loader.take(item, &found.chain)?;
        }
        at_block += blocks;
    }
    loader.finish(superblock)
}

/// One chunk, from the first of these drives that has it whole.
pub(super) async fn read_chunk<'a, D: Drive + 'a>(
    members: impl Iterator<Item = &'a Member<D>>,
    place: &CheckpointPlace,
    at_block: u64,
    expected: ChunkIdentity,
) -> Result<(Vec<Item>, u64), OpenError> {
    let rest_bytes = place.blocks.saturating_sub(at_block) * BLOCK_BYTES_U64;
    let length = usize::try_from(rest_bytes).unwrap_or(usize::MAX).min(CHUNK_BYTES_MAX);
    let mut outcome = Err(Defect::Truncated);
    if length == 0 {
        return Err(OpenError::Checkpoint(Defect::Truncated));
    }
    for member in members {
        let offset = member.layout.area_offset_bytes(place.area) + at_block * BLOCK_BYTES_U64;
        let bytes: Result<Buffer, _> = member.read(offset, length).await;
        let Ok(bytes) = bytes else { continue };
        outcome = decode_chunk(&bytes, expected);
        if outcome.is_ok() {
            break;
        }
    }
    let (items, length) = outcome.map_err(OpenError::Checkpoint)?;
    Ok((items, (length / BLOCK_BYTES) as u64))
}

/// Puts the items together.
struct Loader {
    rules: Rules,
    root: Option<Root>,
    space: Space,
    map: Map,
    volumes: BTreeMap<VolumeId, VolumeRow>,
    census: Census,
    replayed: Vec<SegmentId>,
    segments: u32,
    /// Drives whose copies do not count.
    forgotten: Vec<DriveIndex>,
}

impl Loader {
    fn new<D: Drive>(found: &Found<D>, rules: Rules) -> Self {
        let superblock = &found.superblock;
        let mut space = Space::new(&Measures {
            segment_blocks: superblock.segment_blocks,
            copies: superblock.copies,
            slots: superblock.drives.iter().map(|row| row.slots).collect(),
        });
        let census = Census::new(space.segment_count(), superblock.segment_blocks);
        for member in found.chain.members.iter().filter(|member| !member.is_present()) {
            space.drop_drive(member.index);
        }
        Self {
            rules,
            root: None,
            space,
            map: Map::default(),
            volumes: BTreeMap::new(),
            census,
            replayed: Vec::new(),
            segments: 0,
            forgotten: found.lost.iter().chain(&found.rolled_back).copied().collect(),
        }
    }

    fn take<D: Drive>(&mut self, item: Item, chain: &Chain<D>) -> Result<(), OpenError> {
        match item {
            Item::Root(root) if self.root.is_none() => self.root = Some(root),
            Item::Root(_) => return Err(OpenError::Inconsistent("two roots")),
            Item::Segment(row) => self.take_segment(row, chain)?,
            Item::Volume(row) => {
                self.map.load_image(row.volume, row.family).map_err(inconsistent)?;
                self.volumes.insert(row.volume, row);
            }
            Item::Leaf(row) => self.take_leaf(&row)?,
            Item::Share(row) => self.map.load_share(&row).map_err(inconsistent)?,
        }
        Ok(())
    }

    fn take_segment<D: Drive>(
        &mut self,
        mut row: SegmentRow,
        chain: &Chain<D>,
    ) -> Result<(), OpenError> {
        let drives: Vec<DriveIndex> = row.copies.iter().flatten().map(|slot| slot.drive).collect();
        if drives.iter().any(|drive| drive.index() >= chain.members.len()) {
            return Err(OpenError::Inconsistent("a segment on a drive that is not there"));
        }
        let member = |drive: DriveIndex| &chain.members[drive.index()];
        for copy in &mut row.copies {
            *copy = copy.filter(|slot| !self.forgotten.contains(&slot.drive));
        }
        if row.phase == Phase::Replay {
            // A drive that dropped out may lack what was written behind the checkpoint.
            for copy in &mut row.copies {
                *copy = copy.filter(|slot| member(slot.drive).is_active());
            }
            self.replayed.push(row.segment);
        }
        let mut copies = row.copies.iter().flatten();
        if !copies.any(|slot| member(slot.drive).is_present()) {
            return Err(OpenError::Insufficient(drives));
        }
        self.segments += 1;
        if self.space.load(&row) { Ok(()) } else { Err(OpenError::Inconsistent("a segment twice")) }
    }

    fn take_leaf(&mut self, row: &LeafRow) -> Result<(), OpenError> {
        for run in &row.runs {
            let Some(address) = run.address else { continue };
            if !self.space.is_in_use(address, u64::from(run.blocks)) {
                return Err(OpenError::Inconsistent("a block in a segment that is not in use"));
            }
        }
        let is_alone = self.map.is_alone(row.volume);
        let mut block = row.index * LEAF_BLOCKS as u64;
        for run in &row.runs {
            for offset in 0..run.address.map_or(0, |_| u64::from(run.blocks)) {
                let address = run.address.map(|first| first.plus(offset)).expect("it is mapped");
                let is_first = is_alone || self.census.note(address);
                if is_first {
                    self.space.gain(address, 1);
                } else if self.map.holder(row.volume, block + offset, address).is_none() {
                    return Err(OpenError::Inconsistent("a block in two places"));
                }
            }
            block += u64::from(run.blocks);
        }
        self.map.load_leaf(row).map_err(inconsistent)
    }

    fn finish(self, superblock: &Superblock) -> Result<(State, Vec<SegmentId>), OpenError> {
        let root = self.root.ok_or(OpenError::Inconsistent("no root"))?;
        let counts = (self.segments as usize, self.volumes.len());
        if counts != (root.segments as usize, root.volumes as usize) {
            return Err(OpenError::Inconsistent("items are missing"));
        }
        let census = self.census;
        let mut map = self.map;
        map.loaded(|address| census.is_again(address));
        let state = State {
            rules: self.rules,
            log_bytes: 0,
            map,
            space: self.space,
            volumes: self.volumes,
            next_volume: root.next_volume,
            claimed: root.lsn,
            applied: root.lsn,
            durable: root.lsn,
            said_durable: root.lsn,
            last_change: root.lsn,
            moved_sequence: root.moved_sequence,
            moved_applied: root.moved_sequence,
            moved_durable: root.moved_sequence,
            next_generation: root.next_generation,
            last: [None, None],
            work: Work::default(),
            mount: superblock.mount,
            superblock: superblock.clone(),
            drops: 0,
            has_unmarked: false,
            halted: None,
            mending: BTreeSet::new(),
            pace: Pace::default(),
            counters: Counters::default(),
        };
        if !state.is_within_room() {
            return Err(OpenError::Inconsistent("more than the store has room for"));
        }
        Ok((state, self.replayed))
    }
}

fn inconsistent(LoadError(what): LoadError) -> OpenError {
    OpenError::Inconsistent(what)
}
