//! What the device takes: mean latency as a line over the requests at it, learned on the way.
//!
//! ```text
//!   L(N) = a + b N        a   latency when idle        X(N) = N / L(N), by Little's law
//!                         1/b throughput that no depth exceeds
//! ```
//!
//! That latency is nearly linear in the requests outstanding was measured on many arrays by BASIL
//! (Gulati, Kumar, Ahmad and Kumar, FAST 2010, section 3). Here a sample is one period of all hosts
//! together: N is the time integral of outstanding requests over the period, X what completed, and
//! L = N/X. Unlike the mean of the latencies reported in a period, this pair tells of one and the
//! same time: the latency that completes now was caused by decisions up to L ago, and a controller
//! that acts on it oscillates as soon as its period comes near L.
//!
//! Estimator: least squares, the samples weighted by 1/L^2 (the error grows with the latency) and
//! forgotten by a constant factor per sample. While N hardly varies, the samples tell a point and
//! no slope. A weak guess about idleness decides then: too steep rather than too flat, so that the
//! depth moves, and teaches what the guess did not know.
//!
//! A device may change at once: a cache that took a burst is full, a drive of an array has failed.
//! The weights make that worse, for the quick samples from before count most. So what was learned
//! is forgotten as a whole when some samples running are far from what it says.

/// A line of mean latency over requests outstanding, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Latency when idle, above zero.
    pub idle_s: f64,
    /// What each further request adds, above zero.
    pub per_request_s: f64,
}

impl Line {
    /// The mean latency with so many outstanding.
    pub fn latency_s(&self, outstanding: f64) -> f64 {
        self.idle_s + self.per_request_s * outstanding
    }

    /// Requests per second with so many outstanding.
    pub fn throughput(&self, outstanding: f64) -> f64 {
        outstanding / self.latency_s(outstanding)
    }

    /// How many may be outstanding for this mean latency; below zero if it is never reached.
    pub fn outstanding(&self, latency_s: f64) -> f64 {
        (latency_s - self.idle_s) / self.per_request_s
    }
}

/// Learns the [`Line`] of a device from periods of all its hosts. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Estimator {
    line: Option<Line>,
    /// Weighted sums over samples (n, l): 1, n, n^2, l, nl.
    sums: [f64; 5],
    /// The sample under way: its length, its slot time and its completions.
    sample: [f64; 3],
    /// The fewest requests outstanding in a sample, and how many samples ago that was.
    least: Option<(f64, u32)>,
    /// Samples running that were far above the line; below it if negative.
    astray: i32,
}

/// A sample is far from the line if it is longer or shorter by this factor.
const FAR: f64 = 1.25;

/// So many samples running that are far from the line on one side are of another device: more than
/// a latency of several periods can bring about, or chance.
const ASTRAY_MAX: i32 = 10;

/// What was seen of a depth is known for so many samples: the device may have changed since.
const SEEN_MAX: u32 = 300;

/// What of the past a sample leaves in place.
const FORGET: f64 = 0.995;

/// Part of the mean latency that is guessed to be there when idle, and what the guess weighs, in
/// samples: enough to decide where all samples are of one depth, and no more.
const GUESSED_IDLE: f64 = 0.2;
const GUESS_WEIGHT: f64 = 0.05;

/// A sample takes in periods until so many requests completed: fewer tell of chance. So a slow
/// device is learned as well as a fast one, though not as soon.
const COMPLETIONS_MIN: f64 = 16.0;

/// Samples with less at the device say nothing about a queue.
const OUTSTANDING_MIN: f64 = 1.0;

impl Estimator {
    /// The line as it is believed to be; none before the first sample.
    pub fn line(&self) -> Option<Line> {
        self.line
    }

    /// Whether it was seen how the device answers with hardly more than so many outstanding.
    pub fn has_seen(&self, outstanding: f64) -> bool {
        self.least.is_some_and(|(least, _)| least <= 2.0 * outstanding)
    }

    /// Whether the device can have this mean latency, in seconds, with so many outstanding. What
    /// was not seen is believed to be possible: the line says little of depths at which the device
    /// never was.
    pub fn can_keep(&self, latency_s: f64, outstanding: f64) -> bool {
        let is_missed = self.line.is_some_and(|line| latency_s < line.latency_s(outstanding));
        !(is_missed && self.has_seen(outstanding))
    }

    /// A period of `period_s` seconds: the time integral of outstanding requests, in seconds, and
    /// how many completed.
    pub fn note(&mut self, period_s: f64, slot_time_s: f64, completions: f64) {
        for (sum, more) in self.sample.iter_mut().zip([period_s, slot_time_s, completions]) {
            *sum += more;
        }
        if self.sample[2] < COMPLETIONS_MIN {
            return;
        }
        let [period_s, slot_time_s, completions] = std::mem::take(&mut self.sample);
        let outstanding = slot_time_s / period_s;
        if outstanding < OUTSTANDING_MIN {
            return;
        }
        let latency_s = slot_time_s / completions;
        self.notice_change(outstanding, latency_s);
        let kept = self.least.filter(|(least, age)| *least < outstanding && *age < SEEN_MAX);
        self.least = Some(kept.map_or((outstanding, 0), |(least, age)| (least, age + 1)));
        let weight = 1.0 / (latency_s * latency_s);
        let terms =
            [1.0, outstanding, outstanding * outstanding, latency_s, outstanding * latency_s];
        for (sum, term) in self.sums.iter_mut().zip(terms) {
            *sum = FORGET * *sum + weight * term;
        }
        self.line = Some(self.solve());
    }

