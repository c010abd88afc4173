//! What several of these tests share.

use evenkeel_core::id::TenantId;
use evenkeel_core::sched::depth::DepthPolicy;
use evenkeel_core::sched::sfq::{Sfq, SfqOptions};
use evenkeel_core::sched::{Next, Scheduler, Share};
use evenkeel_core::ticket::{Cost, Kind, Ticket};
use evenkeel_core::time::{Nanos, Span};

/// A read of 4 KiB.
pub(crate) fn ticket(tenant: usize, slot: u32, cost: u64) -> Ticket {
    Ticket {
        tenant: TenantId(u32::try_from(tenant).unwrap()),
        kind: Kind::Read,
        slot,
        size_bytes: 4096,
        cost: Cost(cost),
        cost_elsewhere: Cost(0),
    }
}

/// SFQ(D) without a hold, with tenants of these weights.
pub(crate) fn sfq(depth: u32, weights: &[u32]) -> Sfq {
    let mut sfq = Sfq::new(SfqOptions { depth: DepthPolicy::Requests(depth), hold: Span::ZERO });
    for (tenant, weight) in (0..).zip(weights) {
        sfq.configure(Nanos(0), TenantId(tenant), share(*weight));
    }
    sfq
}

/// A share of so many wholes, without limits.
pub(crate) fn share(weight: u32) -> Share {
    Share { weight_milli: weight * 1000, ..Share::default() }
}

/// Everything that may go now, in order.
pub(crate) fn dispatch_all(scheduler: &mut impl Scheduler, now: Nanos) -> Vec<Ticket> {
    let next = || match scheduler.poll(now) {
        Next::Dispatch(ticket) => Some(ticket),
        Next::WaitUntil(at) => {
            assert!(at > now, "a wait ends in the future");
            None
        }
        Next::Idle => None,
    };
    std::iter::from_fn(next).collect()
}
