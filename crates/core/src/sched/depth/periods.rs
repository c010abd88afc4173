//! The search for the knee at a device that several hosts fill, none of which sees all completions.
//!
//! Hosts report what they did once a period, so that a window is a number of whole periods. How
//! sure one is comes from how much periods at one depth differ: of a device whose times are
//! memoryless the work of a period varies as the number of its completions does, of one with a
//! fixed time not at all.
//!
//! Sparse requests do not pull the depth down here: their times are not told.

use super::contrast::Measure;
use super::knee::Knee;
use super::rate::{Rate, VARIANCE_MIN};
use crate::float::natural_log;
use crate::ticket::Cost;
use crate::time::{Nanos, Span};

/// A window ends when it is as sure as this, or after so long: of the ramp, and of what follows.
const RAMP_ERROR: f64 = 0.03;
const RAMP_WINDOW_MAX: Span = Span::from_millis(400);
const TRACK_ERROR: f64 = 0.015;
const TRACK_WINDOW_MAX: Span = Span::from_millis(800);
/// So many periods in a row that tell nothing end what is being tried.
const SKIPPED_MAX: u32 = 8;
/// Completions that it has at least.
const COMPLETIONS_MIN: u64 = 16;
/// One over the weight of a new period in what is known of how they differ.
const DECAY: f64 = 8.0;

/// One period of all hosts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Its length.
    pub length: Span,
    /// What the device did.
    pub work: Cost,
    /// In how many requests.
    pub completions: u64,
    /// What clients that always ask, and had all of it at the device, ask for, if it is less than
    /// the depth.
    pub asked: Option<u32>,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct PeriodicDepth {
    knee: Knee,
    /// The window under way.
    window: Period,
    /// The rate of the last period at this depth.
    last: Option<f64>,
    /// By how much periods differ, in times of what chance makes of the number of completions.
    dispersion: f64,
    /// Periods in a row that told nothing.
    skipped: u32,
}

impl PeriodicDepth {
    /// A search that begins at the last of [`LADDER`](super::LADDER) that is no greater than
    /// `depth`, and tries nothing below `least`.
    pub fn new(depth: u32, least: u32) -> Self {
        let knee = Knee::from_depth(depth, least);
        Self { knee, window: NOTHING, last: None, dispersion: 1.0, skipped: 0 }
    }

    /// The depth to have in force, in requests.
    pub fn depth(&self) -> u32 {
        self.knee.depth()
    }

    /// It was this depth that was in force, as another host would have it: the search goes on from
    /// there.
    pub fn follow(&mut self, depth: u32) {
        self.knee.set_base(depth);
        (self.window, self.last) = (NOTHING, None);
    }

    /// A period ended, through all of which the depth was in force, and full or as full as clients
    /// that always ask can make it.
    pub fn note(&mut self, now: Nanos, period: Period) {
        self.skipped = 0;
        self.note_difference(&period);
        let Period { length, work, completions, asked } = period;
        if self.window.asked != asked {
            self.window = Period { asked, ..NOTHING };
        }
        self.window.length += length;
        self.window.work.0 = self.window.work.0.saturating_add(work.0);
        self.window.completions += completions;
        let Some(rate) = self.rate() else { return };
        let (error, longest) = if self.knee.is_found() {
            (TRACK_ERROR, TRACK_WINDOW_MAX)
        } else {
            (RAMP_ERROR, RAMP_WINDOW_MAX)
        };
        let is_sure = rate.variance <= error * error || self.window.length >= longest;
        if self.window.completions >= COMPLETIONS_MIN && is_sure {
            let measure = Measure { rate, ..Measure::default() };
            match asked {
                None => self.knee.take(now, measure),
                Some(asked) => self.knee.take_all(now, measure, asked),
            }
            (self.window, self.last) = (NOTHING, None);
        }
    }

    /// A period ended that tells nothing of the depth: it was not full, or not in force.
    pub fn skip(&mut self, now: Nanos) {
        (self.window, self.last) = (NOTHING, None);
        self.skipped += 1;
        if self.skipped == SKIPPED_MAX {
            self.skipped = 0;
            self.knee.discard(now);
        }
    }

    /// Words are lost, so that hosts would not all be at the depth that is tried: what has proven
    /// itself is in force until they come again.
    pub fn pause(&mut self, now: Nanos) {
        self.skip(now);
        if self.knee.is_found() && self.knee.depth() != self.knee.found() {
            self.knee.discard(now);
        }
    }

    fn note_difference(&mut self, period: &Period) {
        let rate = log_rate(period);
        if let (Some(before), Some(now)) = (self.last, rate) {
            // A difference has twice the variance of each.
            let seen = (now - before).powi(2) / 2.0 * period.completions as f64;
            self.dispersion += (seen - self.dispersion) / DECAY;
        }
        self.last = rate;
    }

    fn rate(&self) -> Option<Rate> {
        let log = log_rate(&self.window)?;
        let variance = self.dispersion / self.window.completions as f64;
        Some(Rate { log, variance: variance.max(VARIANCE_MIN) })
    }
}

const NOTHING: Period = Period { length: Span::ZERO, work: Cost(0), completions: 0, asked: None };

fn log_rate(period: &Period) -> Option<f64> {
    let Period { length, work, completions, .. } = *period;
    let is_known = completions > 0 && length > Span::ZERO;
    is_known.then(|| natural_log(work.0.max(1) as f64 / length.0 as f64))
}