    /// Forgets everything if the device is no longer the one that was learned.
    fn notice_change(&mut self, outstanding: f64, latency_s: f64) {
        let Some(line) = self.line else { return };
        let ratio = latency_s / line.latency_s(outstanding);
        self.astray = match ratio {
            above if above > FAR => self.astray.max(0) + 1,
            below if below < 1.0 / FAR => self.astray.min(0) - 1,
            _ => 0,
        };
        if self.astray.abs() >= ASTRAY_MAX {
            *self = Self::default();
        }
    }

    /// The least squares, with a weak sample more at idleness.
    fn solve(&self) -> Line {
        let [mut one, n, nn, mut l, nl] = self.sums;
        let idle_s = GUESSED_IDLE * l / one;
        let weight = GUESS_WEIGHT * one * one / (l * l);
        one += weight;
        l += weight * idle_s;
        let determinant = one * nn - n * n;
        // Neither can be negative on a real device; the other end of the line then follows.
        let (mean_n, mean_l) = (n / one, l / one);
        let slope = (one * nl - n * l) / determinant;
        let slope = slope.clamp(0.05 * mean_l / mean_n, 0.98 * mean_l / mean_n);
        Line { idle_s: mean_l - slope * mean_n, per_request_s: slope }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;

    fn learn(line: Line, depths: impl Iterator<Item = f64>, noise: f64) -> Line {
        let (mut estimator, mut prng) = (Estimator::default(), Prng::new(4));
        for outstanding in depths {
            let factor = 1.0 + noise * (prng.unit_f64() - 0.5);
            let completions = line.throughput(outstanding) * 0.1 * factor;
            estimator.note(0.1, outstanding * 0.1, completions);
        }
        estimator.line().unwrap()
    }

    #[test]
    fn the_line_of_a_linear_device_is_found() {
        for (idle_s, per_request_s) in [(0.02, 0.0006), (0.05, 0.0003), (0.005, 0.001)] {
            let line = Line { idle_s, per_request_s };
            let found = learn(line, (0..400).map(|step| 60.0 + f64::from(step * 37 % 300)), 0.2);
            for outstanding in [60.0, 200.0, 350.0] {
                let error = found.latency_s(outstanding) / line.latency_s(outstanding) - 1.0;
                assert!(error.abs() < 0.05, "{line:?} {found:?} at {outstanding}");
            }
        }
    }

    #[test]
    fn a_device_always_at_one_depth_is_known_there() {
        let line = Line { idle_s: 0.02, per_request_s: 0.0006 };
        let found = learn(line, std::iter::repeat_n(200.0, 300), 0.1);
        let error = found.latency_s(200.0) / line.latency_s(200.0) - 1.0;
        assert!(error.abs() < 0.02, "{found:?}");
        assert!(found.idle_s > 0.0 && found.per_request_s > 0.0);
    }

    #[test]
    fn a_slow_device_is_learned_over_many_periods() {
        // 100 requests per second however deep the queue: ten complete in a period.
        let mut estimator = Estimator::default();
        (0..400).for_each(|step| estimator.note(0.1, 0.1 * f64::from(2 + step % 9), 10.0));
        let latency_s = estimator.line().unwrap().latency_s(6.0);
        assert!((latency_s / 0.06 - 1.0).abs() < 0.1, "{latency_s}");
    }

    #[test]
    fn a_change_of_the_device_is_learned() {
        let (before, after) = (
            Line { idle_s: 0.02, per_request_s: 0.0006 },
            Line { idle_s: 0.02, per_request_s: 0.0012 },
        );
        let mut estimator = Estimator::default();
        for step in 0..1500u32 {
            let outstanding = 100.0 + f64::from(step * 37 % 200);
            let line = if step < 500 { before } else { after };
            estimator.note(0.1, outstanding * 0.1, line.throughput(outstanding) * 0.1);
        }
        let error = estimator.line().unwrap().latency_s(200.0) / after.latency_s(200.0) - 1.0;
        assert!(error.abs() < 0.05, "{:?}", estimator.line());
    }

    #[test]
    fn a_cache_that_took_a_burst_does_not_decide_for_long() {
        let mut estimator = Estimator::default();
        let mut note = |outstanding: f64, latency_s: f64| {
            estimator.note(0.1, outstanding * 0.1, outstanding / latency_s * 0.1);
            estimator.line().unwrap().latency_s(10.0)
        };
        (0..30).for_each(|_| _ = note(60.0, 0.002));
        // A pipe of 1,000 requests per second from now on.
        (0..10).for_each(|_| _ = note(60.0, 0.060));
        let believed_s = (0..10).map(|step| note(10.0 + f64::from(step), 0.01)).last();
        assert!((believed_s.unwrap() / 0.01 - 1.0).abs() < 0.2, "{believed_s:?}");
    }

    #[test]
    fn what_was_seen_is_told_apart_from_what_is_guessed() {
        let mut estimator = Estimator::default();
        estimator.note(0.1, 6.0, 100.0);
        assert!(!estimator.has_seen(4.0) && estimator.has_seen(40.0));
        estimator.note(0.1, 0.5, 50.0);
        assert!(estimator.has_seen(4.0));
    }

    #[test]
    fn a_device_that_is_hardly_used_teaches_nothing() {
        let mut estimator = Estimator::default();
        (0..100).for_each(|_| estimator.note(0.1, 0.01, 3.0));
        assert_eq!(estimator.line(), None);
    }
}
