//! Zones: ranges of a drive that can only be written from front to back.
//!
//! Shingled disks (host-managed SMR) and zoned SSDs (ZNS) are divided into zones of one size. Some
//! zones are *conventional* and behave like any drive. The others are *sequential*:
//!
//! ```text
//! zone    | written, readable          |  not written            | beyond the capacity |
//!         ^ start                      ^ write pointer           ^                     ^ next zone
//! ```
//!
//! - A write begins at the write pointer, and moves it behind itself. The store has one write under
//!   way in a zone at a time, so that the order in which a drive takes commands does not matter.
//! - What lies below the pointer can be read; above it there is nothing.
//! - A *reset* puts the pointer back to the start; what was there is gone. A zone is *finished*
//!   when nothing more will be written to it, since drives bound how many can be partly written.
//! - After a power cut the pointer is anywhere between what was flushed and what was submitted, and
//!   what lies below it is as it was written, or cannot be read. A reset that no flush has followed
//!   may not have happened; then nothing that was written to the zone after it has, either.
//!
//! Facts: Zoned Block Commands (ZBC, T10) and Zoned Namespaces (`NVMe`).

use super::{Drive, Geometry};

/// How a drive is divided into zones; constant while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zoning {
    /// Bytes from the start of a zone to the start of the next.
    pub zone_bytes: u64,
    /// Bytes of a sequential zone that can be written: at most `zone_bytes`.
    pub capacity_bytes: u64,
    /// Conventional zones before the first sequential one.
    pub conventional_zones: u32,
    /// Zones that can be partly written at a time; nothing if there is no bound.
    pub open_zones_max: Option<u32>,
}

/// What a zone is, and how far it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    /// It can be written anywhere.
    Conventional,
    /// It has been written up to so many bytes from its start; a full or finished one up to its
    /// capacity.
    Sequential {
        /// The write pointer, from the start of the zone.
        written_bytes: u64,
    },
    /// The drive has given it up: it cannot be written, and perhaps not be read.
    Unusable,
}

impl Zoning {
    /// Bytes of the conventional zones that the drive begins with.
    pub fn conventional_bytes(&self) -> u64 {
        u64::from(self.conventional_zones) * self.zone_bytes
    }

    /// The zone of a place, and the bytes from its start.
    pub fn locate(&self, offset_bytes: u64) -> (usize, u64) {
        let zone = usize::try_from(offset_bytes / self.zone_bytes).expect("zones fit memory");
        (zone, offset_bytes % self.zone_bytes)
    }
}

/// What a store has to know of a drive to lay itself out on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveShape {
    /// Bytes in all.
    pub size_bytes: u64,
    /// Its zones, if it has any.
    pub zoning: Option<Zoning>,
}

impl DriveShape {
    /// That of a drive.
    pub fn of(drive: &impl Drive) -> Self {
        let Geometry { size_bytes, .. } = drive.geometry();
        Self { size_bytes, zoning: drive.zoning() }
    }
}

impl From<u64> for DriveShape {
    /// A drive of so many bytes without zones.
    fn from(size_bytes: u64) -> Self {
        Self { size_bytes, zoning: None }
    }
}
