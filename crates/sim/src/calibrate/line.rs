//! A straight line through noisy points of very different height: `y = fixed + slope x`, neither
//! negative, with the least sum of relative errors `|y - line| / y`.
//!
//! Absolute errors, not squares, so that a wild point pulls the line no further than any other; and
//! relative ones, so that the small sizes count as much as the large. The best line runs through
//! two of the points, or through one of them along a bound (level, or through the origin): with a
//! dozen points all of these are tried. O(points^3).

/// The best line: `(fixed, slope)`. `points` are `(x, y)` with positive `y`; at least one.
pub(super) fn fit(points: &[(f64, f64)]) -> (f64, f64) {
    let through_two = |a: &(f64, f64), b: &(f64, f64)| {
        let slope = (b.1 - a.1) / (b.0 - a.0);
        (a.1 - slope * a.0, slope)
    };
    let mut candidates = Vec::new();
    for (index, a) in points.iter().enumerate() {
        candidates.push((a.1, 0.0));
        candidates.push((0.0, a.1 / a.0));
        candidates.extend(points[index + 1..].iter().map(|b| through_two(a, b)));
    }
    let usable = candidates.into_iter().filter(|&(fixed, slope)| {
        fixed.is_finite() && slope.is_finite() && fixed >= 0.0 && slope >= 0.0
    });
    let error = |&(fixed, slope): &(f64, f64)| -> f64 {
        points.iter().map(|&(x, y)| ((fixed + slope * x) / y - 1.0).abs()).sum()
    };
    usable
        .min_by(|a, b| error(a).total_cmp(&error(b)))
        .expect("the level line through the first point can always be used")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_line_is_found_despite_a_wild_point() {
        let mut points: Vec<_> = [1.0, 4.0, 16.0, 64.0, 256.0].map(|x| (x, 30.0 + 2.0 * x)).into();
        assert_eq!(fit(&points), (30.0, 2.0));
        points.push((128.0, 9000.0));
        assert_eq!(fit(&points), (30.0, 2.0));
    }

    #[test]
    fn neither_part_is_negative() {
        assert_eq!(fit(&[(1.0, 10.0), (2.0, 9.0), (3.0, 10.0)]), (10.0, 0.0), "falling: level");
        let (fixed, slope) = fit(&[(1.0, 1.0), (2.0, 3.0), (4.0, 8.0)]);
        assert!(fixed >= 0.0 && slope > 0.0, "{fixed} {slope}");
        assert_eq!(fit(&[(5.0, 7.0)]), (7.0, 0.0), "a single point");
    }
}
