//! What a tenant's requests take alone with the device.
//!
//! A device that serves many at once takes longer for a request than the request costs, and it is
//! nobody's fault. What a request takes is known, in times of its weight, by how much was there
//! when it went: nothing, as much again, twice as much, ..
//!
//! ```text
//! L / w    |                     x          one after another: the first that is known, less what
//!          |            x    x              was before it
//!          |   x    x                       many at once: the first that is known
//!          +---+----+---+----+---+--- W / w
//!              1    2   4    8
//! ```
//!
//! The two lowest that are known tell which, and how far it is down to a request alone: along the
//! line through them, on logarithms. While the device is slow or stands still nothing is noted.

use evenkeel_core::float::{exponential, natural_log};
use evenkeel_core::time::{Nanos, Span};

/// One request in so much time is looked at.
const SAMPLE_EVERY: Span = Span::from_millis(1);
/// Powers of two of W / w, after requests that were alone all the time.
const STEPS: usize = 12;
/// So many requests make a step known; those that were alone sooner.
const KNOWN: f32 = 24.0;
const KNOWN_ALONE: f32 = 8.0;
/// Older ones are forgotten with this time constant.
const MEMORY: Span = Span::from_secs(10);

/// Requests that found about as much with the device.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    requests: f32,
    /// Means of W / w, and of nanoseconds for a unit of weight.
    there: f32,
    ratio: f32,
    seen: Nanos,
}

/// What is known of one tenant's requests. See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Alone {
    /// Which unit weights were in.
    epoch: u32,
    next_sample: Nanos,
    steps: [Step; STEPS],
    known: Option<f64>,
}

impl Alone {
    /// A request of this weight took so long, with so much there when it went, itself included.
    pub(super) fn add(
        &mut self,
        (now, epoch): (Nanos, u32),
        is_alone: bool,
        (weight, weight_all): (u64, u64),
        time_ns: u64,
    ) {
        if self.epoch != epoch {
            *self = Self { epoch, ..Self::default() };
        }
        if now < self.next_sample {
            return;
        }
        self.next_sample = now + SAMPLE_EVERY;
        let times = weight_all / weight;
        let index = if is_alone { 0 } else { 1 + times.max(1).ilog2() as usize };
        let Some(step) = self.steps.get_mut(index) else { return };
        // What took no time at all has a logarithm all the same.
        step.add(now, weight_all as f32 / weight as f32, time_ns.max(1) as f32 / weight as f32);
    }

    /// A tick has passed.
    pub(super) fn tick(&mut self) {
        self.known = self.estimate();
    }

    fn estimate(&self) -> Option<f64> {
        let [alone, rest @ ..] = &self.steps;
        if alone.requests >= KNOWN_ALONE {
            return Some(f64::from(alone.ratio));
        }
        let mut known = rest.iter().filter(|step| step.requests >= KNOWN);
        let (first, second) = (known.next()?, known.next()?);
        let log = |one: f32| natural_log(f64::from(one));
        let apart = log(second.there) - log(first.there);
        // Means of neighbouring steps may be alike but for rounding.
        let rise = if apart > 0.0 { (log(second.ratio) - log(first.ratio)) / apart } else { 0.0 };
        let down = rise.clamp(0.0, 1.0) * log(first.there);
        Some(f64::from(first.ratio) * exponential(-down))
    }

    /// What a request of this weight takes alone, if that is known.
    pub(super) fn time_ns(&self, epoch: u32, weight: u64) -> Option<u64> {
        let known = self.known.filter(|_| self.epoch == epoch)?;
        Some(super::whole(weight as f64 * known))
    }
}

impl Step {
    fn add(&mut self, now: Nanos, there: f32, ratio: f32) {
        let passed = now.since(self.seen).0.min(MEMORY.0);
        self.requests += 1.0;
        let recent = passed as f32 / MEMORY.0 as f32;
        let part = (1.0 / self.requests).max(recent.min(1.0 / KNOWN));
        self.there += (there - self.there) * part;
        self.ratio += (ratio - self.ratio) * part;
        self.seen = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEIGHT: u64 = 1000;

    /// What a request takes alone by those that found so many others and took so long.
    fn learned(seen: &[(u64, u64)], is_alone: bool) -> Option<u64> {
        let mut alone = Alone::default();
        for round in 0..400 {
            let (others, time_ns) = seen[usize::try_from(round).unwrap() % seen.len()];
            let weights = (WEIGHT, WEIGHT * (1 + others));
            let is_alone = is_alone && others == 0;
            alone.add((Nanos(round * 2_000_000), 0), is_alone, weights, time_ns);
        }
        alone.tick();
        alone.time_ns(0, WEIGHT)
    }

    #[test]
    fn requests_that_were_alone_tell_it() {
        assert_eq!(learned(&[(0, 5000), (7, 40_000)], true), Some(5000));
    }

    #[test]
    fn one_after_another_it_is_less_than_what_any_took() {
        let ns = learned(&[(1, 10_000), (3, 20_000), (7, 40_000)], false).unwrap();
        assert!(ns.abs_diff(5000) < 100, "{ns}");
    }

    #[test]
    fn many_at_once_it_is_what_all_took() {
        let ns = learned(&[(1, 5000), (3, 5000), (7, 5000)], false).unwrap();
        assert!(ns.abs_diff(5000) < 100, "{ns}");
    }

    #[test]
    fn requests_that_take_no_time_are_borne() {
        assert!(learned(&[(1, 0), (3, 0), (7, 0)], false).is_some_and(|ns| ns <= 1));
        assert!(learned(&[(1, 0), (3, u64::MAX)], false).is_some_and(|ns| ns <= 1));
        assert_eq!(learned(&[(0, 0)], true), Some(1));
    }

    #[test]
    fn where_as_much_is_there_at_all_times_it_is_not_known() {
        assert_eq!(learned(&[(7, 40_000)], false), None);
    }

    #[test]
    fn in_another_unit_it_is_not_known() {
        let mut alone = Alone::default();
        for round in 0..100 {
            alone.add((Nanos(round * 2_000_000), 1), true, (WEIGHT, WEIGHT), 5000);
        }
        alone.tick();
        assert_eq!((alone.time_ns(1, WEIGHT), alone.time_ns(2, WEIGHT)), (Some(5000), None));
    }
}
