//! What became of tenants in the last seconds, from totals at two instants.
//!
//! Totals only grow. They are noted every [`LENGTH`], and the last two notes are kept, so that the
//! time covered is [`LENGTH`] to twice that:
//!
//! ```text
//!   note        note   now
//!    |-----------|------|
//!    <---- covered ---->
//! ```
//!
//! After a time in which nobody asked for anything both notes are made anew: an hour of rest says
//! nothing of a tenant that has come back.

use evenkeel_core::id::TenantId;
use evenkeel_core::time::{Nanos, Span};

use crate::attribution::PairTable;
use crate::report::{Culprit, ShareWindow};
use crate::shares::WindowSums;

/// The least time that is covered, once there is as much.
pub(crate) const LENGTH: Span = Span::from_secs(5);
/// A note that is older than so many lengths was made before a rest, if the servers had nothing to
/// do for most of the time since.
const REST_LENGTHS: u64 = 2;

/// What became of a tenant, since the engine started or since an earlier instant. Times of requests
/// and units are sums over all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    /// Requests answered well, and their bytes.
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    /// Requests answered, well or not, and the time from their arrival to that.
    pub(crate) answered: u64,
    pub(crate) answer_time: Span,
    /// How many of them took longer than the tenant's goal.
    pub(crate) late_requests: u64,
    /// Time with a request in flight, and request-time in flight.
    pub(crate) active: Span,
    pub(crate) in_flight: Span,
    /// Time with something queued, and unit-time at the gate.
    pub(crate) backlogged: Span,
    pub(crate) queued: Span,
    /// Unit-time with backends.
    pub(crate) in_service: Span,
    /// Unit-time that its own limit held.
    pub(crate) throttled: Span,
    /// Unit-time that went to exports of its own that are slow or hang.
    pub(crate) for_slots: Span,
    /// Unit-time waited beyond what idle servers would have taken, both of the above aside, and the
    /// part of it in which the device did nothing for anybody, or was slow for all.
    pub(crate) waited: Span,
    pub(crate) stalled: Span,
}

impl Totals {
    fn since(&self, earlier: &Self) -> Self {
        let since = |now: Span, then: Span| Span(now.0.saturating_sub(then.0));
        Self {
            requests: self.requests - earlier.requests,
            bytes: self.bytes - earlier.bytes,
            answered: self.answered - earlier.answered,
            answer_time: since(self.answer_time, earlier.answer_time),
            late_requests: self.late_requests - earlier.late_requests,
            active: since(self.active, earlier.active),
            in_flight: since(self.in_flight, earlier.in_flight),
            backlogged: since(self.backlogged, earlier.backlogged),
            queued: since(self.queued, earlier.queued),
            in_service: since(self.in_service, earlier.in_service),
            throttled: since(self.throttled, earlier.throttled),
            for_slots: since(self.for_slots, earlier.for_slots),
            waited: since(self.waited, earlier.waited),
            stalled: since(self.stalled, earlier.stalled),
        }
    }
}

/// A tenant as it is now, counted from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tenant {
    pub(crate) totals: Totals,
    pub(crate) windows: WindowSums,
    /// Requests in flight.
    pub(crate) present: u32,
}

/// What became of a tenant lately.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Recent {
    /// The time that this covers.
    pub(crate) length: Span,
    pub(crate) gained: Totals,
    /// Requests in flight now.
    pub(crate) present: u32,
    /// Whom it waited for meanwhile, most first, as far as that is known.
    pub(crate) behind: Vec<(Culprit, Span)>,
    /// The mean of its windows; none while no window has ended in which it was active.
    pub(crate) window: Option<ShareWindow>,
}

/// Totals at one instant.
#[derive(Clone, Debug, Default)]
struct Note {
    at: Nanos,
    /// For how long servers had been busy by then, all together.
    busy: Span,
    tenants: Vec<Tenant>,
    pairs: PairTable,
}

/// The last two notes.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    earlier: Note,
    later: Note,
}

impl History {
    /// The engine starts.
    pub(crate) fn new(now: Nanos) -> Self {
        let note = Note { at: now, ..Note::default() };
        Self { earlier: note.clone(), later: note }
    }

    /// Whether it is time for a note.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        now.since(self.later.at) >= LENGTH
    }

    /// Notes the totals of all tenants, in their order. Allocates nothing once it knows as many.
    pub(crate) fn note(
        &mut self,
        now: Nanos,
        busy: Span,
        tenants: impl Iterator<Item = Tenant>,
        pairs: &PairTable,
    ) {
        let since = now.since(self.later.at);
        let rested = since.0.saturating_sub(busy.0.saturating_sub(self.later.busy.0));
        std::mem::swap(&mut self.earlier, &mut self.later);
        let later = &mut self.later;
        (later.at, later.busy) = (now, busy);
        later.tenants.clear();
        later.tenants.extend(tenants);
        later.pairs.clone_from(pairs);
        if since.0 > REST_LENGTHS * LENGTH.0 && rested > since.0 / 2 {
            self.earlier.clone_from(&self.later);
        }
    }

    /// What became of a tenant since the earlier note, if it is this now.
    pub(crate) fn recent(
        &self,
        now: Nanos,
        tenant: TenantId,
        current: &Tenant,
        pairs: &PairTable,
    ) -> Recent {
        let earlier = self.earlier.tenants.get(tenant.index()).copied().unwrap_or_default();
        Recent {
            length: now.since(self.earlier.at),
            gained: current.totals.since(&earlier.totals),
            present: current.present,
            behind: pairs.since(&self.earlier.pairs, tenant),
            window: current.windows.mean_since(&earlier.windows),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(requests: u64) -> Tenant {
        Tenant { totals: Totals { requests, ..Totals::default() }, ..Tenant::default() }
    }

    #[test]
    fn what_is_covered_covers_one_to_two_lengths() {
        let mut history = History::new(Nanos::ZERO);
        let pairs = PairTable::default();
        for second in 1..=20 {
            let now = Nanos::ZERO + Span::from_secs(second);
            if history.is_due(now) {
                let busy = Span::from_secs(second);
                history.note(now, busy, std::iter::once(tenant(second)), &pairs);
            }
            let recent = history.recent(now, TenantId(0), &tenant(second), &pairs);
            assert_eq!(
                recent.gained.requests,
                recent.length.0 / 1_000_000_000,
                "one in each second"
            );
            let least = LENGTH.0.min(second * 1_000_000_000);
            assert!((least..=2 * LENGTH.0).contains(&recent.length.0), "{second}: {recent:?}");
        }
    }

    #[test]
    fn a_rest_is_left_out_but_a_stall_is_not() {
        let pairs = PairTable::default();
        for (busy_seconds, covered_seconds) in [(1, 0), (3600, 3600)] {
            let mut history = History::new(Nanos::ZERO);
            let now = Nanos::ZERO + Span::from_secs(3600);
            let busy = Span::from_secs(busy_seconds);
            history.note(now, busy, std::iter::once(tenant(1)), &pairs);
            let recent = history.recent(now, TenantId(0), &tenant(1), &pairs);
            assert_eq!(recent.length, Span::from_secs(covered_seconds));
        }
    }
}
