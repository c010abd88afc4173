//! What is fair, computed the plain way: entitlements, metrics and the fluid model that the
//! property tests hold the schedulers against.
//!
//! Nothing here is meant to be quick. All amounts are plain numbers in whatever unit the caller
//! uses throughout.

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

/// The fluid server of generalised processor sharing: at every instant, whoever has work gets its
/// part of the rate by weight, in infinitely small pieces. No scheduler can be fairer; real ones
/// are judged by how far they lag behind it.
#[derive(Clone, Debug)]
pub struct Fluid {
    rate: f64,
    weights: Vec<f64>,
    backlog: Vec<f64>,
    served: Vec<f64>,
}

impl Fluid {
    /// A server of `rate` units of service per unit of time, and its tenants' weights.
    pub fn new(rate: f64, weights: &[f64]) -> Self {
        let nothing = vec![0.0; weights.len()];
        Self { rate, weights: weights.to_vec(), backlog: nothing.clone(), served: nothing }
    }

    /// Adds work.
    pub fn arrive(&mut self, tenant: usize, cost: f64) {
        self.backlog[tenant] += cost;
    }

    /// Serves for some time. O(tenants^2): a step ends whenever a backlog does.
    pub fn advance(&mut self, mut time: f64) {
        while time > 0.0 {
            let busy = (0..self.weights.len()).filter(|&i| self.backlog[i] > 0.0);
            let weight: f64 = busy.clone().map(|i| self.weights[i]).sum();
            let drained_after = |i: usize| self.backlog[i] * weight / (self.rate * self.weights[i]);
            let Some(first) =
                busy.clone().min_by(|&a, &b| drained_after(a).total_cmp(&drained_after(b)))
            else {
                return;
            };
            let ends_first = drained_after(first) <= time;
            let step = if ends_first { drained_after(first) } else { time };
            for i in busy.collect::<Vec<_>>() {
                let service = step * self.rate * self.weights[i] / weight;
                self.served[i] += service;
                self.backlog[i] -= service;
            }
            if ends_first {
                self.backlog[first] = 0.0;
            }
            time -= step;
        }
    }

    /// Service that each tenant has had.
    pub fn served(&self) -> &[f64] {
        &self.served
    }
}

/// Fairness lag between every two tenants: how far their normalised services (service / weight)
/// came apart over any interval in which both were backlogged.
#[derive(Clone, Debug)]
pub struct PairLag {
    weights: Vec<f64>,
    backlogged: Vec<bool>,
    pairs: Vec<Pair>,
}

/// The normalised service of one tenant less that of the other, since both are backlogged.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    difference: f64,
    least: f64,
    most: f64,
    worst: f64,
}

impl PairLag {
    /// Tenants by weight, none of them backlogged.
    pub fn new(weights: &[f64]) -> Self {
        let count = weights.len();
        Self {
            weights: weights.to_vec(),
            backlogged: vec![false; count],
            pairs: vec![Pair::default(); count * count],
        }
    }

    /// Notes whether a tenant is backlogged from here on. A change begins new intervals for all of
    /// its pairs.
    pub fn set_backlogged(&mut self, tenant: usize, backlogged: bool) {
        if std::mem::replace(&mut self.backlogged[tenant], backlogged) != backlogged {
            self.restart(tenant);
        }
    }

    /// Changes a weight, which begins new intervals as well.
    pub fn set_weight(&mut self, tenant: usize, weight: f64) {
        self.weights[tenant] = weight;
        self.restart(tenant);
    }

    /// Notes service to a tenant.
    pub fn serve(&mut self, tenant: usize, cost: f64) {
        let normalised = cost / self.weights[tenant];
        for other in (0..self.weights.len()).filter(|&other| other != tenant) {
            if !(self.backlogged[tenant] && self.backlogged[other]) {
                continue;
            }
            let sign = if tenant < other { 1.0 } else { -1.0 };
            let pair = self.pair(tenant, other);
            pair.difference += sign * normalised;
            pair.least = pair.least.min(pair.difference);
            pair.most = pair.most.max(pair.difference);
            pair.worst = pair.worst.max(pair.most - pair.least);
        }
    }

    /// The worst lag of a pair so far.
    pub fn worst(&self, one: usize, other: usize) -> f64 {
        self.pairs[self.index(one, other)].worst
    }

    fn restart(&mut self, tenant: usize) {
        for other in 0..self.weights.len() {
            let pair = self.pair(tenant, other);
            *pair = Pair { worst: pair.worst, ..Pair::default() };
        }
    }

    fn pair(&mut self, one: usize, other: usize) -> &mut Pair {
        let index = self.index(one, other);
        &mut self.pairs[index]
    }

    fn index(&self, one: usize, other: usize) -> usize {
        one.min(other) * self.weights.len() + one.max(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: &[f64], expected: &[f64]) {
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
        assert!(got.iter().zip(expected).all(near), "{got:?} is not {expected:?}");
    }

    #[test]
    fn water_fills_by_weight_and_passes_on_what_is_not_wanted() {
        close(
            &water_fill(&[1.0, 1.0, 2.0], &[1.0, 9.0, 9.0], 12.0),
            &[1.0, 11.0 / 3.0, 22.0 / 3.0],
        );
        close(&water_fill(&[1.0, 3.0], &[f64::INFINITY; 2], 8.0), &[2.0, 6.0]);
        close(&water_fill(&[1.0, 3.0], &[1.0, 2.0], 8.0), &[1.0, 2.0]);
        close(&water_fill(&[0.0, 1.0], &[5.0, 5.0], 8.0), &[0.0, 5.0]);
        close(&water_fill(&[], &[], 8.0), &[]);
        close(&water_fill(&[1.0, 1.0], &[0.0, 5.0], 0.0), &[0.0, 0.0]);
    }

    #[test]
    fn the_index_of_jain_is_one_for_equals_and_one_nth_for_a_monopoly() {
        close(&[jain_index(&[2.0; 5]), jain_index(&[0.0, 0.0, 7.0, 0.0])], &[1.0, 0.25]);
        close(&[jain_index(&[]), jain_index(&[0.0])], &[1.0, 1.0]);
    }

    #[test]
    fn the_fluid_redistributes_when_a_backlog_ends() {
        let mut fluid = Fluid::new(3.0, &[1.0, 2.0]);
        fluid.arrive(0, 10.0);
        fluid.arrive(1, 4.0);
        fluid.advance(1.0);
        close(fluid.served(), &[1.0, 2.0]);
        fluid.advance(2.0);
        close(fluid.served(), &[5.0, 4.0]);
        fluid.advance(100.0);
        close(fluid.served(), &[10.0, 4.0]);
    }

    #[test]
    fn lag_counts_only_while_both_are_backlogged() {
        let mut lag = PairLag::new(&[1.0, 2.0]);
        lag.set_backlogged(0, true);
        lag.serve(0, 50.0);
        lag.set_backlogged(1, true);
        [3.0, 1.0].iter().enumerate().for_each(|(tenant, &cost)| lag.serve(tenant, cost));
        lag.set_backlogged(1, false);
        lag.serve(0, 50.0);
        close(&[lag.worst(0, 1), lag.worst(1, 0)], &[3.0, 3.0]);
    }
}
