//! The device itself: time for which everything takes longer.
//!
//! A device may be slow for a while though it goes on answering: a rebuild, a throttled link, a
//! garbage collection. Then requests of all tenants take longer for what is there, and no more work
//! is done than before:
//!
//! ```text
//!                                    time for what is there     work in a second
//! somebody brings more              as ever                    more
//! so much more that it overflows    longer                     more
//! the device is slow                longer, for all alike      no more
//! ```
//!
//! What a request takes for what is there, L / W^e (see `elasticity`), is held against what is
//! usual of its tenant, as logarithms. Usual follows by a bounded step. While the device is slow,
//! and until what has piled up is gone, a tenant waits for others as much for each request as it
//! usually does, and the rest is the device's. The same holds after a stall.
//!
//! When weights get another unit, the usual W is set in it so that W is off by as much as the
//! number of requests there is, which has no unit.

use evenkeel_core::time::{Nanos, Span};

/// So many times as long, as a logarithm, is slow.
const SLOW: f64 = 0.4;
/// A tenant for which it is less than this part of it for all is not concerned.
const ALIKE: f64 = 0.25;
/// So many samples must say so, ..
const SAMPLES_MIN: f64 = 6.0;
/// .. beyond so many errors.
const ERRORS: f64 = 3.0;
/// Tenants of whom it is not known what is usual may hold no more of the device than this part.
const NEW_MAX: f64 = 0.25;
/// More work than usual by this factor is somebody's doing.
const MORE_WORK: f64 = 1.2;
/// What is left of a tick's samples after it.
const KEPT: f64 = 0.5;
/// The first samples of a tenant, and all of this time, are averaged, and nothing is judged by
/// them.
const FIRST: u32 = 32;
const FIRST_TIME: Span = Span::from_secs(1);
/// By so much usual may change in a second, as a logarithm.
const PACE: f64 = 0.06;
const PAUSE_MAX: Span = Span::from_secs(1);
/// Ticks that the usual wait is remembered for.
const TICKS: f64 = 24.0;
/// So many make it known.
const TICKS_MIN: f64 = 8.0;
/// What piled up is there for as long as the fault, and for no more ticks than this.
const DISTURBED_MAX: u32 = 100;
/// It is gone when a tenant waits for less than this many times the usual.
const OVER: f64 = 1.25;

/// What is usual of one tenant's requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usual {
    epoch: u32,
    samples: u32,
    /// Samples since weights got another unit.
    weights: u32,
    logs: Logs,
    is_known: bool,
    begun: Nanos,
    seen: Nanos,
    /// Recent samples, and by how much their times are off for what is there.
    recent: f64,
    off: f64,
    /// Units that ended in this tick.
    ended: u32,
    /// Wait for a unit, in nanoseconds, and from how many ticks it is known.
    wait_ns: f64,
    ticks: f64,
    /// Ticks for which what has piled up may last still.
    disturbed: u32,
}

/// Logarithms of what was there when a request went, by weight and by number, and of its time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Logs {
    pub(super) weight: f64,
    pub(super) units: f64,
    pub(super) time: f64,
}

/// Whether one server is slow.
#[derive(Clone, Debug, Default)]
pub(super) struct Slowness {
    samples: f64,
    off: f64,
    off_squared: f64,
    /// Weight that ended in this tick, and time for which anything was there.
    work: f64,
    busy_ns: f64,
    /// Work in a nanosecond, usually.
    usual_pace: f64,
    ticks: f64,
    recent_work: f64,
    recent_busy_ns: f64,
    is_slow: bool,
}

impl Usual {
    /// By how much the weight there and the time of a request are off what is usual, if that is
    /// known.
    fn follow(&mut self, now: Nanos, epoch: u32, logs: Logs) -> Option<(f64, f64)> {
        if self.samples == 0 {
            (self.logs, self.begun) = (logs, now);
        }
        let units_off = logs.units - self.logs.units;
        if self.epoch != epoch {
            (self.epoch, self.weights) = (epoch, 0);
            self.logs.weight = logs.weight - units_off;
        }
        let time_off = logs.time - self.logs.time;
        let weight_off = logs.weight - self.logs.weight;
        self.samples = self.samples.saturating_add(1);
        self.weights = self.weights.saturating_add(1);
        let passed = Span(now.since(self.seen).0.min(PAUSE_MAX.0));
        self.seen = now;
        self.is_known = self.samples > FIRST && now.since(self.begun) >= FIRST_TIME;
        let step = PACE * passed.as_secs_f64();
        let follow = |off: f64| {
            if self.is_known {
                (off / f64::from(FIRST)).clamp(-step, step)
            } else {
                off / f64::from(self.samples)
            }
        };
        let [time, units, weight] = [time_off, units_off, weight_off].map(follow);
        self.logs.time += time;
        self.logs.units += units;
        self.logs.weight += match self.weights {
            ..=FIRST => (weight_off - units_off) / f64::from(self.weights),
            _ => weight,
        };
        self.is_known.then_some((weight_off, time_off))
    }

