//! Objects that pass to other servers after some have joined or are to leave: one after the other,
//! on the account of the tenant `moves`, while clients go on.
//!
//! ```text
//! objects, in order:   0 1 2 3 4 5 | 6 7 8 9 ..
//!               by the new servers | by those before
//!                                  ^ the next one to pass
//! ```
//!
//! Most need nothing but to be passed: nobody wrote them, or their server is a candidate of theirs
//! among the new servers too, and another choice is noted. The others **move**:
//!
//! ```text
//! copied, again where clients write -> writes held, the rest copied -> flush, entry on the new
//! server, flush -> choice noted on the keepers -> in force, writes go on -> old entry cleared
//! ```
//!
//! - From the hold to the note both places are alike, so it does not matter which of them a cut
//!   leaves in force: the old one as long as the choice is not noted, since only a choice tells
//!   that an object has passed.
//! - A flush that failed at the new server may have lost what was copied: it is copied again.
//! - The old slot is cleared last, when nothing refers to it, so a choice never points to nothing.
//! - A copy that came to nothing leaves its slot alone if a late write may still come through, and
//!   its object is not given up until the volume is opened anew: its entry may be there.

mod copying;
mod ending;
mod passing;

use std::collections::BTreeSet;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::report::Stuck;
use crate::Request;
use crate::notes::Step;
use crate::notes::copying::{Copying, Run};

/// The longest that writes are held for the first attempt to move an object; twice as long for the
/// next one, and so on.
const HOLD_MAX: Span = Span::from_millis(500);
/// As often that is doubled at most.
const DOUBLINGS_MAX: u32 = 5;

/// What moves objects.
#[derive(Debug, Default)]
pub(super) struct Mover {
    phase: Phase,
    job: Option<Job>,
    /// The step under way, and the request that it has become.
    step: Option<Step>,
    step_slot: Option<u32>,
    /// Requests that wait for the job, oldest first.
    held: Vec<(u32, TenantId)>,
    /// Nothing begins before.
    wake_at: Option<Nanos>,
    stuck: Option<Stuck>,
    /// How often the next object was begun in vain.
    attempts: u32,
    /// Objects whose old entries are yet to be cleared.
    departing: BTreeSet<u32>,
    /// Objects of which an entry may be left somewhere that does not count.
    haunted: BTreeSet<u32>,
    /// Objects that have to move.
    to_move: u32,
    moved: u64,
    copied_bytes: u64,
    given_up: u64,
    failed: u64,
    began: Option<Nanos>,
    worked_until: Nanos,
    /// Whether objects are still to pass; pages before this one have none.
    is_passing: bool,
    page: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    /// Choose what to copy next.
    Copy,
    Read(Run),
    Write(Run),
    /// Wait for the writes under way.
    Drain,
    /// The new server is to enter the object.
    Entering,
    /// The keepers are to note this version of its page.
    Choosing {
        version: u64,
    },
    /// No keeper could; nobody knows whether the choice is noted.
    InDoubt,
}

/// An object on its way.
#[derive(Debug)]
struct Job {
    object: u32,
    from: (usize, u32),
    to: (usize, u32),
    /// Which candidate the new server is.
    position: usize,
    copying: Copying,
}

impl Mover {
    /// The object on its way.
    pub(super) fn object(&self) -> Option<u32> {
        self.job.as_ref().map(|job| job.object)
    }

    /// Whether writes to the object on its way are refused for good.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.phase == Phase::InDoubt
    }

    /// Whether writes to the object on its way are held.
    pub(super) fn is_holding(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.copying.held_since().is_some())
    }

    /// Whether an object may be given up: nothing else must tell of it than its place.
    pub(super) fn may_give_up(&self, object: u32) -> bool {
        self.object() != Some(object)
            && !self.departing.contains(&object)
            && !self.haunted.contains(&object)
    }

    /// Whether an object from this one on is on its way, or an entry may be left of one.
    pub(super) fn is_busy_beyond(&self, first: u32) -> bool {
        self.object().is_some_and(|object| object >= first)
            || self.departing.range(first..).next().is_some()
            || self.haunted.range(first..).next().is_some()
    }

    /// When it is to be polled although nothing happens.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        let since = self.job.as_ref().filter(|_| self.phase == Phase::Drain);
        let since = since.and_then(|job| job.copying.held_since());
        let late = since.map(|since| since + self.hold_max());
        late.into_iter().chain(self.wake_at).min()
    }

    /// A client's request waits. If it is the first, the request that the step under way has become
    /// is returned: it is the client's to pay from now on.
    pub(super) fn hold(&mut self, slot: u32, tenant: TenantId) -> Option<u32> {
        if self.held.iter().any(|(held, _)| *held == slot) {
            return None;
        }
        self.held.push((slot, tenant));
        self.step_slot.filter(|_| self.held.len() == 1)
    }

    pub(super) fn withdraw(&mut self, slot: u32) {
        self.held.retain(|(held, _)| *held != slot);
    }

    /// Requests that wait no longer.
    pub(super) fn take_held(&mut self) -> impl Iterator<Item = u32> {
        self.held.drain(..).rev().map(|(slot, _)| slot)
    }

    /// A request has arrived: if it is the step under way, and somebody waits, whose it is to pay.
    pub(super) fn step_arrived(&mut self, request: &Request, server: ServerId) -> Option<TenantId> {
        let step = self.step.filter(|_| self.step_slot.is_none())?;
        let is_it = step.server == server
            && step.offset == request.offset
            && matches!(request.kind, Kind::Read | Kind::Write);
        if !is_it {
            return None;
        }
        self.step_slot = Some(request.slot);
        self.held.first().map(|(_, tenant)| *tenant)
    }

    /// This request is over.
    pub(super) fn finished(&mut self, slot: u32) {
        self.step_slot.take_if(|step| *step == slot);
    }

    /// The old entry of a moved object is cleared.
    pub(super) fn departed(&mut self, object: u32) {
        self.departing.remove(&object);
    }

    fn hold_max(&self) -> Span {
        Span(HOLD_MAX.0 << self.attempts.min(DOUBLINGS_MAX))
    }

    fn rest(&mut self, until: Nanos) {
        (self.phase, self.wake_at) = (Phase::Idle, Some(until));
    }
}
