//! Medians, and ratios that are paired by round.
//!
//! Both sides of a ratio come from the same round, minutes or less apart, so that a machine which
//! slows down between rounds moves both. The median of the ratios is therefore steadier than the
//! ratio of the medians, and the two may differ a little:
//!
//! ```text
//! round       1     2     3
//! ours      100   200   110
//! theirs    200   420   200
//! ratio    0.50  0.48  0.55   -> 0.50 (0.48-0.55); the medians' ratio would be 110/200 = 0.55
//! ```

use serde::Serialize;

/// The median of some figures and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of any number of figures but none; figures that are not finite do not count.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> =
            figures.into_iter().filter(|figure| figure.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Some(Self { median, min, max })
    }

    /// Of the ratios of figures that stand at the same place, where both are there.
    pub(crate) fn of_ratios(ours: &[Option<f64>], theirs: &[Option<f64>]) -> Option<Self> {
        let pairs = ours.iter().zip(theirs);
        Self::of(pairs.filter_map(|(ours, theirs)| Some((*ours)? / (*theirs)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn median(figures: &[f64]) -> Option<f64> {
        Spread::of(figures.iter().copied()).map(|spread| spread.median)
    }

    #[test]
    fn a_median_needs_a_figure_and_ignores_their_order() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 100.0]), Some(3.0));
    }

    #[test]
    fn what_is_not_finite_does_not_count() {
        assert_eq!(median(&[f64::NAN, 1.0, f64::INFINITY]), Some(1.0));
    }

    #[test]
    fn a_spread_knows_its_ends() {
        let spread = Spread::of([5.0, 1.0, 3.0]).unwrap();
        assert_eq!(spread, Spread { median: 3.0, min: 1.0, max: 5.0 });
    }

    #[test]
    fn ratios_are_paired_by_round() {
        let ours = [Some(100.0), Some(200.0), None, Some(110.0)];
        let theirs = [Some(200.0), Some(400.0), Some(7.0), Some(200.0)];
        let spread = Spread::of_ratios(&ours, &theirs).unwrap();
        assert_eq!(spread, Spread { median: 0.5, min: 0.5, max: 0.55 });
    }

    #[test]
    fn a_peer_without_any_common_round_has_no_ratio() {
        assert_eq!(Spread::of_ratios(&[Some(1.0), None], &[None, Some(1.0)]), None);
        assert_eq!(Spread::of_ratios(&[Some(1.0)], &[Some(0.0)]), None);
    }
}
