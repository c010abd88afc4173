//! Every method at every level and load over every seed, on as many threads as there are cores.
//!
//! A run is a pure function of its setting, so that the threads change nothing but the time it
//! takes. Claims are judged on seeds that the load was not fitted on ([`Scope::full`]).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel_core::time::Span;
use evenkeel_sim::control::exchange::Way;
use evenkeel_sim::control::fit::FITTING_SEEDS;
use evenkeel_sim::control::paper::{Level, Method, Setting};

use super::spread::Spread;

/// Seeds that claims are judged on.
const REPORTING_SEEDS: u64 = 30;

/// The same, if it has to be quick.
const QUICK_SEEDS: u64 = 5;

/// From one set of reporting seeds to the next: `--seed 1` reports on 101 to 130, 2 on 201 to 230.
const SEEDS_APART: u64 = 100;

/// How large the experiment is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scope {
    pub(super) seeds: RangeInclusive<u64>,
    pub(super) length: Span,
    pub(super) warm_up: Span,
    /// Thousandths of the feasible load.
    pub(super) loads_milli: Vec<u32>,
}

/// What came of one run, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Score {
    /// Windows that broke their target, by workload.
    pub(super) violating: [f64; 4],
    /// Requests that took longer than the target's latency, of all workloads.
    pub(super) late: f64,
}

impl Score {
    /// Violating windows, the mean over the workloads.
    pub(super) fn violating_all(&self) -> f64 {
        self.violating.iter().sum::<f64>() / 4.0
    }
}

/// A method under one level and load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) level: Level,
    pub(super) load_milli: u32,
    pub(super) method: Method,
}

/// The scores of all cells, by seed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scores(BTreeMap<Cell, Vec<Score>>);

impl Scope {
    /// The experiment on the reporting seeds of `--seed`; none of a number that has no seeds of its
    /// own: 0, whose seeds would be those of the fit, and what goes beyond 64 bits.
    pub(super) fn full(number: u64) -> Option<Self> {
        let first = number.checked_mul(SEEDS_APART).filter(|first| *first > 0)? + 1;
        Some(Self {
            seeds: first..=first.checked_add(REPORTING_SEEDS - 1)?,
            length: Span::from_secs(110),
            warm_up: Span::from_secs(10),
            loads_milli: vec![1000, 1060, 1120],
        })
    }

    /// A few of the seeds, and the lightest and the heaviest load.
    pub(super) fn quick(number: u64) -> Option<Self> {
        let full = Self::full(number)?;
        let first = *full.seeds.start();
        let seeds = first..=first + QUICK_SEEDS - 1;
        Some(Self { seeds, loads_milli: vec![1000, 1120], ..full })
    }

    /// The same on the seeds that the load was fitted on.
    pub(super) fn fitting(&self) -> Self {
        Self { seeds: FITTING_SEEDS, ..self.clone() }
    }

    /// `30 seeds, 101 to 130`.
    pub(super) fn seeds_shown(&self) -> String {
        let (first, last) = (self.seeds.start(), self.seeds.end());
        format!("{} seeds, {first} to {last}", self.seeds.clone().count())
    }

    /// Windows of a second that count in a run.
    pub(super) fn windows(&self) -> f64 {
        self.length.as_secs_f64() - self.warm_up.as_secs_f64()
    }

    /// One run's setting.
    pub(super) fn setting(&self, level: Level, load_milli: u32, seed: u64) -> Setting {
        Setting {
            level,
            scale: f64::from(load_milli) / 1000.0,
            length: self.length,
            warm_up: self.warm_up,
            seed,
            way: Way::default(),
        }
    }

    fn score(&self, cell: Cell, seed: u64) -> Score {
        let records = self.setting(cell.level, cell.load_milli, seed).run(cell.method);
        let mut violating = [0.0; 4];
        let targets = cell.level.targets();
        for ((percent, load), target) in violating.iter_mut().zip(&records.loads).zip(targets) {
            let (broken, windows) = load.violations(&target, self.warm_up);
            *percent = 100.0 * broken as f64 / windows.max(1) as f64;
        }
        let late: u64 = records.loads.iter().map(|load| load.late).sum();
        let counted: u64 = records.loads.iter().map(|load| load.counted).sum();
        Score { violating, late: 100.0 * late as f64 / counted.max(1) as f64 }
    }

