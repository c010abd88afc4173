//! The store's state in memory, and the one way in which a record changes it: live and in replay
//! alike.

use std::collections::{BTreeMap, BTreeSet};

use crate::checkpoint::{Base, Journal};
use crate::clean::Pace;
use crate::error::Halt;
use crate::format::record::{Change, Extent, Kind, Previous, RecordHeader};
use crate::format::superblock::Superblock;
use crate::format::volume::VolumeRow;
use crate::log::Work;
use crate::map::{Map, Reach, Tag};
use crate::rules::{Rule, Rules};
use crate::space::Space;
use crate::units::{Address, Lsn, Mount, VolumeId};
use crate::volume::Impossible;

/// All that recovery restores. See the [module](self).
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) rules: Rules,
    /// Log that clients may write behind a checkpoint; see [`crate::store::Tuning`].
    pub(crate) log_bytes: u64,
    pub(crate) map: Map,
    pub(crate) space: Space,
    /// Volumes and snapshots.
    pub(crate) volumes: BTreeMap<VolumeId, VolumeRow>,
    /// The number that the next of them gets.
    pub(crate) next_volume: u32,
    /// The last LSN that was given to a record.
    pub(crate) claimed: Lsn,
    /// All records up to here are in the map and acknowledged.
    pub(crate) applied: Lsn,
    /// All records up to here are durable.
    pub(crate) durable: Lsn,
    /// Up to where the log or a checkpoint says so.
    pub(crate) said_durable: Lsn,
    /// The last record that changed anything.
    pub(crate) last_change: Lsn,
    /// The last sequence that was given to a record of the cleaner.
    pub(crate) moved_sequence: u64,
    /// All records of the cleaner up to here are in the map.
    pub(crate) moved_applied: u64,
    /// All records of the cleaner up to here are durable.
    pub(crate) moved_durable: u64,
    /// Of the last record of each kind that was given room in this mount.
    pub(crate) last: [Option<Box<Previous>>; 2],
    /// What took effect since the newest checkpoint.
    pub(crate) journal: Journal,
    /// What the next increment is added to.
    pub(crate) base: Base,
    /// Whether a checkpoint was begun and is not durable.
    pub(crate) is_checkpoint_unfinished: bool,
    /// What a replay would have to read.
    pub(crate) work: Work,
    pub(crate) next_generation: u64,
    /// This mount. The superblock has the one before until the first checkpoint of this one is
    /// durable: until then, what may be behind the newest checkpoint is of that mount.
    pub(crate) mount: Mount,
    /// The newest one, as it is on the drives that take part.
    pub(crate) superblock: Superblock,
    /// Counts the drives that dropped out.
    pub(crate) drops: u64,
    /// Whether one of them is not marked on the others yet.
    pub(crate) has_unmarked: bool,
    pub(crate) halted: Option<Halt>,
    /// Blocks with a bad copy, to be written anew.
    pub(crate) mending: BTreeSet<(VolumeId, u64)>,
    pub(crate) pace: Pace,
    pub(crate) counters: Counters,
}

/// What the store has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records written for clients.
    pub records: u64,
    /// Data blocks in them.
    pub written_blocks: u64,
    /// Records written by the cleaner.
    pub moved_records: u64,
    /// Data blocks in them.
    pub moved_blocks: u64,
    /// Segments that the cleaner emptied.
    pub cleaned_segments: u64,
    /// Checkpoints completed, those included that are increments.
    pub checkpoints: u64,
    /// Checkpoints completed that had the whole state.
    pub whole_checkpoints: u64,
    /// Bytes of checkpoints, written to each drive.
    pub checkpoint_bytes: u64,
    /// Blocks of which one copy was bad or unreadable.
    pub bad_copies: u64,
    /// Times that such a block was not noted for mending, since as many were as can be.
    pub unnoted_blocks: u64,
    /// Reads of clients that failed: of a block, every copy was bad or unreadable.
    pub failed_reads: u64,
}

/// What a record does to the state, wherever it is known from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effect<'a> {
    pub(crate) kind: Kind,
    /// LSN of a client's record.
    pub(crate) sequence: u64,
    pub(crate) extents: &'a [Extent],
    /// Of each data block the checksum, or the tag, which is a part of it.
    pub(crate) checksums: &'a [u32],
    /// Where the first data block is.
    pub(crate) data: Address,
}

impl<'a> Effect<'a> {
    pub(crate) fn of(header: &'a RecordHeader, data: Address) -> Self {
        let RecordHeader { kind, sequence, extents, checksums, .. } = header;
        Self { kind: *kind, sequence: *sequence, extents, checksums, data }
    }
}

impl State {
    /// Carries out a record of this mount, whose data starts at `data`.
    pub(crate) fn apply(&mut self, header: &RecordHeader, data: Address) {
        self.carry_out(Effect::of(header, data))
            .expect("only changes that are possible are written");
        self.journal.push(header, data);
    }

    /// Carries out a record, as far as it is possible.
    pub(crate) fn carry_out(&mut self, record: Effect<'_>) -> Result<(), Impossible> {
        let mut done = 0;
        for extent in record.extents {
            self.check_possible(extent)?;
            let checksums = &record.checksums[done..done + extent.data_blocks() as usize];
            let tags: Vec<Tag> = checksums.iter().copied().map(Tag::of).collect();
            let data = record.data.plus(done as u64);
            self.apply_extent(extent, data, &tags, Lsn(record.sequence));
            done += tags.len();
        }
        if record.kind == Kind::User {
            self.applied = self.applied.max(Lsn(record.sequence));
        }
        Ok(())
    }

    fn apply_extent(&mut self, extent: &Extent, data: Address, tags: &[Tag], lsn: Lsn) {
        let (volume, block) = (extent.volume, extent.block);
        match extent.change {
            Change::Written => self.map_blocks(volume, block, data, tags),
            Change::Unmapped => {
                let lose = |replaced| self.space.lose(replaced);
                self.map.unmap(volume, block, u64::from(extent.blocks), lose);
            }
            Change::Moved { .. } if !self.rules.hold(Rule::CompareAndSwap) => {
                if self.volumes.contains_key(&volume) {
                    self.map_blocks(volume, block, data, tags);
                }
            }
            Change::Moved { from } => {
                let is_everywhere = self.rules.hold(Rule::MoveEverywhere);
                let reach = if is_everywhere { Reach::All } else { Reach::First };
                self.map.relocate((volume, block), (from, data), tags, reach, |from, to| {
                    self.space.gain(to, 1);
                    self.space.tell_move(from, to);
                    self.space.lose(from);
                });
            }
            Change::Volume(change) => self.apply_to_volume(volume, change, lsn),
        }
    }

    fn map_blocks(&mut self, volume: VolumeId, block: u64, first: Address, tags: &[Tag]) {
        self.space.gain(first, u32::try_from(tags.len()).expect("a record is bounded"));
        self.map.map(volume, block, first, tags, |replaced| self.space.lose(replaced));
    }

    /// The header of the next record of its kind, with a copy of the one before.
    pub(crate) fn chain_header(&mut self, header: RecordHeader) -> RecordHeader {
        let last = match header.kind {
            Kind::User => &mut self.last[0],
            Kind::Moved => &mut self.last[1],
        };
        let previous = last.replace(Box::new(Previous::of(&header)));
        RecordHeader { previous: previous.filter(|_| self.rules.hold(Rule::HeaderTwice)), ..header }
    }

    /// A generation that no segment had before.
    pub(crate) fn fresh_generation(&mut self) -> u64 {
        if self.rules.hold(Rule::FreshEpoch) {
            self.next_generation += 1;
        }
        self.next_generation
    }
}
