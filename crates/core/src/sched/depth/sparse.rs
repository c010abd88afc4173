//! How long requests take whose tenants send them now and then, beside others that always ask.
//!
//! A request is *sparse* if its tenant sends now and then ([`presence`](super::presence)).
//!
//! Their mean time, from arrival until they are back, follows from how many are here (Little's
//! law), so that one that is starved inside the device counts while it is, and not when it comes
//! back at last:
//!
//! ```text
//! mean time in a window = time-integral of sparse requests that are here / how many came and went
//! ```
//!
//! The wait at the gate is a part of it: a depth that only moves the queue from the device to the
//! gate gains nothing.

use super::presence::Presence;
use super::rate::Rate;
use crate::float::natural_log;
use crate::ticket::{Kind, Ticket};
use crate::time::{Nanos, Span};

/// Of what the spread of times keeps when another one is known.
const KEPT: f64 = 0.99;
/// The least relative variance of a single time that is believed, and the most.
const SPREAD: std::ops::RangeInclusive<f64> = 0.5..=25.0;

/// What sparse requests took in some windows. Windows are added up before their mean is taken: one
/// in which all are starved and few come or go counts for what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Times {
    /// How many were here, integrated over time.
    pub(super) seconds: f64,
    /// How many came and went.
    pub(super) requests: f64,
    /// The relative variance of a single time.
    pub(super) spread: f64,
}

/// A meter of sparse requests. See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Sparse {
    /// By tenant.
    tenants: Vec<Presence>,
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
        let is_sparse = self.tenant(ticket).arrived(now);
        if !is_sparse || !matches!(ticket.kind, Kind::Read | Kind::Write) {
            return;
        }
        let slot = ticket.slot as usize;
        if self.since.len() <= slot {
            self.since.resize(slot + 1, None);
        }
        self.advance(now);
        let was_forgotten = self.since[slot].replace(now).is_some();
        self.present += u32::from(!was_forgotten);
        self.came += 1;
    }

    /// A ticket has come that has waited elsewhere for its tenant's own sake.
    pub(super) fn arrived_late(&mut self, now: Nanos, ticket: &Ticket) {
        self.tenant(ticket).arrived_late(now);
    }

    /// A ticket that waited here was taken back.
    pub(super) fn withdrawn(&mut self, now: Nanos, ticket: &Ticket) {
        self.tenant(ticket).withdrawn(now);
        self.end(now, ticket);
    }

    /// Everything that waits was taken back. What is with the device is forgotten, too.
    pub(super) fn drained(&mut self) {
        self.tenants.iter_mut().for_each(Presence::drained);
        self.since.iter_mut().for_each(|since| *since = None);
        self.present = 0;
    }

    /// A ticket went to the device.
    pub(super) fn started(&mut self, now: Nanos, ticket: &Ticket) {
        self.tenant(ticket).started(now);
    }

    /// A ticket is no longer with the device, and its time tells nothing.
    pub(super) fn left(&mut self, now: Nanos, ticket: &Ticket) {
        self.back(now, ticket);
    }

    /// The device has done a ticket.
    pub(super) fn finished(&mut self, now: Nanos, ticket: &Ticket) {
        if let Some(time) = self.back(now, ticket) {
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

    /// Their time in this window up to now; none where nothing was here.
    pub(super) fn times(&mut self, now: Nanos) -> Option<Times> {
        self.advance(now);
        let seconds = self.request_time.as_secs_f64();
        let requests = f64::from(self.came + self.went) / 2.0;
        (seconds > 0.0).then(|| Times { seconds, requests, spread: self.times.spread() })
    }

    fn tenant(&mut self, ticket: &Ticket) -> &mut Presence {
        let index = ticket.tenant.index();
        if self.tenants.len() <= index {
            self.tenants.resize(index + 1, Presence::default());
        }
        &mut self.tenants[index]
    }

    fn back(&mut self, now: Nanos, ticket: &Ticket) -> Option<Span> {
        self.tenant(ticket).left(now);
        self.end(now, ticket)
    }

    /// A ticket is no longer here: how long it was, if it is sparse.
    fn end(&mut self, now: Nanos, ticket: &Ticket) -> Option<Span> {
        let since = self.since.get_mut(ticket.slot as usize)?.take()?;
        self.advance(now);
        self.present -= 1;
        Some(now.since(since))
    }

    fn advance(&mut self, now: Nanos) {
        let elapsed = now.since(self.changed);
        self.request_time += Span(elapsed.0.saturating_mul(u64::from(self.present)));
        self.changed = now;
    }
}

impl Times {
    /// Adds another window, of which the spread counts.
    pub(super) fn add(&mut self, window: &Self) {
        self.seconds += window.seconds;
        self.requests += window.requests;
        self.spread = window.spread;
    }

    /// Old windows count for this part.
    pub(super) fn fade(&mut self, kept: f64) {
        self.seconds *= kept;
        self.requests *= kept;
    }

    /// The logarithm of the mean time, and its variance; none where nothing was here.
    pub(super) fn mean(&self) -> Option<Rate> {
        let requests = self.requests.max(1.0);
        (self.seconds > 0.0).then(|| Rate {
            log: natural_log(self.seconds / requests),
            variance: self.spread / requests,
        })
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

    /// A request that takes so long, in milliseconds.
    fn serve(sparse: &mut Sparse, tenant: u32, slot: u32, begin: u64, end: u64) {
        sparse.arrived(at(begin), &request(tenant, slot));
        sparse.started(at(begin), &request(tenant, slot));
        sparse.finished(at(end), &request(tenant, slot));
    }

    #[test]
    fn the_mean_time_is_that_of_tenants_that_have_nothing_here_now_and_then() {
        let mut sparse = Sparse::default();
        serve(&mut sparse, 0, 0, 0, 4);
        sparse.open(at(10));
        (1..5).for_each(|n| serve(&mut sparse, 0, n, 10 * u64::from(n), 10 * u64::from(n) + 4));
        // Another tenant always asks.
        (10..13).for_each(|slot| sparse.arrived(at(44), &request(1, slot)));
        (13..40).for_each(|n| serve(&mut sparse, 1, n, 45, 46));
        assert_eq!(sparse.requests(), 4);
        let mean = sparse.times(at(50)).and_then(|times| times.mean()).unwrap();
        assert!((mean.log - natural_log(0.004)).abs() < 1e-9, "{mean:?}");
    }

    #[test]
    fn one_that_is_starved_counts_while_it_is_and_so_do_those_behind_it() {
        let mut sparse = Sparse::default();
        serve(&mut sparse, 0, 0, 0, 1);
        sparse.open(at(10));
        (1..5).for_each(|slot| sparse.arrived(at(10), &request(0, slot)));
        sparse.open(at(100));
        sparse.arrived(at(100), &request(0, 5));
        sparse.started(at(100), &request(0, 1));
        sparse.finished(at(101), &request(0, 1));
        let mean = sparse.times(at(200)).and_then(|times| times.mean()).unwrap();
        assert!(mean.log > natural_log(0.2), "four were there for 100 ms: {mean:?}");
        sparse.withdrawn(at(201), &request(0, 2));
        assert_eq!(sparse.present, 3);
    }

    #[test]
    fn what_was_never_seen_to_come_is_no_matter() {
        let mut sparse = Sparse::default();
        sparse.started(at(0), &request(3, 7));
        sparse.finished(at(1), &request(3, 7));
        assert!(!sparse.is_there() && sparse.times(at(2)).is_none());
    }
}
