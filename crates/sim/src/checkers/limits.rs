//! Limits: where a discipline promises them at dispatch, no window holds more than it may.
//!
//! Over any window of t seconds a tenant gets at most `rate * t` and its burst, and one request
//! that straddles the edge, the largest that it ever sends. What is above the rate is
//! counted as it comes; it drains at the rate:
//!
//! ```text
//! excess   |  /|  /|\                 more than burst + one request: some window held too much
//!          | / | / | \
//!          |/  |/  |  \____  0
//! ```
//!
//! mClock counts a limit from dispatches, so it is watched here. Other disciplines hold requests
//! back before they queue; what queues there may then leave in one go.

use evenkeel_core::id::TenantId;
use evenkeel_core::sched::Limit;
use evenkeel_core::time::Nanos;
use evenkeel_engine::policy::{Discipline, Domain, Mode, Scheduling, Sharing};

use super::{Rule, Verdict, broken};

/// Billionths: tokens are counted in these, so that `rate * nanoseconds` is a whole number.
const UNIT: u128 = 1_000_000_000;

/// The limits of every tenant at one server.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    requests: Meter,
    bytes: Meter,
}

/// What a tenant got beyond its rate.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    /// Tokens per second; zero for no limit.
    rate: u64,
    burst: u64,
    /// Tokens of the largest request so far.
    largest: u64,
    /// In billionths of a token, as of `at`.
    excess: u128,
    at: Nanos,
}

impl Limits {
    /// Watches a server of a domain; none if the policy promises no limits at dispatch there.
    pub(crate) fn new(domain: &Domain, scheduling: &Scheduling) -> Option<Self> {
        let by_itself = domain.servers.len() == 1 || domain.sharing == Sharing::Local;
        let at_dispatch = scheduling.discipline == Discipline::Mclock;
        if domain.mode != Mode::Enforce || !by_itself || !at_dispatch {
            return None;
        }
        Some(Self { rows: domain.tenants.iter().map(|(_, share)| Row::new(share.limit)).collect() })
    }

    /// A unit of the tenant was dispatched.
    pub(crate) fn dispatched(&mut self, now: Nanos, tenant: TenantId, bytes: u64) -> Verdict {
        let Some(row) = self.rows.get_mut(tenant.index()) else { return Ok(()) };
        row.requests.take(now, tenant, 1)?;
        row.bytes.take(now, tenant, bytes)
    }
}

impl Row {
    fn new(limit: Limit) -> Self {
        let meter = |rate, burst: u64| Meter { rate, burst, ..Meter::default() };
        Self {
            requests: meter(limit.rate_iops, limit.burst_requests.max(1)),
            bytes: meter(limit.rate_bytes, limit.burst_bytes),
        }
    }
}

impl Meter {
    fn take(&mut self, now: Nanos, tenant: TenantId, tokens: u64) -> Verdict {
        if self.rate == 0 {
            return Ok(());
        }
        let drained = u128::from(self.rate) * u128::from(now.since(self.at).0);
        self.excess = self.excess.saturating_sub(drained) + u128::from(tokens) * UNIT;
        self.at = now;
        self.largest = self.largest.max(tokens);
        let most = (u128::from(self.burst) + u128::from(self.largest)) * UNIT;
        if self.excess > most {
            let what = format!(
                "tenant {} is {} tokens above a limit of {} per second that bursts by {}",
                tenant.0,
                self.excess / UNIT,
                self.rate,
                self.burst
            );
            return Err(broken(now, Rule::LimitsHold, what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::sched::Share;

    fn limits(discipline: Discipline) -> Option<Limits> {
        let limit = Limit { rate_iops: 100, burst_requests: 5, ..Limit::default() };
        let scheduling = Scheduling { discipline, ..Scheduling::default() };
        let domain = Domain {
            mode: Mode::Enforce,
            tenants: vec![("a".to_owned(), Share { limit, ..Share::default() })],
            servers: vec![("s".to_owned(), scheduling.clone())],
            ..Domain::default()
        };
        Limits::new(&domain, &scheduling)
    }

    #[test]
    fn a_rate_with_its_burst_is_allowed_and_one_more_at_any_time_is_not() {
        let mut limits = limits(Discipline::Mclock).unwrap();
        let mut take = |ms: u64| limits.dispatched(Nanos(ms * 1_000_000), TenantId(0), 4096);
        assert!((0..6).all(|_| take(0).is_ok()), "the burst, and one at the edge");
        assert!((1..50).all(|tens| take(tens * 10).is_ok()), "the rate");
        assert_eq!(take(495).unwrap_err().rule, Rule::LimitsHold);
    }

    #[test]
    fn disciplines_that_hold_back_earlier_are_not_watched() {
        assert!(limits(Discipline::Sfq).is_none());
    }
}
