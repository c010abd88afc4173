//! In which way a device serves its requests, as far as it matters for who pays.
//!
//! - A way is impossible if requests come back before it is their turn.
//! - What a request took that was alone with the device is known, whatever the way. A way under
//!   which kinds of requests differ by much less than that, or the other way round, is wrong: a
//!   device that lets one kind of requests pass another makes those look dear that wait.
//! - Of the others that one is right under which the times tell kinds of requests apart. Requests
//!   of one kind take about the same time, those of another kind another; under a wrong way each is
//!   given a mixture of its own time and its neighbours', and all look alike. So the measure is how
//!   much of the differences the kinds explain: the variance between groups as a part of the whole
//!   (R squared, as in Fisher's analysis of variance).
//! - Without evidence a device serves all that it has at once, which is about right at the depth
//!   that an automatic one finds. Where no way tells kinds apart it does not matter which is taken.
//!
//! How long a request takes depends on the depth. So times count in parts of the mean of their
//! epoch, in which the depth is the same. Kinds may well differ by more than they do alone: what
//! all take beside each other, such as the way over a network, is no time of a full device.

use evenkeel_core::float::natural_log;

use super::apportion::{Served, Times, WAYS};
use super::kinds::{KINDS, Kinds};

/// Another way must explain more, by this factor and by this part of the whole.
const BETTER: f64 = 1.3;
const BETTER_BY: f64 = 0.02;
/// A way is possible if no more requests come back too early.
const EARLY_MAX: f64 = 0.03;
/// So many requests must have been seen.
const REQUESTS_MIN: f64 = 64.0;
/// Times that are within this of each other differ by rounding.
const ROUNDING: f64 = 1e-6;
/// Kinds of which fewer requests were seen, alone or beside others, are not compared.
const COMPARED_MIN: f64 = 3.0;
/// How exact kinds are compared at best, as a logarithm.
const COMPARED_ERROR: f64 = 0.1;
/// A way is wrong that misses what is known of requests alone by so many errors more than another,
const MISSED_MORE: f64 = 1.0;
/// if that one does not miss it by more than this. Else the device is no longer what it was.
const MISSED_MAX: f64 = 2.0;

/// The choice of a way.
#[derive(Clone, Debug)]
pub(super) struct Parallelism {
    /// Of this epoch.
    epoch: Kinds,
    /// Of all before, in parts of the mean of each epoch.
    all: Kinds,
    /// Of this epoch, requests that were alone with the device.
    epoch_alone: Kinds,
    /// Of all before.
    alone: Kinds,
    way: usize,
}

impl Parallelism {
    pub(super) fn new() -> Self {
        let [epoch, all, epoch_alone, alone] = [(); 4].map(|()| Kinds::new());
        Self { epoch, all, epoch_alone, alone, way: Served::ALL_AT_ONCE }
    }

    /// A request of this kind is back.
    pub(super) fn add(&mut self, kind: u64, served: &Served) {
        let kinds = if is_alone(served) { &mut self.epoch_alone } else { &mut self.epoch };
        kinds.add(kind, served);
    }

    /// What it was given, in the way that is taken to be right.
    pub(super) fn time_ns(&self, served: &Served) -> f64 {
        served.times[self.way]
    }

    /// How many are served at once in that way.
    pub(super) fn at_once(&self) -> u32 {
        Served::at_once(self.way)
    }

    /// The epoch ends and counts; of what was before these parts are kept, of requests among others
    /// and of those that were alone. Whether another way is taken to be right from now on.
    pub(super) fn merge(&mut self, keep: f64, keep_alone: f64) -> bool {
        self.all.fade(keep);
        self.all.merge(&self.epoch);
        self.alone.fade(keep_alone);
        // Of one kind alone nothing is learned.
        if self.epoch_alone.count() > 1 {
            self.alone.merge(&self.epoch_alone);
        }
        self.discard();
        let before = self.way;
        self.choose();
        self.way != before
    }

    /// The epoch ends and does not count.
    pub(super) fn discard(&mut self) {
        self.epoch.clear();
        self.epoch_alone.clear();
    }

    fn choose(&mut self) {
        let requests = self.all.requests();
        if requests < REQUESTS_MIN {
            return;
        }
        let is_possible = self.possible(requests);
        let explained: Times = std::array::from_fn(|way| self.all.explained(way));
        let possible = (0..WAYS).filter(|way| is_possible[*way]);
        let best = possible.max_by(|one, other| explained[*one].total_cmp(&explained[*other]));
        let best = best.expect("all at once is possible, or what fits better");
        if !is_possible[self.way] {
            self.way = if is_possible[Served::ALL_AT_ONCE] { Served::ALL_AT_ONCE } else { best };
        }
        let now = explained[self.way];
        if explained[best] > (BETTER * now).max(now + BETTER_BY) {
            self.way = best;
        }
    }

    /// The ways that nothing speaks against.
    fn possible(&self, requests: f64) -> [bool; WAYS] {
        let is_in_time = self.all.early.map(|early| early < EARLY_MAX * requests);
        let missed: Times = std::array::from_fn(|way| self.missed(way));
        let in_time = (0..WAYS).filter(|way| is_in_time[*way]);
        let least = in_time.map(|way| missed[way]).fold(f64::INFINITY, f64::min);
        let most = if least > MISSED_MAX { f64::INFINITY } else { least + MISSED_MORE };
        std::array::from_fn(|way| is_in_time[way] && missed[way] <= most)
    }

