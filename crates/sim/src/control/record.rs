//! What is written down of a run, and what it comes to.

use evenkeel_core::control::summary::FlowId;
use evenkeel_core::control::target::{Tally, Target};
use evenkeel_core::time::{Nanos, Span};

/// One workload in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Requests that arrived in it.
    pub arrivals: u64,
    /// Requests that completed in it, against the target.
    pub tally: Tally,
    /// Sum of their times at the device, in nanoseconds.
    pub device_ns: u128,
    /// Time integral of the requests at the device, in nanoseconds: over a second, slots used.
    pub slot_ns: u128,
    /// Requests that waited for a slot at its end.
    pub queued: u64,
}

/// One workload's run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// By second since the start.
    pub seconds: Vec<Second>,
    /// Requests that arrived between the warm-up and the end.
    pub counted: u64,
    /// Of those, how many took longer than the target's latency or never came back.
    pub late: u64,
}

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// By workload.
    pub loads: Vec<Record>,
    /// When each flow was first named as unmet.
    pub named: Vec<(FlowId, Nanos)>,
    /// Slots of the first host, by period.
    pub slots: Vec<u32>,
}

impl Second {
    /// The mean response time in milliseconds; none without a completion.
    pub fn response_ms(&self) -> Option<f64> {
        let completions = self.tally.completions;
        (completions > 0).then(|| self.tally.response_ns as f64 / completions as f64 / 1e6)
    }

    /// The mean time at the device in milliseconds; none without a completion.
    pub fn device_ms(&self) -> Option<f64> {
        let completions = self.tally.completions;
        (completions > 0).then(|| self.device_ns as f64 / completions as f64 / 1e6)
    }

    /// Slots used, on average.
    pub fn slots(&self) -> f64 {
        self.slot_ns as f64 / 1e9
    }

    /// Whether it breaks the target; a second without completions does if requests wait.
    pub fn breaks(&self, target: &Target) -> bool {
        self.tally.breaks(target) || (self.tally.completions == 0 && self.queued > 0)
    }
}

impl Record {
    /// Seconds from `from` on that break the target, and how many there are.
    pub fn violations(&self, target: &Target, from: Span) -> (u64, u64) {
        let from = usize::try_from(from.0 / Span::from_secs(1).0).expect("a run of finite length");
        let seconds = self.seconds.iter().skip(from);
        let broken = seconds.clone().filter(|second| second.breaks(target)).count();
        (broken as u64, seconds.count() as u64)
    }

    /// The percentage of late requests.
    pub fn late_percent(&self) -> f64 {
        100.0 * self.late as f64 / self.counted.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_without_answers_is_broken_if_somebody_waits() {
        let target = Target::mean(Span(100), Span::from_secs(1));
        let idle = Second::default();
        let starved = Second { queued: 1, ..idle };
        assert!(!idle.breaks(&target) && starved.breaks(&target));
        let record = Record { seconds: vec![starved, idle, starved], ..Record::default() };
        assert_eq!(record.violations(&target, Span::from_secs(1)), (1, 2));
    }
}
