//! Where the bytes of a request lie as things stand: a piece of a server, a hole, a reason why not,
//! or that something has to come to its end first. Nothing changes here.

use evenkeel_core::id::ServerId;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use super::super::freeing;
use super::super::place::Place;
use super::Serving;
use super::granting::Stage;
use crate::placement::{Piece, Placed, Placement};
use crate::{Refused, Request};

impl Placement for Serving {
    fn place(&self, now: Nanos, request: &Request, at: u64) -> Placed {
        let (kind, offset, length) = (request.kind, request.offset + at, request.length - at);
        if self.is_claimed() {
            return Placed::Refused(Refused::Claimed);
        }
        if !self.may_begin(now) {
            let is_given_up = self.possession.is_given_up(now) && !self.is_pausing;
            return if is_given_up { Placed::Refused(Refused::Lapsed) } else { Placed::Wait };
        }
        if offset + length > u64::from(self.end) << self.object_bits {
            return Placed::Refused(Refused::Beyond);
        }
        let object = self.object_of(offset);
        let into = offset - (u64::from(object) << self.object_bits);
        if let Some(freeing) = self.freeings.get(&object) {
            match (freeing.stage, kind) {
                (freeing::Stage::InDoubt, _) => return Placed::Refused(Refused::InDoubt),
                (_, Kind::Read | Kind::Cache) => {}
                _ => return Placed::Wait,
            }
        }
        let place = self.volume.places.get(object);
        if let Some((index, slot)) = place.get() {
            if self.mover.is_in_doubt() && self.is_held(kind, object) {
                return Placed::Refused(Refused::InDoubt);
            }
            let gives_up = self.gives_up(now, request, at)
                && !self.is_stale[index]
                && self.mover.may_give_up(object);
            if gives_up || self.is_held(kind, object) {
                return Placed::Wait;
            }
            return self.piece_at((index, slot), into, length);
        }
        if let Some(index) = self.volume.away.filter(|_| place == Place::AWAY) {
            return Placed::Refused(self.why_absent(index));
        }
        if self.volume.lost.contains(&object) {
            let position = self.volume.choices.choice(u64::from(object)).unwrap_or(0);
            let index = self.volume.candidate(object, position).unwrap_or(0);
            return Placed::Refused(Refused::Lost(self.plan.servers[index]));
        }
        if kind != Kind::Write || length == 0 {
            return Placed::Hole(self.hole_from(object, into, length));
        }
        match self.grants.get(&object).map(|grant| grant.stage) {
            Some(Stage::InDoubt) => Placed::Refused(Refused::InDoubt),
            _ => Placed::Wait,
        }
    }

    fn flushed(&self, index: usize) -> Option<ServerId> {
        // Nothing was written to a server that is away.
        let there = (0..self.scribes.len()).filter(|server| self.volume.away != Some(*server));
        there.skip(index).map(|server| self.plan.servers[server]).next()
    }
}

impl Serving {
    /// Which object a byte of the volume belongs to.
    pub(in crate::spread) fn object_of(&self, offset: u64) -> u32 {
        // An empty request may stand at the very end.
        let last = self.volume.layout.objects - 1;
        u32::try_from(offset >> self.object_bits).map_or(last, |object| object.min(last))
    }

    /// Why the objects of the server that is away are not served.
    pub(super) fn why_absent(&self, index: usize) -> Refused {
        let server = self.plan.servers[index];
        if self.is_stale[index] { Refused::Stale(server) } else { Refused::Absent(server) }
    }

    /// What lies at a place, or why it is not served.
    fn piece_at(&self, place: (usize, u32), into: u64, length: u64) -> Placed {
        let (index, slot) = place;
        let server = self.plan.servers[index];
        if self.is_stale[index] {
            return Placed::Refused(Refused::Stale(server));
        }
        let left = self.volume.layout.object_bytes - into;
        let offset = self.volume.layout.slot_offset(index, slot) + into;
        Placed::Piece(Piece { server, offset, length: length.min(left) })
    }

    /// How far nothing was written, from an object on; up to the next one that is being given up,
    /// which is not gone for good before that is noted.
    fn hole_from(&self, first: u32, into: u64, length: u64) -> u64 {
        let unwritten = |object: &u32| {
            self.volume.places.get(*object) == Place::NOWHERE
                && !self.volume.lost.contains(object)
                && (*object == first || !self.freeings.contains_key(object))
        };
        let objects = (first..self.volume.layout.objects).take_while(unwritten);
        let most = (into + length).div_ceil(self.volume.layout.object_bytes);
        let count = objects.take(usize::try_from(most).expect("objects fit memory")).count();
        length.min(count as u64 * self.volume.layout.object_bytes - into)
    }
}
