//! The zones of a drive that has some, and what it refuses.
//!
//! Stricter than most drives, on purpose: there is no write but at the write pointer, with no other
//! under way in the zone; none to a full zone or beyond its capacity; no read above the pointer, or
//! over the border of a zone; no more zones partly written than there may be.
//!
//! A power cut takes effect zone by zone, in the order of the writes: of the first that is not kept
//! whole a front part may be there, and nothing of what was written behind it.
//!
//! ```text
//!   flushed | W1 kept | W2 torn: new new old new | W3 kept
//!   ---------------------------------->|                       the pointer behind the cut
//! ```

use std::collections::BTreeSet;

use evenkeel_store::{ZoneState, Zoning};

use super::command::Command;
use super::cut::{Fate, UnitFate};
use super::extent::{Effect, Extent};
use super::platter::Platter;

/// Which zones a drive has, and how far they are written.
#[derive(Clone, Debug)]
pub(super) struct Zones {
    pub(super) zoning: Zoning,
    /// As the drive reports them.
    pub(super) view: Pointers,
    /// As a power cut leaves them at least.
    pub(super) medium: Pointers,
}

/// Bytes that are written of each zone.
#[derive(Clone, Debug)]
pub(super) struct Pointers(Vec<u64>);

impl Zones {
    /// Empty ones.
    pub(super) fn new(zoning: Zoning, size_bytes: u64) -> Self {
        let count = usize::try_from(size_bytes / zoning.zone_bytes).expect("zones fit memory");
        let pointers = Pointers(vec![0; count]);
        Self { zoning, view: pointers.clone(), medium: pointers }
    }

    /// The sequential zone of a place, if it lies in one.
    pub(super) fn sequential(&self, offset: u64) -> Option<usize> {
        let (zone, _) = self.zoning.locate(offset);
        (zone >= self.zoning.conventional_zones as usize).then_some(zone)
    }

    /// As a drive reports them.
    pub(super) fn report(&self) -> Vec<ZoneState> {
        let conventional = self.zoning.conventional_zones as usize;
        let state = |(zone, &written_bytes): (usize, &u64)| {
            if zone < conventional {
                ZoneState::Conventional
            } else {
                ZoneState::Sequential { written_bytes }
            }
        };
        self.view.0.iter().enumerate().map(state).collect()
    }

    /// Why the drive does not do this, while these others are under way.
    pub(super) fn refusal<'a>(
        &self,
        command: &Command,
        mut under_way: impl Iterator<Item = &'a Command>,
    ) -> Option<&'static str> {
        let (offset, length_bytes) = command.range();
        let zone = self.sequential(offset)?;
        if length_bytes == 0 {
            return None;
        }
        let Some(&pointer) = self.view.0.get(zone) else {
            return Some("there is no such zone");
        };
        let (_, start) = self.zoning.locate(offset);
        let end = start + length_bytes;
        let is_same = |other: &Command| {
            other.is_zone_change() && self.sequential(other.range().0) == Some(zone)
        };
        match command {
            Command::Read { .. } => (end > pointer).then_some("a read above the write pointer"),
            Command::WriteZeroes { .. } | Command::Discard { .. } => {
                Some("neither zeroes nor discards in a sequential zone")
            }
            Command::ResetZone { .. } | Command::FinishZone { .. } if start != 0 => {
                Some("a zone is reset and finished by its start")
            }
            _ if under_way.any(is_same) => Some("two changes of a zone at a time"),
            Command::Write { .. } if start != pointer => Some("a write not at the write pointer"),
            Command::Write { .. } if end > self.zoning.capacity_bytes => {
                Some("a write beyond the capacity of its zone")
            }
            Command::Write { .. } if pointer == 0 && self.is_open_limit_reached() => {
                Some("too many zones partly written")
            }
            Command::Write { .. }
            | Command::ResetZone { .. }
            | Command::FinishZone { .. }
            | Command::Flush => None,
        }
    }

    fn is_open_limit_reached(&self) -> bool {
        let is_open = |&&pointer: &&u64| (1..self.zoning.capacity_bytes).contains(&pointer);
        let open = self.view.0[self.zoning.conventional_zones as usize..].iter().filter(is_open);
        self.zoning.open_zones_max.is_some_and(|max| open.count() >= max as usize)
    }

    /// What a power cut leaves of a change to a sequential zone. `broken` are the zones in which
    /// something before it was lost.
    pub(super) fn suffer(
        &mut self,
        extent: &Extent,
        fate: &Fate,
        broken: &mut BTreeSet<usize>,
        medium: &mut Platter,
    ) {
        let zone = self.sequential(extent.offset).expect("the caller looked");
        if broken.contains(&zone) {
            return;
        }
        let kept_bytes = match fate {
            Fate::Lost => 0,
            Fate::Kept => extent.length_bytes,
            Fate::Torn { unit_bytes, units } => {
                let whole = units.iter().take_while(|unit| **unit == UnitFate::New).count();
                (whole as u64 * unit_bytes).min(extent.length_bytes)
            }
        };
        if kept_bytes < extent.length_bytes {
            broken.insert(zone);
        }
        let mut front = extent.part(0, kept_bytes);
        if kept_bytes > 0 {
            front.apply(medium);
        }
        // A unit under the head was begun, so that the pointer is behind it.
        if let Fate::Torn { unit_bytes, units } = fate {
            let next = usize::try_from(kept_bytes / unit_bytes).expect("units fit memory");
            if units.get(next) == Some(&UnitFate::Ruined) {
                let ruined_bytes = (*unit_bytes).min(extent.length_bytes - kept_bytes);
                medium.ruin(extent.offset + kept_bytes, ruined_bytes);
                front = extent.part(0, kept_bytes + ruined_bytes);
            }
        }
        if front.length_bytes > 0 {
            self.medium.follow(&self.zoning, &front);
        }
    }
}

