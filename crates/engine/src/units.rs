//! Units: the parts of requests that are queued or with a backend, in a slab.
//!
//! A unit's index is the handle that tickets and the driver carry. Freed entries are used again, so
//! in the steady state no memory is allocated.

use evenkeel_core::id::ServerId;
use evenkeel_core::ticket::Ticket;
use evenkeel_core::time::Nanos;

/// Where a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The entry is not in use.
    Free,
    /// In its server's scheduler.
    Queued,
    /// With the backend.
    InService,
}

/// One unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitEntry {
    /// What the scheduler sees; its `slot` is this entry's index.
    pub(crate) ticket: Ticket,
    /// The request that it is part of.
    pub(crate) request: u32,
    /// Its server.
    pub(crate) server: ServerId,
    /// First byte, in the server's own addressing.
    pub(crate) offset: u64,
    /// Where in the request it begins, in bytes.
    pub(crate) at: u64,
    /// When it entered the scheduler.
    pub(crate) queued_at: Nanos,
    /// When it went to the backend.
    pub(crate) dispatched_at: Nanos,
    /// The generation of the scheduler that dispatched it.
    pub(crate) generation: u32,
    /// Where it is.
    pub(crate) stage: Stage,
}

/// Every unit of a domain.
#[derive(Debug, Default)]
pub(crate) struct UnitTable {
    entries: Vec<UnitEntry>,
    free: Vec<u32>,
}

impl UnitTable {
    /// Takes in a unit that is about to be queued; writes its handle into the ticket and returns
    /// it.
    pub(crate) fn insert(&mut self, mut entry: UnitEntry) -> Ticket {
        let handle = self.free.pop().unwrap_or_else(|| {
            let handle = u32::try_from(self.entries.len()).expect("fewer than 2^32 live units");
            self.entries.push(entry);
            handle
        });
        entry.ticket.slot = handle;
        self.entries[handle as usize] = entry;
        entry.ticket
    }

    /// Forgets a unit.
    pub(crate) fn remove(&mut self, handle: u32) -> UnitEntry {
        let entry = &mut self.entries[handle as usize];
        assert!(entry.stage != Stage::Free, "unit {handle} left twice");
        let gone = *entry;
        entry.stage = Stage::Free;
        self.free.push(handle);
        gone
    }

    /// The units that are queued or with a backend.
    pub(crate) fn live(&self) -> impl Iterator<Item = &UnitEntry> {
        self.entries.iter().filter(|unit| unit.stage != Stage::Free)
    }

    /// The unit of this handle.
    pub(crate) fn entry(&self, handle: u32) -> &UnitEntry {
        &self.entries[handle as usize]
    }

    /// The unit of this handle.
    pub(crate) fn entry_mut(&mut self, handle: u32) -> &mut UnitEntry {
        &mut self.entries[handle as usize]
    }
}
