//! Zones of a block device, by the calls that the kernel has for them.
//!
//! ```text
//! BLKREPORTZONE   (sector, count) -> count, and 64 bytes of each zone
//! BLKRESETZONE    (sector, sectors)
//! BLKFINISHZONE   (sector, sectors)
//! ```
//!
//! Numbers and layouts are those of `linux/blkzoned.h`; sectors have 512 bytes whatever the device
//! calls a block. The calls can take long, and run on threads for such.
#![expect(
    unsafe_code,
    reason = "the kernel is handed pointers to structures that it fills or reads"
)]

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use evenkeel_store::{ZoneState, Zoning};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, Updater, ioctl, opcode};

const SECTOR_BYTES: u64 = 512;

/// Zones that one call reports at most: 8 KiB.
const ZONES_AT_ONCE: usize = 128;

const GROUP: u8 = 0x12;
const REPORT_ZONES: Opcode = opcode::read_write::<ReportHeader>(GROUP, 130);
const RESET_ZONE: Opcode = opcode::write::<SectorRange>(GROUP, 131);
const FINISH_ZONE: Opcode = opcode::write::<SectorRange>(GROUP, 136);

const SEQUENTIAL_REQUIRED: u8 = 2;
const EMPTY: u8 = 1;
const READ_ONLY: u8 = 13;
const FULL: u8 = 14;
const OFFLINE: u8 = 15;

/// The kernel fills in the capacities of zones.
const HAS_CAPACITY: u32 = 1;

/// `struct blk_zone_report`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ReportHeader {
    sector: u64,
    zones: u32,
    flags: u32,
}

/// `struct blk_zone`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Zone {
    start: u64,
    length: u64,
    pointer: u64,
    kind: u8,
    condition: u8,
    non_sequential: u8,
    needs_reset: u8,
    reserved: [u8; 4],
    capacity: u64,
    reserved_more: [u8; 24],
}

/// `struct blk_zone_range`.
#[repr(C)]
#[derive(Clone, Copy)]
struct SectorRange {
    sector: u64,
    sectors: u64,
}

#[repr(C)]
struct Report {
    header: ReportHeader,
    zones: [Zone; ZONES_AT_ONCE],
}

/// The zones of a block device. See the [module](self).
#[derive(Debug)]
pub(in crate::store) struct DeviceZones {
    file: Arc<File>,
    zoning: Zoning,
}

impl DeviceZones {
    /// Those of a device, unless it has none, or none that has to be written from front to back.
    pub(super) fn open(file: &Arc<File>) -> io::Result<Option<Self>> {
        let zones = match report(file) {
            Ok(zones) => zones,
            // What a device without zones says, by its driver.
            Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let zoning = zoning(&zones, open_zones_max(file));
        Ok(zoning.map(|zoning| Self { file: Arc::clone(file), zoning }))
    }

    pub(super) fn zoning(&self) -> Zoning {
        self.zoning
    }

    pub(super) async fn report(&self) -> io::Result<Vec<ZoneState>> {
        let zones = self.aside(|file| report(&file)).await?;
        Ok(zones.iter().map(state).collect())
    }

    pub(super) async fn reset(&self, offset_bytes: u64) -> io::Result<()> {
        let range = self.range(offset_bytes);
        self.aside(move |file| change::<RESET_ZONE>(&file, range)).await
    }

    pub(super) async fn finish(&self, offset_bytes: u64) -> io::Result<()> {
        let range = self.range(offset_bytes);
        self.aside(move |file| change::<FINISH_ZONE>(&file, range)).await
    }

    fn range(&self, offset_bytes: u64) -> SectorRange {
        let sectors = self.zoning.zone_bytes / SECTOR_BYTES;
        SectorRange { sector: offset_bytes / SECTOR_BYTES, sectors }
    }

    async fn aside<T: Send + 'static>(
        &self,
        call: impl FnOnce(Arc<File>) -> Result<T, Errno> + Send + 'static,
    ) -> io::Result<T> {
        let file = Arc::clone(&self.file);
        let outcome = tokio::task::spawn_blocking(move || call(file)).await;
        Ok(outcome.map_err(io::Error::other)??)
    }
}

/// All zones of a device.
fn report(file: &File) -> Result<Vec<Zone>, Errno> {
    let mut zones: Vec<Zone> = Vec::new();
    let mut report = Box::new(Report {
        header: ReportHeader::default(),
        zones: [Zone::default(); ZONES_AT_ONCE],
    });
    loop {
        let sector = zones.last().map_or(0, |zone| zone.start + zone.length);
        let count = u32::try_from(ZONES_AT_ONCE).expect("a small number");
        report.header = ReportHeader { sector, zones: count, flags: 0 };
        // SAFETY: the call reads a `blk_zone_report` and writes it back, with at most as many
        // `blk_zone` behind it as its count says; `Report` has the layout of these and room for
        // that many, and is plain numbers, so that whatever is written is valid.
        let call = unsafe { Updater::<REPORT_ZONES, Report>::new(&mut report) };
        // SAFETY: as above.
        unsafe { ioctl(file.as_fd(), call) }?;
        let has_capacity = report.header.flags & HAS_CAPACITY != 0;
        let found = &report.zones[..(report.header.zones as usize).min(ZONES_AT_ONCE)];
        // A zone of no length would be reported for ever.
        if found.is_empty() || found.iter().any(|zone| zone.length == 0) {
            return Ok(zones);
        }
        zones.extend(found.iter().map(|zone| Zone {
            capacity: if has_capacity { zone.capacity } else { zone.length },
            ..*zone
        }));
    }
}

