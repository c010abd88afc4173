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
//! What is kept is no more than it used lately and no more than its part. Others lose at most an
//! eighth of its own slots so, and nothing where the device serves one request after another.

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
        let wait = Span(flow.pace.latency().0 / PART_OF_LATENCY);
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
