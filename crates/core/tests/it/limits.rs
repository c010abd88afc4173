//! Limits against their definition, over random arrivals.

use evenkeel_core::id::TenantId;
use evenkeel_core::sched::fifo::Fifo;
use evenkeel_core::sched::limit::Limited;
use evenkeel_core::sched::{Limit, Next, Scheduler, Share};
use evenkeel_core::ticket::Ticket;
use evenkeel_core::time::{Nanos, Span};
use proptest::prelude::*;

use crate::support::ticket;

/// When each of one tenant's tickets arrived and passed, with its size.
#[derive(Clone, Copy, Debug)]
struct Passage {
    arrived: Nanos,
    passed: Nanos,
    size_bytes: u64,
}

/// Sends tickets of (gap in ns, size) through the limit, polling whenever it asks for it.
fn pass(limit: Limit, arrivals: &[(u64, u64)]) -> Vec<Passage> {
    let mut limited = Limited::new(Fifo::new(None));
    limited.configure(Nanos(0), TenantId(0), Share { limit, ..Share::default() });
    let mut tickets: Vec<(Nanos, Ticket)> = Vec::new();
    let mut passed = Vec::new();
    let mut clock = Nanos(0);
    let mut until = |limited: &mut Limited<Fifo>, sent: &[(Nanos, Ticket)], end: Nanos| {
        let mut at = clock;
        loop {
            match limited.poll(at) {
                Next::Dispatch(ticket) => {
                    let arrived = sent[ticket.slot as usize].0;
                    passed.push(Passage { arrived, passed: at, size_bytes: ticket.size_bytes });
                }
                Next::WaitUntil(next) if next <= end => at = next,
                Next::WaitUntil(_) | Next::Idle => break,
            }
        }
        clock = end;
    };
    let mut now = Nanos(0);
    for (slot, &(gap, size_bytes)) in (0..).zip(arrivals) {
        now += Span(gap);
        until(&mut limited, &tickets, now);
        let arrival = Ticket { size_bytes, ..ticket(0, slot, 1) };
        tickets.push((now, arrival));
        limited.enqueue(now, arrival);
    }
    until(&mut limited, &tickets, Nanos(u64::MAX - 1));
    passed
}

/// Whether tokens `amounts`, taken at these instants, break `rate * t + burst` over a window that
/// ends with the last of them.
fn breaks(taken: impl DoubleEndedIterator<Item = (Nanos, u64)>, rate: u64, burst: u64) -> bool {
    let mut sum = 0u128;
    let mut end = None;
    taken.rev().any(|(at, amount)| {
        let end = *end.get_or_insert(at);
        sum += u128::from(amount);
        let allowance = u128::from(end.since(at).0) * u128::from(rate);
        sum * 1_000_000_000 > u128::from(burst) * 1_000_000_000 + allowance
    })
}

fn breaks_either(passed: &[Passage], limit: Limit) -> bool {
    let requests = passed.iter().map(|p| (p.passed, 1));
    let bytes = passed.iter().map(|p| (p.passed, p.size_bytes));
    breaks(requests, limit.rate_iops, limit.burst_requests)
        || breaks(bytes, limit.rate_bytes, limit.burst_bytes)
}

fn limits() -> impl Strategy<Value = Limit> {
    (1..5_000_000u64, 1..20u64, 1..1_000_000_000u64, 1_000..20_000u64).prop_map(
        |(rate_iops, burst_requests, rate_bytes, burst_bytes)| Limit {
            rate_iops,
            rate_bytes,
            burst_requests,
            burst_bytes,
        },
    )
}

proptest! {
    #[test]
    fn no_window_sees_more_than_rate_and_burst_and_nothing_waits_longer_than_that_needs(
        limit in limits(),
        arrivals in prop::collection::vec((0..100_000u64, 0..1_000u64), 1..60),
    ) {
        let passed = pass(limit, &arrivals);
        prop_assert_eq!(passed.len(), arrivals.len(), "everything passes in the end");
        for index in 0..passed.len() {
            let so_far = &passed[..=index];
            prop_assert!(!breaks_either(so_far, limit), "{:?}", so_far);
            let this = passed[index];
            let previous = index.checked_sub(1).map_or(Nanos(0), |i| passed[i].passed);
            if this.passed > this.arrived.max(previous) {
                // One nanosecond earlier would have broken a bound: work-conserving up to the
                // limit.
                let mut earlier = so_far.to_vec();
                earlier[index].passed = Nanos(this.passed.0 - 1);
                prop_assert!(breaks_either(&earlier, limit), "{:?} waited too long", this);
            }
        }
    }

    #[test]
    fn requests_beyond_the_burst_pass_at_the_rate_in_the_long_run(
        rate_bytes in 1..1_000_000_000u64,
        sizes in prop::collection::vec(10_000..100_000u64, 2..20),
    ) {
        let limit = Limit { rate_bytes, burst_bytes: 1_000, ..Limit::default() };
        let arrivals: Vec<_> = sizes.iter().map(|&size| (0, size)).collect();
        let passed = pass(limit, &arrivals);
        // The last one passes when all before it are paid for and the bucket is full again.
        let paid: u64 = sizes[..sizes.len() - 1].iter().sum();
        let due = (u128::from(paid) * 1_000_000_000).div_ceil(u128::from(rate_bytes));
        // Each passes at a whole nanosecond; what drips in above a full bucket before it is lost.
        let last = u128::from(passed.last().unwrap().passed.0);
        prop_assert!(last >= due && last <= due + sizes.len() as u128, "{} for {}", last, due);
    }
}
