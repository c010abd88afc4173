//! A drive with a volatile write cache, to the letter of what such a drive promises.
//!
//! A write that was acknowledged is seen by later reads, and lies in the cache. A flush carries to
//! the medium what had been acknowledged when the flush was *submitted*, and nothing else by right;
//! a forced write carries itself. All else is at the mercy of a power cut:
//!
//! ```text
//!            acknowledged                      power cut
//!   W1 ------- ok                               durable (flush)
//!   W2 ---------------- ok                      old or new, each unit by itself
//!   F       ----------- ok                        (W2 ended after F was submitted)
//!   W3            ----------------------- ...   old or new as well: it was under way
//! ```
//!
//! That is less than most drives hold to, on purpose: code that is right here is right on any.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_store::{ZoneState, Zoning};

use super::command::{Answer, Command, CommandId, DiskError};
use super::cut::Fate;
use super::extent::{Effect, Extent};
use super::fault::{Fault, FaultPlan, Stall, coin};
use super::platter::{BLOCK_BYTES, Platter, SECTOR_BYTES};
use super::zones::Zones;

/// A drive that holds bytes.
#[derive(Clone, Debug)]
pub struct CrashDisk {
    size_bytes: u64,
    /// What a power cut leaves for certain.
    medium: Platter,
    /// What reads see: the medium under the cached writes.
    view: Platter,
    /// Acknowledged writes that are not yet durable, oldest first.
    cached: Vec<Extent>,
    in_flight: BTreeMap<CommandId, InFlight>,
    next: u64,
    /// How many writes were ever acknowledged.
    acknowledged: u64,
    faults: FaultPlan,
    is_gone: bool,
    zones: Option<Zones>,
}

#[derive(Clone, Debug)]
struct InFlight {
    command: Command,
    fault: Option<Fault>,
    /// Why the drive will not do it.
    refusal: Option<&'static str>,
    /// How many writes had ever been acknowledged when it was submitted.
    acknowledged: u64,
}

/// A write that the medium need not have: what the fate of a power cut is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unflushed {
    /// First byte.
    pub offset: u64,
    /// How many bytes.
    pub length_bytes: u64,
    /// Whether it carries bytes, rather than being a discard or a run of zeroes.
    pub carries_bytes: bool,
    /// Whether it was under way, thus never acknowledged.
    pub in_flight: bool,
}

impl CrashDisk {
    /// A drive full of zeroes and without faults; its size is a multiple of a sector.
    pub fn new(size_bytes: u64) -> Self {
        assert!(size_bytes.is_multiple_of(SECTOR_BYTES), "a drive is made of sectors");
        Self {
            size_bytes,
            medium: Platter::default(),
            view: Platter::default(),
            cached: Vec::new(),
            in_flight: BTreeMap::new(),
            next: 0,
            acknowledged: 0,
            faults: FaultPlan::default(),
            is_gone: false,
            zones: None,
        }
    }

    /// The same drive, divided into zones, all of them empty; written from front to back.
    #[must_use]
    pub fn with_zones(mut self, zoning: Zoning) -> Self {
        self.zones = Some(Zones::new(zoning, self.size_bytes));
        self
    }

    /// How it is divided into zones, if it is.
    pub fn zoning(&self) -> Option<Zoning> {
        self.zones.as_ref().map(|zones| zones.zoning)
    }

    /// The state of every zone; none if there are none.
    pub fn report_zones(&self) -> Vec<ZoneState> {
        self.zones.as_ref().map(Zones::report).unwrap_or_default()
    }

    /// The same drive with these faults from now on.
    #[must_use]
    pub fn with_faults(mut self, faults: FaultPlan) -> Self {
        self.set_faults(faults);
        self
    }

    /// Exchanges the faults that commands submitted from now on meet.
    pub fn set_faults(&mut self, faults: FaultPlan) {
        self.faults = faults;
    }

    /// How many bytes it holds.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// How many commands it was ever given.
    pub fn submitted(&self) -> u64 {
        self.next
    }

