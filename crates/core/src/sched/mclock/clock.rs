//! Real-time tags of one tenant: when its next request is due, and when it is allowed.
//!
//! A clock ticks at a rate, in requests or bytes per second. A request of n tokens moves it by
//! `n / rate` seconds, but never behind the instant of the request (its arrival for a floor, its
//! dispatch for a limit):
//!
//! ```text
//! tag = max(previous tag + n / rate, instant - slack)
//! ```
//!
//! With a slack of zero a tenant that asked for less than its rate gains nothing from it. The
//! fraction of a nanosecond that a division leaves over is kept, so no rate drifts.

use std::num::NonZeroU64;

use crate::sched::{Floor, Limit};
use crate::ticket::Ticket;
use crate::time::Nanos;

const SECOND_NS: u64 = 1_000_000_000;

/// Where tags have the driver's epoch: a slack may reach behind it.
const EPOCH_NS: u64 = 1 << 62;

/// The greatest rate that a clock counts, so that two fractions add up; no device is as fast.
const RATE_MAX: u64 = 1 << 62;

/// How much service a request stands for, in the units that rates count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Amount {
    /// What a ticket itself stands for.
    pub fn of(ticket: &Ticket) -> Self {
        Self { requests: 1, bytes: ticket.size_bytes }
    }

    /// The sum; it saturates.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// What lies between an earlier sum and this one.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

/// An instant with a fraction of a nanosecond, in parts of `1 / rate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Tag {
    at: u64,
    fraction: u64,
}

/// One rate.
#[derive(Clone, Copy, Debug)]
struct Clock {
    rate: NonZeroU64,
    /// How far behind the instant of a request its tag may lie.
    slack_ns: u64,
    /// Tag of the request that moved it last; none before the first.
    last: Option<Tag>,
}

impl Clock {
    /// A clock whose tags may lie behind by the time that `slack_halves` half tokens take; none for
    /// a rate of zero.
    fn new(rate: u64, slack_halves: u64) -> Option<Self> {
        let rate = NonZeroU64::new(rate.min(RATE_MAX))?;
        let clock = Self { rate, slack_ns: 0, last: None };
        Some(Self { slack_ns: clock.span(slack_halves).at / 2, ..clock })
    }

    /// The tag of a request of `tokens` at this instant.
    fn tag(&self, at: Nanos, tokens: u64) -> Tag {
        let floor =
            Tag { at: at.0.saturating_add(EPOCH_NS).saturating_sub(self.slack_ns), fraction: 0 };
        let Some(last) = self.last else { return floor };
        let step = self.span(tokens);
        let fraction = last.fraction + step.fraction;
        let carry = u64::from(fraction >= self.rate.get());
        let next = Tag {
            at: last.at.saturating_add(step.at).saturating_add(carry),
            fraction: fraction - carry * self.rate.get(),
        };
        next.max(floor)
    }

    /// The time that `tokens` take at the rate.
    fn span(&self, tokens: u64) -> Tag {
        let rate = self.rate.get();
        if let Some(scaled) = tokens.checked_mul(SECOND_NS) {
            return Tag { at: scaled / rate, fraction: scaled % rate };
        }
        let scaled = u128::from(tokens) * u128::from(SECOND_NS);
        let rate = u128::from(rate);
        let narrow = |part: u128| u64::try_from(part).unwrap_or(u64::MAX);
        Tag { at: narrow(scaled / rate), fraction: narrow(scaled % rate) }
    }
}

/// The clocks of one bound: requests, bytes, or both.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    requests: Option<Clock>,
    bytes: Option<Clock>,
}

impl Clocks {
    /// When a tenant's requests are due.
    pub(super) fn of_floor(floor: Floor) -> Self {
        Self { requests: Clock::new(floor.rate_iops, 0), bytes: Clock::new(floor.rate_bytes, 0) }
    }

    /// When a tenant's requests are allowed. Half a request less than the burst is slack: a request
    /// that is dispatched a little late does not delay those behind it, and yet no more than the
    /// burst pass at once.
    pub(super) fn of_limit(limit: Limit) -> Self {
        let requests_slack = limit.burst_requests.max(1).saturating_mul(2) - 1;
        Self {
            requests: Clock::new(limit.rate_iops, requests_slack),
            bytes: Clock::new(limit.rate_bytes, limit.burst_bytes.saturating_mul(2)),
        }
    }

