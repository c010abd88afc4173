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
//! A mix that changes with the depth itself does not cancel: work is what requests cost, and where
//! costs are wrong, one mix looks like more work than another. What of the ratio that could explain
//! does not count, as a gain or as a loss.
//!
//! Where some tenants send now and then ([`sparse`](super::sparse)), what counts is *power*, the
//! throughput divided by their mean time (Kleinrock, ICC 1979): a depth is worth it if throughput
//! gains a greater part than their requests take longer.

use super::rate::{Mix, Rate};
use super::sparse::Times;

/// What a comparison keeps of its weight when the next one comes.
const KEPT: f64 = 0.97;
/// After so many comparisons in a row without sparse requests their time no longer counts.
const MISSING_MAX: u32 = 3;
/// So many standard errors make sure: three to one. Who waits for more knows later, and who errs
/// finds out.
const SURE: f64 = 0.7;
/// Of times that vary much, more are needed: a depth that is too large starves somebody.
const SURE_OF_TIMES: f64 = 1.5;
/// What one tenant's requests cost beside another's is known within this, as a logarithm.
const COST_ERROR: f64 = 0.25;
/// Times of sparse requests count once they are known within this, as a logarithm.
const TIMES_ERROR_MAX: f64 = 0.7;

/// What a window came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Measure {
    /// Work per time.
    pub(super) rate: Rate,
    /// Whose work it was.
    pub(super) mix: Mix,
    /// What sparse requests took, if there were any.
    pub(super) times: Option<Times>,
}

/// What the comparisons of one depth with the base have come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contrast {
    rate: Mean,
    /// What sparse requests took at the depth that is tried, and at the base before and after.
    times: [Times; 2],
    /// Comparisons in a row in which there were no sparse requests.
    missing: u32,
}

/// The weighted mean of comparisons.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    weight: f64,
    /// By how much the mix was another.
    mix: Mix,
}

impl Contrast {
    /// Another comparison.
    pub(super) fn add(&mut self, windows: &[Measure; 3]) {
        self.rate.add(windows);
        if let [Some(before), Some(probe), Some(after)] = windows.map(|window| window.times) {
            let [tried, base] = &mut self.times;
            tried.fade(KEPT);
            base.fade(KEPT);
            tried.add(&probe);
            base.add(&before);
            base.add(&after);
            self.missing = 0;
        } else {
            self.missing += 1;
        }
        if self.missing >= MISSING_MAX {
            self.times = [Times::default(); 2];
        }
    }

    /// The device is not what it was: what is known counts for little.
    pub(super) fn fade(&mut self) {
        self.rate.fade(1.0 / 8.0);
        self.times.iter_mut().for_each(|times| times.fade(1.0 / 8.0));
    }

    /// The logarithm of the ratio, if it is known: where there are sparse requests, not before
    /// their time is.
    pub(super) fn log(&self) -> Option<f64> {
        let rate = self.rate.log()?;
        match self.time() {
            None => Some(rate),
            Some(time) => is_known(&time).then_some(rate - time.log),
        }
    }

    /// The same of throughput alone.
    pub(super) fn rate_log(&self) -> Option<f64> {
        self.rate.log()
    }

    /// The same of throughput alone, where times of sparse requests count too.
    pub(super) fn rate_beside_time(&self) -> Option<f64> {
        self.known_time().and_then(|_| self.rate.log())
    }

    /// Whether there are sparse requests whose time is not known yet.
    pub(super) fn is_time_unknown(&self) -> bool {
        self.time().is_some_and(|time| !is_known(&time))
    }

    /// Whether throughput alone gains more than this, as far as chance lets tell.
    pub(super) fn rate_is_above(&self, log: f64) -> bool {
        self.rate.log().is_some_and(|mean| mean - SURE * self.rate.error() > log)
    }

    /// Whether throughput alone gains less than this, as far as chance lets tell.
    pub(super) fn rate_is_below(&self, log: f64) -> bool {
        self.rate.log().is_some_and(|mean| mean + SURE * self.rate.error() < log)
    }

