//! The write pointers of a drive with zones: who may write where, and when.
//!
//! ```text
//!   write(5..7) --waits-----------------> its turn
//!   write(2..5) --its turn--> the drive --> pointer 5, look again
//!                                |
//!   zone   | 0 1 | . . . . .     +-- one write under way in a zone
//!                ^ pointer 2
//! ```
//!
//! Records get their places in order and reach the drive in any; here each waits until the pointer
//! has come to it. A write to the start of a zone that has been written to is the first of a new
//! use, and takes a reset before it.
//!
//! So many zones may be partly written and no more; the first write to another one waits until one
//! is finished. It waits for ever for no one: of the zones that are partly written two are still
//! written to, the clients' and the cleaner's, and the others end by themselves.
//!
//! Where the pointers are is asked of the drive at every mount: after a power cut nobody else
//! knows. That something lies below a pointer says nothing of what it is; checksums do.

use std::cell::RefCell;

use crate::drive::zone::{ZoneState, Zoning};
use crate::drive::{Drive, DriveError};
use crate::rules::{Rule, Rules};
use crate::sync::Signal;

/// The pointers of one drive. See the [module](self).
#[derive(Debug)]
pub(super) struct Pointers {
    zoning: Zoning,
    rules: Rules,
    zones: RefCell<Vec<Zone>>,
    /// Some pointer has moved, or the drive has failed.
    moved: Signal,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    state: ZoneState,
    /// Whether a write, a reset or an end is under way.
    is_busy: bool,
    /// Whether it counts as full, wherever the pointer is.
    is_finished: bool,
}

/// The right to write to a zone, until dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pointers: &'a Pointers,
    zone: usize,
    at_bytes: u64,
    needs_reset: bool,
}

impl Pointers {
    /// As the drive reports them; nothing if it has no zones.
    pub(super) async fn of<D: Drive>(drive: &D, rules: Rules) -> Result<Option<Self>, DriveError> {
        let Some(zoning) = drive.zoning() else { return Ok(None) };
        let report = drive.report_zones().await?;
        let zone = |state| Zone { state, is_busy: false, is_finished: false };
        let zones = report.into_iter().map(zone).collect();
        Ok(Some(Self { zoning, rules, zones: RefCell::new(zones), moved: Signal::default() }))
    }

