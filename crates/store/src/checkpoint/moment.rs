//! What a checkpoint says, as of one instant.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::format::area::{area_blocks, increments_blocks_max};
use crate::format::checkpoint::{ChunkIdentity, ChunkWriter, Item, Root, SegmentRow};
use crate::format::increment::Increment;
use crate::format::record::Kind;
use crate::format::superblock::CheckpointPlace;
use crate::format::volume::VolumeRow;
use crate::map::{Map, MapRow};
use crate::rules::Rule;
use crate::state::State;
use crate::units::{Lsn, Mount, SegmentId, Slot, Uuid};

/// Bytes of the items of an increment's head, a freed segment, and a segment.
const INCREMENT_BYTES: usize = 41;
const FREED_BYTES: usize = 5;
const SEGMENT_BYTES: usize = 33;

/// The checkpoint of this mount that increments are added to.
#[derive(Debug, Default)]
pub(crate) struct Base {
    /// Blocks of the whole one; none before this mount has made one.
    whole_blocks: Option<u64>,
    /// The segment table as the newest increment has it.
    rows: Vec<SegmentRow>,
}

/// A checkpoint that is to be written. See the [module](self).
#[derive(Debug)]
pub(super) struct Moment {
    body: Body,
    store: Uuid,
    pub(super) mount: Mount,
    /// Where it begins.
    pub(super) place: CheckpointPlace,
    lsn: Lsn,
    moved_applied: u64,
    work_blocks: u64,
    /// The segment table.
    segments: Vec<SegmentRow>,
    /// Records of the journal that it has.
    records: usize,
    /// Slots that were freed, and are not in use again.
    pub(super) released: Vec<Slot>,
    pub(super) drops: u64,
}

#[derive(Debug)]
enum Body {
    Whole {
        root: Root,
        volumes: Vec<VolumeRow>,
        map: Map,
    },
    Increment {
        head: Increment,
        records: Vec<Rc<[u8]>>,
        freed: Vec<SegmentId>,
        rows: Vec<SegmentRow>,
    },
}

impl State {
    /// The state now. What is dead is free from now on, and the next runway is staged.
    pub(super) fn moment(&mut self) -> Moment {
        self.is_checkpoint_unfinished = true;
        let freed = self.space.release();
        self.stage_runway();
        if !self.rules.hold(Rule::DeferReuse) {
            self.space.publish();
        }
        let segments = self.space.rows();
        let in_use: BTreeSet<Slot> =
            segments.iter().flat_map(|row| row.copies.into_iter().flatten()).collect();
        let body = self.increment(&segments);
        let newest = self.superblock.checkpoint;
        let place = if body.is_some() {
            newest
        } else {
            let (number, area) = (newest.number + 1, 1 - newest.area);
            CheckpointPlace { number, area, chunks: 0, blocks: 0, last_block: 0, copies: 1 }
        };
        Moment {
            body: body.unwrap_or_else(|| self.whole(&segments)),
            store: self.superblock.store,
            mount: self.mount,
            place,
            lsn: self.applied,
            moved_applied: self.moved_applied,
            work_blocks: self.work.applied_blocks,
            records: self.journal.len(),
            released: freed.into_iter().filter(|slot| !in_use.contains(slot)).collect(),
            segments,
            drops: self.drops,
        }
    }

    fn whole(&self, segments: &[SegmentRow]) -> Body {
        let volumes: Vec<VolumeRow> =
            self.map.order().map(|volume| self.volumes[&volume]).collect();
        let root = Root {
            lsn: self.applied,
            moved_sequence: self.moved_sequence,
            next_generation: self.next_generation,
            next_volume: self.next_volume,
            segments: u32::try_from(segments.len()).expect("segments are bounded"),
            volumes: u32::try_from(volumes.len()).expect("volumes are bounded"),
        };
        Body::Whole { root, volumes, map: self.map.clone() }
    }

