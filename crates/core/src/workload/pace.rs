//! When requests start: at once when a place is free, or at instants that no server influences.
//!
//! In the open loop the instants are drawn whatever happens to earlier requests, and latency counts
//! from the instant drawn, not from when the request could be sent. A server that stalls is charged
//! for every request that it kept waiting; a generator that merely sends later would omit exactly
//! the latencies that matter (the coordinated omission).

use crate::prng::Prng;
use crate::time::{Nanos, Span};

/// The instants of one client.
#[derive(Clone, Debug)]
pub struct Pace(Rhythm);

#[derive(Clone, Debug)]
enum Rhythm {
    Closed,
    /// Distances in nanoseconds with their fraction, so that the rate is exact in the long run.
    /// Counted in the time during which bursts are on.
    Constant {
        origin: Nanos,
        next_ns: f64,
        step_ns: f64,
        bursts: Option<Bursts>,
    },
    Poisson {
        next: Nanos,
        mean: Span,
        prng: Prng,
    },
}

/// Work and pauses in turn; the first burst begins with the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// Length of a burst, above zero.
    pub on: Span,
    /// From the end of a burst to the next.
    pub off: Span,
}

/// One client among those that share a group's arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// When the group begins.
    pub start: Nanos,
    /// Which client, from 0.
    pub index: u32,
    /// How many clients; above zero.
    pub clients: u32,
}

impl Turn {
    fn step_ns(self, per_second: f64) -> f64 {
        1e9 / per_second * f64::from(self.clients)
    }
}

impl Pace {
    /// As soon as a place is free.
    pub fn closed() -> Self {
        Self(Rhythm::Closed)
    }

    /// At equal distances, `per_second` over all clients, all the time or in bursts.
    pub fn constant(per_second: f64, bursts: Option<Bursts>, turn: Turn) -> Self {
        let step_ns = turn.step_ns(per_second);
        // The clients take turns.
        let next_ns = step_ns * f64::from(turn.index) / f64::from(turn.clients);
        Self(Rhythm::Constant { origin: turn.start, next_ns, step_ns, bursts })
    }

    /// At random, memorylessly, `per_second` over all clients on average.
    pub fn poisson(per_second: f64, turn: Turn, seed: u64) -> Self {
        // A superposition of independent Poisson processes is one of the summed rate.
        let mut prng = Prng::new(seed);
        let mean = Span(whole(turn.step_ns(per_second)));
        Self(Rhythm::Poisson { next: turn.start + prng.exponential(mean), mean, prng })
    }

    /// When the next request is due; `None` if at once.
    pub fn due(&self) -> Option<Nanos> {
        match &self.0 {
            Rhythm::Closed => None,
            Rhythm::Constant { origin, next_ns, bursts, .. } => {
                let on_ns = whole(*next_ns);
                let paused = bursts.map_or(0, |it| (on_ns / it.on.0).saturating_mul(it.off.0));
                Some(*origin + Span(on_ns) + Span(paused))
            }
            Rhythm::Poisson { next, .. } => Some(*next),
        }
    }

    /// The request that was due has started.
    pub fn advance(&mut self) {
        match &mut self.0 {
            Rhythm::Closed => {}
            Rhythm::Constant { next_ns, step_ns, .. } => *next_ns += *step_ns,
            Rhythm::Poisson { next, mean, prng } => *next += prng.exponential(*mean),
        }
    }

    /// Nothing was due before `resume`: instants until then are dropped.
    pub fn skip_to(&mut self, resume: Nanos) {
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

    const ALONE: Turn = Turn { start: Nanos::ZERO, index: 0, clients: 1 };

    fn instants(pace: &mut Pace, count: usize) -> Vec<u64> {
        let next = |pace: &mut Pace| {
            let due = pace.due().unwrap().0;
            pace.advance();
            due
        };
        (0..count).map(|_| next(pace)).collect()
    }

    #[test]
    fn constant_arrivals_of_several_clients_interleave_evenly() {
        let turn = |index| Turn { index, clients: 3, ..ALONE };
        let mut all: Vec<u64> = (0..3)
            .flat_map(|index| instants(&mut Pace::constant(3000.0, None, turn(index)), 1000))
            .collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| (333_332..=333_334).contains(&(pair[1] - pair[0]))));
        assert_eq!(all[2999], 999_666_667);
    }

    #[test]
    fn bursts_are_on_and_off_in_turn() {
        let bursts = Bursts { on: Span(1_000_000), off: Span(9_000_000) };
        let dues = instants(&mut Pace::constant(4000.0, Some(bursts), ALONE), 9);
        let [a, b, c] = [0, 10_000_000, 20_000_000];
        let quarter = 250_000;
        assert_eq!(dues[..5], [a, a + quarter, a + 2 * quarter, a + 3 * quarter, b]);
        assert_eq!(dues[8], c);
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_its_variance() {
        let counts: Vec<f64> = (0..400)
            .map(|seed| {
                let dues = instants(&mut Pace::poisson(1000.0, ALONE, seed), 200);
                dues.iter().filter(|due| **due < 100_000_000).count() as f64
            })
            .collect();
        let mean = counts.iter().sum::<f64>() / 400.0;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 400.0;
        assert!((mean - 100.0).abs() < 2.0, "{mean}");
        assert!((variance - 100.0).abs() < 25.0, "{variance}");
    }

    #[test]
    fn arrivals_of_an_idle_interval_are_dropped() {
        let mut pace = Pace::constant(10.0, None, ALONE);
        pace.skip_to(Nanos(950_000_000));
        assert_eq!(pace.due(), Some(Nanos(1_000_000_000)));
    }
}