    /// Waits until a write at this place is the next of its zone; nothing to wait for where it is a
    /// conventional one.
    pub(super) async fn turn(
        &self,
        offset_bytes: u64,
        failure: impl Fn() -> Option<DriveError>,
    ) -> Result<Option<Turn<'_>>, DriveError> {
        let (zone, at_bytes) = self.zoning.locate(offset_bytes);
        self.moved
            .until(|| match failure().map_or_else(|| self.next(zone, at_bytes), Next::Never) {
                Next::Anywhere => Some(Ok(None)),
                Next::Never(error) => Some(Err(error)),
                Next::Later => None,
                Next::Now { needs_reset } => {
                    self.zones.borrow_mut()[zone].is_busy = true;
                    Some(Ok(Some(Turn { pointers: self, zone, at_bytes, needs_reset })))
                }
            })
            .await
    }

    fn next(&self, zone: usize, at_bytes: u64) -> Next {
        let zones = self.zones.borrow();
        let Some(zone) = zones.get(zone) else {
            return Next::Never(DriveError::Misuse("there is no such zone"));
        };
        let written_bytes = match zone.state {
            ZoneState::Conventional => return Next::Anywhere,
            ZoneState::Unusable => return Next::Never(DriveError::Medium),
            ZoneState::Sequential { written_bytes } => written_bytes,
        };
        if !self.rules.hold(Rule::WriteAtPointer) {
            return Next::Now { needs_reset: at_bytes == 0 && written_bytes > 0 };
        }
        if zone.is_busy || at_bytes > written_bytes || at_bytes == 0 && self.is_at_limit(&zones) {
            Next::Later
        } else if at_bytes == written_bytes {
            Next::Now { needs_reset: false }
        } else if at_bytes == 0 {
            Next::Now { needs_reset: self.rules.hold(Rule::ResetForReuse) }
        } else {
            Next::Never(DriveError::Misuse("a zone is not written twice"))
        }
    }

    /// Whether as many zones are partly written, or about to be, as can be.
    fn is_at_limit(&self, zones: &[Zone]) -> bool {
        let is_open = |zone: &&Zone| self.is_open(zone) || zone.is_busy;
        let open_max = self.zoning.open_zones_max;
        open_max.is_some_and(|max| zones.iter().filter(is_open).count() >= max as usize)
    }

    fn is_open(&self, zone: &Zone) -> bool {
        let ZoneState::Sequential { written_bytes } = zone.state else { return false };
        !zone.is_finished && (1..self.zoning.capacity_bytes).contains(&written_bytes)
    }

    /// Has all who wait look whether the drive has failed.
    pub(super) fn look_again(&self) {
        self.moved.notify();
    }

    /// How many bytes from this place on have been written; all of a conventional zone have.
    pub(super) fn readable_bytes(&self, offset_bytes: u64) -> u64 {
        let (zone, at_bytes) = self.zoning.locate(offset_bytes);
        match self.zones.borrow().get(zone).map(|zone| zone.state) {
            Some(ZoneState::Sequential { written_bytes }) => written_bytes.saturating_sub(at_bytes),
            _ => u64::MAX,
        }
    }

    /// The pointer of the zone that starts there, if it has one.
    pub(super) fn written_bytes(&self, start_bytes: u64) -> Option<u64> {
        match self.state(start_bytes)? {
            ZoneState::Sequential { written_bytes } => Some(written_bytes),
            _ => None,
        }
    }

    /// The state of the zone that starts there, if there is one.
    pub(super) fn state(&self, start_bytes: u64) -> Option<ZoneState> {
        let (zone, _) = self.zoning.locate(start_bytes);
        Some(self.zones.borrow().get(zone)?.state)
    }

    /// The starts of zones that are written in part.
    pub(super) fn open_zones(&self) -> Vec<u64> {
        let zones = self.zones.borrow();
        let open = (0..).zip(zones.iter()).filter(|(_, zone)| self.is_open(zone));
        open.map(|(number, _): (u64, _)| number * self.zoning.zone_bytes).collect()
    }

    /// Nothing more is written to the zone that starts there before it is reset.
    pub(super) async fn finish<D: Drive>(
        &self,
        drive: &D,
        start_bytes: u64,
    ) -> Result<(), DriveError> {
        let (zone, _) = self.zoning.locate(start_bytes);
        let is_open = self.zones.borrow().get(zone).is_some_and(|zone| self.is_open(zone));
        if !is_open {
            return Ok(());
        }
        let Some(_turn) = self.claim(start_bytes) else { return Ok(()) };
        drive.finish_zone(start_bytes).await?;
        self.zones.borrow_mut()[zone].is_finished = true;
        Ok(())
    }

    /// Empties the zone that starts there, if there is anything in it. That the drive does not do
    /// it is no harm: it is done again before the next write.
    pub(super) async fn reset<D: Drive>(&self, drive: &D, start_bytes: u64) {
        if self.written_bytes(start_bytes).is_none_or(|written| written == 0) {
            return;
        }
        let Some(turn) = self.claim(start_bytes) else { return };
        if drive.reset_zone(start_bytes).await.is_ok() {
            self.set(turn.zone, 0);
        }
    }

    /// The zone that starts there, if nothing is under way in it.
    fn claim(&self, start_bytes: u64) -> Option<Turn<'_>> {
        let (zone, _) = self.zoning.locate(start_bytes);
        let was_busy = std::mem::replace(&mut self.zones.borrow_mut()[zone].is_busy, true);
        (!was_busy).then_some(Turn { pointers: self, zone, at_bytes: 0, needs_reset: false })
    }
}

/// Whether a write is next.
enum Next {
    /// It is no matter.
    Anywhere,
    Now {
        needs_reset: bool,
    },
    Later,
    Never(DriveError),
}

impl Turn<'_> {
    /// Empties the zone, if this is the first write of a new use.
    pub(super) async fn prepare<D: Drive>(&self, drive: &D) -> Result<(), DriveError> {
        if self.needs_reset {
            let start_bytes = self.zone as u64 * self.pointers.zoning.zone_bytes;
            drive.reset_zone(start_bytes).await?;
            self.pointers.set(self.zone, 0);
        }
        Ok(())
    }

    /// So many bytes were written.
    pub(super) fn wrote(self, bytes: u64) {
        self.pointers.set(self.zone, self.at_bytes + bytes);
    }
}

impl Pointers {
    fn set(&self, zone: usize, written_bytes: u64) {
        let zone = &mut self.zones.borrow_mut()[zone];
        zone.state = ZoneState::Sequential { written_bytes };
        zone.is_finished = false;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.pointers.zones.borrow_mut()[self.zone].is_busy = false;
        self.pointers.moved.notify();
    }
}
