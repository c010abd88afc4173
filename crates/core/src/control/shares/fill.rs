//! A capacity among tenants by weight, floors first.
//!
//! Max-min fairness with weights ([`water_fill`]) for all, then again without those that it leaves
//! below their floors and who have these instead, until nobody is left below.
//!
//! ```text
//!   capacity 3, weights 1:3:3, all ask for more, a floor of 1.2 for the first
//!   round 1: 0.43 1.29 1.29     the first is below its floor
//!   round 2: 1.2  0.9  0.9
//! ```

use crate::fair::water_fill;

/// What tenants get, none more than it asks, nor less than its floor if it asks that much; and what
/// a weight of 1 is worth to those that lack something, if any does. Floors that do not fit
/// together are cut alike.
pub(super) fn fill(
    weights: &[f64],
    asked: &[f64],
    floors: &[f64],
    capacity: f64,
) -> (Vec<f64>, Option<f64>) {
    let least = |one: usize| asked[one].min(floors[one]);
    let mut has_floor = vec![false; weights.len()];
    loop {
        let all: f64 = (0..weights.len()).filter(|one| has_floor[*one]).map(least).sum();
        let fits = if all > capacity { capacity / all } else { 1.0 };
        let others = |of: &[f64]| -> Vec<f64> {
            let flags = of.iter().zip(&has_floor);
            flags.map(|(one, has_floor)| if *has_floor { 0.0 } else { *one }).collect()
        };
        let left = (capacity - all * fits).max(0.0);
        let mut given = water_fill(&others(weights), &others(asked), left);
        let is_below = |one: &usize| !has_floor[*one] && given[*one] < least(*one) * (1.0 - 1e-9);
        let below: Vec<usize> = (0..weights.len()).filter(is_below).collect();
        if below.is_empty() {
            for one in (0..weights.len()).filter(|one| has_floor[*one]) {
                given[one] = least(one) * fits;
            }
            let level = level(weights, asked, &given, &has_floor);
            return (given, level);
        }
        for one in below {
            has_floor[one] = true;
        }
    }
}

/// What a weight of 1 is worth to those that lack something: to those without their floor, if there
/// are any.
fn level(weights: &[f64], asked: &[f64], given: &[f64], has_floor: &[bool]) -> Option<f64> {
    let level = |with_floor: bool| {
        let lacking = (0..weights.len()).filter(|one| given[*one] < asked[*one]);
        let lacking = lacking.filter(|one| has_floor[*one] == with_floor);
        lacking.map(|one| given[one] / weights[one]).reduce(f64::max)
    };
    level(false).or_else(|| level(true))
}
