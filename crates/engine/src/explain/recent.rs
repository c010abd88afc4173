//! What became of tenants in the last seconds, from totals at two instants.
//!
//! Totals only grow. They are noted every [`LENGTH`], and the last two notes are kept, so that what
//! is told covers [`LENGTH`] to twice that:
//!
//! ```text
//!   note        note   now
//!    |-----------|------|
//!    <-- what is told -->
//! ```
//!
//! After a time in which nobody asked for anything both notes are made anew: an hour of rest says
//! nothing of a tenant that has come back.

use evenkeel_core::id::TenantId;
use evenkeel_core::time::{Nanos, Span};

use crate::attribution::PairTable;
use crate::report::{Culprit, ShareWindow};
use crate::shares::WindowSums;

/// The least time that is told of, once there is as much.
pub const LENGTH: Span = Span::from_secs(5);
/// A note that is older than so many lengths was made before a rest, if the servers had nothing to
/// do for most of the time since.
const REST_LENGTHS: u64 = 2;

/// All that became of a tenant since the engine started. Times of requests and units are sums over
/// all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) answered: u64,
    pub(crate) answer_time: Span,
    pub(crate) late_requests: u64,
    /// Time with a request in flight, and how many are now.
    pub(crate) active: Span,
    pub(crate) present: u32,
    /// Time with something queued.
    pub(crate) backlogged: Span,
    pub(crate) in_flight: Span,
    pub(crate) queued: Span,
    pub(crate) in_service: Span,
    pub(crate) throttled: Span,
    pub(crate) for_slots: Span,
    pub(crate) waited: Span,
    pub(crate) stalled: Span,
    pub(crate) windows: WindowSums,
}

/// What became of a tenant lately. Times of requests and units are sums over all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recent {
    /// The time that this tells of.
    pub length: Span,
    /// Requests answered well.
    pub requests: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Requests answered, well or not.
    pub answered: u64,
    /// From arrival to answer, of those.
    pub answer_time: Span,
    /// How many of them took longer than the tenant's goal.
    pub late_requests: u64,
    /// Time with a request in flight.
    pub active: Span,
    /// Requests in flight now.
    pub present: u32,
    /// Time with something queued.
    pub backlogged: Span,
    /// Request-time in flight.
    pub in_flight: Span,
    /// Unit-time at the gate.
    pub queued: Span,
    /// Unit-time with backends.
    pub in_service: Span,
    /// Unit-time that its own limit held.
    pub throttled: Span,
    /// Unit-time that went to exports of its own that are slow or hang.
    pub for_slots: Span,
    /// Unit-time waited beyond what idle servers would have taken, both of the above aside.
    pub waited: Span,
    /// The part of that in which the device did nothing for anybody.
    pub stalled: Span,
    /// Whom it waited for meanwhile, most first, as far as that is known.
    pub behind: Vec<(Culprit, Span)>,
    /// The mean of its windows; none while no window has ended in which it was active.
    pub window: Option<ShareWindow>,
}

/// Totals at one instant.
#[derive(Clone, Debug, Default)]
struct Note {
    at: Nanos,
    /// For how long servers had been busy by then, all together.
    busy: Span,
    tenants: Vec<Totals>,
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
        totals: impl Iterator<Item = Totals>,
        pairs: &PairTable,
    ) {
        let since = now.since(self.later.at);
        let rested = since.0.saturating_sub(busy.0.saturating_sub(self.later.busy.0));
        std::mem::swap(&mut self.earlier, &mut self.later);
        let Note { at, busy: busy_then, tenants, pairs: pairs_then } = &mut self.later;
        (*at, *busy_then) = (now, busy);
        tenants.clear();
        tenants.extend(totals);
        pairs_then.clone_from(pairs);
        if since.0 > REST_LENGTHS * LENGTH.0 && rested > since.0 / 2 {
            self.earlier.clone_from(&self.later);
        }
    }

    /// What became of a tenant since the earlier note, if these are its totals now.
    pub(crate) fn recent(
        &self,
        now: Nanos,
        tenant: TenantId,
        totals: &Totals,
        pairs: &PairTable,
    ) -> Recent {
        let earlier = self.earlier.tenants.get(tenant.index()).copied().unwrap_or_default();
        let since = |now: Span, then: Span| Span(now.0.saturating_sub(then.0));
        Recent {
            length: now.since(self.earlier.at),
            requests: totals.requests - earlier.requests,
            bytes: totals.bytes - earlier.bytes,
            answered: totals.answered - earlier.answered,
            answer_time: since(totals.answer_time, earlier.answer_time),
            late_requests: totals.late_requests - earlier.late_requests,
            active: since(totals.active, earlier.active),
            present: totals.present,
            backlogged: since(totals.backlogged, earlier.backlogged),
            in_flight: since(totals.in_flight, earlier.in_flight),
            queued: since(totals.queued, earlier.queued),
            in_service: since(totals.in_service, earlier.in_service),
            throttled: since(totals.throttled, earlier.throttled),
            for_slots: since(totals.for_slots, earlier.for_slots),
            waited: since(totals.waited, earlier.waited),
            stalled: since(totals.stalled, earlier.stalled),
            behind: pairs.since(&self.earlier.pairs, tenant),
            window: totals.windows.mean_since(&earlier.windows),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(requests: u64) -> Totals {
        Totals { requests, ..Totals::default() }
    }

    #[test]
    fn what_is_told_covers_one_to_two_lengths() {
        let mut history = History::new(Nanos::ZERO);
        let pairs = PairTable::default();
        for second in 1..=20 {
            let now = Nanos::ZERO + Span::from_secs(second);
            if history.is_due(now) {
                let busy = Span::from_secs(second);
                history.note(now, busy, std::iter::once(totals(second)), &pairs);
            }
            let recent = history.recent(now, TenantId(0), &totals(second), &pairs);
            assert_eq!(recent.requests, recent.length.0 / 1_000_000_000, "one in each second");
            let least = LENGTH.0.min(second * 1_000_000_000);
            assert!((least..=2 * LENGTH.0).contains(&recent.length.0), "{second}: {recent:?}");
        }
    }

    #[test]
    fn a_rest_is_not_told_of_but_a_stall_is() {
        let pairs = PairTable::default();
        for (busy_seconds, told_seconds) in [(1, 0), (3600, 3600)] {
            let mut history = History::new(Nanos::ZERO);
            let now = Nanos::ZERO + Span::from_secs(3600);
            let busy = Span::from_secs(busy_seconds);
            history.note(now, busy, std::iter::once(totals(1)), &pairs);
            let recent = history.recent(now, TenantId(0), &totals(1), &pairs);
            assert_eq!(recent.length, Span::from_secs(told_seconds));
        }
    }
}