    /// What has changed since the newest checkpoint; nothing if the whole state is due.
    fn increment(&self, segments: &[SegmentRow]) -> Option<Body> {
        let whole_blocks = self.base.whole_blocks?;
        let (freed, rows) = difference(&self.base.rows, segments);
        let bytes = INCREMENT_BYTES
            + self.journal.bytes()
            + freed.len() * FREED_BYTES
            + rows.len() * SEGMENT_BYTES;
        let blocks = self.superblock.checkpoint.blocks + area_blocks(bytes as u64);
        let blocks_max = whole_blocks + increments_blocks_max(whole_blocks);
        let room_blocks = self.superblock.checkpoint.room_blocks(self.superblock.area_blocks);
        if blocks > blocks_max.min(room_blocks) {
            return None;
        }
        let is_repeated = |kind| kind == Kind::User || self.rules.hold(Rule::IncrementRepeatsAll);
        let records = self.journal.items(is_repeated);
        let head = Increment {
            lsn: self.applied,
            moved_sequence: self.moved_sequence,
            next_generation: self.next_generation,
            records: records.len() as u64,
            freed: u32::try_from(freed.len()).expect("segments are bounded"),
            segments: u32::try_from(rows.len()).expect("segments are bounded"),
        };
        Some(Body::Increment { head, records, freed, rows })
    }

    /// A checkpoint is durable on all drives that take part.
    pub(super) fn adopt_checkpoint(&mut self, moment: &Moment) {
        self.is_checkpoint_unfinished = false;
        self.space.cover(&moment.segments);
        self.durable = self.durable.max(moment.lsn);
        self.said_durable = self.said_durable.max(moment.lsn);
        self.moved_durable = self.moved_durable.max(moment.moved_applied);
        self.work.settle(moment.work_blocks);
        self.journal.forget(moment.records);
        self.base.rows.clone_from(&moment.segments);
        self.counters.checkpoints += 1;
        if moment.is_whole() {
            self.base.whole_blocks = Some(self.superblock.checkpoint.blocks);
            self.counters.whole_checkpoints += 1;
        }
    }
}

impl Moment {
    /// Whether it is the whole state, and no increment.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.body, Body::Whole { .. })
    }

    pub(super) fn writer(&self) -> ChunkWriter {
        ChunkWriter::behind(ChunkIdentity {
            store: self.store,
            mount: self.mount,
            checkpoint: self.place.number,
            index: self.place.chunks,
        })
    }

    /// The bytes of its items.
    pub(super) fn items(&self) -> Box<dyn Iterator<Item = Rc<[u8]>> + '_> {
        match &self.body {
            Body::Whole { root, volumes, map } => {
                let segments = self.segments.iter().copied().map(Item::Segment);
                let volumes = volumes.iter().copied().map(Item::Volume);
                let rows = map.rows().map(|row| match row {
                    MapRow::Leaf(row) => Item::Leaf(row),
                    MapRow::Share(row) => Item::Share(row),
                });
                let items = [Item::Root(*root)].into_iter().chain(segments).chain(volumes);
                Box::new(items.chain(rows).map(|item| item.encode().into()))
            }
            Body::Increment { head, records, freed, rows } => {
                let freed = freed.iter().copied().map(Item::Freed);
                let rows = rows.iter().copied().map(Item::Segment);
                let head = std::iter::once(Item::Increment(*head).encode().into());
                let table = freed.chain(rows).map(|item| item.encode().into());
                Box::new(head.chain(records.iter().cloned()).chain(table))
            }
        }
    }
}

/// Segments that are in use no more, or not in the same use, and those whose rows are new. Both
/// tables are in the order of the segments.
fn difference(before: &[SegmentRow], now: &[SegmentRow]) -> (Vec<SegmentId>, Vec<SegmentRow>) {
    let known = |rows: &[SegmentRow], row: &SegmentRow| {
        let place = rows.binary_search_by_key(&row.segment, |it| it.segment).ok()?;
        Some(rows[place]).filter(|it| it.generation == row.generation)
    };
    let gone = before.iter().filter(|row| known(now, row).is_none()).map(|row| row.segment);
    let news = now.iter().filter(|row| known(before, row).as_ref() != Some(row)).copied();
    (gone.collect(), news.collect())
}
