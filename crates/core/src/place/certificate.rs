//! How full a cluster can get before its first server is full: what a given map allows at most, and
//! what is reached with certainty.
//!
//! **At most.** Give every server a price per byte so that all capacity together is worth 1. An
//! object takes at least the price of its cheapest candidate, so objects that are worth more than 1
//! cannot be stored, whatever is chosen, online or with hindsight:
//!
//! ```text
//! bytes <= 1 / E[ least price of d random groups ]        for any prices
//! ```
//!
//! With price 1 on a set S of servers alone this is Hall's condition: what has all its candidates
//! in S must live in S. Prices from the fit of [`Odds`] and sets of its dearest servers are tried;
//! the least bound counts. **At least**, by odds alone, is what that fit reaches; and by hashing
//! alone, what one candidate does.

use super::cluster::GroupMap;
use super::odds::{Fit, Odds, server_parts};
use crate::id::ServerId;

/// Sets of dearest servers that are tried.
const SETS_MAX: usize = 64;

/// Steps between equal prices and those of the fit that are tried.
const STEPS: u32 = 16;

/// Parts of the whole capacity that are in use when the first server is full, each 0 to 1, for ever
/// so many small objects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Certificate {
    /// By hashing alone.
    pub hashing: f64,
    /// By a table of odds over two candidates, without looking at any server.
    pub odds: f64,
    /// The most that any choice between `candidates` can reach.
    pub at_most: f64,
}

impl Certificate {
    /// What a map allows. Capacities are by server and cover every server of the map.
    /// O(groups * log groups), about a hundred times.
    pub fn of(map: &GroupMap, capacities: &[u64], candidates: u32) -> Self {
        let even = vec![1.0 / f64::from(map.len()); map.len() as usize];
        let Fit { odds, prices } = Odds::fit(map, capacities);
        Self {
            hashing: reached(map, capacities, &even),
            odds: reached(map, capacities, &odds.group_parts()),
            at_most: at_most(map, capacities, candidates, &prices),
        }
    }
}

/// How full the cluster is when the first server is, if objects fall on groups in these parts.
fn reached(map: &GroupMap, capacities: &[u64], group_parts: &[f64]) -> f64 {
    let loads = server_parts(map, group_parts);
    let with_load = loads.iter().zip(capacities).filter(|(load, _)| **load > 0.0);
    let bytes = with_load.map(|(load, &bytes)| bytes as f64 / load).fold(f64::INFINITY, f64::min);
    bytes * loads.iter().sum::<f64>() / total(capacities)
}

fn at_most(map: &GroupMap, capacities: &[u64], candidates: u32, fitted: &[f64]) -> f64 {
    let whole = total(capacities);
    let replicas = map.sets().map(<[ServerId]>::len).sum::<usize>() as f64 / f64::from(map.len());
    let mut bound = f64::INFINITY;
    let mut costs = Vec::new();
    let mut try_prices = |prices: &[f64]| {
        costs.clear();
        costs.extend(map.sets().map(|set| set.iter().map(|one| prices[one.index()]).sum::<f64>()));
        costs.sort_unstable_by(f64::total_cmp);
        let worth: f64 =
            prices.iter().zip(capacities).map(|(price, &bytes)| price * bytes as f64).sum();
        bound = bound.min(worth / least_of(&costs, candidates) * replicas / whole);
    };
    let mean = fitted.iter().sum::<f64>() / fitted.len() as f64;
    let lowest = fitted.iter().fold(0.0f64, |low, price| low.min(price - mean));
    for step in 0..=STEPS {
        // At the last step the cheapest server costs nothing.
        let scale = if lowest < 0.0 { f64::from(step) / f64::from(STEPS) / -lowest } else { 0.0 };
        let prices: Vec<f64> = fitted.iter().map(|price| 1.0 + scale * (price - mean)).collect();
        try_prices(&prices.iter().map(|price| price.max(0.0)).collect::<Vec<_>>());
    }
    let mut dearest: Vec<usize> = (0..fitted.len()).collect();
    dearest.sort_by(|&one, &other| fitted[other].total_cmp(&fitted[one]));
    let stride = fitted.len().div_ceil(SETS_MAX);
    for size in (1..fitted.len()).step_by(stride) {
        let mut prices = vec![0.0; fitted.len()];
        dearest[..size].iter().for_each(|&server| prices[server] = 1.0);
        try_prices(&prices);
    }
    bound
}

/// The expected least of so many costs drawn at random; costs are sorted.
fn least_of(costs: &[f64], draws: u32) -> f64 {
    let count = costs.len() as f64;
    let exponent = i32::try_from(draws).expect("few candidates");
    // The chance that every draw is the one at `rank` or a dearer one.
    let beyond = |rank: usize| ((count - rank as f64) / count).powi(exponent);
    costs.iter().enumerate().map(|(rank, cost)| cost * (beyond(rank) - beyond(rank + 1))).sum()
}

fn total(capacities: &[u64]) -> f64 {
    capacities.iter().map(|&bytes| bytes as f64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::cluster::{DomainId, GroupOptions, Member};

    /// One group for each server, however large it is.
    fn unweighted(capacities: &[u64], candidates: u32) -> Certificate {
        let sets: Vec<_> = (0..64).map(|server| vec![ServerId(server)]).collect();
        let map = GroupMap::of_sets(&sets).unwrap();
        let capacities: Vec<u64> = capacities.iter().cycle().take(64).copied().collect();
        Certificate::of(&map, &capacities, candidates)
    }

    #[test]
    fn candidates_that_ignore_capacity_leave_some_of_it_unused() {
        // Of halves of 4 and 16 TB, a quarter of the objects has both candidates among the small.
        let two = unweighted(&[4, 16], 2).at_most;
        assert!((two - 0.8).abs() < 1e-9, "{two}");
        let three = unweighted(&[4, 16], 3).at_most;
        assert!(three > 0.9999, "{three}");
        let mixed = unweighted(&[1, 2, 4, 16], 2).at_most;
        assert!((mixed - 12.0 / 23.0).abs() < 1e-9, "{mixed}");
    }

    #[test]
    fn a_weighted_map_can_be_filled_and_odds_get_there() {
        let member = |server: u32| Member {
            server: ServerId(server),
            capacity_bytes: [4, 8, 8, 12][server as usize % 4] << 40,
            domain: DomainId(server / 3),
        };
        let members: Vec<Member> = (0..45).map(member).collect();
        let options = GroupOptions { group_bits: 9, replicas: 3, seed: 2 };
        let map = GroupMap::new(&members, options).unwrap();
        let capacities: Vec<u64> = members.iter().map(|member| member.capacity_bytes).collect();
        let Certificate { hashing, odds, at_most } = Certificate::of(&map, &capacities, 2);
        assert!((0.5..0.85).contains(&hashing), "{hashing}");
        assert!(odds > 0.995 && odds <= at_most + 1e-9, "{odds} {at_most}");
        assert!(at_most <= 1.0 + 1e-9);
    }
}
