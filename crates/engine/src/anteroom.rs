//! Writes that wait for room in the log of a store, and their places at its device.
//!
//! A store that is nearly full takes writes only as fast as its cleaner makes room. With the
//! backend, such writes would hold every place of the depth, and reads would wait for the cleaner
//! too. So while room is short, a write that comes out of the scheduler gives its place back at
//! once and goes through a queue of its own, of the same depth and the same shares:
//!
//! ```text
//!                                +--- reads, upkeep ---------------> backend
//! arrivals -> scheduler (depth) -+
//!                                +--- writes -> anteroom (depth) --> backend, waits for room
//! ```
//!
//! Writes that were with the backend when room became short give their places back likewise, one
//! depth of them at a time: so at most three depths of requests are with the store.
//!
//! The scheduler has charged a write before it comes here, and kept its limits; what is left to
//! decide is whose write has the next room, by shares. Floors and deadlines say nothing of room.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::id::TenantId;
use evenkeel_core::sched::depth::DepthPolicy;
use evenkeel_core::sched::sfq::{Sfq, SfqOptions};
use evenkeel_core::sched::{Next, Scheduler, Share};
use evenkeel_core::ticket::{Kind, Ticket};
use evenkeel_core::time::{Nanos, Span};

/// Writes that may be with a server whose depth is automatic while room is short.
const PLACES: u32 = 32;

/// Whether writes wait for room at a server, and whose do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Room is short.
    pub is_short: bool,
    /// Who makes the room: its writes are never kept back.
    pub maker: Option<TenantId>,
}

/// The queue of those who wait for room. See the [module](self).
#[derive(Debug)]
pub(crate) struct Anteroom {
    queue: Sfq,
    /// What is with the backend from this queue.
    sent: BTreeSet<u32>,
    /// Places that can be given back at a time.
    places: usize,
    /// Writes with the backend that have given their places back.
    released: BTreeSet<u32>,
    /// Writes with the backend that hold a place each.
    holders: BTreeMap<u32, Ticket>,
    /// Nothing before the first word of the server's room.
    room: Option<Room>,
}

impl Anteroom {
    /// For a server of this depth, in requests of this size. It knows no tenant yet.
    pub(crate) fn new(depth: DepthPolicy, unit_bytes: u64) -> Self {
        // How fast writes get room is no matter of how many wait for it: there is no knee to find.
        let depth = match depth {
            DepthPolicy::Automatic => DepthPolicy::Requests(PLACES),
            _ => depth,
        };
        Self {
            queue: Sfq::new(SfqOptions { depth, hold: Span::ZERO }),
            sent: BTreeSet::new(),
            places: depth.units_max(unit_bytes) as usize,
            released: BTreeSet::new(),
            holders: BTreeMap::new(),
            room: None,
        }
    }

    pub(crate) fn configure(&mut self, now: Nanos, tenant: TenantId, share: Share) {
        self.queue.configure(now, tenant, share);
    }

    /// What is known of the room from now on.
    pub(crate) fn set_room(&mut self, room: Room) {
        self.room = Some(room);
    }

    /// A ticket has come out of the scheduler. If it is to wait here, it is taken in, and its place
    /// is to be given back; else it goes to the backend.
    pub(crate) fn takes_in(&mut self, now: Nanos, ticket: Ticket) -> bool {
        let Some(room) = self.room.filter(|room| takes_room(*room, &ticket)) else { return false };
        if room.is_short {
            self.queue.enqueue(now, ticket);
        } else {
            self.holders.insert(ticket.slot, ticket);
        }
        room.is_short
    }

    /// The next to go to the backend from here.
    pub(crate) fn poll(&mut self, now: Nanos) -> Option<Ticket> {
        if self.queue.queued() == 0 {
            return None;
        }
        let Next::Dispatch(ticket) = self.queue.poll(now) else { return None };
        self.sent.insert(ticket.slot);
        Some(ticket)
    }

    /// The next write that is with the backend and gives its place back.
    pub(crate) fn release(&mut self) -> Option<Ticket> {
        let is_short = self.room.is_some_and(|room| room.is_short);
        if !is_short || self.released.len() >= self.places {
            return None;
        }
        let (slot, ticket) = self.holders.pop_first()?;
        self.released.insert(slot);
        Some(ticket)
    }

    /// The backend has answered. Whether the ticket had no place to give back any more.
    pub(crate) fn answered(&mut self, now: Nanos, ticket: Ticket) -> bool {
        if self.sent.remove(&ticket.slot) {
            self.queue.complete(now, ticket);
            return true;
        }
        self.holders.remove(&ticket.slot);
        self.released.remove(&ticket.slot)
    }

    /// Takes a ticket back that waits here.
    pub(crate) fn withdraw(&mut self, now: Nanos, ticket: Ticket) -> bool {
        self.queue.queued() > 0 && self.queue.withdraw(now, ticket)
    }

    pub(crate) fn drain(&mut self) -> Vec<Ticket> {
        self.queue.drain()
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.queued()
    }
}

/// Whether it is a write like those that wait for room.
fn takes_room(room: Room, ticket: &Ticket) -> bool {
    let takes = matches!(ticket.kind, Kind::Write | Kind::WriteZeroes | Kind::Trim);
    takes && room.maker != Some(ticket.tenant)
}
