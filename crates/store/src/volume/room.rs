//! Room: what is promised to whom, and who gets what is left.
//!
//! ```text
//! capacity >= alive + owed + promised
//!
//! alive      blocks that any image holds
//! owed       what provisioned volumes may still take: each its size, less the blocks that it has
//!            for itself, since writing to one of those gives another one back
//! promised   what changes that are under way will take
//! ```
//!
//! So a snapshot of a provisioned volume is paid for when it is made: from then on the volume may
//! need all of its room once more. Clones and thin volumes are paid for as they are written to.
//! The leaves of the map are counted alike, against the room of a checkpoint area. Whoever finds no
//! room is told so before anything is taken.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use super::VOLUMES_MAX;
use crate::error::StoreError;
use crate::format::area;
use crate::format::checkpoint::{ITEM_BYTES_MAX, LEAF_BLOCKS, SHARE_ITEM_BYTES};
use crate::format::record::{Change, Extent};
use crate::format::volume::{VolumeKind, VolumeRow};
use crate::map::SHARES_PER_LEAF_MAX;
use crate::state::State;
use crate::sync::RangeHeld;
use crate::units::{BLOCK_BYTES_U64, VolumeId};

/// Bytes of a checkpoint that one leaf may take.
pub(crate) const LEAF_COST_BYTES: u64 =
    ITEM_BYTES_MAX as u64 + SHARES_PER_LEAF_MAX * SHARE_ITEM_BYTES as u64;

/// Bytes of a checkpoint that one volume or snapshot may take, its leaves apart.
pub(crate) const VOLUME_COST_BYTES: u64 = 64;

/// Bytes of a checkpoint for the root or one segment.
pub(crate) const SEGMENT_COST_BYTES: u64 = 48;

/// What changes under way will take.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    need: Cell<Need>,
    /// Volumes whose blocks are about to be shared, so that they count as nobody's own.
    shared: RefCell<BTreeSet<VolumeId>>,
}

/// What a change takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) blocks: u64,
    pub(crate) leaves: u64,
    pub(crate) volumes: u64,
}

/// Holds room until the change is in effect.
#[derive(Debug, Default)]
pub(crate) struct Promise {
    promises: Rc<Promises>,
    need: Need,
    shared: Option<VolumeId>,
    /// What must not change meanwhile.
    kept: Option<RangeHeld>,
}

impl Need {
    /// What a volume of this size takes if it is written in full.
    pub(crate) fn of_size(blocks: u64) -> Self {
        Self { blocks, leaves: leaves_of(blocks), volumes: 0 }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            blocks: self.blocks + other.blocks,
            leaves: self.leaves + other.leaves,
            volumes: self.volumes + other.volumes,
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            blocks: self.blocks - other.blocks,
            leaves: self.leaves - other.leaves,
            volumes: self.volumes - other.volumes,
        }
    }
}

/// Leaves of a volume of so many blocks.
pub(crate) fn leaves_of(blocks: u64) -> u64 {
    blocks.div_ceil(LEAF_BLOCKS as u64)
}

impl Promises {
    /// Takes room for a change, if there is any; with `shared`, also what it takes that nothing of
    /// this volume is its own from now on.
    pub(crate) fn take(
        self: &Rc<Self>,
        state: &State,
        need: Need,
        shared: Option<VolumeId>,
    ) -> Result<Promise, StoreError> {
        self.need.set(self.need.get().plus(need));
        self.shared.borrow_mut().extend(shared);
        // From here on the guard takes it back.
        let promise = Promise { promises: Rc::clone(self), need, shared, kept: None };
        let takes_nothing = need == Need::default() && shared.is_none();
        if !takes_nothing {
            state.check_room(self, need)?;
        }
        Ok(promise)
    }
}

impl Promise {
    /// Holds a range as well, as long as the room.
    pub(crate) fn keep(&mut self, kept: RangeHeld) {
        self.kept = Some(kept);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let need = &self.promises.need;
        need.set(need.get().minus(self.need));
        if let Some(volume) = self.shared {
            self.promises.shared.borrow_mut().remove(&volume);
        }
    }
}