impl Pointers {
    /// A change has taken effect.
    pub(super) fn follow(&mut self, zoning: &Zoning, extent: &Extent) {
        let (zone, start) = zoning.locate(extent.offset);
        // What lies behind the last whole zone has no pointer.
        let Some(pointer) = self.0.get_mut(zone) else { return };
        match extent.effect {
            Effect::Reset => *pointer = 0,
            Effect::Finish => *pointer = zoning.capacity_bytes,
            Effect::Write => *pointer = (*pointer).max(start + extent.length_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Answer, CrashDisk, DiskError, every_cut};

    const ZONE: u64 = 16 << 10;
    const BLOCK: u64 = 4096;

    /// One conventional zone and six others, two of which may be open.
    fn disk() -> CrashDisk {
        CrashDisk::new(7 * ZONE).with_zones(Zoning {
            zone_bytes: ZONE,
            capacity_bytes: ZONE - BLOCK,
            conventional_zones: 1,
            open_zones_max: Some(2),
        })
    }

    fn pointer(disk: &CrashDisk, zone: usize) -> u64 {
        match disk.report_zones()[zone] {
            ZoneState::Sequential { written_bytes } => written_bytes / BLOCK,
            other => panic!("{other:?}"),
        }
    }

    fn change(disk: &mut CrashDisk, command: Command) -> Answer {
        let id = disk.submit(command);
        disk.complete(id)
    }

    fn is_refused<T: std::fmt::Debug>(answer: &Result<T, DiskError>) -> bool {
        matches!(answer, Err(DiskError::Refused(_)))
    }

    #[test]
    fn a_zone_is_written_from_front_to_back_and_no_further() {
        let mut disk = disk();
        let block = [7; 4096];
        assert_eq!(disk.write(5 * BLOCK % ZONE, &block), Ok(()), "conventional: anywhere");
        assert!(is_refused(&disk.write(ZONE + BLOCK, &block)), "a gap");
        assert_eq!(disk.write(ZONE, &[7; 8192]), Ok(()));
        assert!(is_refused(&disk.write(ZONE, &block)), "written already");
        assert!(is_refused(&disk.write(ZONE + 2 * BLOCK, &[7; 8192])), "beyond the capacity");
        assert!(is_refused(&disk.read(ZONE, 3 * BLOCK)), "above the pointer");
        let discard = Command::Discard { offset: ZONE, length_bytes: BLOCK };
        assert!(is_refused(&change(&mut disk, discard)));
        let bytes: std::sync::Arc<[u8]> = block.into();
        let write = |offset| Command::Write { offset, bytes: bytes.clone(), fua: false };
        let first = disk.submit(write(2 * ZONE));
        let second = disk.submit(write(2 * ZONE + BLOCK));
        assert!(disk.complete(first).is_ok());
        assert!(is_refused(&disk.complete(second)), "it could have come first");
        assert_eq!((pointer(&disk, 1), pointer(&disk, 2)), (2, 1));
        assert!(is_refused(&disk.write(3 * ZONE, &block)), "a third open zone");
        let finish = Command::FinishZone { offset: ZONE, length_bytes: ZONE };
        assert!(change(&mut disk, finish).is_ok());
        assert_eq!(disk.write(3 * ZONE, &block), Ok(()));
        let reset = Command::ResetZone { offset: ZONE, length_bytes: ZONE };
        assert!(change(&mut disk, reset).is_ok());
        assert_eq!(pointer(&disk, 1), 0);
    }

    #[test]
    fn a_cut_leaves_a_front_part_of_what_was_written_since_the_flush() {
        let mut disk = disk();
        disk.write(ZONE, &[1; 4096]).unwrap();
        disk.flush().unwrap();
        change(&mut disk, Command::ResetZone { offset: ZONE, length_bytes: ZONE }).unwrap();
        disk.write(ZONE, &[2; 8192]).unwrap();
        disk.write(ZONE + 2 * BLOCK, &[3; 4096]).unwrap();
        let left = |mut after: CrashDisk| {
            let written = pointer(&after, 1);
            let blocks = (0..written).map(|block| {
                after.read(ZONE + block * BLOCK, BLOCK).expect("below the pointer")[0]
            });
            blocks.collect::<Vec<u8>>()
        };
        let seen: BTreeSet<Vec<u8>> = every_cut(&disk, 8).unwrap().map(left).collect();
        let expected = [vec![], vec![1], vec![2], vec![2, 2], vec![2, 2, 3]];
        assert_eq!(seen, expected.into_iter().collect());
    }
}
