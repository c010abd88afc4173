//! How far the rates of windows at one depth differ from each other.
//!
//! A window knows how sure it is from what happened within it. A disk that serves one stream for
//! a while and then another differs from window to window by more than that, and a comparison of
//! three windows that calls itself sure is chance. So the mean difference between one window of
//! the base and the next says how sure any of them can be.

use super::rate::Rate;

/// One over the weight of a new difference in the mean. A single jump counts for little.
const DECAY: f64 = 8.0;
/// With fewer there is no telling.
const WINDOWS_MIN: u32 = 4;
/// Beyond chance are so many times the variance that a window claims.
const BEYOND: f64 = 2.0;

/// The mean difference from window to window. See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scatter {
    difference: f64,
    windows: u32,
}

impl Scatter {
    /// Two windows at the same depth, one after the other.
    pub(super) fn add(&mut self, before: &Rate, after: &Rate) {
        self.windows = self.windows.saturating_add(1);
        let weight = f64::max(1.0 / DECAY, 1.0 / f64::from(self.windows));
        self.difference += weight * (after.gain_over(before).abs() - self.difference);
    }

    /// A rate that is no surer than windows at one depth are alike.
    pub(super) fn widen(&self, rate: Rate) -> Rate {
        // Of a normal distribution, the mean of absolute values is sqrt(2 / pi) standard
        // deviations; a difference has twice the variance of one window.
        let variance = self.difference * self.difference * std::f64::consts::FRAC_PI_4;
        let is_known = self.windows >= WINDOWS_MIN && variance > BEYOND * rate.variance;
        if is_known { Rate { variance, ..rate } } else { rate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(log: f64) -> Rate {
        Rate { log, variance: 1e-4 }
    }

    #[test]
    fn windows_are_no_surer_than_they_are_alike() {
        let mut scatter = Scatter::default();
        assert_eq!(scatter.widen(rate(0.0)), rate(0.0));
        for n in 0..100 {
            let log = f64::from(n % 2) * 0.4;
            scatter.add(&rate(log), &rate(0.4 - log));
        }
        let error = scatter.widen(rate(0.0)).variance.sqrt();
        assert!((0.3..0.4).contains(&error), "{error}");
    }

    #[test]
    fn what_chance_explains_is_left_as_it_is() {
        let mut scatter = Scatter::default();
        for n in 0..100 {
            let log = f64::from(n % 2) * 0.01;
            scatter.add(&rate(log), &rate(0.01 - log));
        }
        assert_eq!(scatter.widen(rate(0.0)), rate(0.0));
    }
}
