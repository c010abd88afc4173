//! Two depths held against each other: the logarithm of the ratio of their rates, from windows that
//! were taken in turn.
//!
//! ```text
//! base | probe | base        ratio = probe / mean(base before, base after)
//! ```
//!
//! What drifts slowly, such as the mix of requests, is in all three and cancels. Comparisons are
//! weighted by how sure they are, and old ones fade.
//!
//! Where some tenants send now and then ([`sparse`](super::sparse)), what counts is *power*, the
//! throughput divided by their mean time (Kleinrock, ICC 1979): a depth is worth it if throughput
//! gains a greater part than their requests take longer.

use super::rate::Rate;

/// What a comparison keeps of its weight when the next one comes.
const KEPT: f64 = 0.97;
/// After so many comparisons in a row without sparse requests their time no longer counts.
const MISSING_MAX: u32 = 3;
/// So many standard errors make sure: three to one. Who waits for more knows later, and who errs
/// finds out.
const SURE: f64 = 0.7;
/// Of times that vary much, more are needed: a depth that is too large starves somebody.
const SURE_OF_TIMES: f64 = 1.5;
/// Times of sparse requests count once they are known within this, as a logarithm.
const TIMES_ERROR_MAX: f64 = 0.7;

/// What a window came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Measure {
    /// Work per time.
    pub(super) rate: Rate,
    /// The mean time of sparse requests, if there were any.
    pub(super) time: Option<Rate>,
}

/// What the comparisons of one depth with the base have come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contrast {
    rate: Mean,
    time: Mean,
    /// Comparisons in a row in which there were no sparse requests.
    missing: u32,
}

/// The weighted mean of comparisons.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    weight: f64,
}

impl Contrast {
    /// Another comparison.
    pub(super) fn add(&mut self, windows: [Measure; 3]) {
        self.rate.add(windows.map(|window| window.rate));
        match windows.map(|window| window.time) {
            [Some(before), Some(probe), Some(after)] => {
                self.time.add([before, probe, after]);
                self.missing = 0;
            }
            _ => self.missing += 1,
        }
        if self.missing >= MISSING_MAX {
            self.time = Mean::default();
        }
    }

    /// The device is not what it was: what is known counts for little.
    pub(super) fn fade(&mut self) {
        self.rate.fade(1.0 / 8.0);
        self.time.fade(1.0 / 8.0);
    }

    /// The logarithm of the ratio, if anything is known of it.
    pub(super) fn log(&self) -> Option<f64> {
        let rate = self.rate.log()?;
        Some(rate - self.known_time().and_then(Mean::log).unwrap_or(0.0))
    }

    /// The same of throughput alone, where times of sparse requests count too.
    pub(super) fn rate_beside_time(&self) -> Option<f64> {
        self.known_time().and_then(|_| self.rate.log())
    }

    /// Whether throughput alone gains more than this, as far as chance lets tell.
    pub(super) fn rate_is_above(&self, log: f64) -> bool {
        let error = || self.rate.weight.sqrt().recip();
        self.rate.log().is_some_and(|mean| mean - SURE * error() > log)
    }

    /// Its standard error; huge where nothing is known.
    pub(super) fn error(&self) -> f64 {
        let variance = |mean: &Mean| if mean.weight > 0.0 { 1.0 / mean.weight } else { f64::MAX };
        (variance(&self.rate) + self.known_time().map_or(0.0, variance)).sqrt()
    }

    /// Whether the ratio is above this, as far as chance lets tell.
    pub(super) fn is_above(&self, log: f64) -> bool {
        self.log().is_some_and(|mean| mean - self.doubt() > log)
    }

    /// Whether the ratio is below this, as far as chance lets tell.
    pub(super) fn is_below(&self, log: f64) -> bool {
        self.log().is_some_and(|mean| mean + self.doubt() < log)
    }

    fn doubt(&self) -> f64 {
        self.error() * if self.known_time().is_some() { SURE_OF_TIMES } else { SURE }
    }

    fn known_time(&self) -> Option<&Mean> {
        let is_known = self.time.weight * TIMES_ERROR_MAX * TIMES_ERROR_MAX > 1.0;
        is_known.then_some(&self.time)
    }
}

impl Mean {
    fn add(&mut self, [before, probe, after]: [Rate; 3]) {
        let log = probe.log - f64::midpoint(before.log, after.log);
        let weight = 1.0 / (probe.variance + (before.variance + after.variance) / 4.0);
        self.sum = KEPT * self.sum + weight * log;
        self.weight = KEPT * self.weight + weight;
    }

    fn fade(&mut self, kept: f64) {
        self.sum *= kept;
        self.weight *= kept;
    }

    fn log(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(log: f64, variance: f64) -> Measure {
        Measure { rate: Rate { log, variance }, time: None }
    }

    fn with_time(log: f64, time_log: f64) -> Measure {
        let time = Some(Rate { log: time_log, variance: 0.2 });
        Measure { time, ..rate(log, 1e-4) }
    }

    #[test]
    fn where_somebody_sends_now_and_then_power_counts() {
        let mut contrast = Contrast::default();
        // Half the depth: a tenth less throughput, and sparse requests take half as long.
        let windows = [with_time(0.0, 0.0), with_time(-0.1, -0.7), with_time(0.0, 0.0)];
        contrast.add(windows);
        assert!(!contrast.is_above(0.0), "{contrast:?}: one comparison is no proof");
        (0..5).for_each(|_| contrast.add(windows));
        assert!((contrast.log().unwrap() - 0.6).abs() < 1e-9 && contrast.is_above(0.0));
        assert!(contrast.rate_beside_time().is_some_and(|log| (log + 0.1).abs() < 1e-9));
        // They are gone: throughput alone counts again.
        (0..3).for_each(|_| contrast.add([rate(0.0, 1e-4), rate(-0.1, 1e-4), rate(0.0, 1e-4)]));
        assert!((contrast.log().unwrap() + 0.1).abs() < 1e-9, "{contrast:?}");
        assert!(contrast.is_below(0.0));
        assert_eq!(contrast.rate_beside_time(), None);
    }

    #[test]
    fn what_drifts_cancels() {
        let mut contrast = Contrast::default();
        contrast.add([rate(1.0, 1e-4), rate(1.3, 1e-4), rate(1.2, 1e-4)]);
        assert!((contrast.log().unwrap() - 0.2).abs() < 1e-12);
        assert!(contrast.is_above(0.19) && contrast.is_below(0.21));
        assert!(!contrast.is_above(0.195) && !contrast.is_below(0.205));
    }

    #[test]
    fn sure_comparisons_count_for_more_and_many_are_surer() {
        let mut contrast = Contrast::default();
        assert!(!contrast.is_above(-9.0) && !contrast.is_below(9.0), "nothing is known");
        contrast.add([rate(0.0, 0.0), rate(1.0, 1e-2), rate(0.0, 0.0)]);
        contrast.add([rate(0.0, 0.0), rate(0.0, 1e-4), rate(0.0, 0.0)]);
        assert!(contrast.log().unwrap() < 0.011);
        let before = contrast.error();
        contrast.add([rate(0.0, 0.0), rate(0.0, 1e-4), rate(0.0, 0.0)]);
        assert!(contrast.error() < before);
        contrast.fade();
        assert!(contrast.error() > before && contrast.log().unwrap() < 0.011);
    }
}
