//! Requests by kind, and what they were given in each way to divide the device's time.

use super::apportion::{Served, Times, WAYS};

/// Kinds of requests; more fall together.
pub(super) const KINDS: usize = 64;

/// Sums below this are none.
const FORGOTTEN: f64 = 1e-100;

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kind {
    pub(super) requests: f64,
    times: Times,
}

/// All kinds.
#[derive(Clone, Debug)]
pub(super) struct Kinds {
    pub(super) groups: Box<[Kind; KINDS]>,
    squares: Times,
    /// Those that came back too early.
    pub(super) early: Times,
}

impl Kind {
    /// What one of them was given.
    pub(super) fn mean(&self, way: usize) -> f64 {
        self.times[way] / self.requests
    }
}

impl Kinds {
    pub(super) fn new() -> Self {
        let groups = Box::new([Kind::default(); KINDS]);
        Self { groups, squares: [0.0; WAYS], early: [0.0; WAYS] }
    }

    /// A request of this kind was given this.
    pub(super) fn add(&mut self, kind: u64, served: &Served) {
        // Multiplied, so that kinds that differ by little do not fall together.
        let place = kind.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        let kind = &mut self.groups[usize::try_from(place).expect("6 bits")];
        kind.requests += 1.0;
        for (way, time) in served.times.into_iter().enumerate() {
            kind.times[way] += time;
            self.squares[way] += time * time;
            self.early[way] += f64::from(u8::from(served.is_early[way]));
        }
    }

    pub(super) fn clear(&mut self) {
        self.fade(0.0);
    }

    pub(super) fn requests(&self) -> f64 {
        self.groups.iter().map(|kind| kind.requests).sum()
    }

    /// How many kinds there are.
    pub(super) fn count(&self) -> usize {
        self.seen().count()
    }

    fn seen(&self) -> impl Iterator<Item = &Kind> {
        self.groups.iter().filter(|kind| kind.requests > 0.0)
    }

    fn time_ns(&self, way: usize) -> f64 {
        self.groups.iter().map(|kind| kind.times[way]).sum()
    }

    /// What is old counts for less, and for nothing in the end: times that only fade would come to
    /// the smallest numbers that there are, and stay there.
    pub(super) fn fade(&mut self, keep: f64) {
        let faded = |one: f64| if one * keep < FORGOTTEN { 0.0 } else { one * keep };
        let scale = |times: &mut Times| times.iter_mut().for_each(|time| *time = faded(*time));
        for kind in self.groups.iter_mut() {
            kind.requests = faded(kind.requests);
            scale(&mut kind.times);
        }
        scale(&mut self.squares);
        scale(&mut self.early);
    }

    /// Adds an epoch, in parts of its mean.
    pub(super) fn merge(&mut self, epoch: &Self) {
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
    pub(super) fn explained(&self, way: usize) -> f64 {
        let of_mean = self.time_ns(way).powi(2) / self.requests();
        let whole = self.squares[way] - of_mean;
        if whole > 0.0 { (self.between(way) - of_mean) / whole } else { 0.0 }
    }

    /// The variance of one request beside others of its kind, in parts of the squared mean.
    pub(super) fn spread(&self, way: usize) -> f64 {
        let of_mean = self.time_ns(way).powi(2) / self.requests();
        if of_mean > 0.0 {
            ((self.squares[way] - self.between(way)) / of_mean).max(0.0)
        } else {
            0.0
        }
    }

    fn between(&self, way: usize) -> f64 {
        self.seen().map(|kind| kind.times[way].powi(2) / kind.requests).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests that overtake others come back before their turn, as long as they do: in that way
    /// they are given nothing, and what they were given once fades.
    #[test]
    fn what_only_fades_is_forgotten() {
        let mut all = Kinds::new();
        let with = |times: Times| {
            let mut epoch = Kinds::new();
            epoch.add(7, &Served { times, is_early: [false; WAYS] });
            epoch
        };
        all.merge(&with([5.0; WAYS]));
        let mut overtaking = [5.0; WAYS];
        overtaking[0] = 0.0;
        for _ in 0..20_000 {
            all.fade(0.9);
            all.merge(&with(overtaking));
        }
        let kind = all.seen().next().expect("one was added");
        assert_eq!(kind.mean(0).to_bits(), 0.0_f64.to_bits());
        assert!(kind.mean(1) > 0.9, "the mean of the epoch");
    }
}
