//! Volumes and snapshots, as a checkpoint keeps them and as records change them.
//!
//! Both have numbers from one row, which are never given twice: what lies in old segments still
//! names whom it was written for.

use super::codec::{Defect, Reader, Writer};
use crate::units::{Lsn, VolumeId};

/// Blocks that a volume may have: 256 TiB, as many as a store can have of drives.
pub const VOLUME_SIZE_BLOCKS_MAX: u64 = 1 << 36;

/// What a volume is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumeKind {
    /// Room for all of its blocks.
    Provisioned,
    /// Nothing: a write fails when there is no room.
    Thin,
    /// It never changes.
    Snapshot,
}

/// A volume or snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeRow {
    /// Its number.
    pub volume: VolumeId,
    /// What it is promised.
    pub kind: VolumeKind,
    /// The first ancestor, itself if it was made empty.
    pub family: VolumeId,
    /// What it was made from, if it was not made empty; that may be deleted by now.
    pub origin: Option<VolumeId>,
    /// Its size.
    pub blocks: u64,
    /// The record that made it, or last replaced its content as a whole.
    pub since: Lsn,
}

/// What a record does to a volume as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeChange {
    /// It is there from now on, and empty.
    Create {
        /// Not a snapshot.
        kind: VolumeKind,
        /// Its size.
        blocks: u64,
    },
    /// It has this size from now on; what is cut off is lost.
    Resize {
        /// Its size.
        blocks: u64,
    },
    /// It is gone.
    Delete,
    /// It is there from now on, a snapshot of this volume.
    Snapshot {
        /// The volume.
        of: VolumeId,
    },
    /// It is there from now on, and holds what this snapshot holds.
    Clone {
        /// The snapshot.
        of: VolumeId,
        /// Not a snapshot.
        kind: VolumeKind,
    },
    /// It holds what this snapshot holds, and has its size.
    RollBack {
        /// The snapshot.
        to: VolumeId,
    },
}

const NO_VOLUME: u32 = u32::MAX;

const CREATE: u8 = 0;
const RESIZE: u8 = 1;
const DELETE: u8 = 2;
const SNAPSHOT: u8 = 3;
const CLONE: u8 = 4;
const ROLL_BACK: u8 = 5;

fn encode_kind(writer: &mut Writer, kind: VolumeKind) {
    writer.u8(match kind {
        VolumeKind::Provisioned => 0,
        VolumeKind::Thin => 1,
        VolumeKind::Snapshot => 2,
    });
}

fn decode_kind(reader: &mut Reader<'_>) -> Result<VolumeKind, Defect> {
    match reader.u8()? {
        0 => Ok(VolumeKind::Provisioned),
        1 => Ok(VolumeKind::Thin),
        2 => Ok(VolumeKind::Snapshot),
        _ => Err(Defect::Field("kind of a volume")),
    }
}

fn decode_size(reader: &mut Reader<'_>) -> Result<u64, Defect> {
    let blocks = reader.u64()?;
    if blocks <= VOLUME_SIZE_BLOCKS_MAX { Ok(blocks) } else { Err(Defect::Field("volume")) }
}

pub(super) fn encode_row(writer: &mut Writer, row: &VolumeRow) {
    writer.u32(row.volume.0);
    encode_kind(writer, row.kind);
    writer.u32(row.family.0);
    writer.u32(row.origin.map_or(NO_VOLUME, |origin| origin.0));
    writer.u64(row.blocks);
    writer.u64(row.since.0);
}

pub(super) fn decode_row(reader: &mut Reader<'_>) -> Result<VolumeRow, Defect> {
    let (volume, kind) = (VolumeId(reader.u32()?), decode_kind(reader)?);
    let (family, origin) = (VolumeId(reader.u32()?), reader.u32()?);
    let (blocks, since) = (decode_size(reader)?, Lsn(reader.counter()?));
    let origin = (origin != NO_VOLUME).then_some(VolumeId(origin));
    Ok(VolumeRow { volume, kind, family, origin, blocks, since })
}

/// Bytes of a change.
pub(super) const CHANGE_BYTES: usize = 16;

/// Operation, kind, 2 of zeroes, the other volume, and a size.
pub(super) fn encode_change(writer: &mut Writer, change: VolumeChange) {
    let none = (VolumeKind::Provisioned, VolumeId(0), 0);
    let (operation, (kind, other, blocks)) = match change {
        VolumeChange::Create { kind, blocks } => (CREATE, (kind, VolumeId(0), blocks)),
        VolumeChange::Resize { blocks } => (RESIZE, (VolumeKind::Provisioned, VolumeId(0), blocks)),
        VolumeChange::Delete => (DELETE, none),
        VolumeChange::Snapshot { of } => (SNAPSHOT, (VolumeKind::Snapshot, of, 0)),
        VolumeChange::Clone { of, kind } => (CLONE, (kind, of, 0)),
        VolumeChange::RollBack { to } => (ROLL_BACK, (VolumeKind::Provisioned, to, 0)),
    };
    writer.u8(operation);
    encode_kind(writer, kind);
    writer.u16(0);
    writer.u32(other.0);
    writer.u64(blocks);
}

pub(super) fn decode_change(reader: &mut Reader<'_>) -> Result<VolumeChange, Defect> {
    let (operation, kind) = (reader.u8()?, decode_kind(reader)?);
    reader.u16()?;
    let (other, blocks) = (VolumeId(reader.u32()?), decode_size(reader)?);
    match (operation, kind) {
        (CREATE | CLONE, VolumeKind::Snapshot) => Err(Defect::Field("kind of a volume")),
        (CREATE, kind) => Ok(VolumeChange::Create { kind, blocks }),
        (RESIZE, _) => Ok(VolumeChange::Resize { blocks }),
        (DELETE, _) => Ok(VolumeChange::Delete),
        (SNAPSHOT, _) => Ok(VolumeChange::Snapshot { of: other }),
        (CLONE, kind) => Ok(VolumeChange::Clone { of: other, kind }),
        (ROLL_BACK, _) => Ok(VolumeChange::RollBack { to: other }),
        _ => Err(Defect::Field("operation on a volume")),
    }
}
