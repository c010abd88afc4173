//! Choosing without looking: a table of one byte per group that makes chance even things out.
//!
//! Groups fall unevenly on servers, and that is known beforehand. So every group gets a level, and
//! of an object's two candidates a and b the first is taken with odds that the object's own name
//! draws (Bradley and Terry 1952):
//!
//! ```text
//! P(a) = 1 / (1 + exp(level b - level a))         levels in steps of 1/32, 0 to 255/32
//! ```
//!
//! The levels are fitted to the map so that the expected part of every server is that of its
//! capacity: each server has a price that rises while it gets too much, and the level of a group is
//! minus the sum of its servers' prices. No probe, no memory per object: whoever has the table
//! finds the object. What is left to luck is the number of objects: one in the square root of a
//! server's.

use super::cluster::GroupMap;
use crate::float::exponential;

/// Distance of two levels.
const STEP: f64 = 1.0 / 32.0;

/// Rounds of fitting: far more than it takes, where it converges.
const ROUNDS: usize = 400;

/// The multiples of it lie as evenly as can be between whole numbers.
const GOLDEN_RATIO: f64 = 0.618_033_988_749_894_9;

/// How fast prices follow; one object of two that come to a group has a choice.
const GAIN: f64 = 0.7;

/// The table.
#[derive(Clone, Debug, PartialEq)]
pub struct Odds {
    levels: Vec<u8>,
    /// Chance of the first candidate in parts of 2^64, by the difference of levels plus 255.
    chances: Vec<u64>,
}

/// A table with the prices that led to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The table.
    pub odds: Odds,
    /// By server; relative to each other.
    pub prices: Vec<f64>,
}

impl Odds {
    /// Fits a table to a map. Capacities are by server and cover every server of the map.
    /// O(groups * replicas), several hundred times.
    pub fn fit(map: &GroupMap, capacities: &[u64]) -> Fit {
        let total: f64 = capacities.iter().map(|&bytes| bytes as f64).sum();
        let mut prices = vec![0.0; capacities.len()];
        let mut best = (f64::INFINITY, prices.clone());
        for round in 0..ROUNDS {
            let odds = Self::of_prices(map, &prices);
            let loads = server_parts(map, &odds.group_parts());
            let whole: f64 = loads.iter().sum();
            // What a server gets, over what its capacity says; 1 where nothing is wrong.
            let excess = |server: usize| {
                let fair = capacities[server] as f64 / total * whole;
                if fair > 0.0 { loads[server] / fair } else { 1.0 }
            };
            let worst = (0..prices.len()).map(excess).fold(0.0, f64::max);
            if worst < best.0 {
                best = (worst, prices.clone());
            }
            // Smaller and smaller steps find the middle between two levels.
            let gain = GAIN / (1.0 + round as f64 / 50.0);
            for (server, price) in prices.iter_mut().enumerate() {
                *price += gain * (excess(server) - 1.0);
            }
        }
        let (_, prices) = best;
        Fit { odds: Self::of_prices(map, &prices), prices }
    }

    /// A table from its bytes, one per group of the map that it was fitted to.
    pub fn of_levels(levels: Vec<u8>) -> Self {
        Self { levels, chances: chances() }
    }

    /// The bytes of the table.
    pub fn levels(&self) -> &[u8] {
        &self.levels
    }

    /// Which of two candidate groups is taken, 0 or 1, by the object's
    /// [`lot`](super::candidates::Candidates::lot).
    pub fn pick(&self, [first, second]: [u32; 2], lot: u64) -> usize {
        let [first, second] = [first, second].map(|group| usize::from(self.levels[group as usize]));
        usize::from(lot >= self.chances[first + 255 - second])
    }

    /// The part of all objects that is expected in each group.
    pub fn group_parts(&self) -> Vec<f64> {
        let mut counts = [0.0; 256];
        self.levels.iter().for_each(|&level| counts[usize::from(level)] += 1.0);
        let groups = self.levels.len() as f64;
        let part = |level: usize| {
            let meets = |(other, count): (usize, &f64)| count * chance(level, other);
            2.0 / (groups * groups) * counts.iter().enumerate().map(meets).sum::<f64>()
        };
        let by_level: Vec<f64> =
            (0..256).map(|level| if counts[level] > 0.0 { part(level) } else { 0.0 }).collect();
        self.levels.iter().map(|&level| by_level[usize::from(level)]).collect()
    }