    /// Hands in a command. Nothing of it is certain, and nothing excluded, before it is completed.
    ///
    /// # Panics
    /// If it lies outside the drive or between sectors; that is a mistake of whoever asks.
    pub fn submit(&mut self, command: Command) -> CommandId {
        let (offset, length_bytes) = command.range();
        let end = offset.checked_add(length_bytes);
        assert!(
            end.is_some_and(|end| end <= self.size_bytes),
            "{length_bytes} bytes at {offset} lie outside a drive of {} bytes",
            self.size_bytes
        );
        assert!(
            !command.changes_content() || (offset | length_bytes).is_multiple_of(SECTOR_BYTES),
            "{length_bytes} bytes at {offset} cut sectors"
        );
        let id = CommandId(self.next);
        self.next += 1;
        let fault = self.faults.draw(id, &command);
        let under_way = self.in_flight.values().map(|flight| &flight.command);
        let refusal = self.zones.as_ref().and_then(|zones| zones.refusal(&command, under_way));
        let acknowledged = self.acknowledged;
        self.in_flight.insert(id, InFlight { command, fault, refusal, acknowledged });
        id
    }

    /// The commands that were submitted and not yet completed, oldest first.
    pub fn under_way(&self) -> impl Iterator<Item = CommandId> {
        self.in_flight.keys().copied()
    }

    /// Whether a command under way touches a byte that this one touches, and one of the two
    /// changes it: then their order would be anybody's guess.
    pub fn conflicts(&self, command: &Command) -> bool {
        let (offset, length_bytes) = command.range();
        self.in_flight.values().any(|flight| {
            let (other, other_bytes) = flight.command.range();
            let changes = command.changes_content() || flight.command.changes_content();
            changes && offset < other + other_bytes && other < offset + length_bytes
        })
    }

    /// How long the drive holds a command back beyond its usual time, by its faults.
    pub fn stall(&self, id: CommandId) -> Option<Stall> {
        match self.in_flight.get(&id)?.fault {
            Some(Fault::Stuck(stall)) => Some(stall),
            _ => None,
        }
    }

    /// Completes a command: it takes effect now, and this is its answer.
    ///
    /// # Errors
    /// What the drive reports, by its faults.
    ///
    /// # Panics
    /// If the command is not under way.
    pub fn complete(&mut self, id: CommandId) -> Answer {
        let InFlight { command, fault, refusal, acknowledged } =
            self.in_flight.remove(&id).expect("a command under way completes once");
        if self.is_gone {
            return Err(DiskError::Gone);
        }
        if let Some(why) = refusal {
            return Err(DiskError::Refused(why));
        }
        match command {
            Command::Read { offset, length_bytes } => self.do_read(offset, length_bytes, fault),
            Command::Flush => self.do_flush(acknowledged, fault),
            _ => {
                let fua = matches!(
                    command,
                    Command::Write { fua: true, .. } | Command::WriteZeroes { fua: true, .. }
                );
                let extent = Extent::of(&command).expect("all others change something");
                let is_sequential = self.is_sequential(&extent);
                self.do_write(extent, fua, fault.map(|fault| fault.honest_if(is_sequential)))
            }
        }
    }

    fn is_sequential(&self, extent: &Extent) -> bool {
        self.zones.as_ref().is_some_and(|zones| zones.sequential(extent.offset).is_some())
    }

    /// The writes whose fate a power cut decides: the cached ones, oldest first, then those under
    /// way in the order of their submission.
    pub fn unflushed(&self) -> Vec<Unflushed> {
        let extents = self.unflushed_extents();
        extents.iter().map(|(extent, in_flight)| extent.describe(*in_flight)).collect()
    }

    /// Cuts the power and brings it back: of each unflushed write, in the order of
    /// [`Self::unflushed`], that reaches the medium which `fate` says. Commands under way are
    /// forgotten.
    pub fn power_cut(&mut self, mut fate: impl FnMut(&Unflushed) -> Fate) {
        let mut broken = BTreeSet::new();
        for (extent, in_flight) in self.unflushed_extents() {
            let fate = fate(&extent.describe(in_flight));
            let is_sequential = self.is_sequential(&extent);
            match &mut self.zones {
                Some(zones) if is_sequential => {
                    zones.suffer(&extent, &fate, &mut broken, &mut self.medium);
                }
                _ => extent.suffer(&fate, &mut self.medium),
            }
        }
        self.cached.clear();
        self.in_flight.clear();
        self.show_medium();
    }

