//! The store's state in memory, and the one way in which a record changes it: live and in replay
//! alike.

use std::collections::{BTreeMap, BTreeSet};

use crate::clean::Pace;
use crate::error::Halt;
use crate::format::record::{Change, Extent, Kind, RecordHeader};
use crate::format::superblock::Superblock;
use crate::map::{Map, Tag};
use crate::rules::{Rule, Rules};
use crate::space::Space;
use crate::units::{Address, Lsn, VolumeId};

/// All that recovery restores. See the [module](self).
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) rules: Rules,
    pub(crate) map: Map,
    pub(crate) space: Space,
    /// Blocks of each volume.
    pub(crate) volumes: BTreeMap<VolumeId, u64>,
    /// The last LSN that was given to a record.
    pub(crate) claimed: Lsn,
    /// All records up to here are in the map and acknowledged.
    pub(crate) applied: Lsn,
    /// All records up to here are durable.
    pub(crate) durable: Lsn,
    /// The last sequence that was given to a record of the cleaner.
    pub(crate) moved_sequence: u64,
    pub(crate) next_generation: u64,
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
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Blocks of which one copy was bad or unreadable.
    pub bad_copies: u64,
}

impl State {
    /// Carries out a record whose data starts at `data`.
    pub(crate) fn apply(&mut self, header: &RecordHeader, data: Address) {
        let mut done = 0;
        for extent in &header.extents {
            let checksums = &header.checksums[done..done + extent.data_blocks() as usize];
            let tags: Vec<Tag> = checksums.iter().copied().map(Tag::of).collect();
            self.apply_extent(extent, data.plus(done as u64), &tags);
            done += checksums.len();
        }
        if header.kind == Kind::User {
            self.applied = self.applied.max(Lsn(header.sequence));
        }
    }

    fn apply_extent(&mut self, extent: &Extent, data: Address, tags: &[Tag]) {
        let Self { map, space, rules, .. } = self;
        let (volume, block) = (extent.volume, extent.block);
        match extent.change {
            Change::Written => {
                space.gain(data, extent.blocks);
                map.map(volume, block, data, tags, |replaced| space.lose(replaced));
            }
            Change::Unmapped => {
                map.unmap(volume, block, u64::from(extent.blocks), |replaced| space.lose(replaced));
            }
            Change::Moved { from } => {
                for (offset, tag) in (0..).zip(tags) {
                    let here = map.at(volume, block + offset).map(|entry| entry.address);
                    let is_unchanged = here == Some(from.plus(offset));
                    if is_unchanged || !rules.hold(Rule::CompareAndSwap) {
                        let (to, tag) = (data.plus(offset), std::slice::from_ref(tag));
                        space.gain(to, 1);
                        space.tell_move(from.plus(offset), to);
                        map.map(volume, block + offset, to, tag, |replaced| space.lose(replaced));
                    }
                }
            }
        }
    }

    /// A generation that no segment had before.
    pub(crate) fn fresh_generation(&mut self) -> u64 {
        if self.rules.hold(Rule::FreshEpoch) {
            self.next_generation += 1;
        }
        self.next_generation
    }
}
