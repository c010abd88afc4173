//! The search for the load of the published experiment, by what the paper states of it.
//!
//! The paper's traces cannot be had, and no rate of theirs is printed. Stated is
//!
//! - what the array does: 320 slots at 200 ms;
//! - that all targets can be met, so that the load fits the array nearly always;
//! - how often each workload lacks slots when each has a fixed window (the percentages under
//!   RW(D)).
//!
//! [`search`] looks for rates with which the *fluid* windows of [`super::fluid`] break as often, on
//! [`FITTING_SEEDS`], under the bound that less than [`OVER_PERCENT_MAX`] of the seconds ask for
//! more than the array does. It runs no controller and no simulated drive, so that it cannot see
//! whose targets hold under which. The outcome is [`super::paper::FITTED`]; other seeds judge it.
//!
//! ```text
//!   for each pair of pauses: a coarse grid of rates, and from the best of it a pattern search over
//!   all five, in steps of 80, 40, 20, 10 and 5 per second
//!   objective: sum over levels and workloads of (fluid % - stated %)^2
//! ```

use std::ops::RangeInclusive;

use evenkeel_core::time::Span;

use super::fluid::{LatencyLine, broken_percent, over_percent};
use super::load::demand;
use super::paper::{DEPTH, Level, Shape};

/// The seeds that the search looks at; no other part of the experiment reports on them alone.
pub const FITTING_SEEDS: RangeInclusive<u64> = 1..=30;

/// The most seconds, in percent, that may ask for more than the array does at [`DEPTH`] slots.
pub const OVER_PERCENT_MAX: f64 = 2.0;

/// Pauses between the bursts of a pair that are tried, in seconds.
pub const PAUSES_S: [u64; 4] = [1, 2, 4, 8];

/// Steps of the search over rates, in requests per second, one after the other.
pub const STEPS_PER_S: [f64; 5] = [80.0, 40.0, 20.0, 10.0, 5.0];

/// Rates that are tried, in requests per second.
pub const RATES_PER_S: RangeInclusive<f64> = 50.0..=1_500.0;

/// The rates that each search looks at first, in requests per second: base, then bursts of both
/// pairs. It goes on from the best of these.
const BASES_PER_S: [f64; 4] = [150.0, 200.0, 250.0, 300.0];
const BURSTS_PER_S: [f64; 4] = [350.0, 450.0, 550.0, 650.0];

/// Length of a run and of its warm-up, as in the experiment.
const LENGTH: Span = Span::from_secs(110);
const WARM_UP_S: usize = 10;

/// Percent of the windows that break their target under request windows, by level (A, B) and
/// workload.
pub type WindowsPercent = [[f64; 4]; 2];

/// What a shape comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Which.
    pub shape: Shape,
    /// Under fluid windows.
    pub windows_percent: WindowsPercent,
    /// Seconds that ask for more than the array does at [`DEPTH`] slots.
    pub over_percent: f64,
    /// Requests per second that are asked for, on average.
    pub mean_per_s: f64,
    /// Sum of the squared differences to what is stated, in points of a percentage.
    pub error: f64,
}

impl Fit {
    fn compared(&self, other: &Self) -> std::cmp::Ordering {
        self.error.total_cmp(&other.error)
    }
}

/// The best shape, and what each pair of pauses came to at best.
pub fn search(
    stated: &WindowsPercent,
    line: LatencyLine,
    mut progress: impl FnMut(usize, usize),
) -> (Fit, Vec<Fit>) {
    let pairs = PAUSES_S.iter().flat_map(|web| PAUSES_S.iter().map(|tpcc| [*web, *tpcc]));
    let pairs: Vec<[u64; 2]> = pairs.collect();
    let mut tried = Vec::new();
    for pauses_s in &pairs {
        tried.push(search_rates(*pauses_s, stated, line));
        progress(tried.len(), pairs.len());
    }
    let best = tried.iter().copied().min_by(Fit::compared).expect("a pair of pauses");
    (best, tried)
}

/// The best rates with these pauses.
pub fn search_rates(pauses_s: [u64; 2], stated: &WindowsPercent, line: LatencyLine) -> Fit {
    Judge::new(pauses_s, FITTING_SEEDS, line, *stated).best_rates(pauses_s)
}

/// What a shape comes to on these seeds.
pub fn measure(
    shape: Shape,
    seeds: RangeInclusive<u64>,
    line: LatencyLine,
    stated: &WindowsPercent,
) -> Fit {
    Judge::new(shape.pauses_s, seeds, line, *stated).judge(shape)
}

/// The demand of one seed by workload and step, as rates for a base of one and for a burst of one.
struct Unit {
    base: Vec<Vec<f64>>,
    burst: Vec<Vec<f64>>,
}

/// Judges shapes with these pauses.
struct Judge {
    units: Vec<Unit>,
    line: LatencyLine,
    stated: WindowsPercent,
}

impl Judge {
    fn new(
        pauses_s: [u64; 2],
        seeds: RangeInclusive<u64>,
        line: LatencyLine,
        stated: WindowsPercent,
    ) -> Self {
        let unit = |base_per_s, burst_per_s, seed| {
            let shape = Shape { base_per_s, burst_per_s: [burst_per_s; 4], pauses_s };
            demand(&shape.loads(), &shape.bursts(), 1.0, LENGTH, seed)
        };
        let units =
            seeds.map(|seed| Unit { base: unit(1.0, 0.0, seed), burst: unit(0.0, 1.0, seed) });
        Self { units: units.collect(), line, stated }
    }