    /// A unit has ended.
    pub(super) fn ended(&mut self) {
        self.ended += 1;
    }

    /// Takes note of the wait of a tick, and returns the part of it that is the device's.
    pub(super) fn tick(&mut self, wait_ns: u64, is_at_fault: bool) -> u64 {
        self.recent *= KEPT;
        self.off *= KEPT;
        let ended = f64::from(std::mem::take(&mut self.ended));
        let due_ns = self.wait_ns * ended;
        let wait = wait_ns as f64;
        let is_known = self.ticks >= TICKS_MIN;
        if !is_known {
            self.disturbed = 0;
        } else if is_at_fault {
            self.disturbed = (self.disturbed + 2).min(DISTURBED_MAX);
        } else if ended > 0.0 && wait <= OVER * due_ns {
            self.disturbed = 0;
        } else {
            self.disturbed = self.disturbed.saturating_sub(1);
        }
        if self.disturbed > 0 {
            return super::whole((wait - due_ns).max(0.0));
        }
        if ended > 0.0 || wait > 0.0 {
            self.ticks = (self.ticks + 1.0).min(TICKS);
            // The mean of ticks, each by the units that ended in it.
            self.wait_ns += (wait - due_ns) / self.ticks / ended.max(1.0);
        }
        0
    }
}

impl Slowness {
    /// So much of a device's work was done.
    pub(super) fn worked(&mut self, weight: u64) {
        self.work += weight as f64;
    }

    /// Something was there for so long.
    pub(super) fn passed(&mut self, time_ns: u64) {
        self.busy_ns += time_ns as f64;
    }

    /// A request of this tenant took so long with so much there; and so much longer does it take
    /// with more there.
    pub(super) fn add(
        &mut self,
        now: Nanos,
        (usual, epoch): (&mut Usual, u32),
        logs: Logs,
        elasticity: f64,
    ) {
        let Some((weight_off, time_off)) = usual.follow(now, epoch, logs) else { return };
        // As long as ever for less is no slower: then weights have changed.
        let off = (time_off - elasticity * weight_off).min(time_off);
        usual.recent += 1.0;
        usual.off += off;
        self.samples += 1.0;
        self.off += off;
        self.off_squared += off * off;
    }