    /// What is in the cache is lost from sight.
    fn show_medium(&mut self) {
        self.view = self.medium.clone();
        if let Some(zones) = &mut self.zones {
            zones.view = zones.medium.clone();
        }
    }

    /// The drive vanishes: as a power cut of this drive alone, and until [`Self::attach`] every
    /// command ends with [`DiskError::Gone`], those under way included.
    pub fn detach(&mut self, fate: impl FnMut(&Unflushed) -> Fate) {
        let under_way: Vec<_> = self.in_flight.keys().copied().collect();
        self.power_cut(fate);
        for id in under_way {
            let (command, fault, refusal) = (Command::Flush, None, None);
            self.in_flight.insert(id, InFlight { command, fault, refusal, acknowledged: 0 });
        }
        self.is_gone = true;
    }

    /// The drive is back, with the content that it left with.
    pub fn attach(&mut self) {
        self.is_gone = false;
    }

    /// Whether the drive has vanished.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Damages the drive behind its own back, the cache included.
    pub fn damage(&mut self, mut how: impl FnMut(&mut Platter)) {
        how(&mut self.medium);
        how(&mut self.view);
    }

    /// What is on the medium.
    pub fn medium(&self) -> &Platter {
        &self.medium
    }

    /// Reads, at once.
    ///
    /// # Errors
    /// As [`Self::complete`].
    pub fn read(&mut self, offset: u64, length_bytes: u64) -> Answer {
        let id = self.submit(Command::Read { offset, length_bytes });
        self.complete(id)
    }

