//! Loading a checkpoint: its chunks from whichever drive has each whole, its items checked against
//! each other, then its increments.

use std::collections::{BTreeMap, BTreeSet};

use super::census::Census;
use super::increments::Increments;
use super::members::Found;
use crate::buffer::Buffer;
use crate::chain::Member;
use crate::checkpoint::{Base, Journal};
use crate::clean::Pace;
use crate::drive::Drive;
use crate::error::OpenError;
use crate::format::Defect;
use crate::format::checkpoint::{
    CHUNK_BYTES_MAX, ChunkIdentity, Item, LEAF_BLOCKS, LeafRow, Phase, Root, decode_chunk,
};
use crate::format::superblock::{CheckpointPlace, Superblock};
use crate::format::volume::VolumeRow;
use crate::log::Work;
use crate::map::{LoadError, Map};
use crate::rules::Rules;
use crate::space::{Measures, Space};
use crate::state::{Counters, State};
use crate::units::{BLOCK_BYTES, BLOCK_BYTES_U64, DriveIndex, SegmentId, Slot, VolumeId};

/// The state at the checkpoint, and the segments that may hold records behind it.
pub(super) async fn load<D: Drive>(
    found: &Found<D>,
    rules: Rules,
) -> Result<(State, Vec<SegmentId>), OpenError> {
    let superblock = &found.superblock;
    let mut loading = Stage::Whole(Box::new(Loader::new(found, rules)));
    let place = superblock.checkpoint;
    let mut at_block = 0;
    for index in 0..place.chunks {
        let (store, mount) = (superblock.store, superblock.mount);
        let expected = ChunkIdentity { store, mount, checkpoint: place.number, index };
        let (items, blocks) = read_chunk(found.chain.active(), &place, at_block, expected).await?;
        for item in items {
            loading = loading.take(item, found)?;
        }
        at_block += blocks;
    }
    let mut state = loading.finish(superblock)?;
    let replayed = settle_copies(&mut state, found)?;
    if !state.is_within_room() {
        return Err(OpenError::Inconsistent("more than the store has room for"));
    }
    Ok((state, replayed))
}

/// First the whole checkpoint, then its increments.
enum Stage {
    Whole(Box<Loader>),
    Increments(Box<Increments>),
}

impl Stage {
    fn take<D: Drive>(self, item: Item, found: &Found<D>) -> Result<Self, OpenError> {
        check_drives(&item, found.chain.members.len())?;
        match (self, item) {
            (Self::Whole(loader), Item::Increment(head)) => {
                let state = loader.finish(&found.superblock)?;
                Ok(Self::Increments(Box::new(Increments::begin(state, head))))
            }
            (Self::Whole(mut loader), item) => {
                loader.take(item)?;
                Ok(Self::Whole(loader))
            }
            (Self::Increments(mut increments), item) => {
                increments.take(item)?;
                Ok(Self::Increments(increments))
            }
        }
    }

    fn finish(self, superblock: &Superblock) -> Result<State, OpenError> {
        match self {
            Self::Whole(loader) => loader.finish(superblock),
            Self::Increments(increments) => increments.finish(),
        }
    }
}

fn check_drives(item: &Item, drives: usize) -> Result<(), OpenError> {
    match item {
        Item::Segment(row) if row.copies.iter().flatten().any(|it| it.drive.index() >= drives) => {
            Err(OpenError::Inconsistent("a segment on a drive that is not there"))
        }
        _ => Ok(()),
    }
}

/// Takes copies that do not count off the segment table; gives the segments that may hold records
/// behind the checkpoint.
fn settle_copies<D: Drive>(
    state: &mut State,
    found: &Found<D>,
) -> Result<Vec<SegmentId>, OpenError> {
    let forgotten = |drive| found.lost == Some(drive) || found.rolled_back.contains(&drive);
    let member = |drive: DriveIndex| &found.chain.members[drive.index()];
    let mut replayed = Vec::new();
    for row in state.space.rows_loaded() {
        let is_replayed = row.phase == Phase::Replay;
        // A drive that dropped out may lack what was written behind the checkpoint.
        let counts = |slot: &Slot| {
            !forgotten(slot.drive) && (!is_replayed || member(slot.drive).is_active())
        };
        let copies = row.copies.map(|copy| copy.filter(counts));
        if !copies.iter().flatten().any(|slot| member(slot.drive).is_present()) {
            let drives = row.copies.iter().flatten().map(|slot| slot.drive).collect();
            return Err(OpenError::Insufficient(drives));
        }
        state.space.take_off(row.segment, counts);
        replayed.extend(is_replayed.then_some(row.segment));
    }
    state.space.count_thin_in_checkpoint();
    Ok(replayed)
}

/// One chunk, from the first copy on these drives that is whole.
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
    'found: for member in members {
        for offset in member.layout.chunk_offsets_bytes(place, at_block) {
            let bytes: Result<Buffer, _> = member.read(offset, length).await;
            let Ok(bytes) = bytes else { continue };
            outcome = decode_chunk(&bytes, expected);
            if outcome.is_ok() {
                break 'found;
            }
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
    segments: u32,
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
            segments: 0,
        }
    }

    fn take(&mut self, item: Item) -> Result<(), OpenError> {
        match item {
            Item::Root(root) if self.root.is_none() => self.root = Some(root),
            Item::Root(_) => return Err(OpenError::Inconsistent("two roots")),
            Item::Segment(row) => {
                self.segments += 1;
                if !self.space.load(&row) {
                    return Err(OpenError::Inconsistent("a segment twice"));
                }
            }
            Item::Volume(row) => {
                self.map.load_image(row.volume, row.family).map_err(inconsistent)?;
                self.volumes.insert(row.volume, row);
            }
            Item::Leaf(row) => self.take_leaf(&row)?,
            Item::Share(row) => self.map.load_share(&row).map_err(inconsistent)?,
            Item::Increment(_) | Item::Record(_) | Item::Freed(_) => {
                return Err(OpenError::Inconsistent("an increment of nothing"));
            }
        }
        Ok(())
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

    fn finish(self, superblock: &Superblock) -> Result<State, OpenError> {
        let root = self.root.ok_or(OpenError::Inconsistent("no root"))?;
        let counts = (self.segments as usize, self.volumes.len());
        if counts != (root.segments as usize, root.volumes as usize) {
            return Err(OpenError::Inconsistent("items are missing"));
        }
        let census = self.census;
        let mut map = self.map;
        map.loaded(|address| census.is_again(address));
        Ok(State {
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
            journal: Journal::default(),
            base: Base::default(),
            is_checkpoint_unfinished: false,
            work: Work::default(),
            mount: superblock.mount,
            superblock: superblock.clone(),
            drops: 0,
            has_unmarked: false,
            halted: None,
            mending: BTreeSet::new(),
            pace: Pace::default(),
            counters: Counters::default(),
        })
    }
}

fn inconsistent(LoadError(what): LoadError) -> OpenError {
    OpenError::Inconsistent(what)
}
