//! A policy against what gates have measured: figures that are far off, and floors that the devices
//! do not seem to keep.
//!
//! These are warnings. What was measured depends on the load of those hours, and a gate that would
//! refuse its own policy after a slow night helps nobody.

use evenkeel_core::ticket::Kind;

use super::promises::{FLOOR, at_backend, at_tenant, floors_of, percent};
use super::{Findings, Problem};
use crate::cost::measured::{Discrepancy, Measured};
use crate::policy::Policy;
use crate::policy::admission::{Device, Measurements, Outcome};

impl Policy {
    /// What contradicts what was measured of the backends; warnings only. Costs as much as
    /// [`Policy::admission`].
    pub fn check_measured(&self, measured: &Measurements) -> Vec<Problem> {
        let mut found = Findings::default();
        for (index, backend) in self.backends.iter().enumerate() {
            if let Some(measured) = measured.get(&backend.name) {
                check_written(self, index, measured, &mut found);
            }
        }
        check_floors(self, measured, &mut found);
        found.problems
    }
}

/// Figures that the policy has instead of leaving them to the gate.
fn check_written(policy: &Policy, index: usize, measured: &Measured, found: &mut Findings) {
    let backend = &policy.backends[index];
    if backend.scheduling.is_cost_learned || !measured.is_proven() {
        return;
    }
    for one in measured.discrepancies(&backend.scheduling.cost) {
        let Discrepancy { kind, size_bytes, written, measured } = one;
        let what = if kind == Kind::Read { "read" } else { "write" };
        found.warning(
            at_backend(index, "scheduling.cost"),
            format!(
                "a {what} of {size_bytes} bytes takes {written} of {:?} by these figures, and \
                 {measured} by what was measured there",
                backend.name
            ),
            "leave `cost` out, so that the gate finds it; or correct it",
        );
    }
}

/// Floors at devices whose costs the policy leaves to the gate. Those that hold for what is written
/// are errors of [`Policy::check`].
fn check_floors(policy: &Policy, measured: &Measurements, found: &mut Findings) {
    let admission = policy.admission(&[], measured);
    for device in admission.devices.iter().filter(|device| device.pool.is_none()) {
        let backend = &policy.backends[device.backend];
        let is_learned = backend.scheduling.is_cost_learned;
        let [greatest, ..] = &device.reservations[..] else { continue };
        if !is_learned || device.outcome() != Outcome::Fails {
            continue;
        }
        found.warning_at_both(
            at_tenant(greatest.tenant, FLOOR),
            at_backend(device.backend, ""),
            format!(
                "{} at least {} of {:?} by what was measured there",
                floors_of(policy, device),
                percent(device.reserved().least),
                backend.name
            ),
            "lower the floors, or move a tenant to another backend",
        );
    }
    for pool in admission.pools.iter().filter(|pool| pool.outcome() == Outcome::Fails) {
        let is_learned =
            |device: &&Device| policy.backends[device.backend].scheduling.is_cost_learned;
        let learned = admission.members(pool.id).find(is_learned);
        let Some(greatest) = learned.and_then(|device| device.reservations.first()) else {
            continue;
        };
        found.warning(
            at_tenant(greatest.tenant, FLOOR),
            format!(
                "by what was measured the floors take at least {} of the busiest of the devices \
                 that serve them together",
                percent(pool.least)
            ),
            "lower the floors, or move a tenant to another backend",
        );
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::sched::{Floor, Share};
    use evenkeel_core::time::Span;

    use super::*;
    use crate::cost::measured::{MeasuredLine, PROVEN_AFTER};
    use crate::cost::{CostModel, Line};
    use crate::policy::{Backend, Scheduling, Source, Tenant};

    fn line(fixed_us: u64) -> Line {
        Line { fixed: Span::from_micros(fixed_us), rate_bytes: 1 << 40 }
    }

    /// Every request takes so long.
    fn measured(fixed_us: u64, load: Span) -> Measurements {
        let side = MeasuredLine { line: line(fixed_us), size_bytes: Some(4096) };
        let one =
            Measured { read: side, write: side, flush: Span::from_millis(1), at_once: 1, load };
        Measurements::from([("array".to_owned(), one)])
    }

    fn policy(is_cost_learned: bool, floor_iops: u64) -> Policy {
        let cost =
            CostModel::Linear { read: line(100), write: line(100), flush: Span::from_millis(1) };
        let scheduling = Scheduling { cost, is_cost_learned, ..Scheduling::default() };
        let backend = Backend { name: "array".to_owned(), source: Source::Memory, scheduling };
        let share =
            Share { floor: Floor { rate_iops: floor_iops, rate_bytes: 0 }, ..Share::default() };
        // Without listeners, so that everybody comes everywhere.
        let tenant = Tenant { name: "db".to_owned(), matches: vec![], read_only: false, share };
        Policy { backends: vec![backend], tenants: vec![tenant], ..Policy::default() }
    }

    #[test]
    fn written_figures_are_held_against_what_was_measured_for_long_enough() {
        let count = |policy: &Policy, measured| policy.check_measured(&measured).len();
        let written = policy(false, 0);
        assert_eq!(count(&written, measured(5000, PROVEN_AFTER)), 2, "reads and writes");
        assert_eq!(count(&written, measured(5000, Span::from_secs(5))), 0, "a moment");
        assert_eq!(count(&written, measured(150, PROVEN_AFTER)), 0, "about right");
        assert_eq!(count(&policy(true, 0), measured(5000, PROVEN_AFTER)), 0, "left to the gate");
        let said = &written.check_measured(&measured(5000, PROVEN_AFTER))[0].message;
        assert!(said.contains("100 us") && said.contains("5 ms"), "both figures: {said}");
    }

    #[test]
    fn floors_are_held_against_what_was_measured_and_against_nothing_before() {
        let admitted =
            |measured: &Measurements| policy(true, 1000).admission(&[], measured).outcome();
        assert_eq!(admitted(&Measurements::new()), Outcome::Unknown, "by no invented figure");
        assert_eq!(admitted(&measured(500, PROVEN_AFTER)), Outcome::Holds);
        assert_eq!(admitted(&measured(2000, PROVEN_AFTER)), Outcome::Fails);
        let problems = policy(true, 1000).check_measured(&measured(2000, PROVEN_AFTER));
        let [one] = &problems[..] else { panic!("{problems:?}") };
        assert!(one.message.contains("200.0 %"), "{}", one.message);
        assert_eq!(policy(true, 1000).check_measured(&measured(500, PROVEN_AFTER)), []);
    }
}