    /// Its standard error; huge where nothing is known.
    pub(super) fn error(&self) -> f64 {
        let rate = if self.rate.weight > 0.0 { 1.0 / self.rate.weight } else { f64::MAX };
        (rate + self.known_time().map_or(0.0, |time| time.variance)).sqrt()
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

    /// How many times as long as at the base sparse requests take, as a logarithm, and the variance
    /// of that.
    fn time(&self) -> Option<Rate> {
        let [Some(tried), Some(base)] = self.times.map(|times| times.mean()) else { return None };
        Some(Rate { log: tried.log - base.log, variance: tried.variance + base.variance })
    }

    fn known_time(&self) -> Option<Rate> {
        self.time().filter(is_known)
    }
}

/// What is left of a logarithm when so much of it is explained.
fn toward_zero(log: f64, explained: f64) -> f64 {
    (log.abs() - explained).max(0.0).copysign(log)
}

fn is_known(time: &Rate) -> bool {
    time.variance < TIMES_ERROR_MAX * TIMES_ERROR_MAX
}

impl Mean {
    fn add(&mut self, windows: &[Measure; 3]) {
        let [before, probe, after] = windows.map(|window| window.rate);
        let log = probe.log - f64::midpoint(before.log, after.log);
        let weight = 1.0 / (probe.variance + (before.variance + after.variance) / 4.0);
        let [mix_before, mix, mix_after] = windows.map(|window| window.mix);
        let moved = mix.beside(&mix_before.and(&mix_after).times(0.5));
        self.mix = self.mix.times(KEPT).and(&moved.times(weight));
        self.sum = KEPT * self.sum + weight * log;
        self.weight = KEPT * self.weight + weight;
    }

    fn fade(&mut self, kept: f64) {
        self.sum *= kept;
        self.weight *= kept;
        self.mix = self.mix.times(kept);
    }

    /// The standard error; infinite where nothing is known.
    fn error(&self) -> f64 {
        self.weight.sqrt().recip()
    }

