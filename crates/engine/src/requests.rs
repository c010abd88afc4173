//! Requests in flight, by the driver's slot, and how they are cut into units.
//!
//! ```text
//! offset 700 KiB, length 2 MiB, unit 1 MiB
//!
//!         |0           |1M           |2M           |3M
//!                 [------------ request ----------]
//! units:          [ a  ][     b      ][    c      ]
//! ```
//!
//! A request of at most one unit's size is never cut. Of larger ones the cuts fall on multiples of
//! the unit size, so that the backend sees aligned pieces wherever the client began. At most one
//! unit of a request waits in the scheduler; the next one is cut when that one is dispatched. A
//! `WRITE_ZEROES` of 4 TiB is thus one entry here, however many units it will have, and stands in
//! the queue as one small request after another.
//!
//! Of a request whose bytes lie in several places, each piece ([`Placement`]) is cut like a request
//! of its own. A flush is one unit for each server that holds something.

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use crate::placement::{Piece, Placed, Placement};
use crate::{Refused, Request};

/// Units of one TRIM, `WRITE_ZEROES` or CACHE that may be with the backend at once. Such a request
/// carries no payload that would bound it, and where nothing is delayed it would otherwise be cut
/// in full the moment it arrives.
pub(crate) const EFFECT_UNITS_IN_SERVICE: u32 = 32;

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestEntry {
    /// As it arrived.
    pub(crate) request: Request,
    /// Who pays for its units: whoever asks, unless somebody waits for it.
    pub(crate) payer: TenantId,
    /// When it arrived.
    pub(crate) arrived: Nanos,
    /// Bytes of it that have become units.
    pub(crate) cut_bytes: u64,
    /// Servers to which a unit of it went, if it is a flush.
    flushed: usize,
    /// The unit that waits in the scheduler.
    pub(crate) queued_unit: Option<u32>,
    /// Units with the backend.
    pub(crate) in_service: u32,
    /// Whether it waits until no late write may reach its next piece any more.
    pub(crate) waits_for_late: bool,
    /// How it stands.
    pub(crate) status: Status,
}

/// How a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The slot is not in use.
    Free,
    /// Units are still being cut.
    Cutting,
    /// Every unit has been cut.
    Cut,
    /// A unit failed; no more will be cut.
    Failed,
    /// The client is gone; no more will be cut.
    Abandoned,
}

/// What comes next of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Nothing now: all is cut, or as much is under way as may be.
    Nothing,
    /// A unit, which goes there.
    Unit(Piece),
    /// So many bytes from here on, counted from the request's begin, that nobody holds.
    Hole { at: u64, length: u64 },
    /// The next piece has to wait.
    Wait,
    /// The next piece has to wait until no late write may reach it any more.
    Late,
    /// The next piece is not served.
    Refused(Refused),
}

/// Every request of a domain.
#[derive(Debug, Default)]
pub(crate) struct RequestTable {
    entries: Vec<RequestEntry>,
}

impl RequestEntry {
    fn free(request: Request) -> Self {
        Self {
            request,
            payer: request.tenant,
            arrived: Nanos::ZERO,
            cut_bytes: 0,
            flushed: 0,
            queued_unit: None,
            in_service: 0,
            waits_for_late: false,
            status: Status::Free,
        }
    }

    /// Cuts what comes next. `unit_bytes` tells the largest unit of a server.
    pub(crate) fn cut(
        &mut self,
        now: Nanos,
        placement: &impl Placement,
        unit_bytes: impl FnOnce(ServerId) -> u64,
    ) -> Cut {
        if self.status != Status::Cutting || self.queued_unit.is_some() || self.is_full() {
            return Cut::Nothing;
        }
        if self.request.kind == Kind::Flush {
            return self.cut_flush(placement);
        }
        let left_bytes = self.request.length - self.cut_bytes;
        let piece = match placement.place(now, &self.request, self.cut_bytes) {
            Placed::Piece(piece) => piece,
            Placed::Hole(length) => {
                let at = self.cut_bytes;
                self.advance(length, left_bytes);
                return Cut::Hole { at, length };
            }
            Placed::Wait => return Cut::Wait,
            Placed::Late => return Cut::Late,
            Placed::Refused(why) => return Cut::Refused(why),
        };
        let unit_bytes = unit_bytes(piece.server);
        let fits = piece.length <= unit_bytes;
        let room_bytes = if fits { unit_bytes } else { unit_bytes - piece.offset % unit_bytes };
        let length = piece.length.min(room_bytes);
        self.advance(length, left_bytes);
        Cut::Unit(Piece { length, ..piece })
    }

