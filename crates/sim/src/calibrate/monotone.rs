//! Values that can only rise, freed of the noise that lets them fall: the non-decreasing sequence
//! nearest in squares, by pooling adjacent violators (Ayer et al., Annals of Mathematical
//! Statistics, 1955).
//!
//! ```text
//! measured   100  200  390  380  410  400     IOPS at depths 1, 2, 4, 8, 16, 32
//! monotone   100  200  385  385  405  405
//! ```

/// The nearest non-decreasing sequence. O(values).
pub(super) fn rising(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    // Pools of (sum, count) whose means rise.
    let mut pools: Vec<(f64, usize)> = Vec::new();
    let mean = |pool: &(f64, usize)| pool.0 / pool.1 as f64;
    for value in values {
        let mut pool = (value, 1);
        while let Some(last) = pools.pop_if(|last| mean(last) > mean(&pool)) {
            pool = (pool.0 + last.0, pool.1 + last.1);
        }
        pools.push(pool);
    }
    pools.iter().flat_map(|pool| std::iter::repeat_n(mean(pool), pool.1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_falls_is_pooled_and_the_rest_stays() {
        let smooth = rising([100.0, 200.0, 390.0, 380.0, 410.0, 400.0]);
        assert_eq!(smooth, [100.0, 200.0, 385.0, 385.0, 405.0, 405.0]);
        assert_eq!(rising([3.0, 2.0, 1.0]), [2.0, 2.0, 2.0]);
        assert_eq!(rising([]), Vec::<f64>::new());
    }
}
