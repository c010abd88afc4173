//! Volumes and snapshots: what there is, what it takes, and how it comes and goes while the store
//! runs.
//!
//! A snapshot is a copy of a volume's [image](crate::map), and a clone one of a snapshot's: both
//! take constant time and no room until something is written. All that happens to a volume as a
//! whole is a record of the log like any write, so that it has its place among the writes around
//! it, before a power cut and behind it.

mod apply;
mod change;
mod room;

use crate::drive::Drive;
use crate::format::volume::VolumeRow;
use crate::store::Store;
use crate::units::{BLOCK_BYTES_U64, Lsn, VolumeId};

pub(crate) use apply::Impossible;
pub(crate) use room::{
    LEAF_COST_BYTES, Promise, Promises, SEGMENT_COST_BYTES, VOLUME_COST_BYTES, leaves_of,
};

pub use crate::format::volume::VolumeKind;

/// Volumes and snapshots that a store can have together.
pub const VOLUMES_MAX: usize = 4096;

/// Numbers of volumes and snapshots are below this.
const VOLUME_NUMBERS_END: u32 = 1 << 31;

/// Bytes of a volume at most: 256 TiB.
pub const VOLUME_BYTES_MAX: u64 = crate::format::volume::VOLUME_SIZE_BLOCKS_MAX * BLOCK_BYTES_U64;

/// What a volume of clients is promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provision {
    /// Room for all of it: no write inside it ever fails for want of room.
    #[default]
    Full,
    /// Nothing: together, thin volumes may be larger than the store.
    Thin,
}

/// What becomes of data that a smaller volume has no place for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shrink {
    /// A volume is not made smaller.
    #[default]
    Refuse,
    /// It is lost.
    Discard,
}

/// A volume or snapshot, and what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its number, never given to another one.
    pub id: VolumeId,
    /// What it is promised; whether it can be written to.
    pub kind: VolumeKind,
    /// What it was made from: a snapshot its volume, a clone its snapshot. That may be deleted by
    /// now.
    pub origin: Option<VolumeId>,
    /// The record that made it, or last replaced its content as a whole.
    pub since: Lsn,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Bytes of data that it holds.
    pub mapped_bytes: u64,
    /// Those that no other volume or snapshot holds: what deleting it gives back. The rest is
    /// shared.
    pub own_bytes: u64,
}

impl<D: Drive> Store<D> {
    /// The volumes and snapshots, by number.
    pub fn volumes(&self) -> Vec<Volume> {
        let state = self.state.borrow();
        let volume = |row: &VolumeRow| {
            let usage = state.map.usage(row.volume);
            Volume {
                id: row.volume,
                kind: row.kind,
                origin: row.origin,
                since: row.since,
                size_bytes: row.blocks * BLOCK_BYTES_U64,
                mapped_bytes: usage.mapped_blocks * BLOCK_BYTES_U64,
                own_bytes: usage.own_blocks * BLOCK_BYTES_U64,
            }
        };
        state.volumes.values().map(volume).collect()
    }
}
