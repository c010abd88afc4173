//! One drive of the store, with what the store knows of it: whether it has all that was
//! acknowledged, and whether it holds writes that no flush has made durable yet.

use std::cell::Cell;

use super::pointers::Pointers;
use crate::buffer::{Buffer, BufferMut};
use crate::drive::zone::ZoneState;
use crate::drive::{Drive, DriveError, Durability};
use crate::format::layout::Layout;
use crate::format::superblock::DriveState;
use crate::rules::Rules;
use crate::sync::Lock;
use crate::telemetry::Traffic;
use crate::units::{BLOCK_BYTES_U64, DriveIndex, Slot};

/// A drive of the store. See the [module](self).
#[derive(Debug)]
pub(crate) struct Member<D> {
    pub(crate) index: DriveIndex,
    pub(crate) layout: Layout,
    pub(crate) state: Cell<DriveState>,
    /// How it failed a write or a flush since the store was opened. It is not asked again.
    failure: Cell<Option<DriveError>>,
    /// `None` if the drive is missing.
    drive: Option<D>,
    /// Its write pointers, if it has zones.
    pointers: Option<Pointers>,
    pub(crate) traffic: Traffic,
    /// Reads and writes that it has not answered.
    under_way: Cell<usize>,
    /// Where the last command that was sent to it ends: a disk's head will be near.
    last_end_bytes: Cell<u64>,
    writes_done: Cell<u64>,
    /// How many of `writes_done` are durable.
    writes_flushed: Cell<u64>,
    flushing: Lock,
}

impl<D: Drive> Member<D> {
    /// A drive that is missing.
    pub(crate) fn absent(index: DriveIndex, layout: Layout) -> Self {
        Self {
            index,
            layout,
            state: Cell::new(DriveState::InSync),
            failure: Cell::new(None),
            drive: None,
            pointers: None,
            traffic: Traffic::default(),
            under_way: Cell::new(0),
            last_end_bytes: Cell::new(0),
            writes_done: Cell::new(0),
            writes_flushed: Cell::new(0),
            flushing: Lock::default(),
        }
    }

    /// A drive that is here. Where it has zones, it is asked how far they are written.
    pub(crate) async fn open(
        index: DriveIndex,
        layout: Layout,
        drive: D,
        rules: Rules,
    ) -> Result<Self, DriveError> {
        let pointers = Pointers::of(&drive, rules).await?;
        Ok(Self { drive: Some(drive), pointers, ..Self::absent(index, layout) })
    }

    /// Whether it takes part: records are written to it and count on it.
    pub(crate) fn is_active(&self) -> bool {
        self.drive.is_some() && self.state.get() == DriveState::InSync
    }

    pub(crate) fn is_present(&self) -> bool {
        self.drive.is_some()
    }

    pub(crate) fn drive(&self) -> Option<&D> {
        self.drive.as_ref()
    }

    /// Bytes of the drive. Zeroes stand for what is not written of a zone.
    pub(crate) async fn read(&self, offset: u64, length: usize) -> Result<Buffer, DriveError> {
        self.traffic.note_read(length);
        let Some(drive) = &self.drive else { return Err(DriveError::Gone) };
        let _busy = Busy::new(&self.under_way);
        self.last_end_bytes.set(offset + length as u64);
        let readable = self.pointers.as_ref().map_or(u64::MAX, |it| it.readable_bytes(offset));
        let readable = usize::try_from(readable).unwrap_or(usize::MAX).min(length);
        if readable == length {
            return drive.read(offset, length).await;
        }
        let mut whole = BufferMut::zeroed(length);
        if readable > 0 {
            whole[..readable].copy_from_slice(&drive.read(offset, readable).await?);
        }
        Ok(whole.freeze())
    }

    /// Whether the next command waits until it turns again.
    pub(crate) fn is_asleep(&self) -> bool {
        self.drive.as_ref().is_some_and(Drive::is_asleep)
    }