    /// From the best of the coarse grid it moves one rate at a time as long as that helps, in ever
    /// smaller steps.
    fn best_rates(&self, pauses_s: [u64; 2]) -> Fit {
        let starts = BASES_PER_S.iter().flat_map(|base| {
            let pairs = BURSTS_PER_S.iter().flat_map(|web| BURSTS_PER_S.map(|tpcc| (*web, tpcc)));
            pairs.map(|(web, tpcc)| Shape {
                base_per_s: *base,
                burst_per_s: [web, web, tpcc, tpcc],
                pauses_s,
            })
        });
        let starts = starts.map(|shape| self.judge(shape));
        let mut best = starts.min_by(Fit::compared).expect("a grid of rates");
        for step in STEPS_PER_S {
            loop {
                let before = best.error;
                for shape in neighbours(best.shape, step) {
                    let fit = self.judge(shape);
                    if fit.error < best.error {
                        best = fit;
                    }
                }
                if best.error >= before {
                    break;
                }
            }
        }
        best
    }

    fn judge(&self, shape: Shape) -> Fit {
        let mut windows_percent = [[0.0; 4]; 2];
        let (mut over, mut mean_per_s) = (0.0, 0.0);
        let part = 1.0 / self.units.len() as f64;
        for unit in &self.units {
            let demand = unit.demand(&shape);
            let all: f64 = demand.iter().flatten().sum();
            mean_per_s += part * all / demand[0].len() as f64;
            let most_per_s = self.line.throughput(f64::from(DEPTH));
            over += part * over_percent(&demand, most_per_s, WARM_UP_S);
            for (level, percent) in [Level::A, Level::B].into_iter().zip(&mut windows_percent) {
                let targets_s = level.targets().map(|target| target.latency_max.as_secs_f64());
                let slots = level.windows().map(f64::from);
                let broken = broken_percent(self.line, &demand, &slots, &targets_s, WARM_UP_S);
                percent.iter_mut().zip(broken).for_each(|(sum, broken)| *sum += part * broken);
            }
        }
        let pairs = windows_percent.iter().flatten().zip(self.stated.iter().flatten());
        let apart: f64 = pairs.map(|(fluid, stated)| (fluid - stated).powi(2)).sum();
        // What does not fit the array is worse than anything that does; less of it is better.
        let excess = (over - OVER_PERCENT_MAX).max(0.0);
        let error = if excess > 0.0 { 1e6 * (1.0 + excess) } else { apart };
        Fit { shape, windows_percent, over_percent: over, mean_per_s, error }
    }
}

impl Unit {
    fn demand(&self, shape: &Shape) -> Vec<Vec<f64>> {
        let workload = |load: usize| {
            let steps = self.base[load].iter().zip(&self.burst[load]);
            let rate = |(base, burst): (&f64, &f64)| {
                base * shape.base_per_s + burst * shape.burst_per_s[load]
            };
            steps.map(rate).collect()
        };
        (0..4).map(workload).collect()
    }
}

/// Shapes that differ in one rate, by `step` to either side, within [`RATES_PER_S`].
fn neighbours(shape: Shape, step: f64) -> Vec<Shape> {
    let mut all = Vec::new();
    for change in [-step, step] {
        all.push(Shape { base_per_s: shape.base_per_s + change, ..shape });
        for load in 0..4 {
            let mut other = shape;
            other.burst_per_s[load] += change;
            all.push(other);
        }
    }
    all.retain(|shape| {
        shape.burst_per_s.iter().chain([&shape.base_per_s]).all(|rate| RATES_PER_S.contains(rate))
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::paper::LINE;

    /// The rates of a load whose windows break so often are found again from elsewhere.
    #[test]
    fn the_search_finds_a_load_that_breaks_windows_as_often_as_stated() {
        let shape = Shape {
            base_per_s: 220.0,
            burst_per_s: [380.0, 400.0, 470.0, 440.0],
            pauses_s: [4, 4],
        };
        let seeds = 1..=4;
        let stated = measure(shape, seeds.clone(), LINE, &[[0.0; 4]; 2]).windows_percent;
        let judge = Judge::new(shape.pauses_s, seeds, LINE, stated);
        let found = judge.best_rates(shape.pauses_s);
        assert!(judge.judge(shape).error < 1e-9);
        assert!(found.error < 50.0, "{found:?}");
    }

    const SHAPE: Shape = Shape { base_per_s: 200.0, burst_per_s: [400.0; 4], pauses_s: [4, 4] };

    #[test]
    fn a_load_that_does_not_fit_the_array_is_worse_than_any_that_does() {
        let judge = Judge::new([4, 4], 1..=2, LINE, [[0.0; 4]; 2]);
        let heavy = judge.judge(Shape { base_per_s: 600.0, ..SHAPE });
        let heavier = judge.judge(Shape { base_per_s: 900.0, ..SHAPE });
        let light = judge.judge(Shape { base_per_s: 50.0, burst_per_s: [60.0; 4], ..SHAPE });
        assert!(heavy.over_percent > OVER_PERCENT_MAX && light.over_percent < OVER_PERCENT_MAX);
        assert!(light.error < heavy.error && heavy.error <= heavier.error);
    }

    #[test]
    fn demand_by_unit_rates_is_the_demand_of_the_load() {
        let shape = Shape { pauses_s: [8, 2], ..SHAPE };
        let judge = Judge::new(shape.pauses_s, 7..=7, LINE, [[0.0; 4]; 2]);
        let direct = demand(&shape.loads(), &shape.bursts(), 1.0, LENGTH, 7);
        let composed = judge.units[0].demand(&shape);
        for (direct, composed) in direct.iter().flatten().zip(composed.iter().flatten()) {
            assert!((direct - composed).abs() < 1e-9 * direct);
        }
    }
}
