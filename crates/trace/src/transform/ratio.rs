//! An exact positive ratio, so that a factor of a third is a third.

use std::fmt;

/// `numerator / denominator`, both at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    numerator: u64,
    denominator: u64,
}

impl Ratio {
    /// One.
    pub const ONE: Self = Self { numerator: 1, denominator: 1 };

    /// `numerator / denominator`; `None` if either is zero.
    pub fn new(numerator: u64, denominator: u64) -> Option<Self> {
        (numerator > 0 && denominator > 0).then_some(Self { numerator, denominator })
    }

    /// One divided by it.
    #[must_use]
    pub fn inverse(self) -> Self {
        Self { numerator: self.denominator, denominator: self.numerator }
    }

    /// `value` times it, rounded down; the largest number where the product is beyond it.
    pub fn of(self, value: u64) -> u64 {
        let product = u128::from(value) * u128::from(self.numerator);
        u64::try_from(product / u128::from(self.denominator)).unwrap_or(u64::MAX)
    }
}

impl std::str::FromStr for Ratio {
    type Err = String;

    /// Reads `2`, `0.25` or `1/3`; a decimal has up to nine digits behind its point.
    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text.split_once('/') {
            Some((above, below)) => whole(above).zip(whole(below)),
            None => decimal(text),
        };
        parsed.and_then(|(above, below)| Self::new(above, below)).ok_or_else(|| {
            format!("`{}` is no factor above zero like 2, 0.25 or 1/3", text.escape_default())
        })
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            below => write!(f, "{}/{below}", self.numerator),
        }
    }
}

/// Digits and nothing else; the library's parser would take a sign as well.
fn whole(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn decimal(text: &str) -> Option<(u64, u64)> {
    let Some((before, behind)) = text.split_once('.') else { return Some((whole(text)?, 1)) };
    let digits = u32::try_from(behind.len()).ok().filter(|&digits| (1..=9).contains(&digits))?;
    let below = 10u64.pow(digits);
    let above = whole(before)?.checked_mul(below)?.checked_add(whole(behind)?)?;
    Some((above, below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_read_exactly_or_refused() {
        let ratio = |text: &str| text.parse::<Ratio>();
        assert_eq!(ratio("2"), Ok(Ratio::new(2, 1).unwrap()));
        assert_eq!(ratio("0.25").unwrap().of(1000), 250);
        assert_eq!(ratio("1/3").unwrap().of(100), 33);
        for text in ["", "0", "-1", "+1", "1/0", "0.0", "1.", "1.0123456789", "1e3", "a\u{7}"] {
            let error = ratio(text).unwrap_err();
            assert!(error.is_ascii() && !error.contains('\u{7}'), "{error}");
        }
    }

    #[test]
    fn products_round_down_and_saturate() {
        let third = Ratio::new(1, 3).unwrap();
        assert_eq!((third.of(2), third.of(3), third.inverse().of(5)), (0, 1, 15));
        assert_eq!(third.inverse().of(u64::MAX), u64::MAX);
    }
}