    /// The bound with new rates and the history of `before`, at nanosecond precision.
    pub(super) fn continuing(mut self, before: &Self) -> Self {
        let keep = |clock: &mut Option<Clock>, before: &Option<Clock>| {
            if let (Some(clock), Some(before)) = (clock, before) {
                clock.last = before.last.map(|tag| Tag { at: tag.at, fraction: 0 });
            }
        };
        keep(&mut self.requests, &before.requests);
        keep(&mut self.bytes, &before.bytes);
        self
    }

    /// The earliest instant at which one of the rates asks for the request; none without rates.
    pub(super) fn due_at(&self, at: Nanos, amount: Amount) -> Option<Nanos> {
        self.tags(at, amount).min()
    }

    /// The instant from which every rate allows the request; none without rates.
    pub(super) fn allowed_at(&self, at: Nanos, amount: Amount) -> Option<Nanos> {
        self.tags(at, amount).max()
    }

    /// Counts a request that was served.
    pub(super) fn advance(&mut self, at: Nanos, amount: Amount) {
        for (clock, tokens) in
            [(&mut self.requests, amount.requests), (&mut self.bytes, amount.bytes)]
        {
            if let Some(clock) = clock {
                clock.last = Some(clock.tag(at, tokens));
            }
        }
    }

    fn tags(&self, at: Nanos, amount: Amount) -> impl Iterator<Item = Nanos> {
        let requests = self.requests.map(|clock| clock.tag(at, amount.requests));
        let bytes = self.bytes.map(|clock| clock.tag(at, amount.bytes));
        // A fraction of a nanosecond later is the next one.
        let whole = |tag: Tag| {
            Nanos(tag.at.saturating_sub(EPOCH_NS).saturating_add(u64::from(tag.fraction > 0)))
        };
        requests.into_iter().chain(bytes).map(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    const ONE: Amount = Amount { requests: 1, bytes: 4096 };

    #[test]
    fn a_rate_that_does_not_divide_a_second_does_not_drift() {
        let mut floor = Clocks::of_floor(Floor { rate_iops: 7, rate_bytes: 0 });
        floor.advance(Nanos(0), ONE);
        for _ in 0..7_000_000 {
            floor.advance(Nanos(0), ONE);
        }
        assert_eq!(floor.due_at(Nanos(0), ONE), Some(Nanos(1_000_000 * SECOND_NS + 142_857_143)));
    }

    #[test]
    fn idleness_gains_nothing_and_a_burst_its_slack() {
        let late = Nanos(9 * SECOND_NS);
        let mut floor = Clocks::of_floor(Floor { rate_iops: 10, rate_bytes: 0 });
        floor.advance(Nanos(0), ONE);
        assert_eq!(floor.due_at(late, ONE), Some(late));
        let limit = Limit { rate_iops: 10, burst_requests: 3, ..Limit::default() };
        let mut limit = Clocks::of_limit(limit);
        for _ in 0..3 {
            assert!(limit.allowed_at(late, ONE) <= Some(late));
            limit.advance(late, ONE);
        }
        assert_eq!(limit.allowed_at(late, ONE), Some(late + Span::from_millis(50)));
    }

    #[test]
    fn a_floor_is_due_by_either_rate_and_a_limit_allows_by_both() {
        let mut floor = Clocks::of_floor(Floor { rate_iops: 10, rate_bytes: 4096 });
        floor.advance(Nanos(0), ONE);
        assert_eq!(floor.due_at(Nanos(0), ONE), Some(Nanos(100_000_000)));
        let limit = Limit { rate_iops: 10, rate_bytes: 4096, ..Limit::default() };
        let mut limit = Clocks::of_limit(limit);
        limit.advance(Nanos(0), ONE);
        assert_eq!(limit.allowed_at(Nanos(0), ONE), Some(Nanos(SECOND_NS)));
    }

    #[test]
    fn late_by_less_than_half_a_request_is_made_up_for() {
        let limit = Limit { rate_iops: 100, burst_requests: 1, ..Limit::default() };
        let mut limit = Clocks::of_limit(limit);
        let mut now = Nanos(0);
        for _ in 0..100 {
            limit.advance(now, ONE);
            now = limit.allowed_at(now, ONE).unwrap() + Span::from_millis(4);
        }
        assert_eq!(now, Nanos(100 * 10_000_000 - 1_000_000));
    }

    #[test]
    fn extreme_rates_do_not_overflow() {
        let mut floor = Clocks::of_floor(Floor { rate_iops: u64::MAX, rate_bytes: 1 });
        let huge = Amount { requests: u64::MAX, bytes: u64::MAX };
        (0..3).for_each(|_| floor.advance(Nanos(u64::MAX), huge));
        assert!(floor.due_at(Nanos(u64::MAX), huge).is_some());
    }
}