    /// Reads and writes that it has not answered.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.get()
    }

    /// How far a slot begins from where the last command ends.
    pub(crate) fn distance_bytes(&self, slot: u32) -> u64 {
        self.layout.block_offset_bytes(slot, 0).abs_diff(self.last_end_bytes.get())
    }

    /// Blocks of a slot.
    pub(crate) async fn read_slot(
        &self,
        slot: Slot,
        block: u64,
        length: usize,
    ) -> Result<Buffer, DriveError> {
        self.read(self.layout.block_offset_bytes(slot.slot, block), length).await
    }

    pub(crate) async fn write(&self, offset: u64, data: Vec<Buffer>) -> Result<(), DriveError> {
        let Some(drive) = &self.drive else { return Err(DriveError::Gone) };
        let length = data.iter().map(|buffer| buffer.len()).sum();
        self.traffic.note_write(length);
        let busy = Busy::new(&self.under_way);
        self.last_end_bytes.set(offset + length as u64);
        let outcome = self.write_in_turn(drive, offset, data, length as u64).await;
        drop(busy);
        // A failed write may still have changed something; it counts for the next flush as well.
        self.writes_done.set(self.writes_done.get() + 1);
        self.note(outcome)
    }

    async fn write_in_turn(
        &self,
        drive: &D,
        offset: u64,
        data: Vec<Buffer>,
        length_bytes: u64,
    ) -> Result<(), DriveError> {
        let turn = match &self.pointers {
            Some(pointers) => pointers.turn(offset, || self.failure.get()).await?,
            None => None,
        };
        if let Some(turn) = &turn {
            turn.prepare(drive).await?;
        }
        drive.write(offset, data, Durability::Volatile).await?;
        if let Some(turn) = turn {
            turn.wrote(length_bytes);
        }
        Ok(())
    }

    /// Makes durable all that was written before. Flushes that are wanted while one is under way
    /// share the next one, or its failure: a second try that succeeds would prove nothing.
    pub(crate) async fn flush(&self) -> Result<(), DriveError> {
        let Some(drive) = &self.drive else { return Err(DriveError::Gone) };
        let needed = self.writes_done.get();
        if self.writes_flushed.get() >= needed {
            return Ok(());
        }
        let _held = self.flushing.acquire().await;
        if self.writes_flushed.get() >= needed {
            return Ok(());
        }
        let covered = self.writes_done.get();
        if let Some(error) = self.failure.get() {
            return Err(error);
        }
        self.note(drive.flush().await)?;
        self.writes_flushed.set(covered);
        Ok(())
    }

    /// Whether it failed since the store was opened.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    /// How it failed since the store was opened.
    pub(crate) fn failure(&self) -> Option<DriveError> {
        self.failure.get()
    }

    fn note(&self, outcome: Result<(), DriveError>) -> Result<(), DriveError> {
        if let Err(error) = outcome {
            self.failure.set(Some(error));
            // Whoever waits for a pointer that will not move any more is to hear of it.
            self.pointers.iter().for_each(Pointers::look_again);
        }
        outcome
    }

    /// From which byte of a slot on it can still be written; anywhere if it is not in a zone.
    pub(crate) fn written_bytes(&self, slot: Slot) -> Option<u64> {
        match self.zone_state(slot)? {
            ZoneState::Sequential { written_bytes } => Some(written_bytes),
            _ => None,
        }
    }

    /// The state of a slot's zone, if the drive has zones.
    pub(crate) fn zone_state(&self, slot: Slot) -> Option<ZoneState> {
        let start = self.layout.block_offset_bytes(slot.slot, 0);
        self.pointers.as_ref()?.state(start)
    }

    /// Whether the drive has zones.
    pub(crate) fn has_zones(&self) -> bool {
        self.pointers.is_some()
    }

    /// Writes a part of a slot, from a byte of it on.
    pub(crate) async fn write_slot(
        &self,
        slot: Slot,
        at_bytes: u64,
        data: Buffer,
    ) -> Result<(), DriveError> {
        self.write(self.layout.block_offset_bytes(slot.slot, 0) + at_bytes, vec![data]).await
    }

    /// Nothing more is written to a slot in this use of it.
    pub(crate) async fn finish_slot(&self, slot: Slot) -> Result<(), DriveError> {
        let start = self.layout.block_offset_bytes(slot.slot, 0);
        match (&self.drive, &self.pointers) {
            (Some(drive), Some(pointers)) => self.note(pointers.finish(drive, start).await),
            _ => Ok(()),
        }
    }

    /// Nothing more is written to any zone that is written in part, whosever it was. If the drive
    /// cannot do it, it counts as failed: it would soon have too many of them.
    pub(crate) async fn finish_zones(&self) {
        if let (Some(drive), Some(pointers)) = (&self.drive, &self.pointers) {
            for start in pointers.open_zones() {
                let _ = self.note(pointers.finish(drive, start).await);
            }
        }
    }

    /// Tells the drive that a slot is not needed. Whether it can do something with that is its own
    /// affair, and so is a failure.
    pub(crate) async fn discard_slot(&self, slot: Slot) {
        if let Some(drive) = &self.drive {
            let start = self.layout.block_offset_bytes(slot.slot, 0);
            let length = u64::from(self.layout.segment_blocks) * BLOCK_BYTES_U64;
            match &self.pointers {
                Some(pointers) if pointers.written_bytes(start).is_some() => {
                    pointers.reset(drive, start).await;
                }
                _ => drop(drive.discard(start, length).await),
            }
        }
    }
}

/// A request under way, until dropped: somebody may lose interest before it is answered.
struct Busy<'a>(&'a Cell<usize>);

impl<'a> Busy<'a> {
    fn new(under_way: &'a Cell<usize>) -> Self {
        under_way.set(under_way.get() + 1);
        Self(under_way)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