    fn advance(&mut self, length: u64, left_bytes: u64) {
        if length == left_bytes {
            self.status = Status::Cut;
        }
        self.cut_bytes += length;
    }

    /// Takes back the cut of the unit that waits in the scheduler and begins here.
    pub(crate) fn cut_again(&mut self, at: u64) {
        self.queued_unit = None;
        self.cut_bytes = at;
        if self.status == Status::Cut {
            self.status = Status::Cutting;
        }
    }

    fn cut_flush(&mut self, placement: &impl Placement) -> Cut {
        let Some(server) = placement.flushed(self.flushed) else { return Cut::Nothing };
        self.flushed += 1;
        if placement.flushed(self.flushed).is_none() {
            self.status = Status::Cut;
        }
        Cut::Unit(Piece { server, offset: 0, length: 0 })
    }

    /// Whether as many units are with the backend as may be.
    fn is_full(&self) -> bool {
        let effect = matches!(self.request.kind, Kind::Trim | Kind::WriteZeroes | Kind::Cache);
        effect && self.in_service >= EFFECT_UNITS_IN_SERVICE
    }

    /// Whether nothing of it is left to do.
    pub(crate) fn is_over(&self) -> bool {
        self.in_service == 0 && self.queued_unit.is_none() && self.status != Status::Cutting
    }
}

impl RequestTable {
    /// Takes in a request.
    pub(crate) fn insert(&mut self, now: Nanos, request: Request) {
        let slot = request.slot as usize;
        if slot >= self.entries.len() {
            self.entries.resize(slot + 1, RequestEntry::free(request));
        }
        let entry = &mut self.entries[slot];
        assert!(entry.status == Status::Free, "slot {slot} is in use");
        *entry =
            RequestEntry { arrived: now, status: Status::Cutting, ..RequestEntry::free(request) };
    }

    /// The live request of this slot.
    pub(crate) fn entry_mut(&mut self, slot: u32) -> &mut RequestEntry {
        let entry = &mut self.entries[slot as usize];
        debug_assert!(entry.status != Status::Free, "slot {slot} is free");
        entry
    }

    /// The live request of this slot.
    pub(crate) fn entry(&self, slot: u32) -> &RequestEntry {
        &self.entries[slot as usize]
    }

    /// Forgets a request that is over.
    pub(crate) fn remove(&mut self, slot: u32) -> RequestEntry {
        let entry = &mut self.entries[slot as usize];
        debug_assert!(entry.is_over(), "slot {slot} still has units");
        let gone = *entry;
        entry.status = Status::Free;
        gone
    }

    /// Whether this slot holds a request.
    pub(crate) fn is_live(&self, slot: u32) -> bool {
        self.entries.get(slot as usize).is_some_and(|entry| entry.status != Status::Free)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::id::{ServerId, TenantId};

    use super::*;
    use crate::Target;
    use crate::placement::Direct;

    fn pieces(kind: Kind, offset: u64, length: u64, unit_bytes: u64) -> Vec<(u64, u64)> {
        let target = Target::Server(ServerId(0));
        let (tenant, keeps_room) = (TenantId(0), false);
        let disk = 0;
        let request = Request { slot: 0, tenant, target, disk, kind, offset, length, keeps_room };
        let mut table = RequestTable::default();
        table.insert(Nanos::ZERO, request);
        let cut = || match table.entry_mut(0).cut(Nanos::ZERO, &Direct(ServerId(0)), |_| unit_bytes)
        {
            Cut::Unit(piece) => Some(piece),
            _ => None,
        };
        std::iter::from_fn(cut).map(|piece| (piece.offset, piece.length)).collect()
    }

    #[test]
    fn cuts_fall_on_multiples_of_the_unit() {
        let cut = pieces(Kind::Read, 700, 2048, 1024);
        assert_eq!(cut, [(700, 324), (1024, 1024), (2048, 700)]);
    }

    #[test]
    fn a_request_that_fits_is_one_unit_and_so_is_an_empty_one() {
        assert_eq!(pieces(Kind::Write, 1000, 1024, 1024), [(1000, 1024)]);
        assert_eq!(pieces(Kind::Flush, 0, 0, 1024), [(0, 0)]);
        assert_eq!(pieces(Kind::Trim, 5, 0, 1024), [(5, 0)]);
    }

    #[test]
    fn the_end_of_the_address_space_is_cut_without_overflow() {
        let cut = pieces(Kind::Read, u64::MAX - 10, 10, 4096);
        assert_eq!(cut, [(u64::MAX - 10, 10)]);
    }
}