    fn cells(&self) -> Vec<Cell> {
        let levels = [Level::A, Level::B].into_iter();
        let places =
            levels.flat_map(|level| self.loads_milli.iter().map(move |load| (level, *load)));
        let cells = places.flat_map(|(level, load_milli)| {
            Method::ALL.into_iter().map(move |method| Cell { level, load_milli, method })
        });
        cells.collect()
    }
}

impl Scores {
    /// Runs everything; `progress` hears how many of how many runs are done.
    pub(super) fn of(scope: &Scope, progress: impl Fn(usize, usize) + Sync) -> Self {
        let cells = scope.cells();
        let jobs: Vec<(Cell, u64)> =
            cells.iter().flat_map(|cell| scope.seeds.clone().map(|seed| (*cell, seed))).collect();
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            let mut scores = Vec::new();
            while let Some((cell, seed)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                scores.push(((*cell, *seed), scope.score(*cell, *seed)));
                progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
            }
            scores
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut by_run = BTreeMap::new();
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            for worker in workers {
                by_run.extend(worker.join().expect("a run does not panic"));
            }
        });
        let mut scores: BTreeMap<Cell, Vec<Score>> = BTreeMap::new();
        for ((cell, _), score) in by_run {
            scores.entry(cell).or_default().push(score);
        }
        Self(scores)
    }

    /// The scores of each seed alone, in order.
    pub(super) fn by_seed(&self) -> impl Iterator<Item = Self> {
        let seeds = self.0.values().map(Vec::len).min().unwrap_or(0);
        (0..seeds)
            .map(|at| Self(self.0.iter().map(|(cell, scores)| (*cell, vec![scores[at]])).collect()))
    }

    /// Violating windows of a method over all levels and loads, the mean of the seeds.
    pub(super) fn violating_anywhere(&self, method: Method) -> f64 {
        let cells = self.0.iter().filter(|(cell, _)| cell.method == method);
        let percents: Vec<f64> =
            cells.flat_map(|(_, scores)| scores.iter().map(Score::violating_all)).collect();
        percents.iter().sum::<f64>() / percents.len() as f64
    }

    /// A figure of a cell over the seeds.
    pub(super) fn spread(&self, cell: Cell, of: impl Fn(&Score) -> f64) -> Spread {
        Spread::of(&self.0[&cell].iter().map(of).collect::<Vec<_>>())
    }

    /// What a cell has more than another, seed by seed: the same requests under both.
    pub(super) fn excess(&self, cell: Cell, over: Cell, of: impl Fn(&Score) -> f64) -> Spread {
        let pairs = self.0[&cell].iter().zip(&self.0[&over]);
        Spread::of(&pairs.map(|(own, other)| of(own) - of(other)).collect::<Vec<_>>())
    }

    /// The method with the least of a figure among these.
    pub(super) fn least(
        &self,
        place: Cell,
        methods: impl IntoIterator<Item = Method>,
        of: impl Fn(&Score) -> f64 + Copy,
    ) -> Cell {
        let cells = methods.into_iter().map(|method| Cell { method, ..place });
        let mean = |cell: &Cell| self.spread(*cell, of).mean;
        cells.min_by(|left, right| mean(left).total_cmp(&mean(right))).expect("a method")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_reporting_seed_is_one_that_the_load_was_fitted_on() {
        for scope in [Scope::full(1), Scope::quick(1), Scope::full(7)] {
            let scope = scope.unwrap();
            assert!(scope.seeds.clone().all(|seed| !FITTING_SEEDS.contains(&seed)));
            assert!(scope.fitting().seeds.eq(FITTING_SEEDS));
        }
        let full = Scope::full(1).unwrap();
        assert_eq!(full.seeds_shown(), "30 seeds, 101 to 130");
        assert!(Scope::full(0).is_none() && Scope::full(u64::MAX / 50).is_none());
    }

    #[test]
    fn a_comparison_is_made_seed_by_seed() {
        let cell = |method| Cell { level: Level::A, load_milli: 1000, method };
        let score = |late| Score { violating: [0.0; 4], late };
        let (ours, none) = (cell(Method::Ours), cell(Method::NoControl));
        let scores = Scores(BTreeMap::from([
            (ours, vec![score(1.0), score(11.0)]),
            (none, vec![score(2.0), score(12.0)]),
        ]));
        let excess = scores.excess(ours, none, |score| score.late);
        assert_eq!(excess, Spread { mean: -1.0, half_width: 0.0 });
        let least = scores.least(none, [Method::NoControl, Method::Ours], |score| score.late);
        assert_eq!(least.method, Method::Ours);
    }
}
