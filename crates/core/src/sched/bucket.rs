//! A token bucket in exact integers.
//!
//! Tokens drip in at `rate` per second up to `burst`; a request takes as many as it has bytes (or
//! one). The level is kept in billionths of a token: then `rate * elapsed_ns` is a whole number of
//! them, and no remainder is ever lost or needs to be carried.
//!
//! ```text
//!     rate          level (may be a debt)
//!   -------> |#####______| burst      a request of n tokens passes at level >= min(n, burst)
//!                |                    and leaves level - n
//!                v take
//! ```

use std::num::NonZeroU64;

use super::Limit;
use crate::ticket::Ticket;
use crate::time::Nanos;

const UNIT: i128 = 1_000_000_000;

/// One bucket. See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// Tokens per second.
    rate: NonZeroU64,
    /// Most tokens it holds; at least 1.
    burst: u64,
    /// Billionths of a token, as of `updated`.
    level: i128,
    updated: Nanos,
}

impl Bucket {
    /// A full bucket; none for a rate of zero, which means no bound.
    pub fn new(now: Nanos, rate: u64, burst: u64) -> Option<Self> {
        let rate = NonZeroU64::new(rate)?;
        let burst = burst.max(1);
        Some(Self { rate, burst, level: i128::from(burst) * UNIT, updated: now })
    }

    /// Changes rate and burst from `now` on. A debt stays; a level above the burst is cut to it.
    pub fn change(&mut self, now: Nanos, rate: NonZeroU64, burst: u64) {
        self.refill(now);
        self.rate = rate;
        self.burst = burst.max(1);
        self.level = self.level.min(i128::from(self.burst) * UNIT);
    }

    /// When a request of `amount` tokens may pass; `now` if at once.
    pub fn ready_at(&mut self, now: Nanos, amount: u64) -> Nanos {
        self.refill(now);
        let missing = i128::from(amount.min(self.burst)) * UNIT - self.level;
        if missing <= 0 {
            return now;
        }
        let wait_ns = missing.unsigned_abs().div_ceil(u128::from(self.rate.get()));
        Nanos(now.0.saturating_add(u64::try_from(wait_ns).unwrap_or(u64::MAX)))
    }

    /// Takes `amount` tokens, when `ready_at` says so.
    pub fn take(&mut self, now: Nanos, amount: u64) {
        // What dripped in above the burst is gone by now; it must not pay for this request.
        self.refill(now);
        self.level -= i128::from(amount) * UNIT;
    }

    fn refill(&mut self, now: Nanos) {
        let elapsed_ns = now.since(self.updated).0;
        let gained = u128::from(elapsed_ns) * u128::from(self.rate.get());
        let gained = i128::try_from(gained).unwrap_or(i128::MAX);
        self.level = self.level.saturating_add(gained).min(i128::from(self.burst) * UNIT);
        self.updated = now;
    }
}

/// The buckets of one tenant's limit: requests, bytes, or both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buckets {
    requests: Option<Bucket>,
    bytes: Option<Bucket>,
}

impl Buckets {
    /// Full buckets; none for a limit that bounds nothing.
    pub(crate) fn new(now: Nanos, limit: Limit) -> Option<Self> {
        let requests = Bucket::new(now, limit.rate_iops, limit.burst_requests);
        let bytes = Bucket::new(now, limit.rate_bytes, limit.burst_bytes);
        (requests.is_some() || bytes.is_some()).then_some(Self { requests, bytes })
    }

    /// Changes the limit from `now` on; debts stay where a bound stays.
    pub(crate) fn change(&mut self, now: Nanos, limit: Limit) {
        change_bucket(&mut self.requests, now, limit.rate_iops, limit.burst_requests);
        change_bucket(&mut self.bytes, now, limit.rate_bytes, limit.burst_bytes);
    }

    /// When the ticket may pass; `now` if at once.
    pub(crate) fn ready_at(&mut self, now: Nanos, ticket: &Ticket) -> Nanos {
        let requests = self.requests.as_mut().map_or(now, |bucket| bucket.ready_at(now, 1));
        let bytes = self.bytes.as_mut().map_or(now, |b| b.ready_at(now, ticket.size_bytes));
        requests.max(bytes)
    }

    /// Takes what the ticket needs, when `ready_at` says so.
    pub(crate) fn take(&mut self, now: Nanos, ticket: &Ticket) {
        if let Some(bucket) = &mut self.requests {
            bucket.take(now, 1);
        }
        if let Some(bucket) = &mut self.bytes {
            bucket.take(now, ticket.size_bytes);
        }
    }
}

fn change_bucket(bucket: &mut Option<Bucket>, now: Nanos, rate: u64, burst: u64) {
    match (bucket, NonZeroU64::new(rate)) {
        (Some(bucket), Some(rate)) => bucket.change(now, rate, burst),
        (bucket, _) => *bucket = Bucket::new(now, rate, burst),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_is_lost_however_often_it_is_asked() {
        // 7 tokens per second, polled every 13 ns: each poll gains 91 billionths.
        let mut bucket = Bucket::new(Nanos(0), 7, 1_000).unwrap();
        bucket.take(Nanos(0), 1_000);
        for k in 0..1_000_000 {
            assert!(bucket.ready_at(Nanos(k * 13), 1) > Nanos(k * 13));
        }
        bucket.refill(Nanos(13_000_000));
        assert_eq!(bucket.level, 91_000_000);
    }

    #[test]
    fn the_promised_instant_is_exact() {
        let mut bucket = Bucket::new(Nanos(0), 3, 1).unwrap();
        bucket.take(Nanos(0), 1);
        let ready = bucket.ready_at(Nanos(0), 1);
        assert_eq!(ready, Nanos(333_333_334));
        assert_eq!(bucket.ready_at(ready, 1), ready);
    }

    #[test]
    fn a_request_beyond_the_burst_passes_from_a_full_bucket_and_leaves_a_debt() {
        let mut bucket = Bucket::new(Nanos(0), 100, 50).unwrap();
        assert_eq!(bucket.ready_at(Nanos(0), 250), Nanos(0));
        bucket.take(Nanos(0), 250);
        assert_eq!(bucket.ready_at(Nanos(0), 1), Nanos(2_010_000_000), "201 tokens at 100 per s");
    }

    #[test]
    fn extreme_rates_and_times_do_not_overflow() {
        let mut bucket = Bucket::new(Nanos(0), u64::MAX, u64::MAX).unwrap();
        bucket.take(Nanos(0), u64::MAX);
        assert_eq!(bucket.ready_at(Nanos(u64::MAX), u64::MAX), Nanos(u64::MAX));
        let mut slow = Bucket::new(Nanos(0), 1, u64::MAX).unwrap();
        slow.take(Nanos(0), u64::MAX);
        assert_eq!(slow.ready_at(Nanos(1), u64::MAX), Nanos(u64::MAX), "never, in this life");
    }
}
