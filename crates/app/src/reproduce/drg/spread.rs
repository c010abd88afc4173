//! A mean over seeds and how sure it is.

/// A mean with the half width of its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) mean: f64,
    /// Zero for a single value, of which nothing can be said.
    pub(super) half_width: f64,
}

/// Student's t at 97.5 % for 1 to 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

impl Spread {
    /// Of at least one value.
    pub(super) fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        if values.len() < 2 {
            return Self { mean, half_width: 0.0 };
        }
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let t = T.get(values.len() - 2).copied().unwrap_or(1.96);
        Self { mean, half_width: t * (squares / (count - 1.0) / count).sqrt() }
    }

    /// `3.5 +- 0.4`.
    pub(super) fn shown(self) -> String {
        format!("{:.1} +- {:.1}", self.mean, self.half_width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_student() {
        let spread = Spread::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        // The deviation is 1.5811; over the root of five, times 2.776.
        assert!((spread.mean - 3.0).abs() < 1e-12 && (spread.half_width - 1.963).abs() < 1e-3);
        assert_eq!(Spread::of(&[7.0]).shown(), "7.0 +- 0.0");
    }
}
