//! A drive that stops its spindle when nobody has used it for a while, as a disk with a standby
//! timer does, and what power that saves.
//!
//! ```text
//!   command   idle ................. after    asleep ......   command
//!   |--active--|------ waits -------|------ standby --------|-- spins up --|--active--|
//! ```
//!
//! A command that finds the drive asleep starts the spindle and waits for it, and so does whatever
//! is asked meanwhile. Time in each state is counted, and energy from it: milliwatts times time.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_core::time::{Nanos, Span};
use serde::Deserialize;

use super::{Device, Op, Step};

/// What a drive draws in each state, and how long its spindle takes to start.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerSpec {
    /// Where the figures come from.
    pub source: String,
    /// Milliwatts with commands under way.
    pub active_mw: u64,
    /// Milliwatts while it turns and has nothing to do.
    pub idle_mw: u64,
    /// Milliwatts while it stands still.
    pub standby_mw: u64,
    /// Milliwatts while it starts.
    pub spin_up_mw: u64,
    /// Nanoseconds from standing still to the first command.
    pub spin_up_ns: u64,
}

/// How long a drive was in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerTimes {
    /// With commands under way.
    pub active: Span,
    /// Turning, with nothing to do.
    pub idle: Span,
    /// Standing still.
    pub standby: Span,
    /// Starting.
    pub spin_up: Span,
    /// How often it was started.
    pub spin_ups: u64,
}

impl PowerTimes {
    /// All of it.
    pub fn whole(&self) -> Span {
        self.active + self.idle + self.standby + self.spin_up
    }

    /// Parts of a thousand of the time that it stood still.
    pub fn standby_permille(&self) -> u64 {
        self.standby.0.saturating_mul(1000).checked_div(self.whole().0).unwrap_or(0)
    }

    /// The power drawn on average, in milliwatts.
    pub fn average_mw(&self, spec: &PowerSpec) -> u64 {
        let parts = [
            (self.active, spec.active_mw),
            (self.idle, spec.idle_mw),
            (self.standby, spec.standby_mw),
            (self.spin_up, spec.spin_up_mw),
        ];
        let energy: u128 =
            parts.iter().map(|&(span, mw)| u128::from(span.0) * u128::from(mw)).sum();
        let average = energy.checked_div(u128::from(self.whole().0)).unwrap_or(0);
        u64::try_from(average).unwrap_or(u64::MAX)
    }
}

/// A drive with a standby timer. See the [module](self).
pub struct Standby<D> {
    inner: D,
    /// Commands that wait for the spindle.
    held: Vec<Op>,
    spindle: Rc<RefCell<SpindleState>>,
}

/// The state of a drive's spindle, for whoever wants to know. Clones tell of the same one.
#[derive(Clone)]
pub struct PowerMeter(Rc<RefCell<SpindleState>>);

struct SpindleState {
    spec: PowerSpec,
    /// It stops after so long without a command; never without.
    after: Option<Span>,
    queued: u64,
    /// Until when it starts, if it does.
    starts_until: Option<Nanos>,
    /// Up to which instant time was counted.
    counted: Nanos,
    /// Since when it has had nothing to do, if it has nothing.
    idle_since: Nanos,
    times: PowerTimes,
}

impl<D: Device> Standby<D> {
    /// This drive, turning and idle now, which stops `after` so long without a command.
    pub fn new(inner: D, spec: PowerSpec, after: Option<Span>) -> Self {
        let spindle = SpindleState {
            spec,
            after,
            queued: 0,
            starts_until: None,
            counted: Nanos::ZERO,
            idle_since: Nanos::ZERO,
            times: PowerTimes::default(),
        };
        Self { inner, held: Vec::new(), spindle: Rc::new(RefCell::new(spindle)) }
    }

    /// What tells of the spindle.
    pub fn meter(&self) -> PowerMeter {
        PowerMeter(Rc::clone(&self.spindle))
    }
}

impl PowerMeter {
    /// Whether it stands still.
    pub fn is_asleep(&self, now: Nanos) -> bool {
        self.0.borrow().is_asleep(now)
    }

    /// How long it was in each state up to now.
    pub fn times(&self, now: Nanos) -> PowerTimes {
        let spindle = &mut *self.0.borrow_mut();
        spindle.count(now);
        spindle.times
    }

    /// The power that it drew on average up to now, in milliwatts.
    pub fn average_mw(&self, now: Nanos) -> u64 {
        let times = self.times(now);
        times.average_mw(&self.0.borrow().spec)
    }
}

impl SpindleState {
    fn stops_at(&self) -> Option<Nanos> {
        self.after.map(|after| self.idle_since + after)
    }

    fn is_asleep(&self, now: Nanos) -> bool {
        self.queued == 0 && self.stops_at().is_some_and(|at| now >= at)
    }

