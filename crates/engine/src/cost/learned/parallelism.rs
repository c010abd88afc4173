//! In which way a device serves its requests, as far as it matters for who pays.
//!
//! - A way is impossible if requests come back before it is their turn.
//! - Of the others that one is right under which the times tell kinds of requests apart. Requests
//!   of one kind take about the same time, those of another kind another; under a wrong way each is
//!   given a mixture of its own time and its neighbours', and all look alike. So the measure is how
//!   much of the differences the kinds explain: the variance between groups as a part of the whole
//!   (R squared, as in Fisher's analysis of variance).
//! - Without evidence a device serves all that it has at once, which is about right at the depth
//!   that an automatic one finds. Where no way tells kinds apart it does not matter which is taken.
//!
//! How long a request takes depends on the depth. So times count in parts of the mean of their
//! epoch, in which the depth is the same.

use super::apportion::{Served, Times, WAYS};

/// Kinds of requests; more fall together.
const KINDS: usize = 64;
/// Another way must explain more, by this factor and by this part of the whole.
const BETTER: f64 = 1.3;
const BETTER_BY: f64 = 0.02;
/// A way is possible if no more requests come back too early.
const EARLY_MAX: f64 = 0.03;
/// So many requests must have been seen.
const REQUESTS_MIN: f64 = 64.0;

#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    requests: f64,
    times: Times,
}

/// Requests by kind, and what they were given.
#[derive(Clone, Debug)]
struct Kinds {
    groups: Box<[Kind; KINDS]>,
    squares: Times,
    /// Those that came back too early.
    early: Times,
}

/// The choice of a way.
#[derive(Clone, Debug)]
pub(super) struct Parallelism {
    /// Of this epoch.
    epoch: Kinds,
    /// Of all before, in parts of the mean of each epoch.
    all: Kinds,
    way: usize,
}

impl Parallelism {
    pub(super) fn new() -> Self {
        Self { epoch: Kinds::new(), all: Kinds::new(), way: Served::ALL_AT_ONCE }
    }

    /// A request of this kind is back.
    pub(super) fn add(&mut self, kind: u64, served: &Served) {
        // Multiplied, so that kinds that differ by little do not fall together.
        let place = kind.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        let kind = &mut self.epoch.groups[usize::try_from(place).expect("6 bits")];
        kind.requests += 1.0;
        for (way, time) in served.times.into_iter().enumerate() {
            kind.times[way] += time;
            self.epoch.squares[way] += time * time;
            self.epoch.early[way] += f64::from(u8::from(served.is_early[way]));
        }
    }

    /// What it was given, in the way that is taken to be right.
    pub(super) fn time_ns(&self, served: &Served) -> f64 {
        served.times[self.way]
    }

    /// How many are served at once in that way.
    pub(super) fn at_once(&self) -> u32 {
        Served::at_once(self.way)
    }

    /// The epoch ends and counts; of what was before this part is kept. Whether another way is
    /// taken to be right from now on.
    pub(super) fn merge(&mut self, keep: f64) -> bool {
        self.all.fade(keep);
        self.all.merge(&self.epoch);
        self.epoch.clear();
        let before = self.way;
        self.choose();
        self.way != before
    }

    /// The epoch ends and does not count.
    pub(super) fn discard(&mut self) {
        self.epoch.clear();
    }

    fn choose(&mut self) {
        let requests = self.all.requests();
        if requests < REQUESTS_MIN {
            return;
        }
        let is_possible = self.all.early.map(|early| early < EARLY_MAX * requests);
        if !is_possible[self.way] {
            self.way = Served::ALL_AT_ONCE;
        }
        let explained: Times = std::array::from_fn(|way| self.all.explained(way, requests));
        let possible = (0..WAYS).filter(|way| is_possible[*way]);
        let best = possible.max_by(|one, other| explained[*one].total_cmp(&explained[*other]));
        let (best, now) = (best.unwrap_or(self.way), explained[self.way]);
        if explained[best] > (BETTER * now).max(now + BETTER_BY) {
            self.way = best;
        }
    }
}

