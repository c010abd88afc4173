//! When requests start: at once when a place is free, or at instants that no server influences.
//!
//! In the open loop the instants are drawn whatever happens to earlier requests, and latency counts
//! from the instant drawn, not from when the request could be sent. A server that stalls is charged
//! for every request that it kept waiting; a generator that merely sends later would omit exactly
//! the latencies that matter (the coordinated omission).

use evenkeel_core::prng::Prng;
use evenkeel_core::time::{Nanos, Span};

use super::spec::Arrivals;

/// The instants of one client.
#[derive(Debug)]
pub(super) enum Pace {
    Closed,
    /// Distances in nanoseconds with their fraction, so that the rate is exact in the long run.
    Constant {
        next_ns: f64,
        step_ns: f64,
    },
    Poisson {
        next: Nanos,
        mean: Span,
        prng: Prng,
    },
}

impl Pace {
    /// The share of client `index` of `clients` in the group's arrivals, from `start` on.
    pub(super) fn new(
        arrivals: Arrivals,
        start: Nanos,
        (index, clients): (u32, u32),
        seed: u64,
    ) -> Self {
        let step_ns = |per_second: f64| 1e9 / per_second * f64::from(clients);
        match arrivals {
            Arrivals::Closed => Self::Closed,
            Arrivals::Constant { per_second } => {
                let step_ns = step_ns(per_second);
                // The clients take turns.
                let phase_ns = step_ns * f64::from(index) / f64::from(clients);
                Self::Constant { next_ns: start.0 as f64 + phase_ns, step_ns }
            }
            Arrivals::Poisson { per_second } => {
                // A superposition of independent Poisson processes is one of the summed rate.
                let mut prng = Prng::new(seed);
                let mean = Span(whole(step_ns(per_second)));
                Self::Poisson { next: start + prng.exponential(mean), mean, prng }
            }
        }
    }

    /// When the next request is due; `None` if at once.
    pub(super) fn due(&self) -> Option<Nanos> {
        match self {
            Self::Closed => None,
            Self::Constant { next_ns, .. } => Some(Nanos(whole(*next_ns))),
            Self::Poisson { next, .. } => Some(*next),
        }
    }

    /// The request that was due has started.
    pub(super) fn advance(&mut self) {
        match self {
            Self::Closed => {}
            Self::Constant { next_ns, step_ns } => *next_ns += *step_ns,
            Self::Poisson { next, mean, prng } => *next += prng.exponential(*mean),
        }
    }

    /// Nothing was due before `resume`: instants until then are dropped.
    pub(super) fn skip_to(&mut self, resume: Nanos) {
        while self.due().is_some_and(|due| due < resume) {
            self.advance();
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn whole(ns: f64) -> u64 {
    ns.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals_within(pace: &mut Pace, end: Nanos) -> u32 {
        let mut count = 0;
        while pace.due().unwrap() < end {
            pace.advance();
            count += 1;
        }
        count
    }

    #[test]
    fn constant_arrivals_of_several_clients_interleave_evenly() {
        let arrivals = Arrivals::Constant { per_second: 3000.0 };
        let mut paces: Vec<Pace> =
            (0..3).map(|index| Pace::new(arrivals, Nanos::ZERO, (index, 3), 1)).collect();
        let mut instants: Vec<u64> = Vec::new();
        for pace in &mut paces {
            for _ in 0..1000 {
                instants.push(pace.due().unwrap().0);
                pace.advance();
            }
        }
        instants.sort_unstable();
        let distances: Vec<u64> = instants.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(distances.iter().all(|&distance| distance.abs_diff(333_333) <= 1));
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_its_variance() {
        let arrivals = Arrivals::Poisson { per_second: 1000.0 };
        let counts: Vec<f64> = (0..400)
            .map(|seed| {
                let mut pace = Pace::new(arrivals, Nanos::ZERO, (0, 1), seed);
                f64::from(arrivals_within(&mut pace, Nanos(100_000_000)))
            })
            .collect();
        let mean = counts.iter().sum::<f64>() / 400.0;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 400.0;
        assert!((mean - 100.0).abs() < 2.0, "{mean}");
        assert!((variance - 100.0).abs() < 25.0, "{variance}");
    }

    #[test]
    fn arrivals_of_an_idle_interval_are_dropped() {
        let mut pace = Pace::new(Arrivals::Constant { per_second: 10.0 }, Nanos::ZERO, (0, 1), 1);
        pace.skip_to(Nanos(950_000_000));
        assert_eq!(pace.due(), Some(Nanos(1_000_000_000)));
    }
}