    /// The logarithm of the ratio, as far as the change of the mix does not explain it.
    fn log(&self) -> Option<f64> {
        let explained = || COST_ERROR * self.mix.moved() / self.weight;
        (self.weight > 0.0).then(|| toward_zero(self.sum / self.weight, explained()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(log: f64, variance: f64) -> Measure {
        Measure { rate: Rate { log, variance }, ..Measure::default() }
    }

    /// A window with ten sparse requests that took so long each.
    fn with_time(log: f64, seconds: f64) -> Measure {
        let times = Some(Times { seconds: 10.0 * seconds, requests: 10.0, spread: 2.0 });
        Measure { times, ..rate(log, 1e-4) }
    }

    #[test]
    fn where_somebody_sends_now_and_then_power_counts() {
        let mut contrast = Contrast::default();
        // Half the depth: a tenth less throughput, and sparse requests take half as long.
        let windows = [with_time(0.0, 0.2), with_time(-0.1, 0.1), with_time(0.0, 0.2)];
        contrast.add(&windows);
        assert!(!contrast.is_above(0.0), "{contrast:?}: one comparison is no proof");
        (0..5).for_each(|_| contrast.add(&windows));
        let power = std::f64::consts::LN_2 - 0.1;
        assert!((contrast.log().unwrap() - power).abs() < 1e-9 && contrast.is_above(0.0));
        assert!(contrast.rate_beside_time().is_some_and(|log| (log + 0.1).abs() < 1e-9));
        // They are gone: throughput alone counts again.
        (0..3).for_each(|_| contrast.add(&[rate(0.0, 1e-4), rate(-0.1, 1e-4), rate(0.0, 1e-4)]));
        assert!((contrast.log().unwrap() + 0.1).abs() < 1e-9, "{contrast:?}");
        assert!(contrast.is_below(0.0));
        assert_eq!(contrast.rate_beside_time(), None);
    }

    #[test]
    fn nothing_is_decided_before_the_time_of_sparse_requests_is_known() {
        let few = |seconds| {
            let times = Some(Times { seconds, requests: 0.5, spread: 4.0 });
            Measure { times, ..rate(0.0, 1e-4) }
        };
        let twice = Measure { rate: Rate { log: 0.3, variance: 1e-4 }, ..few(1.0) };
        let mut contrast = Contrast::default();
        contrast.add(&[few(0.1), twice, few(0.1)]);
        assert!(contrast.is_time_unknown() && contrast.log().is_none());
        assert!(!contrast.is_above(-9.0) && !contrast.is_below(9.0));
        assert_eq!(contrast.rate_log(), Some(0.3));
        (0..100).for_each(|_| contrast.add(&[few(0.1), twice, few(0.1)]));
        assert!(contrast.is_below(0.0), "{contrast:?}");
    }

    #[test]
    fn a_window_in_which_all_are_starved_counts_for_what_it_is() {
        let starved = Some(Times { seconds: 8.0, requests: 0.0, spread: 2.0 });
        let starved = Measure { times: starved, ..rate(0.0, 1e-4) };
        let calm = with_time(0.0, 0.01);
        let mut contrast = Contrast::default();
        for n in 0..20 {
            contrast.add(&[calm, if n % 4 == 0 { starved } else { calm }, calm]);
        }
        // 2 seconds for 7.5 requests, in the mean of four, beside 0.1 for 10.
        assert!(contrast.log().is_some_and(|log| log < -2.0), "{contrast:?}");
    }

    #[test]
    fn what_drifts_cancels() {
        let mut contrast = Contrast::default();
        contrast.add(&[rate(1.0, 1e-4), rate(1.3, 1e-4), rate(1.2, 1e-4)]);
        assert!((contrast.log().unwrap() - 0.2).abs() < 1e-12);
        assert!(contrast.is_above(0.19) && contrast.is_below(0.21));
        assert!(!contrast.is_above(0.195) && !contrast.is_below(0.205));
    }

    #[test]
    fn what_wrong_costs_could_explain_where_the_mix_changes_is_no_gain() {
        let mix = |part: f64| Mix::of(&[1.0 - part, part]);
        let of = |log: f64, part: f64| Measure { mix: mix(part), ..rate(log, 1e-6) };
        let ratio = |log: f64, part: f64| {
            let mut contrast = Contrast::default();
            (0..20).for_each(|_| contrast.add(&[of(0.0, 0.2), of(log, part), of(0.0, 0.2)]));
            contrast.log().unwrap()
        };
        assert!((ratio(0.1, 0.2) - 0.1).abs() < 1e-9, "the mix is the same");
        assert_eq!((ratio(0.05, 0.6), ratio(-0.05, 0.6)), (0.0, 0.0));
        assert!((ratio(0.3, 0.6) - 0.2).abs() < 1e-9 && (ratio(-0.3, 0.6) + 0.2).abs() < 1e-9);
        // Chance, that moves the mix to and fro, explains nothing.
        let mut contrast = Contrast::default();
        for part in [0.1, 0.3].repeat(200) {
            contrast.add(&[of(0.0, 0.2), of(0.1, part), of(0.0, 0.2)]);
        }
        assert!((contrast.log().unwrap() - 0.1).abs() < 1e-3, "{contrast:?}");
    }

    #[test]
    fn sure_comparisons_count_for_more_and_many_are_surer() {
        let mut contrast = Contrast::default();
        assert!(!contrast.is_above(-9.0) && !contrast.is_below(9.0), "nothing is known");
        contrast.add(&[rate(0.0, 0.0), rate(1.0, 1e-2), rate(0.0, 0.0)]);
        contrast.add(&[rate(0.0, 0.0), rate(0.0, 1e-4), rate(0.0, 0.0)]);
        assert!(contrast.log().unwrap() < 0.011);
        let before = contrast.error();
        contrast.add(&[rate(0.0, 0.0), rate(0.0, 1e-4), rate(0.0, 0.0)]);
        assert!(contrast.error() < before);
        contrast.fade();
        assert!(contrast.error() > before && contrast.log().unwrap() < 0.011);
    }
}
