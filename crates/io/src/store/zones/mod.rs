//! Zones of real drives, and of files that behave as if they had some.
//!
//! A host-managed disk or a zoned SSD keeps its write pointers itself ([`device`]); a file that
//! stands for one keeps them in a table at its end ([`emulated`]).

mod device;
pub(super) mod emulated;

use std::fs::File;
use std::io;
use std::sync::Arc;

use evenkeel_store::{ZoneState, Zoning};

use device::DeviceZones;
pub(super) use emulated::EmulatedZones;

/// How a file that is made is to be divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmulatedZoning {
    /// Bytes of a zone, of whole blocks of 4 KiB.
    pub zone_bytes: u64,
    /// Conventional zones that it begins with.
    pub conventional_zones: u32,
}

/// What keeps the write pointers of a drive.
#[derive(Debug)]
pub(super) enum Zones {
    Emulated(EmulatedZones),
    Device(DeviceZones),
}

impl Zones {
    /// Those of a block device, if it has zones that have to be written from front to back.
    pub(super) fn of_device(file: &Arc<File>) -> io::Result<Option<Self>> {
        Ok(DeviceZones::open(file)?.map(Self::Device))
    }

    pub(super) fn zoning(&self) -> Zoning {
        match self {
            Self::Emulated(zones) => zones.zoning(),
            Self::Device(zones) => zones.zoning(),
        }
    }

    pub(super) fn emulated(&self) -> Option<&EmulatedZones> {
        match self {
            Self::Emulated(zones) => Some(zones),
            Self::Device(_) => None,
        }
    }

    /// The state of every zone.
    pub(super) async fn report(&self) -> io::Result<Vec<ZoneState>> {
        match self {
            Self::Emulated(zones) => Ok(zones.report()),
            Self::Device(zones) => zones.report().await,
        }
    }

    /// Empties a zone.
    pub(super) async fn reset(&self, offset_bytes: u64) -> io::Result<()> {
        match self {
            Self::Emulated(zones) => {
                zones.set(offset_bytes, 0);
                Ok(())
            }
            Self::Device(zones) => zones.reset(offset_bytes).await,
        }
    }

    /// Counts a zone as full.
    pub(super) async fn finish(&self, offset_bytes: u64) -> io::Result<()> {
        match self {
            Self::Emulated(zones) => {
                zones.set(offset_bytes, zones.zoning().capacity_bytes);
                Ok(())
            }
            Self::Device(zones) => zones.finish(offset_bytes).await,
        }
    }
}