fn change<const OPCODE: Opcode>(file: &File, range: SectorRange) -> Result<(), Errno> {
    // SAFETY: the call reads a `blk_zone_range`, which `SectorRange` has the layout of.
    let call = unsafe { Setter::<OPCODE, SectorRange>::new(range) };
    // SAFETY: as above; that the zone may be changed is what having the device to oneself means.
    unsafe { ioctl(file.as_fd(), call) }
}

/// How the device is divided; nothing if each of its zones can be written anywhere.
fn zoning(zones: &[Zone], open_zones_max: Option<u32>) -> Option<Zoning> {
    let is_sequential = |zone: &&Zone| zone.kind == SEQUENTIAL_REQUIRED;
    let conventional = zones.iter().position(|zone| is_sequential(&zone))?;
    // The last zone may be shorter; what is behind the last whole one is not used.
    let length = zones.iter().map(|zone| zone.length).max()?;
    let whole = zones.iter().filter(is_sequential).filter(|zone| zone.length == length);
    let capacity = whole.map(|zone| zone.capacity).min().unwrap_or(0);
    Some(Zoning {
        zone_bytes: length * SECTOR_BYTES,
        capacity_bytes: capacity * SECTOR_BYTES,
        conventional_zones: u32::try_from(conventional).ok()?,
        open_zones_max,
    })
}

fn state(zone: &Zone) -> ZoneState {
    let written_bytes = match (zone.kind, zone.condition) {
        (_, READ_ONLY | OFFLINE) => return ZoneState::Unusable,
        (SEQUENTIAL_REQUIRED, EMPTY) => 0,
        (SEQUENTIAL_REQUIRED, FULL) => zone.capacity * SECTOR_BYTES,
        (SEQUENTIAL_REQUIRED, _) => zone.pointer.saturating_sub(zone.start) * SECTOR_BYTES,
        // Conventional ones, and those that only prefer to be written from front to back.
        _ => return ZoneState::Conventional,
    };
    ZoneState::Sequential { written_bytes }
}

/// Zones that can be partly written at a time, as the kernel knows; 0 there stands for no bound.
fn open_zones_max(file: &File) -> Option<u32> {
    let device = file.metadata().ok()?.rdev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let limit = |name: &str| {
        let path = format!("/sys/dev/block/{major}:{minor}/queue/{name}");
        let text = std::fs::read_to_string(path).ok()?;
        text.trim().parse::<u32>().ok().filter(|&zones| zones > 0)
    };
    // Closed zones count for the second bound, which shingled disks do not have.
    [limit("max_open_zones"), limit("max_active_zones")].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(number: u64, kind: u8, condition: u8, pointer: u64) -> Zone {
        let (start, length) = (number * 0x8_0000, 0x8_0000);
        let pointer = start + pointer;
        Zone { start, length, pointer, kind, condition, capacity: length, ..Zone::default() }
    }

    #[test]
    fn structures_have_the_sizes_and_calls_the_numbers_of_the_kernel() {
        assert_eq!(size_of::<ReportHeader>(), 16);
        assert_eq!(size_of::<Zone>(), 64);
        assert_eq!(size_of::<Report>(), 16 + 64 * ZONES_AT_ONCE);
        assert_eq!(REPORT_ZONES, 0xc010_1282);
        assert_eq!(RESET_ZONE, 0x4010_1283);
        assert_eq!(FINISH_ZONE, 0x4010_1288);
    }

    #[test]
    fn a_report_is_read_as_the_kernel_means_it() {
        let zones = [
            zone(0, 1, 0, 0),
            zone(1, 1, 0, 0),
            zone(2, 2, EMPTY, 0),
            zone(3, 2, 2, 8),
            zone(4, 2, FULL, u64::MAX >> 20),
            zone(5, 2, OFFLINE, 0),
        ];
        let zoning = zoning(&zones, Some(128)).unwrap();
        let expected = Zoning {
            zone_bytes: 256 << 20,
            capacity_bytes: 256 << 20,
            conventional_zones: 2,
            open_zones_max: Some(128),
        };
        assert_eq!(zoning, expected);
        let written = |written_bytes| ZoneState::Sequential { written_bytes };
        let states = [
            ZoneState::Conventional,
            ZoneState::Conventional,
            written(0),
            written(4096),
            written(256 << 20),
            ZoneState::Unusable,
        ];
        assert_eq!(zones.iter().map(state).collect::<Vec<_>>(), states);
    }

    #[test]
    fn zones_hold_what_the_least_of_the_whole_ones_holds_however_little_that_is() {
        let sequential = |number, capacity| Zone { capacity, ..zone(number, 2, EMPTY, 0) };
        let short = Zone { length: 0x1_0000, ..sequential(3, 0x800) };
        let zones = [zone(0, 1, 0, 0), sequential(1, 0x2_0000), sequential(2, 0x1_0000), short];
        let found = zoning(&zones, None).map(|zoning| zoning.capacity_bytes);
        assert_eq!(found, Some(32 << 20));
        let found = zoning(&[zone(0, 1, 0, 0), short], None).map(|zoning| zoning.capacity_bytes);
        assert_eq!(found, Some(0), "it has zones all the same");
    }

    #[test]
    fn a_device_that_prefers_an_order_and_does_not_insist_has_no_zones() {
        assert_eq!(zoning(&[zone(0, 1, 0, 0), zone(1, 3, EMPTY, 0)], None), None);
    }

    #[test]
    fn what_is_no_zoned_device_has_no_zones() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        assert!(DeviceZones::open(&file).unwrap().is_none());
    }
}
