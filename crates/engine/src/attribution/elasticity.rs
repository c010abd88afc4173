//! How the time with a server grows with what is there: whether requests wait for each other in it.
//!
//! A server that takes one request after another takes twice as long where twice as much is before
//! it; one that serves all at once takes as long as ever. With W for the weight of all that is with
//! the server and L for the time that a request takes, L is proportional to W^e, and the elasticity
//! e is 1 for the first and 0 for the second. It is the slope of log L over log W, by least squares
//! on the differences from what each tenant's requests take on average, so that tenants with large
//! requests and tenants with small ones count alike.
//!
//! Alone, a request of weight w would have taken L * (w / W)^e; what is beyond that it waited for
//! others. Where W hardly varies nothing can be told, and nothing is.

use evenkeel_core::float::{exponential, natural_log};
use evenkeel_core::time::{Nanos, Span};

/// One request in so much time is looked at: logarithms take theirs.
const SAMPLE_EVERY: Span = Span::from_millis(1);
/// A tenant's means follow its last so many samples.
const MEANS: f64 = 64.0;
/// A tenant's first samples find its means.
const FIRST: u32 = 16;
/// What is left of sums after a tick.
const KEPT: f64 = 0.99;
/// So many samples must be remembered, ..
const SAMPLES_MIN: f64 = 64.0;
/// .. their W must vary by so much (the standard deviation of its logarithm), ..
const VARIES_MIN: f64 = 0.1;
/// .. and the standard error must be no greater. Samples of one moment are alike, so that it is
/// greater than by the formula, by this factor.
const ERROR_MAX: f64 = 0.15;
const ERROR_FACTOR: f64 = 3.0;

/// A tenant's means, of the logarithms of W and L.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Means {
    epoch: u32,
    samples: u32,
    weight_log: f64,
    time_log: f64,
}

/// The elasticity of one server.
#[derive(Clone, Debug, Default)]
pub(super) struct Elasticity {
    /// Counts how often weights changed their unit.
    epoch: u32,
    next_sample: Nanos,
    samples: f64,
    weight_squared: f64,
    time_squared: f64,
    product: f64,
    known: Option<f64>,
}

impl Elasticity {
    /// From now on weights are in another unit.
    pub(super) fn restart(&mut self) {
        *self = Self { epoch: self.epoch + 1, ..Self::default() };
    }

    /// A request of a tenant with these means took so long, with so much there when it went, itself
    /// included.
    ///
    /// If it is looked at, returns the logarithms of both.
    pub(super) fn add(
        &mut self,
        now: Nanos,
        means: &mut Means,
        weight_all: u64,
        time_ns: u64,
    ) -> Option<(f64, f64)> {
        if now < self.next_sample {
            return None;
        }
        self.next_sample = now + SAMPLE_EVERY;
        if means.epoch != self.epoch {
            *means = Means { epoch: self.epoch, ..Means::default() };
        }
        let weight_log = natural_log(weight_all.max(1) as f64);
        let time_log = natural_log(time_ns.max(1) as f64);
        let (weight_off, time_off) = (weight_log - means.weight_log, time_log - means.time_log);
        means.samples = means.samples.saturating_add(1);
        let part = 1.0 / f64::from(means.samples).min(MEANS);
        means.weight_log += weight_off * part;
        means.time_log += time_off * part;
        let logs = Some((weight_log, time_log));
        if means.samples <= FIRST {
            return logs;
        }
        self.samples += 1.0;
        self.weight_squared += weight_off * weight_off;
        self.time_squared += time_off * time_off;
        self.product += weight_off * time_off;
        logs
    }

    /// A tick has passed.
    pub(super) fn tick(&mut self) {
        self.known = self.estimate();
        let sums = [
            &mut self.samples,
            &mut self.weight_squared,
            &mut self.time_squared,
            &mut self.product,
        ];
        for sum in sums {
            *sum *= KEPT;
        }
    }

    /// The elasticity; as if one were served after another while it is not known.
    pub(super) fn assumed(&self) -> f64 {
        self.known.unwrap_or(1.0)
    }

    fn estimate(&self) -> Option<f64> {
        let varies_min = self.samples * VARIES_MIN * VARIES_MIN;
        if self.samples < SAMPLES_MIN || self.weight_squared < varies_min {
            return None;
        }
        let slope = self.product / self.weight_squared;
        let rest = (self.time_squared - slope * self.product).max(0.0) / self.samples;
        let error = ERROR_FACTOR * (rest / self.weight_squared).sqrt();
        (error <= ERROR_MAX).then(|| slope.clamp(0.0, 1.0))
    }

    /// How long a request of this weight would have taken alone, if that can be told; it took so
    /// long beside others.
    pub(super) fn alone_ns(&self, weight: u64, weight_all: u64, time_ns: u64) -> Option<u64> {
        let elasticity = self.known?;
        if weight >= weight_all {
            return Some(time_ns);
        }
        let part = weight as f64 / weight_all as f64;
        Some(super::part_of(time_ns, exponential(elasticity * natural_log(part))))
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::prng::Prng;

    use super::*;

    const WEIGHT: u64 = 1000;

    /// What a request is taken to take alone, with some others of its weight there and such times.
    fn alone(others: impl Fn(&mut Prng) -> u64, time_ns: impl Fn(u64) -> u64) -> Option<u64> {
        let (mut elasticity, mut means) = (Elasticity::default(), Means::default());
        let mut random = Prng::new(1);
        for round in 0..10_000 {
            let all = WEIGHT * (1 + others(&mut random));
            let time_ns = time_ns(all) * (900 + random.below(200)) / 1000;
            elasticity.add(Nanos(round * 1_000_000), &mut means, all, time_ns);
            if round % 100 == 0 {
                elasticity.tick();
            }
        }
        elasticity.alone_ns(WEIGHT, 16 * WEIGHT, time_ns(16 * WEIGHT))
    }

    #[test]
    fn one_after_another_a_request_takes_its_part() {
        let alone_ns = alone(|random| random.below(16), |all| all).unwrap();
        assert!((900..1150).contains(&alone_ns), "{alone_ns}");
    }

    #[test]
    fn where_all_are_served_at_once_it_takes_what_it_took() {
        let alone_ns = alone(|random| random.below(16), |_| 5_000_000).unwrap();
        assert!(alone_ns > 4_500_000, "{alone_ns}");
    }

    #[test]
    fn another_unit_of_weights_says_nothing_of_the_device() {
        let (mut elasticity, mut means) = (Elasticity::default(), Means::default());
        for unit in [1, 2] {
            for round in 0..10_000 {
                let now = Nanos((unit * 10_000 + round) * 1_000_000);
                elasticity.add(now, &mut means, unit * WEIGHT, 5_000_000);
            }
            elasticity.restart();
            elasticity.tick();
            assert_eq!(elasticity.alone_ns(WEIGHT, 2 * WEIGHT, 1), None);
        }
    }

    #[test]
    fn where_as_much_is_there_at_all_times_nothing_can_be_told() {
        assert_eq!(alone(|_| 15, |all| all), None);
        assert_eq!(alone(|_| 15, |_| 5_000_000), None);
    }
}
