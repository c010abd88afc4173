//! The world's tables: requests, flights and calls, each in a slab, so that nothing is allocated
//! once as much was under way as ever will be.
//!
//! ```text
//! flight    what a client waits for        one request, or one for each target when striped
//! request   what the gate sees; its slot is the engine's
//! call      what a device sees: one unit of a request; its handle is the device's tag
//! ```

use evenkeel_core::id::TenantId;
use evenkeel_core::ticket::{Cost, Kind};
use evenkeel_core::time::Nanos;
use evenkeel_engine::Unit;

use crate::checkers::Custody;
use crate::result::RowId;

/// Entries by a small integer that is used again once free.
#[derive(Debug)]
pub(super) struct Slab<T> {
    entries: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Puts an entry in; returns its handle.
    pub(super) fn insert(&mut self, entry: T) -> u32 {
        if let Some(handle) = self.free.pop() {
            self.entries[handle as usize] = entry;
            return handle;
        }
        self.entries.push(entry);
        u32::try_from(self.entries.len() - 1).expect("the scenario bounds what is under way")
    }

    /// Lets a handle be used again. The entry stays until then.
    pub(super) fn release(&mut self, handle: u32) {
        self.free.push(handle);
    }

    /// Whether no entry is in use.
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.entries.len()
    }

    /// Every entry, in use or not, by its handle.
    pub(super) fn entries(&self) -> &[T] {
        &self.entries
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    fn index(&self, handle: u32) -> &T {
        &self.entries[handle as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, handle: u32) -> &mut T {
        &mut self.entries[handle as usize]
    }
}

/// On whose behalf a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A client's or replay's, as this flight or a part of it.
    Flight(u32),
    /// The engine's, to move an extent of a tiered volume.
    Move,
}

/// Who sent a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// A client, by its index.
    Client(u32),
    /// A replay, by its index.
    Replay(u32),
}

/// What holds the bytes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// A server, by its index among all.
    Server(u32),
    /// The tiered volume of the domain: each part is wherever the engine says.
    Volume,
}

/// Where requests can go: an export of the policy, or a whole backend, used by one group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// Index of the scheduling domain.
    pub(super) domain: u32,
    pub(super) home: Home,
    /// Whose requests they are.
    pub(super) tenant: TenantId,
    /// Where they are booked.
    pub(super) row: RowId,
    /// First byte of the export on the device or volume.
    pub(super) base_bytes: u64,
    /// Its size.
    pub(super) size_bytes: u64,
}

/// A request, from a client's sending to its hearing.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "none of them follows from the others")]
pub(super) struct Request {
    pub(super) custody: Custody,
    pub(super) origin: Origin,
    /// Index of the target that it was sent to.
    pub(super) target: u32,
    pub(super) domain: u32,
    pub(super) home: Home,
    pub(super) tenant: TenantId,
    pub(super) row: RowId,
    pub(super) kind: Kind,
    /// On the device or volume.
    pub(super) offset: u64,
    pub(super) length: u64,
    /// Numbers requests in the order in which they were first sent.
    pub(super) sequence: u64,
    pub(super) reached_at: Nanos,
    /// When its unit that waits for the backend began to: as it came, or as the one before went.
    pub(super) waits_since: Nanos,
    /// Writes to its volume that had been answered when it came to the gate.
    pub(super) answered_writes: u64,
    /// Whether it counts among its tenant's backlog until its last unit is dispatched.
    pub(super) is_backlog: bool,
    /// Whether it arrived in the measured time.
    pub(super) is_measured: bool,
    /// Whether it counts among what its tenant has waiting at the gate.
    pub(super) is_waiting: bool,
    pub(super) ok: bool,
}

impl Request {
    /// Whether a unit is a part of it, on a server of so many bytes that may hold such a part.
    pub(super) fn has_part(&self, server: u32, unit: &Unit, server_bytes: u64) -> bool {
        let ends_within = |length: u64, start: u64| {
            start.checked_add(unit.length).is_some_and(|end| end <= length)
        };
        let is_there = match self.home {
            Home::Server(home) => {
                home == server && self.offset.checked_add(unit.at) == Some(unit.offset)
            }
            Home::Volume => ends_within(server_bytes, unit.offset),
        };
        is_there && ends_within(self.length, unit.at)
    }
}

/// What a client waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) sender: Sender,
    pub(super) kind: Kind,
    pub(super) row: RowId,
    /// Over all its targets.
    pub(super) bytes: u64,
    pub(super) due: Nanos,
    pub(super) parts_left: u32,
    pub(super) ok: bool,
}

/// One unit with a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) place: Place,
    pub(super) server: u32,
    /// The engine's handle.
    pub(super) unit: u32,
    pub(super) slot: u32,
    /// The start of the gate that it belongs to.
    pub(super) epoch: u32,
    pub(super) tenant: TenantId,
    pub(super) kind: Kind,
    pub(super) offset: u64,
    /// Where in its request it begins.
    pub(super) at: u64,
    pub(super) length: u64,
    /// The number of a write to a tiered volume.
    pub(super) write: u64,
    pub(super) cost: Cost,
    pub(super) dispatched_at: Nanos,
    pub(super) ok: bool,
}

/// Where a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The handle is not in use.
    Nowhere,
    /// On the link to the device.
    OnTheWayThere,
    /// With the device.
    Device,
    /// On the link back.
    OnTheWayBack,
}
