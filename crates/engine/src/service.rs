//! The volume that a domain's servers make up: either kind, as the engine sees it.

use std::ops::Range;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::time::{Nanos, Span};

use crate::lease::LateWrites;
use crate::notes::{Step, StepKind};
use crate::placement::{Placed, Placement};
use crate::policy::{Domain, Scheduling};
use crate::units::{UnitEntry, UnitTable};
use crate::{Refused, Request, spread, tiers};

/// A volume in service.
#[expect(clippy::large_enum_variant, reason = "there is one, in a box of its own")]
pub(crate) enum Service {
    /// Over tiers, between which extents move.
    Tiered(tiers::Serving),
    /// Over servers, of which each object has one.
    Spread(spread::Serving),
}

/// What becomes of a request that has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// It waits.
    Waits,
    /// It waits, and from now on its tenant pays for this request, which it waits for.
    Pays(u32),
    /// There is nothing to wait for.
    Refused(Refused),
}

impl Service {
    /// Puts a policy in force; `scheduling` tells that of each server.
    pub(crate) fn configure<'a>(
        &mut self,
        domain: &Domain,
        tenants: usize,
        scheduling: impl Fn(ServerId) -> &'a Scheduling,
    ) {
        match self {
            Self::Tiered(volume) => {
                if let Some(plan) = &domain.tiers {
                    let tiers = plan.servers.iter().map(|server| scheduling(*server));
                    volume.configure(plan, tenants, tiers);
                }
            }
            Self::Spread(volume) => {
                if let Some(plan) = &domain.spread {
                    volume.configure(plan, tenants);
                }
            }
        }
    }

    /// The piece of a request after `at` bytes has to wait; `payer` pays for it.
    pub(crate) fn hold(&mut self, now: Nanos, request: &Request, at: u64, payer: TenantId) -> Held {
        match self {
            Self::Tiered(volume) => {
                volume.hold(now, request, payer).map_or(Held::Waits, Held::Pays)
            }
            Self::Spread(volume) => match volume.hold(now, request, at, payer) {
                Ok(step) => step.map_or(Held::Waits, Held::Pays),
                Err(why) => Held::Refused(why),
            },
        }
    }

    /// Until then a late write may reach a range of a server.
    pub(crate) fn add_late(
        &mut self,
        now: Nanos,
        server: ServerId,
        range: &Range<u64>,
        until: Nanos,
    ) {
        let index = self.index_of(server);
        let late = self.late_mut();
        late.forget(now);
        late.add(index, range, until);
    }

    /// The first byte of a range of a server that a late write may still reach.
    pub(crate) fn first_late(
        &self,
        now: Nanos,
        server: ServerId,
        range: &Range<u64>,
    ) -> Option<u64> {
        self.late()?.first_in(now, self.index_of(server), range)
    }

    /// When the next late write is over.
    pub(crate) fn next_late_end(&self) -> Option<Nanos> {
        self.late()?.next_end()
    }

    /// Forgets late writes that are over.
    pub(crate) fn forget_late(&mut self, now: Nanos) {
        self.late_mut().forget(now);
    }

    fn late(&self) -> Option<&LateWrites> {
        match self {
            Self::Tiered(volume) => volume.late(),
            Self::Spread(volume) => volume.late(),
        }
    }

    fn late_mut(&mut self) -> &mut LateWrites {
        match self {
            Self::Tiered(volume) => volume.late_mut(),
            Self::Spread(volume) => volume.late_mut(),
        }
    }

    /// The place of a server in the order of the policy.
    fn index_of(&self, server: ServerId) -> usize {
        match self {
            Self::Tiered(volume) => volume.tier_of(server),
            Self::Spread(volume) => volume.index_of(server),
        }
    }

    /// A unit of a request is about to be queued; `at` is where in the request it begins.
    pub(crate) fn queued(&mut self, now: Nanos, request: &Request, at: u64) {
        if let Self::Tiered(volume) = self {
            volume.queued(now, request, at);
        }
    }

    /// A unit is over, be it that the backend has answered or that it was taken back.
    pub(crate) fn ended(&mut self, unit: &UnitEntry) {
        match self {
            Self::Tiered(volume) => volume.ended(unit),
            Self::Spread(volume) => volume.ended(unit),
        }
    }

    /// A unit has gone to its backend.
    pub(crate) fn dispatched(&mut self, unit: &UnitEntry) {
        if let Self::Spread(volume) = self {
            volume.dispatched(unit);
        }
    }

    /// The backend has answered.
    pub(crate) fn answered(&mut self, now: Nanos, unit: &UnitEntry, ok: bool) {
        if let Self::Spread(volume) = self {
            volume.answered(now, unit, ok);
        }
    }

    /// A flush of a tenant is over at this server. Returns how it is to end.
    pub(crate) fn flush_ended(&mut self, tenant: TenantId, server: ServerId, ok: bool) -> bool {
        match self {
            Self::Tiered(volume) => volume.flush_ended(tenant, server, ok),
            Self::Spread(volume) => volume.flush_ended(tenant, server, ok),
        }
    }

    /// The volume is ours until then.
    pub(crate) fn held(&mut self, until: Nanos) {
        match self {
            Self::Tiered(volume) => volume.held(until),
            Self::Spread(volume) => volume.held(until),
        }
    }

    /// A server is not what it was, or the whole volume is another gate's.
    pub(crate) fn fenced(&mut self, server: Option<ServerId>) {
        match self {
            Self::Tiered(volume) => volume.fenced(server),
            Self::Spread(volume) => volume.fenced(server),
        }
    }

    /// A server is again what it was.
    pub(crate) fn cleared(&mut self, now: Nanos, server: ServerId) {
        match self {
            Self::Tiered(volume) => volume.cleared(server),
            Self::Spread(volume) => volume.cleared(now, server),
        }
    }

    /// A look at a server took so long.
    pub(crate) fn looked(&mut self, server: ServerId, latency: Span) {
        if let Self::Spread(volume) = self {
            volume.looked(server, latency);
        }
    }

    /// A request waits no longer, since its client is gone.
    pub(crate) fn withdraw(&mut self, slot: u32) {
        match self {
            Self::Tiered(volume) => volume.withdraw(slot),
            Self::Spread(volume) => volume.withdraw(slot),
        }
    }

    /// A request that may go on.
    pub(crate) fn take_released(&mut self) -> Option<u32> {
        match self {
            Self::Tiered(volume) => volume.take_released(),
            Self::Spread(volume) => volume.take_released(),
        }
    }

    /// A request for a server has arrived, such as a step under way becomes. Returns whose it is to
    /// pay, if not whose it says.
    pub(crate) fn step_arrived(&mut self, request: &Request, server: ServerId) -> Option<TenantId> {
        match self {
            Self::Tiered(volume) => volume.step_arrived(request, server),
            Self::Spread(volume) => volume.step_arrived(request, server),
        }
    }

    /// This request is over.
    pub(crate) fn finished(&mut self, slot: u32) {
        match self {
            Self::Tiered(volume) => volume.finished(slot),
            Self::Spread(volume) => volume.finished(slot),
        }
    }

    /// Whether [`Self::poll`] has something to decide.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        match self {
            Self::Tiered(volume) => volume.is_due(now),
            Self::Spread(volume) => volume.is_due(now),
        }
    }

    /// When it wants to be polled although nothing happens.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        match self {
            Self::Tiered(volume) => volume.deadline(),
            Self::Spread(volume) => volume.deadline(),
        }
    }

    /// The next step, if one is wanted.
    pub(crate) fn poll(&mut self, now: Nanos, units: &UnitTable) -> Option<Step> {
        match self {
            Self::Tiered(volume) => volume.poll(now, units),
            Self::Spread(volume) => volume.poll(now, units),
        }
    }

    /// The step of this kind that is under way at a server is over.
    pub(crate) fn moved(
        &mut self,
        now: Nanos,
        step: (ServerId, StepKind),
        ok: bool,
        units: &UnitTable,
    ) {
        match self {
            Self::Tiered(volume) => volume.moved(now, ok, units),
            Self::Spread(volume) => volume.moved(now, step, ok, units),
        }
    }

    /// What the step that writes notes at this server has to write.
    pub(crate) fn note_bytes(&self, server: ServerId) -> &[u8] {
        match self {
            Self::Tiered(volume) => volume.note_bytes(),
            Self::Spread(volume) => volume.note_bytes(server),
        }
    }

    /// The number of the last move that is durable; 0 where moves have none.
    pub(crate) fn noted(&self) -> u64 {
        match self {
            Self::Tiered(volume) => volume.volume().journal.last(),
            Self::Spread(_) => 0,
        }
    }

    /// The spread volume, if it is one.
    pub(crate) fn spread(&self) -> Option<&spread::Serving> {
        if let Self::Spread(volume) = self { Some(volume) } else { None }
    }

    /// The spread volume, if it is one.
    pub(crate) fn spread_mut(&mut self) -> Option<&mut spread::Serving> {
        if let Self::Spread(volume) = self { Some(volume) } else { None }
    }

    /// The tiered volume, if it is one.
    pub(crate) fn tiered(&self) -> Option<&tiers::Serving> {
        if let Self::Tiered(volume) = self { Some(volume) } else { None }
    }

    /// The tiered volume.
    #[cfg(test)]
    pub(crate) fn tiered_mut(&mut self) -> &mut tiers::Serving {
        if let Self::Tiered(volume) = self { volume } else { panic!("it is spread") }
    }
}

impl Placement for Service {
    fn place(&self, now: Nanos, request: &Request, at: u64) -> Placed {
        match self {
            Self::Tiered(volume) => volume.place(now, request, at),
            Self::Spread(volume) => volume.place(now, request, at),
        }
    }

    fn flushed(&self, index: usize) -> Option<ServerId> {
        match self {
            Self::Tiered(volume) => volume.flushed(index),
            Self::Spread(volume) => volume.flushed(index),
        }
    }
}
