//! Two depths held against each other: the logarithm of the ratio of their rates, from windows that
//! were taken in turn.
//!
//! ```text
//! base | probe | base        ratio = probe / mean(base before, base after)
//! ```
//!
//! What drifts slowly, such as the mix of requests, is in all three and cancels. Comparisons are
//! weighted by how sure they are, and old ones fade.

use super::rate::Rate;

/// What a comparison keeps of its weight when the next one comes.
const KEPT: f64 = 0.97;
/// So many standard errors make sure: three to one. Who waits for more knows later, and who errs
/// finds out.
const SURE: f64 = 0.7;

/// What the comparisons of one depth with the base have come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contrast {
    sum: f64,
    weight: f64,
}

impl Contrast {
    /// Another comparison.
    pub(super) fn add(&mut self, [before, probe, after]: [Rate; 3]) {
        let log = probe.log - f64::midpoint(before.log, after.log);
        let weight = 1.0 / (probe.variance + (before.variance + after.variance) / 4.0);
        self.sum = KEPT * self.sum + weight * log;
        self.weight = KEPT * self.weight + weight;
    }

    /// The device is not what it was: what is known counts for little.
    pub(super) fn fade(&mut self) {
        self.sum /= 8.0;
        self.weight /= 8.0;
    }

    /// The logarithm of the ratio, if anything is known of it.
    pub(super) fn log(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }

    /// Its standard error; huge where nothing is known.
    pub(super) fn error(&self) -> f64 {
        if self.weight > 0.0 { self.weight.sqrt().recip() } else { f64::MAX }
    }

    /// Whether the ratio is above this, as far as chance lets tell.
    pub(super) fn is_above(&self, log: f64) -> bool {
        self.log().is_some_and(|mean| mean - SURE * self.error() > log)
    }

    /// Whether the ratio is below this, as far as chance lets tell.
    pub(super) fn is_below(&self, log: f64) -> bool {
        self.log().is_some_and(|mean| mean + SURE * self.error() < log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(log: f64, variance: f64) -> Rate {
        Rate { log, variance }
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