impl State {
    /// Whether all that is promised has its room.
    fn check_room(&self, promises: &Promises, wanted: Need) -> Result<(), StoreError> {
        let owed = self.owed(&promises.shared.borrow());
        let taken = owed.plus(promises.need.get());
        let volumes = self.volumes.len() as u64 + promises.need.get().volumes;
        if volumes > VOLUMES_MAX as u64 {
            return Err(StoreError::TooManyVolumes);
        }
        let blocks = self.space.live_blocks() + taken.blocks;
        let over = blocks.saturating_sub(self.superblock.capacity_blocks);
        if over > 0 {
            // What a snapshot takes comes with it, and is no need of its own.
            let wanted = wanted.blocks.max(over);
            return Err(StoreError::NoRoom {
                wanted_bytes: wanted * BLOCK_BYTES_U64,
                free_bytes: (wanted - over) * BLOCK_BYTES_U64,
            });
        }
        // What has no room for its blocks may have none for its leaves either; the former is what
        // people can do something about.
        if self.map.leaf_count() + taken.leaves > self.leaves_max(volumes) {
            return Err(StoreError::MapFull);
        }
        Ok(())
    }

    /// Blocks that are alive when all provisioned volumes are full.
    pub(crate) fn provisioned_blocks(&self) -> u64 {
        self.space.live_blocks() + self.owed(&BTreeSet::new()).blocks
    }

    /// Blocks that are promised to nobody.
    pub(crate) fn free_blocks(&self, promises: &Promises) -> u64 {
        let taken = self.owed(&promises.shared.borrow()).plus(promises.need.get());
        let blocks = self.space.live_blocks() + taken.blocks;
        self.superblock.capacity_blocks.saturating_sub(blocks)
    }

    /// What provisioned volumes may still take.
    fn owed(&self, shared: &BTreeSet<VolumeId>) -> Need {
        let provisioned = self.volumes.values().filter(|row| row.kind == VolumeKind::Provisioned);
        provisioned.fold(Need::default(), |owed, row| {
            let own = if shared.contains(&row.volume) { (0, 0) } else { self.own(row) };
            let all = Need::of_size(row.blocks);
            let blocks = all.blocks.saturating_sub(own.0);
            let leaves = all.leaves.saturating_sub(own.1);
            owed.plus(Need { blocks, leaves, volumes: 0 })
        })
    }

    fn own(&self, row: &VolumeRow) -> (u64, u64) {
        let usage = self.map.usage(row.volume);
        (usage.own_blocks, usage.own_leaves)
    }

    /// Leaves that a checkpoint area has room for, beside so many volumes and snapshots.
    fn leaves_max(&self, volumes: u64) -> u64 {
        let segments = self.space.segment_count() as u64;
        let fixed_bytes = (segments + 1) * SEGMENT_COST_BYTES + volumes * VOLUME_COST_BYTES;
        let whole_blocks = area::whole_blocks_max(self.superblock.area_blocks);
        let bytes = area::items_bytes(whole_blocks).saturating_sub(fixed_bytes);
        bytes / LEAF_COST_BYTES
    }

    /// Whether what a checkpoint says fits the store; whatever a store writes does.
    pub(crate) fn is_within_room(&self) -> bool {
        self.check_room(&Promises::default(), Need::default()).is_ok()
    }

    /// What a change of a thin volume takes: the blocks and leaves of its range that are not its
    /// own. A provisioned volume has its room already.
    pub(crate) fn need_of(&self, extent: &Extent) -> Option<Need> {
        let (volume, block, blocks) = (extent.volume, extent.block, u64::from(extent.blocks));
        if extent.change != Change::Unmapped {
            return self.need_of_write(volume, block, blocks);
        }
        let is_promised = self.is_provisioned(volume);
        let leaves = if is_promised { 0 } else { self.map.shared_leaves(volume, block, blocks) };
        (leaves > 0).then_some(Need { leaves, ..Need::default() })
    }

    /// The same of so many blocks that are written.
    pub(crate) fn need_of_write(&self, volume: VolumeId, block: u64, blocks: u64) -> Option<Need> {
        if self.is_provisioned(volume) {
            return None;
        }
        let (blocks, leaves) = self.map.not_own(volume, block, blocks);
        let need = Need { blocks, leaves, volumes: 0 };
        (need != Need::default()).then_some(need)
    }

    fn is_provisioned(&self, volume: VolumeId) -> bool {
        self.volumes.get(&volume).is_some_and(|row| row.kind == VolumeKind::Provisioned)
    }
}
