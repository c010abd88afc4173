//! One drive of the store, with what the store knows of it: whether it has all that was
//! acknowledged, and whether it holds writes that no flush has made durable yet.

use std::cell::Cell;

use crate::buffer::Buffer;
use crate::drive::{Drive, DriveError, Durability};
use crate::format::layout::Layout;
use crate::format::superblock::DriveState;
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
    pub(crate) traffic: Traffic,
    /// Reads and writes that it has not answered.
    under_way: Cell<usize>,
    writes_done: Cell<u64>,
    /// How many of `writes_done` are durable.
    writes_flushed: Cell<u64>,
    flushing: Lock,
}

impl<D: Drive> Member<D> {
    pub(crate) fn new(index: DriveIndex, layout: Layout, drive: Option<D>) -> Self {
        Self {
            index,
            layout,
            state: Cell::new(DriveState::InSync),
            failure: Cell::new(None),
            drive,
            traffic: Traffic::default(),
            under_way: Cell::new(0),
            writes_done: Cell::new(0),
            writes_flushed: Cell::new(0),
            flushing: Lock::default(),
        }
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

    pub(crate) async fn read(&self, offset: u64, length: usize) -> Result<Buffer, DriveError> {
        self.traffic.note_read(length);
        match &self.drive {
            Some(drive) => {
                let _busy = Busy::new(&self.under_way);
                drive.read(offset, length).await
            }
            None => Err(DriveError::Gone),
        }
    }

    /// Reads and writes that it has not answered.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.get()
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
        self.traffic.note_write(data.iter().map(|buffer| buffer.len()).sum());
        let busy = Busy::new(&self.under_way);
        let outcome = drive.write(offset, data, Durability::Volatile).await;
        drop(busy);
        // A failed write may still have changed something; it counts for the next flush as well.
        self.writes_done.set(self.writes_done.get() + 1);
        self.note(outcome)
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
        }
        outcome
    }

    /// Tells the drive that a slot is not needed. Whether it can do something with that is its own
    /// affair, and so is a failure.
    pub(crate) async fn discard_slot(&self, slot: Slot) {
        if let Some(drive) = &self.drive {
            let length = u64::from(self.layout.segment_blocks) * BLOCK_BYTES_U64;
            let _ = drive.discard(self.layout.block_offset_bytes(slot.slot, 0), length).await;
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
