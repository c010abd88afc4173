//! What the slots of a flow are held by, most of the time.
//!
//! ```text
//! 75 ms in each 100:  32 answers after 75 ms    2.4 s of slots
//! the other 25 ms:    8,000 answers of 0.1 ms   0.8 s of slots
//! ```
//!
//! By the mean over its answers such an export is quick, though for three quarters of the time it
//! holds all slots that it gets. So latencies are weighed by the time that they took of slots, and
//! the median of that is the flow's: half of its slot time went to requests that took longer. A
//! median, for a disk that orders its queue lets single requests wait for long.
//!
//! Latencies are kept by powers of two, each with the mean of those in it. All are halved twice a
//! second.

use evenkeel_core::ticket::Cost;
use evenkeel_core::time::Span;

use super::pace::Pace;

/// The last one holds whatever is longer, from nine minutes on.
const BUCKETS: usize = 40;
/// Answers count in so many parts, so that halving loses little.
const ONE: u64 = 1 << 10;

/// Latencies of a flow, by the time that they took of its slots.
#[derive(Debug)]
pub(super) struct SlotTime {
    buckets: [Bucket; BUCKETS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    answers: u64,
    latency_ns: u64,
    cost_ns: u64,
}

impl Default for SlotTime {
    fn default() -> Self {
        Self { buckets: [Bucket::default(); BUCKETS] }
    }
}

impl SlotTime {
    /// Takes in an answer.
    pub(super) fn answered(&mut self, latency: Span, cost: Cost) {
        let index = latency.0.checked_ilog2().unwrap_or(0) as usize;
        let bucket = &mut self.buckets[index.min(BUCKETS - 1)];
        bucket.answers += ONE;
        bucket.latency_ns = bucket.latency_ns.saturating_add(latency.0.saturating_mul(ONE));
        bucket.cost_ns = bucket.cost_ns.saturating_add(cost.0.saturating_mul(ONE));
    }

    /// Half a second has passed.
    pub(super) fn fade(&mut self) {
        for Bucket { answers, latency_ns, cost_ns } in &mut self.buckets {
            *answers /= 2;
            *latency_ns /= 2;
            *cost_ns /= 2;
        }
    }

    /// Latency and cost of the median; unknown without answers. O(1).
    pub(super) fn median(&self) -> Pace {
        let sum = |buckets: &[Bucket]| {
            buckets.iter().fold(0, |sum: u64, bucket| sum.saturating_add(bucket.latency_ns))
        };
        let half = sum(&self.buckets).div_ceil(2);
        let mut below: u64 = 0;
        let is_median = |bucket: &&Bucket| {
            below = below.saturating_add(bucket.latency_ns);
            bucket.answers > 0 && below >= half
        };
        let Some(bucket) = self.buckets.iter().find(is_median) else {
            return Pace::default();
        };
        let mut pace = Pace::default();
        let of_one = |sum: u64| sum / bucket.answers;
        pace.answered(Span(of_one(bucket.latency_ns)), Cost(of_one(bucket.cost_ns)), 1);
        pace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(answers: &[(u32, Span)]) -> SlotTime {
        let mut time = SlotTime::default();
        for (count, latency) in answers {
            (0..*count).for_each(|_| time.answered(*latency, Cost(latency.0)));
        }
        time
    }

    #[test]
    fn stalls_are_seen_however_many_quick_answers_come_between_them() {
        let stalls = of(&[(32, Span::from_millis(75)), (8000, Span::from_micros(100))]);
        assert_eq!(stalls.median().latency(), Span::from_millis(75));
    }

    #[test]
    fn single_requests_that_wait_for_long_are_none() {
        let ordered = of(&[(100, Span::from_millis(5)), (1, Span::from_millis(400))]);
        assert_eq!(ordered.median().latency(), Span::from_millis(5));
    }

    #[test]
    fn what_was_is_forgotten_within_seconds() {
        let mut time = of(&[(100, Span::from_millis(75))]);
        (0..10).for_each(|_| time.fade());
        (0..1000).for_each(|_| time.answered(Span::from_micros(100), Cost(1)));
        assert_eq!(time.median().latency(), Span::from_micros(100));
        (0..40).for_each(|_| time.fade());
        assert!(!time.median().is_known());
    }

    #[test]
    fn the_longest_times_overflow_nothing() {
        let time = of(&[(3, Span(u64::MAX)), (1, Span::ZERO)]);
        assert!(time.median().latency() > Span::from_secs(1));
    }
}
