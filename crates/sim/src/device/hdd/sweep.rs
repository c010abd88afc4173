//! Consecutive sectors passing under the heads, track after track.
//!
//! ```text
//!   time ->    |== track 7 ==|  switch, wait  |====== track 8 ======|  ..
//!               ^ starts at                    ^ the skew makes this wait short
//! ```
//!
//! A sweep holds one track's part and moves on when asked for more, so that reading ahead costs
//! nothing until somebody wants to know how far it came.

use evenkeel_core::time::{Nanos, Span};

use super::geometry::{Geometry, Track};
use super::mechanics::{Mechanics, Purpose};

/// The part of a sweep on one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its first sector.
    pub first: u64,
    /// How many follow each other.
    pub sectors: u32,
    /// When the first begins to pass.
    pub starts: Nanos,
    track: Track,
    sectors_per_track: u32,
    /// When the head was ready on the track.
    arrived: Nanos,
    /// When the last sector before the run passed.
    seen: Nanos,
}

impl Run {
    /// The track.
    pub fn track(&self) -> Track {
        self.track
    }

    /// The sector behind its last.
    pub fn end(&self) -> u64 {
        self.first + u64::from(self.sectors)
    }

    /// When its first `sectors` have passed.
    pub fn passed(&self, mechanics: &Mechanics, sectors: u32) -> Nanos {
        self.starts + mechanics.passing(sectors, self.sectors_per_track)
    }

    /// How many have wholly passed by `at`.
    fn passed_by(&self, mechanics: &Mechanics, at: Nanos) -> u32 {
        let turned = at.since(self.starts).0.min(mechanics.revolution().0);
        let passed = mechanics.passed(Span(turned), self.sectors_per_track);
        u32::try_from(passed).expect("at most a track").min(self.sectors)
    }
}

/// Consecutive sectors passing. See the [module](self).
#[derive(Clone, Debug)]
pub struct Sweep {
    run: Run,
    purpose: Purpose,
}

/// Where the arm is, and from when on it obeys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arm {
    /// Its track, or the one it is about to reach.
    pub track: Track,
    /// When it is there and free.
    pub ready: Nanos,
    /// When a sector last passed under its head that was read or written.
    pub seen: Nanos,
}

impl Sweep {
    /// Moves the arm to sector `first` as soon as it obeys and `not_before`, and lets the sectors
    /// pass from there.
    pub fn start(
        geometry: &Geometry,
        mechanics: &Mechanics,
        arm: Arm,
        first: u64,
        purpose: Purpose,
    ) -> Self {
        let place = geometry.locate(first);
        let arrived = arm.ready + mechanics.reposition(arm.track, place.track, purpose);
        let starts = arrived + mechanics.rotation(arrived, place.angle_ns);
        let run = Run {
            first,
            sectors: place.left,
            starts,
            track: place.track,
            sectors_per_track: place.sectors_per_track,
            arrived,
            seen: arm.seen,
        };
        Self { run, purpose }
    }

    /// The present track's part.
    pub fn run(&self) -> Run {
        self.run
    }

    /// Lets the sectors pass not before `ready`: a revolution, or several, later.
    pub fn wait_until(&mut self, mechanics: &Mechanics, ready: Nanos) {
        let late = ready.since(self.run.starts).0.div_ceil(mechanics.revolution().0);
        self.run.starts += Span(late * mechanics.revolution().0);
    }

    /// Moves on to the next track; the drive must not end here.
    pub fn next_run(&mut self, geometry: &Geometry, mechanics: &Mechanics) {
        let ready = self.run.passed(mechanics, self.run.sectors);
        let arm = Arm { track: self.run.track, ready, seen: ready };
        *self = Self::start(geometry, mechanics, arm, self.run.end(), self.purpose);
    }

    /// The sector behind the last that has passed by `at`, at most `limit`. Calls go forwards in
    /// time.
    pub fn end_by(
        &mut self,
        geometry: &Geometry,
        mechanics: &Mechanics,
        at: Nanos,
        limit: u64,
    ) -> u64 {
        while self.run.end() < limit && self.run.passed(mechanics, self.run.sectors) <= at {
            self.next_run(geometry, mechanics);
        }
        (self.run.first + u64::from(self.run.passed_by(mechanics, at))).min(limit)
    }

    /// Where the arm is when the sweep is broken off at `at`: it finishes the sector or the switch
    /// that it is in. [`Self::end_by`] was asked for the same instant.
    pub fn arm_at(&self, mechanics: &Mechanics, at: Nanos, limit: u64) -> Arm {
        let run = &self.run;
        let wanted = u32::try_from(limit.saturating_sub(run.first)).unwrap_or(u32::MAX);
        let last = run.passed(mechanics, run.sectors.min(wanted));
        let ready = if at < run.arrived {
            run.arrived
        } else if at <= run.starts || at >= last {
            at
        } else {
            run.passed(mechanics, run.passed_by(mechanics, at) + 1)
        };
        let passed = run.passed_by(mechanics, at).min(run.sectors.min(wanted));
        let seen = if passed == 0 { run.seen } else { run.passed(mechanics, passed) };
        Arm { track: run.track, ready, seen }
    }
}
