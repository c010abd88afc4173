//! How fast the answers of one target come, and whether they come so slowly that others must be
//! guarded against it.
//!
//! Slots are lost to others for as long as their requests take, whatever these cost. A target is
//! **slow** beside others if its requests take [`SLOW_FACTOR`] times as long as those of the
//! quickest, and that also for their cost: on a device that serves one request after another all
//! take equally long, large or small; on one that serves many at once, large ones take longer, but
//! as much as they cost more. In both cases the scheduler's shares of cost are fair, and slots
//! need no owners.
//!
//! A device that serves one at a time need not do so in order, and may let the requests of one
//! target pass those of another. Where it is known to serve so ([`Learned`]), a latency is that of
//! a whole queue, and only what takes longer than queues explain is slow.
//!
//! [`Learned`]: crate::cost::learned::Learned
//!
//! A target of which no answer has come yet counts as slow: a burst to an export that hangs must
//! not take every slot before anything is known of it.

use evenkeel_core::ticket::Cost;
use evenkeel_core::time::Span;

/// So many times slower than the quickest is slow.
const SLOW_FACTOR: u64 = 4;
/// One over the weight of a new answer in the means.
const DECAY: u64 = 16;

/// Means over the latest answers of a target.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    latency_ns: u64,
    cost_ns: u64,
    /// Requests of its own in service, in thousandths.
    in_service_milli: u64,
    is_known: bool,
}

/// The quickest of several targets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quickest {
    /// Whose latency that is.
    index: Option<usize>,
    latency_ns: u64,
    /// Latency by cost, in thousandths.
    stretch_milli: u64,
}

impl Pace {
    /// Takes in an answer to one of so many requests in service.
    pub(super) fn answered(&mut self, latency: Span, cost: Cost, in_service: u32) {
        let (latency_ns, cost_ns) = (latency.0, cost.0.max(1));
        let in_service_milli = u64::from(in_service.max(1)) * 1000;
        if !self.is_known {
            *self = Self { latency_ns, cost_ns, in_service_milli, is_known: true };
            return;
        }
        self.latency_ns = blend(self.latency_ns, latency_ns);
        self.cost_ns = blend(self.cost_ns, cost_ns).max(1);
        self.in_service_milli = blend(self.in_service_milli, in_service_milli).max(1000);
    }

    /// How long its requests take; zero before the first answer.
    pub(super) fn latency(&self) -> Span {
        Span(self.latency_ns)
    }

    /// Whether an answer has come.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// As it is after no answer has come for so long, though some are due. The age of a single
    /// request says little: a disk that orders its queue lets some wait behind all others.
    pub(super) fn with_silence(self, length: Span) -> Self {
        Self { latency_ns: self.latency_ns.max(length.0), ..self }
    }

    /// Whether latency, and latency per request of its own in service, are so many times what they
    /// were.
    pub(super) fn is_slower_than(&self, before: &Self, times: u64) -> bool {
        let latency_ns = u128::from(before.latency_ns) * u128::from(times);
        let own = u128::from(self.latency_ns);
        let [now, then] = [self, before].map(|pace| u128::from(pace.in_service_milli));
        own >= latency_ns && own * then >= latency_ns * now
    }

    fn stretch_milli(&self) -> u64 {
        self.latency_ns.saturating_mul(1000) / self.cost_ns.max(1)
    }

    /// Whether it is slow beside the quickest of the others, where a request may have to wait for
    /// so many others.
    pub(super) fn is_slow_beside(&self, others: Quickest, queue: u64) -> bool {
        let factor = SLOW_FACTOR.saturating_mul(queue.max(1));
        let is_slower = |own: u64, theirs: u64| own / factor > theirs;
        !self.is_known
            || is_slower(self.latency_ns, others.latency_ns)
                && is_slower(self.stretch_milli(), others.stretch_milli)
    }
}

impl Quickest {
    /// Nobody yet.
    pub(super) const NONE: Self =
        Self { index: None, latency_ns: u64::MAX, stretch_milli: u64::MAX };

    /// How long its requests take; the longest span if there is none.
    pub(super) fn latency(self) -> Span {
        Span(self.latency_ns)
    }

    /// Whose latency that is, if there is any.
    pub(super) fn index(self) -> Option<usize> {
        self.index
    }

    /// With one more, of this number.
    pub(super) fn and(self, index: usize, pace: &Pace) -> Self {
        if !pace.is_known {
            return self;
        }
        let is_quicker = pace.latency_ns < self.latency_ns;
        Self {
            index: if is_quicker { Some(index) } else { self.index },
            latency_ns: self.latency_ns.min(pace.latency_ns),
            stretch_milli: self.stretch_milli.min(pace.stretch_milli()),
        }
    }
}

fn blend(mean: u64, sample: u64) -> u64 {
    mean - mean / DECAY + sample / DECAY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(latency: Span, cost: Span) -> Pace {
        let mut pace = Pace::default();
        pace.answered(latency, Cost(cost.0), 1);
        pace
    }

    fn is_slow(one: &Pace, other: &Pace) -> bool {
        one.is_slow_beside(Quickest::NONE.and(0, other), 1)
    }

    #[test]
    fn slow_is_what_takes_longer_and_does_not_cost_as_much_more() {
        let [small, large] = [Span::from_micros(100), Span::from_millis(10)];
        let one_by_one = [pace(large, small), pace(large, large)];
        assert!(!is_slow(&one_by_one[0], &one_by_one[1]), "all wait for the same device");
        let side_by_side = [pace(small, small), pace(large, large)];
        assert!(!is_slow(&side_by_side[1], &side_by_side[0]), "it takes what it costs");
        let other_device = [pace(small, small), pace(large, small)];
        assert!(is_slow(&other_device[1], &other_device[0]));
        assert!(!is_slow(&other_device[0], &other_device[1]));
    }

    #[test]
    fn behind_a_queue_slow_is_what_no_queue_explains() {
        let alone = pace(Span::from_millis(1), Span::from_millis(1));
        let passed = pace(Span::from_millis(20), Span::from_millis(1));
        let hangs = pace(Span::from_millis(500), Span::from_millis(1));
        let beside = Quickest::NONE.and(0, &alone);
        assert!(passed.is_slow_beside(beside, 1));
        assert!(!passed.is_slow_beside(beside, 8));
        assert!(hangs.is_slow_beside(beside, 8));
    }

    #[test]
    fn asking_for_more_is_no_sign_of_a_slower_device() {
        let of = |millis, in_service| {
            let mut pace = Pace::default();
            pace.answered(Span::from_millis(millis), Cost(1), in_service);
            pace
        };
        assert!(of(10, 1).is_slower_than(&of(1, 1), 2));
        assert!(!of(64, 64).is_slower_than(&of(1, 1), 2), "it waits for itself");
        assert!(!of(1, 1).is_slower_than(&of(1, 64), 2), "all are served at once");
    }

    #[test]
    fn one_without_answers_is_slow_and_no_measure_for_others() {
        let unknown = Pace::default();
        let known = pace(Span::from_millis(1), Span::from_millis(1));
        assert!(is_slow(&unknown, &known));
        assert!(!is_slow(&known, &unknown));
    }

    #[test]
    fn silence_counts_for_as_long_as_it_lasts() {
        let known = pace(Span::from_millis(1), Span::from_millis(1));
        let other = pace(Span::from_millis(1), Span::from_millis(1));
        assert!(!is_slow(&known, &other));
        assert!(is_slow(&known.with_silence(Span::from_millis(9)), &other));
    }
}
