//! The rate at which a device works, and how sure that is.
//!
//! Work is what tickets cost. A window of completions is divided into batches of equally many.
//! Where a batch did `w` of work in `t`, and the whole window did `R` per time, the batches' `w - R
//! t` tell how far chance moves the rate (the ratio estimator of survey sampling; batch means of
//! simulation, Law and Kelton). Work and time of a batch rise together where requests differ in
//! size, so that sizes add no doubt.
//!
//! Batches are merged two by two when there are [`BATCHES`] of them, so that a window of any length
//! takes constant space.

use crate::float::natural_log;
use crate::id::TenantId;
use crate::ticket::Cost;
use crate::time::{Nanos, Span};

/// Batches of a window at most.
const BATCHES: usize = 32;
/// With fewer there is no telling.
const BATCHES_MIN: usize = 4;
/// The least relative variance that is believed: a window is never surer than half a percent.
pub(super) const VARIANCE_MIN: f64 = 2.5e-5;

/// Tenants are distinguished by their number modulo this.
const PLACES: usize = 8;

/// How the work of a window is divided among tenants, in parts of it; nothing where nobody says. Of
/// two tenants in one place it is not seen that one does what the other did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Mix([f64; PLACES]);

/// The logarithm of work per time, and its variance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rate {
    pub(super) log: f64,
    pub(super) variance: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    work: f64,
    time_ns: f64,
}

/// Completions since some instant.
#[derive(Clone, Debug)]
pub(super) struct Window {
    began: Nanos,
    ended: Nanos,
    completions: u32,
    /// Whole batches.
    batches: Vec<Batch>,
    /// Completions of a batch.
    batch_size: u32,
    batch_began: Nanos,
    batch_completions: u32,
    batch_work: f64,
    mix: Mix,
}

impl Window {
    pub(super) fn new(now: Nanos) -> Self {
        Self {
            began: now,
            ended: now,
            completions: 0,
            batches: Vec::with_capacity(BATCHES),
            batch_size: 1,
            batch_began: now,
            batch_completions: 0,
            batch_work: 0.0,
            mix: Mix::default(),
        }
    }

    /// Begins anew, at an instant at which something completed.
    pub(super) fn open(&mut self, now: Nanos) {
        self.batches.clear();
        (self.began, self.ended, self.batch_began) = (now, now, now);
        (self.completions, self.batch_size, self.batch_completions) = (0, 1, 0);
        (self.batch_work, self.mix) = (0.0, Mix::default());
    }

    /// This much work was done for a tenant.
    pub(super) fn add(&mut self, now: Nanos, tenant: TenantId, work: Cost) {
        self.mix.0[tenant.index() % PLACES] += float(work.0.max(1));
        self.ended = now;
        self.completions += 1;
        self.batch_completions += 1;
        self.batch_work += float(work.0.max(1));
        if self.batch_completions < self.batch_size {
            return;
        }
        let time_ns = float(now.since(self.batch_began).0);
        self.batches.push(Batch { work: self.batch_work, time_ns });
        (self.batch_began, self.batch_completions, self.batch_work) = (now, 0, 0.0);
        if self.batches.len() == BATCHES {
            for index in 0..BATCHES / 2 {
                self.batches[index] = self.batches[2 * index].and(self.batches[2 * index + 1]);
            }
            self.batches.truncate(BATCHES / 2);
            self.batch_size *= 2;
        }
    }

    pub(super) fn completions(&self) -> u32 {
        self.completions
    }

    pub(super) fn length(&self) -> Span {
        self.ended.since(self.began)
    }

    /// Whose work it was.
    pub(super) fn mix(&self) -> Mix {
        let all: f64 = self.mix.0.iter().sum();
        if all > 0.0 { self.mix.times(1.0 / all) } else { self.mix }
    }

    /// The rate, once there are batches enough to tell.
    pub(super) fn rate(&self) -> Option<Rate> {
        let whole = self.batches.iter().fold(Batch::default(), |sum, batch| sum.and(*batch));
        if self.batches.len() < BATCHES_MIN || whole.time_ns <= 0.0 {
            return None;
        }
        let count = f64::from(u32::try_from(self.batches.len()).expect("few"));
        let (rate, mean) = (whole.work / whole.time_ns, whole.work / count);
        let beyond = |batch: &Batch| (batch.work - rate * batch.time_ns).powi(2);
        let squares: f64 = self.batches.iter().map(beyond).sum();
        let variance = squares / (count * (count - 1.0)) / (mean * mean);
        Some(Rate { log: natural_log(rate), variance: variance.max(VARIANCE_MIN) })
    }
}

impl Rate {
    /// How far it is above another.
    pub(super) fn gain_over(&self, before: &Self) -> f64 {
        self.log - before.log
    }

    /// The standard error of that.
    pub(super) fn doubt_beside(&self, other: &Self) -> f64 {
        (self.variance + other.variance).sqrt()
    }
}

impl Mix {
    #[cfg(test)]
    pub(super) fn of(parts: &[f64]) -> Self {
        Self(std::array::from_fn(|place| parts.get(place).copied().unwrap_or(0.0)))
    }

    pub(super) fn times(&self, factor: f64) -> Self {
        Self(self.0.map(|part| part * factor))
    }

    /// This much more than in another.
    pub(super) fn beside(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|place| self.0[place] - other.0[place]))
    }

    pub(super) fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|place| self.0[place] + other.0[place]))
    }

    /// The part that others do in a mix that differs by this.
    pub(super) fn moved(&self) -> f64 {
        self.0.iter().map(|part| part.max(0.0)).sum()
    }
}

impl Batch {
    fn and(self, other: Self) -> Self {
        Self { work: self.work + other.work, time_ns: self.time_ns + other.time_ns }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a window is shorter than 2^53 ns")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;

    /// Completions after so many microseconds each, with so much work.
    fn window(completions: impl Iterator<Item = (u64, u64)>) -> Window {
        let mut now = Nanos(0);
        let mut window = Window::new(now);
        for (micros, work) in completions {
            now += Span::from_micros(micros);
            window.add(now, TenantId(0), Cost(work));
        }
        window
    }

    #[test]
    fn few_completions_tell_nothing() {
        assert_eq!(window([(10, 1); 3].into_iter()).rate(), None);
        assert!(window([(10, 1); 4].into_iter()).rate().is_some());
    }

    #[test]
    fn work_and_time_that_rise_together_leave_no_doubt() {
        let sizes = (0..1000).map(|n| if n % 3 == 0 { (100, 10) } else { (10, 1) });
        let rate = window(sizes).rate().unwrap();
        assert!((rate.log - natural_log(1e-4)).abs() < 1e-9, "{rate:?}");
        assert!(rate.variance <= VARIANCE_MIN, "{rate:?}");
    }

    #[test]
    fn the_variance_falls_with_the_length_of_the_window() {
        let noise = |count: u64| {
            let mut prng = Prng::new(1);
            let draws = (0..count).map(|_| (1 + prng.below(97), 1));
            window(draws).rate().unwrap().variance
        };
        // Times from 1 to 97, spread evenly: a relative variance of a third for one of them.
        for count in [900, 3600] {
            let ratio = noise(count) * 3.0 * count as f64;
            assert!((0.5..2.0).contains(&ratio), "{count}: {ratio}");
        }
    }
}
