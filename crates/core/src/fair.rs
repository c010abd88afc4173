//! What is fair, computed the plain way: entitlements, metrics and the fluid model that the property
//! tests hold the schedulers against.
//!
//! Nothing here is meant to be quick. All amounts are plain numbers in whatever unit the caller uses
//! throughout.

/// Entitlements: `capacity` shared by weight, where nobody gets more than its demand and what one
/// leaves goes to the others by their weights (max-min fairness with weights).
///
/// ```text
/// capacity 12, weights 1:1:2, demands 1, 9, 9
///   round 1: shares 3, 3, 6    tenant 0 asks for 1 only
///   round 2: 11 left, 1:2      3.67 and 7.33 -> [1, 3.67, 7.33]
/// ```
///
/// Weights and demands are not negative; a demand may be infinite. A tenant of weight zero gets
/// nothing. O(n log n).
pub fn water_fill(weights: &[f64], demands: &[f64], capacity: f64) -> Vec<f64> {
    assert_eq!(weights.len(), demands.len(), "one demand per weight");
    let mut order: Vec<usize> = (0..weights.len()).filter(|&i| weights[i] > 0.0).collect();
    // Whoever needs the least level of water to be satisfied is satisfied first.
    order.sort_by(|&a, &b| (demands[a] / weights[a]).total_cmp(&(demands[b] / weights[b])));
    let mut weight_left: f64 = order.iter().map(|&i| weights[i]).sum();
    let mut capacity_left = capacity.max(0.0);
    let mut granted = vec![0.0; weights.len()];
    for i in order {
        granted[i] = demands[i].min(capacity_left * weights[i] / weight_left).max(0.0);
        capacity_left = (capacity_left - granted[i]).max(0.0);
        weight_left -= weights[i];
    }
    granted
}

/// Jain's index of what tenants got relative to what they were due: 1 if all alike, 1/n if one has
/// it all; 1 for nothing at all.
pub fn jain_index(relative: &[f64]) -> f64 {
    let sum: f64 = relative.iter().sum();
    let squares: f64 = relative.iter().map(|x| x * x).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (relative.len() as f64 * squares) }
}
