//! Requests of tenants that a backend failed lately: how many, and why the last one.
//!
//! What a client did wrong itself is left out: a write to what is read only, a range that is not
//! there, a way to zero that the device lacks.
//!
//! Counts are kept for the period under way and the one before it, so that what is reported covers
//! one to two periods. The first failure of a period is logged, and the others are counted: a full
//! disk fails thousands of writes a second, and the log may be on that disk.

use std::collections::BTreeMap;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::time::{Nanos, Span};
use evenkeel_wire::nbd::proto::Errno;

/// See the module.
const PERIOD: Span = Span::from_secs(5);

/// Failures of all tenants of a domain.
#[derive(Debug, Default)]
pub(super) struct Failures {
    by_tenant: BTreeMap<TenantId, Failing>,
}

/// Failures of one tenant.
#[derive(Debug)]
struct Failing {
    period: u64,
    /// In the period under way, and in the one before it.
    count: u64,
    before: u64,
    server: ServerId,
    errno: Errno,
    /// Where the device says more than a number.
    detail: Option<String>,
}

/// What the device says of a failure.
pub(super) struct Failure<'a> {
    pub(super) tenant: TenantId,
    pub(super) server: ServerId,
    pub(super) errno: Errno,
    /// Where the device says more than a number.
    pub(super) detail: Option<&'a dyn Fn() -> String>,
}

/// What is known of one tenant's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedLately {
    pub(crate) tenant: TenantId,
    pub(crate) requests: u64,
    /// Where the last of them failed, and why.
    pub(crate) server: ServerId,
    pub(crate) why: String,
    /// Whether that is for want of room.
    pub(crate) is_full: bool,
}

impl Failures {
    /// A request failed. Returns how many did of this tenant in the period before, if this is the
    /// first of its period and so to be logged.
    pub(super) fn note(&mut self, now: Nanos, failure: &Failure<'_>) -> Option<u64> {
        let Failure { tenant, server, errno, detail } = *failure;
        if !is_of_the_backend(errno) {
            return None;
        }
        let period = now.0 / PERIOD.0;
        let failing = self.by_tenant.entry(tenant).or_insert(Failing {
            period,
            count: 0,
            before: 0,
            server,
            errno,
            detail: None,
        });
        failing.move_on(period);
        failing.count += 1;
        let is_first = failing.count == 1;
        // Words cost memory, and thousands of failures in a row are alike.
        if is_first || (failing.server, failing.errno) != (server, errno) {
            (failing.server, failing.errno) = (server, errno);
            failing.detail = detail.map(|words| words());
        }
        is_first.then_some(failing.before)
    }

    /// What failed lately, of each tenant of whom something did.
    pub(super) fn lately(&mut self, now: Nanos) -> Vec<FailedLately> {
        let period = now.0 / PERIOD.0;
        self.by_tenant.retain(|_, failing| {
            failing.move_on(period);
            failing.count + failing.before > 0
        });
        let all = self.by_tenant.iter().map(|(tenant, failing)| FailedLately {
            tenant: *tenant,
            requests: failing.count + failing.before,
            server: failing.server,
            why: failing.detail.clone().unwrap_or_else(|| failing.errno.to_string()),
            is_full: failing.errno == Errno::NoSpace,
        });
        all.collect()
    }
}

impl Failing {
    fn move_on(&mut self, period: u64) {
        match period.saturating_sub(self.period) {
            0 => return,
            1 => (self.before, self.count) = (self.count, 0),
            _ => (self.before, self.count) = (0, 0),
        }
        self.period = period;
    }
}

/// Whether this is the backend's failure rather than the client's mistake.
fn is_of_the_backend(errno: Errno) -> bool {
    match errno {
        Errno::Io | Errno::OutOfMemory | Errno::NoSpace | Errno::Shutdown => true,
        Errno::NotPermitted | Errno::Invalid | Errno::Overflow | Errno::NotSupported => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: TenantId = TenantId(1);

    fn failure(errno: Errno) -> Failure<'static> {
        Failure { tenant: T, server: ServerId(0), errno, detail: None }
    }

    fn at(seconds: u64) -> Nanos {
        Nanos::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn what_failed_counts_for_one_to_two_periods() {
        let mut failures = Failures::default();
        for _ in 0..3 {
            failures.note(at(4), &failure(Errno::NoSpace));
        }
        failures.note(at(6), &failure(Errno::Io));
        let lately = failures.lately(at(7));
        assert_eq!((lately[0].tenant, lately[0].requests), (T, 4));
        assert_eq!(lately[0].why, Errno::Io.to_string(), "the last one says why");
        assert_eq!(failures.lately(at(12))[0].requests, 1);
        assert_eq!(failures.lately(at(15)), []);
    }

    #[test]
    fn one_in_each_period_is_logged_with_how_many_there_were_before() {
        let mut failures = Failures::default();
        let mut logged = Vec::new();
        for millis in 0..12_000 {
            let now = Nanos::ZERO + Span::from_millis(millis);
            logged.extend(failures.note(now, &failure(Errno::NoSpace)));
        }
        assert_eq!(logged, [0, 5000, 5000]);
    }

    #[test]
    fn mistakes_of_clients_are_no_failures_of_the_backend() {
        let mut failures = Failures::default();
        for errno in [Errno::NotPermitted, Errno::Invalid, Errno::NotSupported] {
            assert_eq!(failures.note(at(1), &failure(errno)), None);
        }
        assert_eq!(failures.lately(at(1)), []);
    }

    #[test]
    fn what_the_device_says_stands_for_the_number() {
        let mut failures = Failures::default();
        let words = || "no room on /data".to_owned();
        failures.note(at(1), &Failure { detail: Some(&words), ..failure(Errno::NoSpace) });
        let lately = &failures.lately(at(1))[0];
        assert_eq!((lately.why.as_str(), lately.is_full), ("no room on /data", true));
    }
}
