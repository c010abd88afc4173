//! What tenants take of a device together, where it is known what each takes at least.
//!
//! ```text
//! inferred   |------ A ------|-- B --|
//! at least   |-- A --|  |---- B ----|
//! taken      |---- A ----|---- B ----|
//! ```
//!
//! Requests of several tenants may take longer together than one tenant at a time: two streams on a
//! disk are in each other's way, and processes that share a processor are. Whose that time is was
//! inferred, and nobody takes less than by turns. What is inferred below that is wrong, and was
//! charged to those who are above theirs: each of them gives back in proportion to what lies above.

/// What is known of a tenant's part of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) inferred: f64,
    pub(super) least: f64,
}

/// The parts of all, so that each is at least what it has to be and the sum stays; none if they
/// are, or if nobody has anything to give back.
pub(super) fn raise(bounds: &[Bound]) -> Option<Vec<f64>> {
    let below: f64 = bounds.iter().map(|one| (one.least - one.inferred).max(0.0)).sum();
    let above: f64 = bounds.iter().map(|one| (one.inferred - one.least).max(0.0)).sum();
    if below <= 0.0 || above <= 0.0 {
        return None;
    }
    let given_back = (below / above).min(1.0);
    let part = |one: &Bound| {
        let above = (one.inferred - one.least).max(0.0);
        one.inferred.max(one.least) - above * given_back
    };
    Some(bounds.iter().map(part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raised(bounds: &[(f64, f64)]) -> Option<Vec<f64>> {
        let bounds: Vec<Bound> =
            bounds.iter().map(|&(inferred, least)| Bound { inferred, least }).collect();
        raise(&bounds)
    }

    #[test]
    fn whoever_was_charged_too_much_gives_back_what_others_take() {
        assert_eq!(raised(&[(8.0, 4.0), (2.0, 3.0)]), Some(vec![7.0, 3.0]));
        assert_eq!(raised(&[(6.0, 4.0), (3.0, 2.0), (1.0, 4.0)]), Some(vec![4.0, 2.0, 4.0]));
        // Nothing is known of the first.
        assert_eq!(raised(&[(6.0, 0.0), (3.0, 3.0), (1.0, 3.0)]), Some(vec![4.0, 3.0, 3.0]));
    }

    #[test]
    fn what_nothing_speaks_against_stays() {
        assert_eq!(raised(&[(8.0, 4.0), (2.0, 1.0)]), None);
        assert_eq!(raised(&[(0.0, 4.0), (0.0, 1.0)]), None, "nobody has anything to give back");
    }
}