    /// Ends a tick: whether the device is slow, for those who held so much of it lately.
    pub(super) fn tick<'a>(&mut self, all: impl Iterator<Item = (&'a Usual, f64)>) {
        self.recent_work = self.recent_work * KEPT + std::mem::take(&mut self.work);
        self.recent_busy_ns = self.recent_busy_ns * KEPT + std::mem::take(&mut self.busy_ns);
        let pace = self.pace();
        self.is_slow = self.is_slow_now(pace, all);
        if !self.is_slow && self.recent_busy_ns > 0.0 {
            self.ticks = (self.ticks + 1.0).min(TICKS);
            self.usual_pace += (pace - self.usual_pace) / self.ticks;
        }
        self.samples *= KEPT;
        self.off *= KEPT;
        self.off_squared *= KEPT;
    }

    fn is_slow_now<'a>(&self, pace: f64, all: impl Iterator<Item = (&'a Usual, f64)>) -> bool {
        // In another unit it is not known what is usual.
        let is_more = self.ticks > 0.0 && pace > MORE_WORK * self.usual_pace;
        if self.samples < SAMPLES_MIN || is_more {
            return false;
        }
        let mean = self.off / self.samples;
        let variance = (self.off_squared / self.samples - mean * mean).max(0.0);
        let error = (variance / self.samples).sqrt();
        if mean < SLOW || mean < ERRORS * error {
            return false;
        }
        let (mut held, mut held_by_new) = (0.0, 0.0);
        for (one, held_ns) in all {
            if one.recent >= 1.0 && one.off < ALIKE * mean * one.recent {
                return false;
            }
            held += held_ns;
            held_by_new += if one.is_known { 0.0 } else { held_ns };
        }
        held_by_new <= NEW_MAX * held
    }

    /// Weight that it works off in a nanosecond.
    pub(super) fn pace(&self) -> f64 {
        self.recent_work / self.recent_busy_ns.max(1.0)
    }

    /// Whether it is.
    pub(super) fn is_slow(&self) -> bool {
        self.is_slow
    }

    /// Work is in another unit from now on.
    pub(super) fn restart(&mut self) {
        (self.usual_pace, self.ticks) = (0.0, 0.0);
        (self.recent_work, self.recent_busy_ns) = (0.0, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::float::natural_log;

    use super::*;

    fn logs(weight: f64, units: f64, time_ns: f64) -> Logs {
        let [weight, units, time] = [weight, units, time_ns].map(natural_log);
        Logs { weight, units, time }
    }

    /// Ten seconds of two tenants, 20 requests of each in a tick, and two ticks in which they take
    /// so many times as long, with so many times as much there and so much more work done. Weights
    /// are so many times as large then, in another unit if it is not 1.
    fn is_slow(times: [f64; 2], there: f64, work: u64, unit: f64) -> bool {
        let (mut slowness, mut usual) = (Slowness::default(), [Usual::default(); 2]);
        for tick in 0..102 {
            let is_odd = tick >= 100;
            let epoch = u32::from(is_odd && unit > 1.0);
            if tick == 100 && epoch > 0 {
                slowness.restart();
            }
            for round in 0..20 {
                let now = Nanos(tick * 100_000_000 + round * 5_000_000);
                for (one, times) in usual.iter_mut().zip(times) {
                    let (there, times, unit) =
                        if is_odd { (there, times, unit) } else { (1.0, 1.0, 1.0) };
                    let logs = logs(1e6 * there * unit, 8.0 * there, 1e6 * times);
                    slowness.add(now, (one, epoch), logs, 1.0);
                    slowness.worked(if is_odd { 1000 * work } else { 1000 });
                }
            }
            slowness.passed(100_000_000);
            slowness.tick(usual.iter().map(|one| (one, 1.0)));
            for one in &mut usual {
                let _ = one.tick(0, false);
            }
        }
        slowness.is_slow()
    }

    #[test]
    fn it_is_slow_if_all_take_longer_for_what_is_there_and_no_more_is_done() {
        assert!(is_slow([4.0, 4.0], 1.0, 1, 1.0));
        assert!(!is_slow([1.0, 1.0], 1.0, 1, 1.0), "as ever");
        assert!(!is_slow([4.0, 4.0], 4.0, 1, 1.0), "more is there");
        assert!(!is_slow([4.0, 4.0], 1.0, 4, 1.0), "more is done");
        assert!(!is_slow([4.0, 1.0], 1.0, 1, 1.0), "it is one of them");
        assert!(!is_slow([1.0, 1.0], 0.2, 1, 1.0), "as long as ever for less");
    }

    #[test]
    fn in_another_unit_what_is_there_shows_by_its_number() {
        assert!(is_slow([4.0, 4.0], 1.0, 1, 30.0));
        assert!(!is_slow([1.0, 1.0], 1.0, 1, 30.0), "as ever");
        assert!(!is_slow([4.0, 4.0], 4.0, 1, 30.0), "more is there");
    }

    #[test]
    fn while_somebody_new_holds_much_of_it_it_is_not_slow() {
        let (mut slowness, mut old) = (Slowness::default(), Usual::default());
        let add = |slowness: &mut Slowness, old: &mut Usual, tick: u64, times: f64| {
            for round in 0..20 {
                let now = Nanos(tick * 100_000_000 + round * 5_000_000);
                slowness.add(now, (old, 0), logs(1e6, 8.0, 1e6 * times), 1.0);
            }
        };
        (0..100).for_each(|tick| {
            add(&mut slowness, &mut old, tick, 1.0);
            slowness.tick(std::iter::once((&old, 1.0)));
            let _ = old.tick(0, false);
        });
        add(&mut slowness, &mut old, 100, 4.0);
        let new = Usual::default();
        let is_slow = |held: f64| {
            let mut slowness = slowness.clone();
            slowness.tick([(&old, 1.0), (&new, held)].into_iter());
            slowness.is_slow()
        };
        assert!(is_slow(0.0) && is_slow(0.1));
        assert!(!is_slow(1.0), "it may be the doing of whoever is new");
    }

    #[test]
    fn a_load_that_begins_is_nothing_to_go_by() {
        let (mut slowness, mut usual) = (Slowness::default(), Usual::default());
        for round in 0..400_u32 {
            // One after another 32 requests come, each for as long as there are others before it.
            let there = f64::from((round + 1).min(32));
            let now = Nanos(20_000_000 * u64::from(round));
            // Weights are learned meanwhile.
            let epoch = round / 10;
            let logs = logs(1e6 * there, there, 2e7 * there);
            slowness.add(now, (&mut usual, epoch), logs, 1.0);
            if round % 5 == 4 {
                slowness.tick(std::iter::once((&usual, 1.0)));
                assert!(!slowness.is_slow(), "after {round} requests");
            }
        }
    }

    #[test]
    fn what_is_waited_beyond_the_usual_is_the_devices_until_it_is_over() {
        let mut usual = Usual::default();
        let mut tick = |wait_ns: u64, is_at_fault: bool| {
            (0..10).for_each(|_| usual.ended());
            usual.tick(wait_ns, is_at_fault)
        };
        (0..100).for_each(|_| assert_eq!(tick(1000, false), 0));
        assert_eq!(tick(5000, true), 4000);
        assert_eq!(tick(5000, false), 4000, "what has piled up");
        assert_eq!(tick(1100, false), 0, "is gone");
        assert_eq!(tick(5000, false), 0, "and what comes now is not the device's");
    }
}
