//! How much a tenant asks for, and whether it is there at all.
//!
//! A tenant that has something waiting for a good part of an epoch would take whatever it is given.
//! One whose queues are dry most of the time asks for what it sends and no more; the allocator
//! should hand the rest to others. Its offer is what it sent in the better of the last two epochs,
//! half as much again and a few requests on top: so that it can grow, and be seen to.
//!
//! ```text
//! waiting   __####___##_________|_#########_#####|      # something queued, here or at a device
//!           a quarter or less:    more: offers
//!           offers what it sent   without end
//! ```

use crate::time::{Nanos, Span};

/// Requests per epoch that may come on top of what came.
const SPARE_REQUESTS: u64 = 8;
/// Epochs without a request after which a tenant with nothing in the system has left.
const IDLE_EPOCHS: u8 = 3;

/// What one tenant asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offer {
    is_present: bool,
    idle_epochs: u8,
    /// Tickets that wait, here or at a device.
    waiting: u32,
    waiting_since: Nanos,
    /// Time in this epoch in which something waited.
    waited: Span,
    /// Requests that arrived in this epoch.
    arrivals: u64,
    /// Offers of the two epochs before it, the last one first, in requests per second; none while
    /// it would take whatever it is given.
    past_iops: [Option<u64>; 2],
}

impl Offer {
    /// A request arrived. True if the tenant was not there.
    pub(super) fn arrive(&mut self, now: Nanos) -> bool {
        self.arrivals += 1;
        if self.waiting == 0 {
            self.waiting_since = now;
        }
        self.waiting += 1;
        !std::mem::replace(&mut self.is_present, true)
    }

    /// Of those that wait, one went to its device or was taken back.
    pub(super) fn depart(&mut self, now: Nanos) {
        self.waiting -= 1;
        if self.waiting == 0 {
            self.waited += now.since(self.waiting_since);
        }
    }

    /// Ends an epoch of this length. `has_admitted` tells whether something is still in service.
    pub(super) fn end_epoch(&mut self, now: Nanos, length: Span, has_admitted: bool) {
        if self.waiting > 0 {
            self.waited += now.since(self.waiting_since);
            self.waiting_since = now;
        }
        let is_backlogged = self.waited.0 > length.0 / 4;
        let scaled = u128::from(self.arrivals * 3 / 2 + SPARE_REQUESTS) * 1_000_000_000;
        let offered_iops = u64::try_from(scaled / u128::from(length.0.max(1))).unwrap_or(u64::MAX);
        self.past_iops = [(!is_backlogged).then_some(offered_iops), self.past_iops[0]];
        let is_idle = self.arrivals == 0 && self.waiting == 0 && !has_admitted;
        self.idle_epochs = if is_idle { (self.idle_epochs + 1).min(IDLE_EPOCHS) } else { 0 };
        if self.idle_epochs == IDLE_EPOCHS {
            *self = Self::default();
        }
        self.waited = Span::ZERO;
        self.arrivals = 0;
    }

    /// Whether the tenant takes part.
    pub(super) fn is_present(&self) -> bool {
        self.is_present
    }

    /// What it asks for at most, in requests per second; none if there is no end to it.
    pub(super) fn most_iops(&self) -> Option<u64> {
        let [last, before] = self.past_iops;
        Some(last?.max(before?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Span = Span::from_secs(1);

    #[test]
    fn a_dry_queue_offers_what_came_and_somewhat_more() {
        let mut offer = Offer::default();
        let mut now = Nanos(0);
        for _ in 0..2 {
            assert_eq!(offer.most_iops(), None, "unknown until two epochs were seen");
            for _ in 0..100 {
                offer.arrive(now);
                offer.depart(now + Span::from_millis(2));
                now += Span::from_millis(10);
            }
            offer.end_epoch(now, EPOCH, false);
        }
        assert_eq!(offer.most_iops(), Some(158));
    }

    #[test]
    fn a_backlog_for_more_than_a_quarter_of_the_time_offers_without_end() {
        let mut offer = Offer::default();
        for epoch in 1..4 {
            offer.arrive(Nanos(epoch * EPOCH.0));
            offer.depart(Nanos(epoch * EPOCH.0 + EPOCH.0 / 3));
            offer.end_epoch(Nanos((epoch + 1) * EPOCH.0), EPOCH, false);
        }
        assert_eq!(offer.most_iops(), None);
    }

    #[test]
    fn a_tenant_leaves_after_three_idle_epochs_with_nothing_in_service() {
        let mut offer = Offer::default();
        assert!(offer.arrive(Nanos(0)));
        offer.depart(Nanos(0));
        for epoch in 1..9 {
            offer.end_epoch(Nanos(epoch * EPOCH.0), EPOCH, epoch < 5);
            assert_eq!(offer.is_present(), epoch < 7, "{epoch}");
        }
        assert!(offer.arrive(Nanos(9 * EPOCH.0)), "it has to come anew");
    }
}