impl Kinds {
    fn new() -> Self {
        let groups = Box::new([Kind::default(); KINDS]);
        Self { groups, squares: [0.0; WAYS], early: [0.0; WAYS] }
    }

    fn clear(&mut self) {
        self.fade(0.0);
    }

    fn requests(&self) -> f64 {
        self.groups.iter().map(|kind| kind.requests).sum()
    }

    fn time_ns(&self, way: usize) -> f64 {
        self.groups.iter().map(|kind| kind.times[way]).sum()
    }

    /// What is old counts for less.
    fn fade(&mut self, keep: f64) {
        let scale = |times: &mut Times| times.iter_mut().for_each(|time| *time *= keep);
        for kind in self.groups.iter_mut() {
            kind.requests *= keep;
            scale(&mut kind.times);
        }
        scale(&mut self.squares);
        scale(&mut self.early);
    }

    /// Adds an epoch, in parts of its mean.
    fn merge(&mut self, epoch: &Self) {
        let requests = epoch.requests();
        for way in 0..WAYS {
            self.early[way] += epoch.early[way];
            let mean_ns = epoch.time_ns(way) / requests;
            if mean_ns > 0.0 {
                self.squares[way] += epoch.squares[way] / (mean_ns * mean_ns);
                for (all, kind) in self.groups.iter_mut().zip(epoch.groups.iter()) {
                    all.times[way] += kind.times[way] / mean_ns;
                }
            }
        }
        for (all, kind) in self.groups.iter_mut().zip(epoch.groups.iter()) {
            all.requests += kind.requests;
        }
    }

    /// The part of the differences that the kinds explain.
    fn explained(&self, way: usize, requests: f64) -> f64 {
        let of_mean = self.time_ns(way).powi(2) / requests;
        let seen = self.groups.iter().filter(|kind| kind.requests > 0.0);
        let between: f64 = seen.map(|kind| kind.times[way].powi(2) / kind.requests).sum();
        let whole = self.squares[way] - of_mean;
        if whole > 0.0 { (between - of_mean) / whole } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An epoch in which small requests are given this, and large ones that.
    fn epoch(small: Times, large: Times, early: f64) -> Parallelism {
        let mut parallelism = Parallelism::new();
        for index in 0..1000_u32 {
            let is_large = index % 2 == 1;
            let mut is_early = [false; WAYS];
            is_early[0] = f64::from(index % 100) < early * 100.0;
            let times = if is_large { large } else { small };
            parallelism.add(u64::from(is_large), &Served { times, is_early });
        }
        let _ = parallelism.merge(1.0);
        parallelism
    }

    #[test]
    fn without_evidence_all_are_served_at_once() {
        let parallelism = epoch([1.0; WAYS], [1.0; WAYS], 0.0);
        assert_eq!(parallelism.at_once(), u32::MAX);
    }

    #[test]
    fn the_way_that_tells_kinds_apart_is_right() {
        let (mut small, mut large) = ([5.0; WAYS], [5.0; WAYS]);
        (small[0], large[0]) = (1.0, 9.0);
        assert_eq!(epoch(small, large, 0.0).at_once(), 1);
        (small[3], large[3]) = (1.0, 9.0);
        assert_eq!(epoch(small, large, 0.1).at_once(), 8, "one at a time is impossible");
    }

    #[test]
    fn an_epoch_at_another_depth_counts_in_parts_of_its_mean() {
        let (mut small, mut large) = ([5.0; WAYS], [5.0; WAYS]);
        (small[1], large[1]) = (1.0, 9.0);
        let mut parallelism = epoch(small, large, 0.0);
        let slower = |times: Times| times.map(|time| time * 100.0);
        for index in 0..1000_u32 {
            let (kind, times) = if index % 2 == 1 { (1, large) } else { (0, small) };
            parallelism.add(kind, &Served { times: slower(times), is_early: [false; WAYS] });
        }
        let _ = parallelism.merge(1.0);
        assert!(parallelism.all.explained(1, parallelism.all.requests()) > 0.99);
    }
}