    /// By how many errors kinds of requests differ too little, at most, for what they take alone.
    fn missed(&self, way: usize) -> f64 {
        let spread = self.alone.spread(way);
        let mut all = [Compared::default(); KINDS];
        let mut count = 0;
        for (place, one) in all.iter_mut().zip(self.compared(way)) {
            *place = one;
            count += 1;
        }
        let kinds = &all[..count];
        let mut most: f64 = 0.0;
        for (index, first) in kinds.iter().enumerate() {
            for second in &kinds[index + 1..] {
                let variance = spread * (first.variance + second.variance);
                let error = (COMPARED_ERROR * COMPARED_ERROR + variance).sqrt();
                let alone = first.alone - second.alone;
                let missed = (alone - (first.among - second.among)) * alone.signum();
                most = most.max(missed / error);
            }
        }
        most
    }

    /// The kinds that were seen alone and among others.
    fn compared(&self, way: usize) -> impl Iterator<Item = Compared> {
        let pairs = self.alone.groups.iter().zip(self.all.groups.iter());
        pairs.filter_map(move |(alone, among)| {
            let requests = alone.requests.min(among.requests);
            let (one, other) = (alone.mean(way), among.mean(way));
            (requests >= COMPARED_MIN && one > 0.0 && other > 0.0).then(|| Compared {
                alone: natural_log(one),
                among: natural_log(other),
                variance: 1.0 / alone.requests + 1.0 / among.requests,
            })
        })
    }
}

/// What a kind of requests takes by a way.
#[derive(Clone, Copy, Default)]
struct Compared {
    /// As a logarithm.
    alone: f64,
    among: f64,
    /// Of both, in times of that of a single request.
    variance: f64,
}

/// Whether a request was alone with the device: then all its time is its own in every way.
pub(super) fn is_alone(served: &Served) -> bool {
    let [first, ..] = served.times;
    let is_same = |time: &f64| (time - first).abs() <= ROUNDING * first;
    !served.is_early[0] && served.times.iter().all(is_same)
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
        let _ = parallelism.merge(1.0, 1.0);
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
        let _ = parallelism.merge(1.0, 1.0);
        assert!(parallelism.all.explained(1) > 0.99);
    }

    /// Adds requests of two kinds by turns, which are given this in all ways but the last, and that
    /// in the last.
    fn add_both(parallelism: &mut Parallelism, others: [f64; 2], last: [f64; 2], count: u32) {
        for index in 0..count {
            let large = usize::from(index % 2 == 1);
            let mut times = [others[large]; WAYS];
            // Noise, without which every way would explain all.
            times[Served::IN_ANY_ORDER] = last[large] + if index % 4 < 2 { 0.3 } else { -0.3 };
            let served = Served { times, is_early: [false; WAYS] };
            parallelism.add(u64::from(large == 1), &served);
        }
    }

    fn add_alone(parallelism: &mut Parallelism, times: [f64; 2], count: u32) {
        for index in 0..count {
            let large = usize::from(index % 2 == 1);
            let served = Served { times: [times[large]; WAYS], is_early: [false; WAYS] };
            parallelism.add(u64::from(large == 1), &served);
        }
    }

    #[test]
    fn a_device_that_lets_one_kind_pass_another_deceives_nobody_who_saw_them_alone() {
        // The large ones pass the small ones, which look dear in all ways but the last.
        let mut deceived = Parallelism::new();
        add_both(&mut deceived, [1.2, 0.7], [0.9, 1.2], 1000);
        let _ = deceived.merge(1.0, 1.0);
        assert_eq!(deceived.way, Served::ALL_AT_ONCE);
        let mut parallelism = Parallelism::new();
        add_alone(&mut parallelism, [1.0, 1.2], 40);
        add_both(&mut parallelism, [1.2, 0.7], [0.9, 1.2], 1000);
        let _ = parallelism.merge(1.0, 1.0);
        assert_eq!(parallelism.way, Served::IN_ANY_ORDER);
    }

    #[test]
    fn kinds_may_differ_by_more_beside_each_other_than_alone() {
        // Alone, the way over the network is most of what each takes.
        let mut parallelism = Parallelism::new();
        add_alone(&mut parallelism, [1.1, 1.4], 40);
        add_both(&mut parallelism, [0.2, 0.8], [0.5, 0.5], 1000);
        let _ = parallelism.merge(1.0, 1.0);
        assert_eq!(parallelism.way, Served::ALL_AT_ONCE);
    }

    #[test]
    fn what_no_way_agrees_with_tells_nothing() {
        // Alone, writes went to a cache; now it is full.
        let mut parallelism = Parallelism::new();
        add_alone(&mut parallelism, [5.0, 0.1], 40);
        add_both(&mut parallelism, [0.5, 1.5], [1.0, 1.0], 1000);
        let _ = parallelism.merge(1.0, 1.0);
        assert_eq!(parallelism.way, Served::ALL_AT_ONCE);
    }
}
