//! How long requests take whose tenants send them now and then, beside others that always ask.
//!
//! A request is *sparse* if nothing of its tenant waited when it came, here or for the tenant's own
//! limit. Whoever always asks for more than it gets has none. Their mean time, from arrival until
//! they are back, follows from how many are here (Little's law), so that one that is starved inside
//! the device counts while it is, and not when it comes back at last:
//!
//! ```text
//! mean time in a window = time-integral of sparse requests that are here / how many came and went
//! ```
//!
//! The wait at the gate is a part of it: a depth that only moves the queue from the device to the
//! gate gains nothing.

use super::rate::Rate;
use crate::float::natural_log;
use crate::ticket::{Kind, Ticket};
use crate::time::{Nanos, Span};

/// Of what the spread of times keeps when another one is known.
const KEPT: f64 = 0.99;
/// The least relative variance of a single time that is believed, and the most.
const SPREAD: std::ops::RangeInclusive<f64> = 0.5..=25.0;

/// A meter of sparse requests. See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Sparse {
    /// By tenant: tickets that wait here.
    queued: Vec<u32>,
    /// By slot of the ticket: since when a sparse one is here.
    since: Vec<Option<Nanos>>,
    present: u32,
    changed: Nanos,
    /// In this window: time of sparse requests, and how many came and went.
    request_time: Span,
    came: u32,
    went: u32,
    /// Sums of times and of their squares, in seconds; old ones fade.
    times: Moments,
}

#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Sparse {
    /// A ticket has come.
    pub(super) fn arrived(&mut self, now: Nanos, ticket: &Ticket) {
        let slot = ticket.slot as usize;
        let before = self.queued(ticket);
        if before > 0 || !matches!(ticket.kind, Kind::Read | Kind::Write) {
            return;
        }
        if self.since.len() <= slot {
            self.since.resize(slot + 1, None);
        }
        self.advance(now);
        let was_forgotten = self.since[slot].replace(now).is_some();
        self.present += u32::from(!was_forgotten);
        self.came += 1;
    }

    /// Everything that waits was taken back. What is with the device is forgotten, too.
    pub(super) fn drained(&mut self) {
        self.queued.iter_mut().for_each(|queued| *queued = 0);
        self.since.iter_mut().for_each(|since| *since = None);
        self.present = 0;
    }

    /// A ticket waits here. Gives how many of its tenant did before.
    pub(super) fn queued(&mut self, ticket: &Ticket) -> u32 {
        let tenant = ticket.tenant.index();
        if self.queued.len() <= tenant {
            self.queued.resize(tenant + 1, 0);
        }
        self.queued[tenant] += 1;
        self.queued[tenant] - 1
    }

    /// A ticket no longer waits here: it went to the device, or was taken back.
    pub(super) fn unqueued(&mut self, ticket: &Ticket) {
        if let Some(queued) = self.queued.get_mut(ticket.tenant.index()) {
            *queued = queued.saturating_sub(1);
        }
    }

    /// A ticket is no longer here, and its time tells nothing.
    pub(super) fn left(&mut self, now: Nanos, ticket: &Ticket) -> Option<Span> {
        let since = self.since.get_mut(ticket.slot as usize)?.take()?;
        self.advance(now);
        self.present -= 1;
        Some(now.since(since))
    }

    /// The device has done a ticket.
    pub(super) fn finished(&mut self, now: Nanos, ticket: &Ticket) {
        if let Some(time) = self.left(now, ticket) {
            self.went += 1;
            self.times.add(time.as_secs_f64());
        }
    }

    /// Another window begins.
    pub(super) fn open(&mut self, now: Nanos) {
        (self.request_time, self.changed) = (Span::ZERO, now);
        (self.came, self.went) = (0, 0);
    }

    /// How many came or went in this window, at least.
    pub(super) fn requests(&self) -> u32 {
        self.came.min(self.went)
    }

    /// Whether there were any in this window.
    pub(super) fn is_there(&self) -> bool {
        self.came + self.went + self.present > 0
    }

    /// The logarithm of their mean time in this window up to now, and its variance.
    pub(super) fn mean_time(&mut self, now: Nanos) -> Option<Rate> {
        self.advance(now);
        let count = f64::from(self.came + self.went) / 2.0;
        let seconds = self.request_time.as_secs_f64();
        (count >= 1.0 && seconds > 0.0).then(|| Rate {
            log: natural_log(seconds / count),
            variance: self.times.spread() / count,
        })
    }

    fn advance(&mut self, now: Nanos) {
        let elapsed = now.since(self.changed);
        self.request_time += Span(elapsed.0.saturating_mul(u64::from(self.present)));
        self.changed = now;
    }
}

impl Moments {
    fn add(&mut self, seconds: f64) {
        self.count = KEPT * self.count + 1.0;
        self.sum = KEPT * self.sum + seconds;
        self.squares = KEPT * self.squares + seconds * seconds;
    }

    /// The relative variance of one of them.
    fn spread(&self) -> f64 {
        if self.sum <= 0.0 {
            return *SPREAD.end();
        }
        let spread = self.squares * self.count / (self.sum * self.sum) - 1.0;
        spread.clamp(*SPREAD.start(), *SPREAD.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::TenantId;
    use crate::sched::testing::ticket;

    fn at(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    fn request(tenant: u32, slot: u32) -> Ticket {
        Ticket { tenant: TenantId(tenant), slot, ..ticket(0, 0) }
    }

    #[test]
    fn the_mean_time_is_that_of_requests_that_found_nothing_waiting() {
        let mut sparse = Sparse::default();
        sparse.open(at(0));
        for slot in 0..4 {
            let begin = u64::from(slot) * 10;
            sparse.arrived(at(begin), &request(0, slot));
            sparse.unqueued(&request(0, slot));
            sparse.finished(at(begin + 4), &request(0, slot));
        }
        // Another tenant always asks: only its first request found nothing.
        (10..13).for_each(|slot| sparse.arrived(at(40), &request(1, slot)));
        assert_eq!(sparse.requests(), 4);
        let mean = sparse.mean_time(at(40)).unwrap();
        // Five came and four went, of which each took 4 ms.
        assert!((mean.log - natural_log(0.016 / 4.5)).abs() < 1e-9, "{mean:?}");
        assert!(sparse.left(at(41), &request(1, 11)).is_none(), "it waited behind its own");
    }

    #[test]
    fn one_that_is_starved_counts_while_it_is() {
        let mut sparse = Sparse::default();
        sparse.open(at(0));
        sparse.arrived(at(0), &request(0, 0));
        sparse.unqueued(&request(0, 0));
        sparse.open(at(100));
        sparse.arrived(at(100), &request(0, 1));
        sparse.finished(at(101), &request(0, 1));
        let mean = sparse.mean_time(at(200)).unwrap();
        assert!(mean.log > natural_log(0.1), "100 ms of it are of this window: {mean:?}");
    }

    #[test]
    fn what_was_never_seen_to_come_is_no_matter() {
        let mut sparse = Sparse::default();
        sparse.unqueued(&request(3, 7));
        sparse.finished(at(1), &request(3, 7));
        assert!(!sparse.is_there() && sparse.mean_time(at(2)).is_none());
    }
}
