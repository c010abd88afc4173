//! Max-min division of a depth.
//!
//! Everybody gets what it asked for, or its part by weight of what those who asked for less have
//! left; what nobody asked for is added to everybody, since whoever asks for it may have it.
//!
//! Parts are whole, the nearest to what they should be.
//!
//! ```text
//! 32 slots, equal weights     asked for  64   64    2         64    3
//!                             gets       15   15    2         32    3 + 0 left over
//! ```

/// One of those among whom a depth is divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// Relative weight, above zero.
    pub(super) weight: u64,
    /// What it has asked for.
    pub(super) demand: u64,
    /// What it may hold: the result.
    pub(super) part: u64,
}

impl Claim {
    pub(super) fn new(weight: u64, demand: u64) -> Self {
        Self { weight: weight.max(1), demand, part: 0 }
    }
}

/// Divides `capacity` among `claims`; `order` is scratch. O(n log n).
pub(super) fn divide(capacity: u64, claims: &mut [Claim], order: &mut Vec<usize>) {
    order.clear();
    order.extend(0..claims.len());
    // Least demand for its weight first: a / b < c / d without division.
    order.sort_unstable_by(|one, other| {
        let [one, other] = [claims[*one], claims[*other]];
        let product = |a: Claim, b: Claim| u128::from(a.demand) * u128::from(b.weight);
        product(one, other).cmp(&product(other, one))
    });
    let mut left = capacity;
    let mut weights: u128 = claims.iter().map(|claim| u128::from(claim.weight)).sum();
    for &index in order.iter() {
        let claim = &mut claims[index];
        let fair = (u128::from(left) * u128::from(claim.weight) + weights / 2) / weights;
        claim.part = claim.demand.min(u64::try_from(fair).expect("at most what is left"));
        left -= claim.part;
        weights -= u128::from(claim.weight);
    }
    for claim in claims {
        claim.part += left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(capacity: u64, claims: &[(u64, u64)]) -> Vec<u64> {
        let mut claims: Vec<_> = claims.iter().map(|(w, d)| Claim::new(*w, *d)).collect();
        divide(capacity, &mut claims, &mut Vec::new());
        claims.iter().map(|claim| claim.part).collect()
    }

    #[test]
    fn those_who_ask_for_less_leave_the_rest_to_the_others_by_weight() {
        assert_eq!(parts(32, &[(1, 64), (1, 64), (1, 2)]), [15, 15, 2]);
        assert_eq!(parts(32, &[(3, 64), (1, 64)]), [24, 8]);
        assert_eq!(parts(32, &[(100, 1), (1, 64)]), [1, 31]);
        assert_eq!(parts(32, &[(1000, 64), (1, 64)]), [32, 0], "to the nearest slot");
    }

    #[test]
    fn what_nobody_asked_for_is_everybodys() {
        assert_eq!(parts(32, &[(1, 8), (1, 4)]), [28, 24]);
        assert_eq!(parts(32, &[(5, 0)]), [32]);
        assert_eq!(parts(32, &[]), []);
    }

    #[test]
    fn nothing_is_given_out_twice_while_all_is_asked_for() {
        let mut prng = evenkeel_core::prng::Prng::new(1);
        for _ in 0..1000 {
            let claims: Vec<_> =
                (0..prng.below(20)).map(|_| (1 + prng.below(1000), prng.below(50))).collect();
            let asked: u64 = claims.iter().map(|(_, demand)| demand).sum();
            let capacity = prng.below(100);
            let given: u64 = parts(capacity, &claims).iter().sum();
            assert!(asked <= capacity || given == capacity, "{given} of {capacity}: {claims:?}");
        }
    }
}