    fn of_prices(map: &GroupMap, prices: &[f64]) -> Self {
        let worth = |set: &[crate::id::ServerId]| -> f64 {
            -set.iter().map(|server| prices[server.index()]).sum::<f64>()
        };
        let worths: Vec<f64> = map.sets().map(worth).collect();
        let mean = worths.iter().sum::<f64>() / worths.len() as f64;
        // Rounded up in turn with the fraction as the chance, so that a server's groups have on
        // average what they should have.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let level = |(turn, worth): (u32, f64)| {
            let dither = (f64::from(turn) * GOLDEN_RATIO).fract();
            ((worth - mean) / STEP + 127.0 + dither) as u8
        };
        Self::of_levels((0..).zip(worths).map(level).collect())
    }
}

/// The part of what is stored that falls on each server, given the parts of the groups; a replica
/// counts as much as the object.
pub(super) fn server_parts(map: &GroupMap, group_parts: &[f64]) -> Vec<f64> {
    let mut loads = vec![0.0; map.server_rows()];
    for (set, part) in map.sets().zip(group_parts) {
        for server in set {
            loads[server.index()] += part;
        }
    }
    loads
}

fn chance(first: usize, second: usize) -> f64 {
    1.0 / (1.0 + exponential((second as f64 - first as f64) * STEP))
}

fn chances() -> Vec<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let parts = |chance: f64| (chance * 2f64.powi(64)) as u64;
    (0..=510).map(|difference| parts(chance(difference, 255))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ServerId;
    use crate::place::candidates::ObjectName;
    use crate::place::cluster::{DomainId, GroupOptions, Member};

    fn cluster(servers: u32, group_bits: u32, replicas: usize) -> (GroupMap, Vec<u64>) {
        let sizes = [4, 8, 8, 12];
        let capacity = |server: u32| sizes[server as usize % 4] << 40;
        let member = |server: u32| Member {
            server: ServerId(server),
            capacity_bytes: capacity(server),
            domain: DomainId(server / 4),
        };
        let members: Vec<Member> = (0..servers).map(member).collect();
        let options = GroupOptions { group_bits, replicas, seed: 1 };
        (GroupMap::new(&members, options).unwrap(), (0..servers).map(capacity).collect())
    }

    /// The most that a server gets, over what its capacity says.
    fn worst(loads: &[f64], capacities: &[u64]) -> f64 {
        let total: f64 = capacities.iter().map(|&bytes| bytes as f64).sum();
        let whole: f64 = loads.iter().sum();
        let excess = loads
            .iter()
            .zip(capacities)
            .map(|(load, &bytes)| load / whole / (bytes as f64 / total));
        excess.fold(0.0, f64::max)
    }

    #[test]
    fn the_expected_parts_are_those_of_the_capacities() {
        for (servers, group_bits, replicas) in [(16, 9, 1), (16, 7, 3), (44, 10, 3), (200, 12, 3)] {
            let (map, capacities) = cluster(servers, group_bits, replicas);
            let even = vec![1.0 / f64::from(map.len()); map.len() as usize];
            let plain = worst(&server_parts(&map, &even), &capacities);
            let fitted = Odds::fit(&map, &capacities).odds;
            let parts = fitted.group_parts();
            assert!((parts.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let fitted = worst(&server_parts(&map, &parts), &capacities);
            assert!(plain > 1.1 && fitted < 1.003, "{servers}: {plain} to {fitted}");
        }
    }

    #[test]
    fn objects_fall_as_expected() {
        let (map, capacities) = cluster(16, 9, 3);
        let odds = Odds::fit(&map, &capacities).odds;
        let mut loads = vec![0.0; 16];
        for index in 0..200_000 {
            let candidates = ObjectName { volume: 1, index }.candidates(&map, 2);
            let groups = [candidates.groups()[0], candidates.groups()[1]];
            let group = groups[odds.pick(groups, candidates.lot())];
            for server in map.servers(group) {
                loads[server.index()] += 1.0;
            }
        }
        let worst = worst(&loads, &capacities);
        assert!(worst < 1.015, "{worst}: 37,500 objects on the average server, so 0.5 % is luck");
    }

    #[test]
    fn the_bytes_are_all_there_is_to_keep() {
        let (map, capacities) = cluster(16, 7, 1);
        let odds = Odds::fit(&map, &capacities).odds;
        assert_eq!(odds.levels().len(), 128);
        assert_eq!(Odds::of_levels(odds.levels().to_vec()), odds);
    }
}
