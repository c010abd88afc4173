//! When requests start: at once when a place is free, or at instants that no server influences.
//!
//! In the open loop the instants are drawn whatever happens to earlier requests, and latency counts
//! from the instant drawn, not from when the request could be sent: a device that stalls is charged
//! for every request that it kept waiting.
//!
//! ```text
//! start                    idle                 stop
//!   |--1--2--3--4--5--|             |--9--10--11--|        6, 7 and 8 are never sent
//! ```

use std::ops::Range;

use evenkeel_core::prng::Prng;
use evenkeel_core::time::{Nanos, Span};

use crate::scenario::Arrivals;

/// The instants of one client.
#[derive(Clone, Debug)]
pub(crate) enum Pace {
    Closed,
    /// Distances in nanoseconds with their fraction, so that the rate is exact in the long run.
    /// Counted in the time during which bursts are on.
    Constant {
        origin: Nanos,
        next_ns: f64,
        step_ns: f64,
        bursts: Option<(Span, Span)>,
    },
    Poisson {
        next: Nanos,
        mean: Span,
        prng: Prng,
    },
}

/// When the clients of one group may start requests at all.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// None before the start, nor from the end on.
    pub(crate) active: Range<Nanos>,
    /// Nor in these intervals.
    pub(crate) idle: Vec<Range<Nanos>>,
}

/// What a client may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Start a request, which was due at this instant.
    At(Nanos),
    /// Ask again at this instant.
    Later(Nanos),
    /// Nothing any more.
    Never,
}

impl Schedule {
    /// What a client with this pace may do now. Instants that fall into an idle interval are
    /// dropped.
    pub(crate) fn due(&self, now: Nanos, pace: &mut Pace) -> Due {
        if now >= self.active.end {
            return Due::Never;
        }
        let pause = self.idle.iter().find(|idle| idle.contains(&now)).map(|idle| idle.end);
        let before = (now < self.active.start).then_some(self.active.start);
        if let Some(resume) = pause.max(before) {
            pace.skip_to(resume);
            return self.later(resume);
        }
        match pace.due() {
            Some(due) if due > now => self.later(due),
            due => Due::At(due.unwrap_or(now)),
        }
    }

    fn later(&self, at: Nanos) -> Due {
        if at < self.active.end { Due::Later(at) } else { Due::Never }
    }
}

impl Pace {
    /// The share of client `index` of `clients` in the group's arrivals, from `start` on.
    pub(crate) fn new(
        arrivals: Arrivals,
        start: Nanos,
        (index, clients): (u32, u32),
        seed: u64,
    ) -> Self {
        let step_ns = |per_second: f64| 1e9 / per_second * f64::from(clients);
        let constant = |per_second: f64, bursts| {
            let step_ns = step_ns(per_second);
            // The clients take turns.
            let next_ns = step_ns * f64::from(index) / f64::from(clients);
            Self::Constant { origin: start, next_ns, step_ns, bursts }
        };
        match arrivals {
            Arrivals::Closed { .. } => Self::Closed,
            Arrivals::Constant { per_second } => constant(per_second, None),
            Arrivals::OnOff { per_second, on, off } => constant(per_second, Some((on, off))),
            Arrivals::Poisson { per_second } => {
                // A superposition of independent Poisson processes is one of the summed rate.
                let mut prng = Prng::new(seed);
                let mean = Span(whole(step_ns(per_second)));
                Self::Poisson { next: start + prng.exponential(mean), mean, prng }
            }
        }
    }

    /// When the next request is due; `None` if at once.
    pub(crate) fn due(&self) -> Option<Nanos> {
        match self {
            Self::Closed => None,
            Self::Constant { origin, next_ns, bursts: None, .. } => {
                Some(*origin + Span(whole(*next_ns)))
            }
            Self::Constant { origin, next_ns, bursts: Some((on, off)), .. } => {
                let on_ns = whole(*next_ns);
                let bursts = on_ns / on.0;
                Some(*origin + Span(on_ns) + Span(bursts.saturating_mul(off.0)))
            }
            Self::Poisson { next, .. } => Some(*next),
        }
    }

    /// The request that was due has started.
    pub(crate) fn advance(&mut self) {
        match self {
            Self::Closed => {}
            Self::Constant { next_ns, step_ns, .. } => *next_ns += *step_ns,
            Self::Poisson { next, mean, prng } => *next += prng.exponential(*mean),
        }
    }

    /// Nothing was due before `resume`: instants until then are dropped.
    fn skip_to(&mut self, resume: Nanos) {
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
        let arrivals = Arrivals::Constant { per_second: 3000.0 };
        let mut all: Vec<u64> = (0..3)
            .flat_map(|index| instants(&mut Pace::new(arrivals, Nanos(0), (index, 3), 1), 1000))
            .collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| (333_332..=333_334).contains(&(pair[1] - pair[0]))));
        assert_eq!(all[2999], 999_666_667);
    }

    #[test]
    fn bursts_are_on_and_off_in_turn() {
        let [on, off] = [Span(1_000_000), Span(9_000_000)];
        let arrivals = Arrivals::OnOff { per_second: 4000.0, on, off };
        let dues = instants(&mut Pace::new(arrivals, Nanos(0), (0, 1), 1), 9);
        let [a, b, c] = [0, 10_000_000, 20_000_000];
        let quarter = 250_000;
        assert_eq!(dues[..5], [a, a + quarter, a + 2 * quarter, a + 3 * quarter, b]);
        assert_eq!(dues[8], c);
    }

    #[test]
    fn poisson_arrivals_have_their_rate() {
        let arrivals = Arrivals::Poisson { per_second: 1000.0 };
        let dues = instants(&mut Pace::new(arrivals, Nanos(0), (0, 1), 3), 50_000);
        let mean_ns = dues[49_999] / 50_000;
        assert!((980_000..1_020_000).contains(&mean_ns), "{mean_ns}");
    }

    #[test]
    fn nothing_starts_before_the_start_in_an_idle_interval_or_at_the_end() {
        let schedule =
            Schedule { active: Nanos(100)..Nanos(900), idle: vec![Nanos(300)..Nanos(500)] };
        let due = |now| schedule.due(Nanos(now), &mut Pace::Closed);
        assert_eq!(due(0), Due::Later(Nanos(100)));
        assert_eq!(due(100), Due::At(Nanos(100)));
        assert_eq!(due(300), Due::Later(Nanos(500)));
        assert_eq!(due(500), Due::At(Nanos(500)));
        assert_eq!(due(900), Due::Never);
    }

    #[test]
    fn instants_in_an_idle_interval_are_dropped_and_late_ones_kept() {
        let schedule =
            Schedule { active: Nanos(0)..Nanos(1000), idle: vec![Nanos(100)..Nanos(205)] };
        let step = Arrivals::Constant { per_second: 1e8 };
        let mut pace = Pace::new(step, Nanos(0), (0, 1), 1);
        assert_eq!(schedule.due(Nanos(50), &mut pace), Due::At(Nanos(0)), "late, but due");
        assert_eq!(schedule.due(Nanos(150), &mut pace), Due::Later(Nanos(205)));
        assert_eq!(pace.due(), Some(Nanos(210)));
    }
}
