//! How long requests take whose tenants send them now and then, beside others that always ask.
//!
//! A tenant *sends now and then* if it has hardly anything with the device when its requests
//! arrive, or if that number varies as much as in an open loop, where requests arrive whatever
//! became of those before (a Poisson process: variance and mean of its counts are equal). A client
//! in a closed loop, which asks anew when it gets an answer, always has the same number there. A
//! request is *sparse* if its tenant sends now and then and nothing of that tenant waits here.
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

use super::rate::Rate;
use crate::float::natural_log;
use crate::ticket::{Kind, Ticket};
use crate::time::{Nanos, Span};

/// Of what the spread of times keeps when another one is known.
const KEPT: f64 = 0.99;
/// The least relative variance of a single time that is believed, and the most.
const SPREAD: std::ops::RangeInclusive<f64> = 0.5..=25.0;
/// What of the counts before is kept when another request comes.
const COUNTS_KEPT: f64 = 15.0 / 16.0;
/// Fewer with the device than this, in the mean, are hardly any: a closed loop of one has none.
const HARDLY_ANY: f64 = 0.5;
/// Above this index of dispersion, variance / mean, requests arrive in an open loop.
const DISPERSION_MIN: f64 = 1.0 / 3.0;

/// A meter of sparse requests. See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Sparse {
    tenants: Vec<Tenant>,
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

/// What of a tenant is here, and how that varies.
#[derive(Clone, Copy, Debug, Default)]
struct Tenant {
    queued: u32,
    with_device: u32,
    /// Of those with the device when requests came that found nothing waiting.
    mean: f64,
    variance: f64,
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
        let tenant = self.tenant(ticket);
        let is_first = tenant.queued == 0;
        tenant.queued += 1;
        if !is_first || !matches!(ticket.kind, Kind::Read | Kind::Write) {
            return;
        }
        tenant.count();
        if !tenant.sends_now_and_then() {
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
    pub(super) fn arrived_late(&mut self, ticket: &Ticket) {
        self.tenant(ticket).queued += 1;
    }

    /// A ticket that waited here was taken back.
    pub(super) fn withdrawn(&mut self, now: Nanos, ticket: &Ticket) {
        self.unqueue(ticket);
        self.end(now, ticket);
    }

    /// Everything that waits was taken back. What is with the device is forgotten, too.
    pub(super) fn drained(&mut self) {
        self.tenants.iter_mut().for_each(|tenant| tenant.queued = 0);
        self.since.iter_mut().for_each(|since| *since = None);
        self.present = 0;
    }

    /// A ticket went to the device.
    pub(super) fn started(&mut self, ticket: &Ticket) {
        self.unqueue(ticket);
        self.tenant(ticket).with_device += 1;
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

    fn tenant(&mut self, ticket: &Ticket) -> &mut Tenant {
        let index = ticket.tenant.index();
        if self.tenants.len() <= index {
            self.tenants.resize(index + 1, Tenant::default());
        }
        &mut self.tenants[index]
    }

    /// Tickets from before this meter was there are not counted.
    fn unqueue(&mut self, ticket: &Ticket) {
        let tenant = self.tenant(ticket);
        tenant.queued = tenant.queued.saturating_sub(1);
    }

    fn back(&mut self, now: Nanos, ticket: &Ticket) -> Option<Span> {
        let tenant = self.tenant(ticket);
        tenant.with_device = tenant.with_device.saturating_sub(1);
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

impl Tenant {
    /// A request comes that finds nothing waiting.
    fn count(&mut self) {
        let off = f64::from(self.with_device) - self.mean;
        self.mean += (1.0 - COUNTS_KEPT) * off;
        self.variance = COUNTS_KEPT * (self.variance + (1.0 - COUNTS_KEPT) * off * off);
    }

    fn sends_now_and_then(&self) -> bool {
        self.mean < HARDLY_ANY || self.variance > DISPERSION_MIN * self.mean
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
            sparse.started(&request(0, slot));
            sparse.finished(at(begin + 4), &request(0, slot));
        }
        // Another tenant always asks: only its first request found nothing.
        (10..13).for_each(|slot| sparse.arrived(at(40), &request(1, slot)));
        assert_eq!(sparse.requests(), 4);
        let mean = sparse.mean_time(at(40)).unwrap();
        // Five came and four went, of which each took 4 ms.
        assert!((mean.log - natural_log(0.016 / 4.5)).abs() < 1e-9, "{mean:?}");
        sparse.withdrawn(at(41), &request(1, 11));
        assert_eq!(sparse.present, 1, "it waited behind its own");
    }

    #[test]
    fn one_that_is_starved_counts_while_it_is() {
        let mut sparse = Sparse::default();
        sparse.open(at(0));
        sparse.arrived(at(0), &request(0, 0));
        sparse.started(&request(0, 0));
        sparse.open(at(100));
        sparse.arrived(at(100), &request(0, 1));
        sparse.finished(at(101), &request(0, 1));
        let mean = sparse.mean_time(at(200)).unwrap();
        assert!(mean.log > natural_log(0.1), "100 ms of it are of this window: {mean:?}");
    }

    #[test]
    fn what_was_never_seen_to_come_is_no_matter() {
        let mut sparse = Sparse::default();
        sparse.started(&request(3, 7));
        sparse.finished(at(1), &request(3, 7));
        assert!(!sparse.is_there() && sparse.mean_time(at(2)).is_none());
    }

    /// Requests come one by one to a tenant that has so many with the device each time.
    fn counted(counts: impl Iterator<Item = u32>) -> Tenant {
        let mut tenant = Tenant::default();
        for with_device in counts {
            tenant.with_device = with_device;
            tenant.count();
        }
        tenant
    }

    #[test]
    fn a_closed_loop_of_more_than_one_is_not_sparse() {
        let in_a_loop = |depth: u32| counted(std::iter::repeat_n(depth - 1, 200));
        assert!(in_a_loop(1).sends_now_and_then(), "one at a time is little");
        assert!(!in_a_loop(2).sends_now_and_then() && !in_a_loop(16).sends_now_and_then());
        // Starved for a while, now and then.
        let starved = counted((0..200).map(|n| if n % 20 < 4 { 4 * (n % 20) } else { 1 }));
        assert!(starved.sends_now_and_then(), "{starved:?}");
    }
}
