//! Slots that wait for a tenant that is about to return.
//!
//! A tenant with one request at a time has nothing queued between an answer and its next request.
//! If its slot went to somebody else in that instant, it would wait behind one more request each
//! time: at a depth of 2 it gets a third of a device of which half is its own.
//!
//! ```text
//! depth 2       a1 b1 | b1 answered | a2 takes the slot, b2 comes | a1 | a2 | b2 ...    b: 1 of 3
//! with a wait   a1 b1 | b1 answered | b2 comes                    | a1 | b2 | a2 ...    b: 1 of 2
//! ```
//!
//! So its slots are kept for it (anticipatory scheduling: Iyer and Druschel, SOSP 2001), for as
//! long as an eighth of what its requests take, and only if it usually comes back within that.
//! What is kept is no more than it had since it came, and no more than its part, for no longer
//! than an eighth of the time since then. Others lose at most an eighth of its own slots so, and
//! nothing where the device serves one request after another.

use evenkeel_core::time::{Nanos, Span};

use super::Slots;

/// One over the part of its latency for which a flow's slots wait for it.
const PART_OF_LATENCY: u64 = 8;
/// One over the weight of a new pause in the mean.
const DECAY: u64 = 8;

/// How long a flow pauses between its last answer and its next request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pauses {
    mean: Option<Span>,
    /// When the pause began that it makes now.
    since: Option<Nanos>,
}

impl Pauses {
    fn begin(&mut self, now: Nanos) {
        self.since = Some(now);
    }

    fn end(&mut self, now: Nanos) {
        let Some(since) = self.since.take() else { return };
        let pause = now.since(since);
        let blend = |mean: Span| Span(mean.0 - mean.0 / DECAY + pause.0 / DECAY);
        self.mean = Some(self.mean.map_or(pause, blend));
    }
}

impl Slots {
    /// A flow asks again.
    pub(super) fn returns(&mut self, now: Nanos, index: usize) {
        let flow = &mut self.flows[index];
        if flow.pauses.since.is_some() {
            flow.pauses.end(now);
            self.returning.retain(|(other, _)| *other != index);
        }
    }

    /// A flow may have nothing left to ask.
    pub(super) fn may_pause(&mut self, now: Nanos, index: usize) {
        let flow = &mut self.flows[index];
        if flow.demand() + flow.away > 0 {
            return;
        }
        flow.pauses.begin(now);
        let busy = now.since(flow.busy_since);
        let wait = Span(flow.pace.latency().min(busy).0 / PART_OF_LATENCY);
        let is_quick = flow.pauses.mean.is_some_and(|mean| mean <= wait);
        if is_quick && flow.kept() > 0 {
            self.returning.push((index, now + wait));
        }
    }

    /// Until when whatever is queued waits for somebody who is about to return; none if it does
    /// not.
    pub(crate) fn waits_for_returning(&mut self, now: Nanos) -> Option<Nanos> {
        if self.returning.is_empty() || !self.is_divided {
            return None;
        }
        self.returning.retain(|(_, until)| *until > now);
        let kept: u64 = self.returning.iter().map(|(index, _)| self.flows[*index].kept()).sum();
        let is_full = self.in_depth > 0 && self.in_depth + kept >= self.capacity;
        let until = self.returning.iter().map(|(_, until)| *until).min();
        until.filter(|_| is_full)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::id::TenantId;
    use evenkeel_core::sched::Share;
    use evenkeel_core::ticket::Ticket;

    use super::super::Device;
    use super::super::tests::ticket;
    use super::*;
    use crate::policy::Depth;

    fn at(millis: u64) -> Nanos {
        Nanos::ZERO + Span::from_millis(millis)
    }

    fn send(slots: &mut Slots, now: Nanos, ticket: Ticket) {
        assert!(!slots.parks(now, ticket, ticket.tenant.0.into()));
        slots.dispatched(&ticket);
    }

    #[test]
    fn who_sends_little_after_a_burst_has_little_kept() {
        let mut slots = Slots::new(at(0), Depth::Requests(8));
        (0..2).for_each(|tenant| slots.configure(TenantId(tenant), &Share::default()));
        // One that is always there, so that there is somebody to share with.
        send(&mut slots, at(0), ticket(0, 0));
        slots.served(at(500), &ticket(0, 0), Span::from_millis(500));
        send(&mut slots, at(500), ticket(0, 0));
        let burst = (1..8).map(|slot| ticket(1, slot));
        burst.clone().for_each(|ticket| send(&mut slots, at(0), ticket));
        burst.for_each(|ticket| _ = slots.served(at(500), &ticket, Span::from_millis(500)));
        send(&mut slots, at(505), ticket(1, 1));
        slots.divide(at(505), 8, Device::default());
        slots.served(at(545), &ticket(1, 1), Span::from_millis(40));
        assert_eq!(slots.waits_for_returning(at(545)), None, "one of eight is no full depth");
        assert_eq!(slots.waits_for_returning(at(550)), None);
        // A single request took five milliseconds, so that nothing waits for longer than a part.
        send(&mut slots, at(550), ticket(1, 1));
        slots.served(at(555), &ticket(1, 1), Span::from_millis(5));
        assert!(slots.returning.is_empty(), "it pauses for as long as its request took");
    }
}
