//! A device with faults: slow, stuck, failing or lying, each in its windows of time.
//!
//! The device inside is any model; it lives in a time of its own ([`Warp`]), which carries slowness
//! and standstill into everything that it does.

use std::collections::VecDeque;
use std::ops::Range;

use evenkeel_core::prng::Prng;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use super::warp::{Slowness, Warp};
use super::{Fault, FaultKind};
use crate::device::{Device, Op, Outcome, Step};

/// A device with faults. See the [module](self).
pub(crate) struct Faulty {
    inner: Box<dyn Device>,
    warp: Warp,
    failing: Vec<(Range<Nanos>, u64)>,
    lying: Vec<Range<Nanos>>,
    /// Requests that were acknowledged without having been performed.
    lied: VecDeque<u32>,
    lies: u64,
    lied_bytes: u64,
    prng: Prng,
}

impl Faulty {
    /// A device with those of the faults that hit this backend; the device as it is if none does.
    pub(crate) fn new(
        inner: Box<dyn Device>,
        backend: &str,
        faults: &[Fault],
        seed: u64,
    ) -> Result<Self, Box<dyn Device>> {
        let mut slowness = Vec::new();
        let mut failing = Vec::new();
        let mut lying = Vec::new();
        for fault in faults {
            let window = fault.window();
            match &fault.what {
                FaultKind::SlowDevice { backend: one, time_percent } if one == backend => {
                    let time_percent = Some(u64::from(*time_percent));
                    slowness.push(Slowness { window, time_percent });
                }
                FaultKind::StuckDevice { backend: one } if one == backend => {
                    slowness.push(Slowness { window, time_percent: None });
                }
                FaultKind::FailingDevice { backend: one, permille } if one == backend => {
                    failing.push((window, u64::from(*permille)));
                }
                FaultKind::LyingDevice { backend: one } if one == backend => lying.push(window),
                _ => {}
            }
        }
        if slowness.is_empty() && failing.is_empty() && lying.is_empty() {
            return Err(inner);
        }
        let warp = Warp::new(&slowness);
        let (lied, prng) = (VecDeque::new(), Prng::new(seed));
        Ok(Self { inner, warp, failing, lying, lied, lies: 0, lied_bytes: 0, prng })
    }

    /// Writes and flushes acknowledged without having been performed, and their bytes.
    pub(crate) fn lies(&self) -> (u64, u64) {
        (self.lies, self.lied_bytes)
    }

    fn outcome(&mut self, now: Nanos, outcome: Outcome) -> Outcome {
        let windows = self.failing.iter().filter(|(window, _)| window.contains(&now));
        let permille: u64 = windows.map(|(_, permille)| permille).sum();
        if permille > 0 && self.prng.below(1000) < permille { Outcome::Failed } else { outcome }
    }
}

impl Device for Faulty {
    fn submit(&mut self, now: Nanos, op: Op) {
        let changes = !matches!(op.kind, Kind::Read | Kind::Cache);
        if changes && self.lying.iter().any(|window| window.contains(&now)) {
            self.lied.push_back(op.tag);
            self.lies += 1;
            self.lied_bytes += op.length;
        } else {
            self.inner.submit(self.warp.device_at(now), op);
        }
    }

    fn poll(&mut self, now: Nanos) -> Step {
        if let Some(tag) = self.lied.pop_front() {
            return Step::Done { tag, outcome: Outcome::Good };
        }
        match self.inner.poll(self.warp.device_at(now)) {
            Step::Done { tag, outcome } => Step::Done { tag, outcome: self.outcome(now, outcome) },
            Step::WaitUntil(at) => self.warp.world_at(at).map_or(Step::Idle, Step::WaitUntil),
            Step::Idle => Step::Idle,
        }
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Span;

    use super::*;
    use crate::device::simple::Constant;
    use crate::device::spec::ConstantSpec;
    use crate::device::testing::{read, run};

    const MS: u64 = 1_000_000;

    fn faulty(what: FaultKind, start_ms: u64, length_ms: u64) -> Faulty {
        let spec = ConstantSpec { fixed: Span::from_millis(1), ..ConstantSpec::default() };
        let [start, length] = [start_ms, length_ms].map(Span::from_millis);
        let faults = [Fault { what, start, length }];
        Faulty::new(Box::new(Constant::new(spec)), "b", &faults, 1).ok().unwrap()
    }

    fn backend() -> String {
        "b".to_owned()
    }

    #[test]
    fn a_slow_device_serves_at_a_lower_rate() {
        let mut device =
            faulty(FaultKind::SlowDevice { backend: backend(), time_percent: 300 }, 2, 6);
        let arrivals: Vec<_> = (0..6).map(|tag| (0, read(tag, 0))).collect();
        let done: Vec<u64> = run(&mut device, &arrivals).iter().map(|(at, _)| at / MS).collect();
        assert_eq!(done, [1, 2, 5, 8, 9, 10]);
    }

    #[test]
    fn a_stuck_device_goes_on_where_it_stood() {
        let mut device = faulty(FaultKind::StuckDevice { backend: backend() }, 1, 10);
        let arrivals: Vec<_> = (0..3).map(|tag| (MS / 2, read(tag, 0))).collect();
        let done: Vec<u64> = run(&mut device, &arrivals).iter().map(|(at, _)| *at).collect();
        assert_eq!(done, [11, 12, 13].map(|ms| ms * MS + MS / 2));
    }

    #[test]
    fn a_lying_device_is_quick_and_honest_about_reads_only() {
        let mut device = faulty(FaultKind::LyingDevice { backend: backend() }, 0, 100);
        let write = Op { kind: Kind::Write, ..read(1, 4096) };
        assert_eq!(run(&mut device, &[(0, read(0, 4096)), (0, write)]), [(0, 1), (MS, 0)]);
        assert_eq!(device.lies(), (1, 4096));
    }

    #[test]
    fn a_failing_device_fails_as_often_as_said() {
        let what = FaultKind::FailingDevice { backend: backend(), permille: 200 };
        let mut device = faulty(what, 0, 1000);
        let outcomes = (0..10_000).map(|_| device.outcome(Nanos(5), Outcome::Good));
        let failed = outcomes.filter(|outcome| *outcome == Outcome::Failed).count();
        assert!((1_850..2_150).contains(&failed), "{failed}");
        assert_eq!(device.outcome(Nanos(1000 * MS), Outcome::Good), Outcome::Good, "it is over");
    }

    #[test]
    fn faults_of_other_backends_leave_it_as_it_is() {
        let faults = [Fault {
            what: FaultKind::StuckDevice { backend: "other".to_owned() },
            start: Span::ZERO,
            length: Span::from_secs(1),
        }];
        let device = Box::new(Constant::new(ConstantSpec::default()));
        assert!(Faulty::new(device, "b", &faults, 1).is_err());
    }
}
