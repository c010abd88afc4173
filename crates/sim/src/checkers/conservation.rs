//! Conservation: for each tenant, what was sent is answered or under way.
//!
//! The sums are kept at the two ends, where clients send and where they hear; what is under way is
//! counted anew from the table of requests at each check, so that a request which slipped out of it
//! shows.

use evenkeel_core::id::TenantId;
use evenkeel_core::time::Nanos;

use super::{Rule, Verdict, broken};

/// Sums of one tenant.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    sent: u64,
    sent_bytes: u64,
    answered: u64,
    answered_bytes: u64,
    under_way: u64,
    under_way_bytes: u64,
}

/// Sums of every tenant.
#[derive(Clone, Debug)]
pub(crate) struct Conservation {
    tenants: Vec<Sums>,
}

impl Conservation {
    /// So many tenants, none of which has sent anything.
    pub(crate) fn new(tenants: usize) -> Self {
        Self { tenants: vec![Sums::default(); tenants] }
    }

    /// A client sent a request.
    pub(crate) fn sent(&mut self, tenant: TenantId, bytes: u64) {
        let sums = &mut self.tenants[tenant.index()];
        sums.sent += 1;
        sums.sent_bytes += bytes;
    }

    /// A client heard of a request that asked for so many bytes.
    pub(crate) fn answered(&mut self, tenant: TenantId, bytes: u64) {
        let sums = &mut self.tenants[tenant.index()];
        sums.answered += 1;
        sums.answered_bytes += bytes;
    }

    /// Holds the sums against the requests under way. O(tenants + under way).
    pub(crate) fn check(
        &mut self,
        now: Nanos,
        under_way: impl Iterator<Item = (TenantId, u64)>,
    ) -> Verdict {
        for sums in &mut self.tenants {
            (sums.under_way, sums.under_way_bytes) = (0, 0);
        }
        for (tenant, bytes) in under_way {
            let sums = &mut self.tenants[tenant.index()];
            sums.under_way += 1;
            sums.under_way_bytes += bytes;
        }
        let keeps = |sums: &Sums| {
            sums.sent == sums.answered + sums.under_way
                && sums.sent_bytes == sums.answered_bytes + sums.under_way_bytes
        };
        match self.tenants.iter().position(|sums| !keeps(sums)) {
            None => Ok(()),
            Some(tenant) => {
                let what = format!("tenant {tenant}: {:?}", self.tenants[tenant]);
                Err(broken(now, Rule::RequestsAreConserved, what))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TenantId = TenantId(0);
    const B: TenantId = TenantId(1);

    #[test]
    fn a_request_that_vanishes_is_noticed() {
        let mut conservation = Conservation::new(2);
        conservation.sent(A, 10);
        conservation.sent(B, 20);
        conservation.answered(A, 10);
        assert!(conservation.check(Nanos(0), [(B, 20)].into_iter()).is_ok());
        let violation = conservation.check(Nanos(3), std::iter::empty()).unwrap_err();
        assert_eq!((violation.at, violation.rule), (Nanos(3), Rule::RequestsAreConserved));
    }

    #[test]
    fn an_answer_to_another_tenant_or_of_other_bytes_is_noticed() {
        for (tenant, bytes) in [(B, 10), (A, 11)] {
            let mut conservation = Conservation::new(2);
            conservation.sent(A, 10);
            conservation.answered(tenant, bytes);
            assert!(conservation.check(Nanos(0), std::iter::empty()).is_err());
        }
    }
}
