//! What is with the device, and when it was full.

use evenkeel_core::ticket::Ticket;
use evenkeel_core::time::Nanos;

use super::apportion::{Apportioning, Served};
use super::float;
use super::load::Load;

/// A request that saw the depth less full than this part of its time tells nothing.
const UNFILLED_MAX: f64 = 0.1;

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    handle: u32,
    since: Nanos,
    unfilled_ns: f64,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Watch {
    apportioning: Apportioning,
    /// By ticket slot.
    under_way: Vec<Option<UnderWay>>,
    pub(super) load: Load,
    unfilled_ns: f64,
    /// When something went or came back last, or the load changed.
    pub(super) passed: Nanos,
}

impl Watch {
    /// With nothing under way that is known of.
    pub(super) fn under(now: Nanos, load: Load) -> Self {
        Self {
            apportioning: Apportioning::new(),
            under_way: Vec::new(),
            load,
            unfilled_ns: 0.0,
            passed: now,
        }
    }

    /// Time passes under the load of before.
    pub(super) fn pass(&mut self, now: Nanos) {
        let time_ns = float(now.since(self.passed).0);
        self.passed = now;
        self.apportioning.pass(time_ns);
        if !self.load.is_full {
            self.unfilled_ns += time_ns;
        }
    }

    /// Time in which anything was under way, in nanoseconds.
    pub(super) fn busy_ns(&self) -> f64 {
        self.apportioning.busy_ns()
    }

    /// A ticket goes to the device.
    pub(super) fn started(&mut self, now: Nanos, ticket: &Ticket) {
        self.pass(now);
        let slot = ticket.slot as usize;
        if self.under_way.len() <= slot {
            self.under_way.resize(slot + 1, None);
        }
        let (handle, unfilled_ns) = (self.apportioning.start(), self.unfilled_ns);
        self.under_way[slot] = Some(UnderWay { handle, since: now, unfilled_ns });
    }

    /// A ticket is back: what it was given, and whether the device was full meanwhile; none if it
    /// was not known.
    pub(super) fn finished(&mut self, now: Nanos, ticket: &Ticket) -> Option<(Served, bool)> {
        self.pass(now);
        let one = self.under_way.get_mut(ticket.slot as usize)?.take()?;
        let away_ns = float(now.since(one.since).0);
        let is_filled = self.unfilled_ns - one.unfilled_ns <= UNFILLED_MAX * away_ns;
        Some((self.apportioning.finish(one.handle), is_filled))
    }
}