    /// Books the time up to now under the state that the drive was in.
    fn count(&mut self, now: Nanos) {
        let from = self.counted;
        self.counted = now.max(from);
        let passed = |until: Nanos| Span(until.0.min(now.0).saturating_sub(from.0));
        if self.queued == 0 {
            let stops_at = self.stops_at().unwrap_or(now);
            let idle = passed(stops_at);
            self.times.idle += idle;
            self.times.standby += Span(passed(now).0 - idle.0);
            return;
        }
        let starting = passed(self.starts_until.unwrap_or(from));
        self.times.spin_up += starting;
        self.times.active += Span(passed(now).0 - starting.0);
    }

    /// A command has come; whether it has to wait for the spindle.
    fn come(&mut self, now: Nanos) -> bool {
        let is_asleep = self.is_asleep(now);
        self.count(now);
        self.queued += 1;
        if is_asleep {
            self.times.spin_ups += 1;
            self.starts_until = Some(now + Span(self.spec.spin_up_ns));
        }
        self.starts_until.is_some()
    }

    fn gone(&mut self, now: Nanos) {
        self.count(now);
        self.queued -= 1;
        self.idle_since = now;
    }
}

impl<D: Device> Device for Standby<D> {
    fn submit(&mut self, now: Nanos, op: Op) {
        if self.spindle.borrow_mut().come(now) {
            self.held.push(op);
        } else {
            self.inner.submit(now, op);
        }
    }

    fn poll(&mut self, now: Nanos) -> Step {
        let starts_until = self.spindle.borrow().starts_until;
        match starts_until {
            Some(until) if now < until => return Step::WaitUntil(until),
            Some(_) => {
                let spindle = &mut *self.spindle.borrow_mut();
                spindle.count(now);
                spindle.starts_until = None;
                for op in self.held.drain(..) {
                    self.inner.submit(now, op);
                }
            }
            None => {}
        }
        let step = self.inner.poll(now);
        if matches!(step, Step::Done { .. }) {
            self.spindle.borrow_mut().gone(now);
        }
        step
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::ticket::Kind;

    use super::*;
    use crate::device::simple::Constant;
    use crate::device::spec::ConstantSpec;

    const SECOND: u64 = 1_000_000_000;

    fn spec() -> PowerSpec {
        PowerSpec {
            source: "round numbers".to_owned(),
            active_mw: 8_000,
            idle_mw: 4_000,
            standby_mw: 1_000,
            spin_up_mw: 20_000,
            spin_up_ns: 10 * SECOND,
        }
    }

    /// A command of one second; gives when it was done.
    fn serve(drive: &mut Standby<Constant>, at: u64) -> u64 {
        let mut now = Nanos(at * SECOND);
        drive.submit(now, Op { tag: 1, kind: Kind::Read, offset: 0, length: 4096 });
        loop {
            match drive.poll(now) {
                Step::Done { .. } => return now.0 / SECOND,
                Step::WaitUntil(next) => now = next,
                Step::Idle => panic!("a command is under way"),
            }
        }
    }

    #[test]
    fn a_drive_that_nobody_uses_stops_and_the_next_command_waits_for_it() {
        let fixed = Span::from_secs(1);
        let inner = Constant::new(ConstantSpec { fixed, ..ConstantSpec::default() });
        let mut drive = Standby::new(inner, spec(), Some(Span::from_secs(60)));
        let meter = drive.meter();
        assert_eq!(serve(&mut drive, 0), 1);
        assert_eq!(serve(&mut drive, 41), 42, "it turned all the time");
        assert!(!meter.is_asleep(Nanos(101 * SECOND)) && meter.is_asleep(Nanos(102 * SECOND)));
        assert_eq!(serve(&mut drive, 302), 313, "ten seconds to start");
        let times = meter.times(Nanos(323 * SECOND));
        let expected = PowerTimes {
            active: Span::from_secs(3),
            idle: Span::from_secs(40 + 60 + 10),
            standby: Span::from_secs(200),
            spin_up: Span::from_secs(10),
            spin_ups: 1,
        };
        assert_eq!(times, expected);
        assert_eq!(times.standby_permille(), 200_000 / 323);
        let energy = 3 * 8_000 + 110 * 4_000 + 200 * 1_000 + 10 * 20_000;
        assert_eq!(times.average_mw(&spec()), energy / 323);
    }

    #[test]
    fn without_a_timer_it_never_stops() {
        let inner = Constant::new(ConstantSpec::default());
        let drive = Standby::new(inner, spec(), None);
        assert!(!drive.meter().is_asleep(Nanos(u64::MAX / 2)));
        assert_eq!(drive.meter().times(Nanos(7 * SECOND)).idle, Span::from_secs(7));
    }
}
