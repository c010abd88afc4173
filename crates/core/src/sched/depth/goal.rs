//! A depth that holds the device's latency to a goal, by an integral controller (SFQ(D2), IBIS,
//! HPDC 2016). Once per control period, with L the mean latency and Lref the goal,
//!
//! ```text
//! D(k+1) = D(k) + K * (Lref - L(k)),    K = D(k) / (4 * Lref)
//! ```
//!
//! The gain is relative: the step is at most a quarter of the depth, whatever the device's scale.
//! With latency growing as `a + b*D`, that is stable for every a and b. Reads and writes have goals
//! of their own; under a mixture the two relative errors are weighted by the number of requests.
//! The integrator itself is clamped to [min, max], so it cannot wind up beyond them, and it does
//! not grow in a period in which the depth never made a request wait: a low latency of an idle
//! device says nothing about a greater depth.
//!
//! Latency is measured by Little's law, `request-time / completions`, so that no record per request
//! is kept. A period lasts until enough requests completed to make that a mean.

use crate::ticket::Kind;
use crate::time::{Nanos, Span};

/// The shortest control period.
pub(super) const PERIOD: Span = Span::from_millis(100);
/// Completions that a control period waits for.
const PERIOD_COMPLETIONS: u64 = 16;
/// One over the part of the depth that a full error moves it by.
const GAIN_DIVISOR: i64 = 4;

/// What is held, and within which bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    pub(super) min: u32,
    pub(super) max: u32,
    pub(super) read: Span,
    pub(super) write: Span,
}

/// The controller. See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(super) struct Steering {
    read: Meter,
    write: Meter,
    /// The depth in thousandths: the state of the integrator.
    pub(super) depth_milli: i64,
    period_start: Nanos,
    made_wait: bool,
}

/// Latency of one direction by Little's law.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    in_service: u32,
    changed: Nanos,
    request_time: Span,
    completions: u64,
}

impl Steering {
    /// One that begins at its greatest depth.
    pub(super) fn new() -> Self {
        Self {
            read: Meter::default(),
            write: Meter::default(),
            depth_milli: i64::MAX,
            period_start: Nanos::ZERO,
            made_wait: false,
        }
    }

    /// The depth in force.
    pub(super) fn depth(&self) -> u64 {
        self.depth_milli.unsigned_abs() / 1000
    }

    pub(super) fn note_wait(&mut self) {
        self.made_wait = true;
    }

    pub(super) fn started(&mut self, now: Nanos, kind: Kind) {
        if let Some(meter) = self.meter(kind) {
            meter.start(now);
        }
    }

    pub(super) fn finished(&mut self, now: Nanos, kind: Kind) {
        if let Some(meter) = self.meter(kind) {
            meter.finish(now);
        }
    }

    /// The kinds that move data and so tell of the device's queue.
    fn meter(&mut self, kind: Kind) -> Option<&mut Meter> {
        match kind {
            Kind::Read => Some(&mut self.read),
            Kind::Write | Kind::WriteZeroes => Some(&mut self.write),
            Kind::Flush | Kind::Trim | Kind::Cache => None,
        }
    }

    /// Ends the control period if it is time to.
    pub(super) fn steer(&mut self, now: Nanos, goal: Goal) {
        let completions = self.read.completions + self.write.completions;
        if now.since(self.period_start) < PERIOD || completions < PERIOD_COMPLETIONS {
            return;
        }
        let weighted =
            self.read.take_error(now, goal.read) + self.write.take_error(now, goal.write);
        let error_milli = weighted / i64::try_from(completions).unwrap_or(i64::MAX);
        let step_milli = self.depth_milli / GAIN_DIVISOR * error_milli / 1000;
        if step_milli < 0 || self.made_wait {
            self.depth_milli = self.depth_milli.saturating_add(step_milli);
            self.keep_within(goal);
        }
        self.period_start = now;
        self.made_wait = false;
    }

    /// Puts bounds in force.
    pub(super) fn keep_within(&mut self, goal: Goal) {
        let [least, most] =
            [goal.min.max(1), goal.max.max(goal.min).max(1)].map(|d| i64::from(d) * 1000);
        self.depth_milli = self.depth_milli.clamp(least, most);
    }
}

impl Meter {
    fn start(&mut self, now: Nanos) {
        self.advance(now);
        self.in_service += 1;
    }

    fn finish(&mut self, now: Nanos) {
        self.advance(now);
        self.in_service -= 1;
        self.completions += 1;
    }

    fn advance(&mut self, now: Nanos) {
        let elapsed = now.since(self.changed);
        self.request_time += Span(elapsed.0.saturating_mul(u64::from(self.in_service)));
        self.changed = now;
    }

    /// Closes the period: the relative error `(goal - latency) / goal` in thousandths, limited to
    /// +-1000, times the number of completions.
    fn take_error(&mut self, now: Nanos, goal: Span) -> i64 {
        self.advance(now);
        let completions = std::mem::take(&mut self.completions);
        let request_time = std::mem::take(&mut self.request_time);
        if completions == 0 {
            return 0;
        }
        let latency = u128::from(request_time.0 / completions);
        let relative_milli = (latency * 1000 / u128::from(goal.0.max(1))).min(2000);
        let error_milli = 1000 - i64::try_from(relative_milli).expect("at most 2000");
        error_milli * i64::try_from(completions).unwrap_or(i64::MAX / 1000)
    }
}
