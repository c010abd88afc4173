//! Logarithm and exponential that give the same bits on every platform and in every build.
//!
//! IEEE 754 fixes the result of addition, multiplication, division and square root, and nothing
//! else: the logarithm of one C library may differ from another's in the last bit, and one bit is
//! another simulation. These are built from the fixed operations alone, in a fixed order.

use std::f64::consts::LN_2;

/// What makes a subnormal number normal: 2 to the power of [`SUBNORMAL_BITS`].
const FROM_SUBNORMAL: f64 = 18_014_398_509_481_984.0;

const SUBNORMAL_BITS: f64 = 54.0;

/// `ln(x)` for a positive, finite x, to within a few units of the last place.
pub fn natural_log(x: f64) -> f64 {
    assert!(x.is_finite() && x > 0.0, "the logarithm of {x} was asked for");
    if x.is_subnormal() {
        return natural_log(x * FROM_SUBNORMAL) - SUBNORMAL_BITS * LN_2;
    }
    let bits = x.to_bits();
    let exponent = f64::from(u32::try_from(bits >> 52).expect("x is positive")) - 1023.0;
    let mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    // ln m = 2 artanh((m-1)/(m+1)); |z| <= 1/3, so twenty terms reach the last bit.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let series = (0..20).rev().fold(0.0, |sum, k| sum * z * z + 1.0 / f64::from(2 * k + 1));
    exponent * LN_2 + 2.0 * z * series
}

/// `e^x`, relatively within 10^-13; 0 below -700 and infinite above 700.
pub fn exponential(x: f64) -> f64 {
    if x < -700.0 {
        return 0.0;
    }
    if x > 700.0 {
        return f64::INFINITY;
    }
    // e^x = 2^k e^r with |r| <= ln(2)/2, where eighteen terms of the series reach the last bit.
    let k = (x / LN_2).round();
    let r = x - k * LN_2;
    let series = (1..=18).rev().fold(1.0, |sum, n| 1.0 + sum * r / f64::from(n));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "|k| <= 1010")]
    let power_of_two = f64::from_bits(((k + 1023.0) as u64) << 52);
    power_of_two * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_agrees_with_the_library() {
        let subnormal = [1e-310, 5e-324];
        for x in [1.0, 0.999_999, 0.75, 0.5, 0.1, 1e-9, 2f64.powi(-53), 1.5, 10.0, 1e18]
            .into_iter()
            .chain(subnormal)
        {
            let error = (natural_log(x) - x.ln()).abs();
            assert!(error <= 1e-14 * x.ln().abs().max(0.1), "{x}: {error}");
        }
    }

    #[test]
    fn the_exponential_agrees_with_the_library() {
        for x in [0.0, 1.0, -1.0, 0.346, -0.347, 12.5, -12.5, 100.0, -650.0, 699.0] {
            let (got, expected) = (exponential(x), x.exp());
            assert!((got - expected).abs() <= 1e-13 * expected, "{x}: {got} {expected}");
        }
        assert_eq!((exponential(-701.0), exponential(701.0)), (0.0, f64::INFINITY));
    }
}