    /// Writes to the cache, at once.
    ///
    /// # Errors
    /// As [`Self::complete`].
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let id = self.submit(Command::Write { offset, bytes: bytes.into(), fua: false });
        self.complete(id).map(drop)
    }

    /// Flushes, at once.
    ///
    /// # Errors
    /// As [`Self::complete`].
    pub fn flush(&mut self) -> Result<(), DiskError> {
        let id = self.submit(Command::Flush);
        self.complete(id).map(drop)
    }

    fn do_read(&mut self, offset: u64, length_bytes: u64, fault: Option<Fault>) -> Answer {
        match fault {
            Some(Fault::Failed { .. }) => return Err(DiskError::Failed),
            Some(Fault::Unreadable) => self.damage(|platter| platter.ruin(offset, 1)),
            Some(Fault::Rot { salt }) if length_bytes > 0 => {
                self.damage(|platter| platter.rot(offset, salt % (length_bytes * 8)));
            }
            _ => {}
        }
        let length = usize::try_from(length_bytes).expect("a read fits in memory");
        let mut bytes = vec![0; length];
        self.view.read(offset, &mut bytes)?;
        Ok(bytes)
    }

    fn do_write(&mut self, extent: Extent, fua: bool, fault: Option<Fault>) -> Answer {
        match fault {
            Some(Fault::Ignored) => return Ok(Vec::new()),
            Some(Fault::Misdirected { salt }) => {
                let extent = self.misdirect(extent, salt);
                self.put(extent, fua);
            }
            Some(Fault::Shorn { salt }) => {
                let units = extent.length_bytes / SECTOR_BYTES;
                self.put(extent.part(0, salt % units.max(1) * SECTOR_BYTES), fua);
            }
            Some(Fault::Failed { .. }) if extent.effect != Effect::Write => {
                return Err(DiskError::Failed);
            }
            Some(Fault::Failed { salt }) => {
                // A failed write may have been done, or in part, or not at all.
                let units = extent.length_bytes / SECTOR_BYTES;
                self.put(extent.part(0, salt % (units + 1) * SECTOR_BYTES), false);
                return Err(DiskError::Failed);
            }
            _ => self.put(extent, fua),
        }
        Ok(Vec::new())
    }

    /// A write takes effect: in the cache, or by force on the medium.
    fn put(&mut self, mut extent: Extent, fua: bool) {
        extent.apply(&mut self.view);
        if let Some(zones) = &mut self.zones {
            zones.view.follow(&zones.zoning, &extent);
        }
        if fua && self.is_sequential(&extent) {
            // A pointer cannot pass over what is still in the cache.
            let older = std::mem::take(&mut self.cached);
            for old in older {
                self.settle(&old);
            }
            self.settle(&extent);
        } else if fua {
            // What is older in the cache must not overwrite it any more.
            let older = std::mem::take(&mut self.cached);
            self.cached = older.into_iter().flat_map(|old| old.minus(&extent)).collect();
            self.settle(&extent);
        } else if extent.length_bytes > 0 {
            self.acknowledged += 1;
            extent.sequence = self.acknowledged;
            self.cached.push(extent);
        }
    }

    /// A change is on the medium.
    fn settle(&mut self, extent: &Extent) {
        extent.apply(&mut self.medium);
        if let Some(zones) = &mut self.zones {
            zones.medium.follow(&zones.zoning, extent);
        }
    }

    fn do_flush(&mut self, acknowledged: u64, fault: Option<Fault>) -> Answer {
        let covered = self.cached.partition_point(|extent| extent.sequence <= acknowledged);
        match fault {
            Some(Fault::Ignored) => return Ok(Vec::new()),
            Some(Fault::Failed { salt }) => {
                self.drop_some(covered, salt);
                return Err(DiskError::Failed);
            }
            _ => {}
        }
        let later = self.cached.split_off(covered);
        for extent in std::mem::replace(&mut self.cached, later) {
            self.settle(&extent);
        }
        Ok(Vec::new())
    }

    /// A failed flush: some of what it covered is on the medium, some still in the cache, and some
    /// is dropped for good although it had been acknowledged. A second flush does not help.
    fn drop_some(&mut self, covered: usize, salt: u64) {
        let mut later = self.cached.split_off(covered);
        let covered = std::mem::take(&mut self.cached);
        let mut dropped = Vec::new();
        let mut is_zone_dropped = false;
        for (index, extent) in covered.into_iter().enumerate() {
            let is_sequential = self.is_sequential(&extent);
            match (coin(salt, 2 * index), coin(salt, 2 * index + 1)) {
                (true, true) if !(is_sequential && is_zone_dropped) => self.settle(&extent),
                (true, false) if !is_sequential => self.cached.push(extent),
                _ => {
                    is_zone_dropped |= is_sequential;
                    dropped.push(extent);
                }
            }
        }
        if is_zone_dropped {
            // Nothing stays behind a gap.
            let (gone, stays) = later.into_iter().partition(|extent| self.is_sequential(extent));
            later = stays;
            dropped.extend::<Vec<Extent>>(gone);
        }
        self.cached.extend(later);
        for extent in dropped {
            self.view.copy_from(&self.medium, extent.offset, extent.length_bytes);
        }
        self.cached.iter().for_each(|extent| extent.apply(&mut self.view));
        if let Some(zones) = &mut self.zones {
            zones.view = zones.medium.clone();
            self.cached.iter().for_each(|extent| zones.view.follow(&zones.zoning, extent));
        }
    }

    /// The write goes elsewhere: over a block that is in use, where it does most harm.
    fn misdirect(&self, extent: Extent, salt: u64) -> Extent {
        let used = self.view.occupied_blocks().max(1) as u64;
        let skip = usize::try_from(salt % used).expect("below a number of blocks in memory");
        let victim = self.view.occupied_block(skip).unwrap_or(0);
        let offset = victim.min(self.size_bytes - extent.length_bytes) / BLOCK_BYTES * BLOCK_BYTES;
        Extent { offset, ..extent }
    }

    fn unflushed_extents(&self) -> Vec<(Extent, bool)> {
        let cached = self.cached.iter().map(|extent| (extent.clone(), false));
        let under_way = self.in_flight.values().filter(|flight| flight.refusal.is_none());
        let under_way = under_way.filter_map(|flight| Some((Extent::of(&flight.command)?, true)));
        cached.chain(under_way).collect()
    }
}
