//! Queue bounds: what is with a server never exceeds its depth, and what has left the depth for the
//! second one, which is as large.

use evenkeel_core::time::Nanos;
use evenkeel_engine::policy::{Depth, Discipline, Mode, Scheduling};

use super::{Rule, Verdict, broken};

/// The least that a unit takes of a depth in bytes, as the scheduler counts.
const CHARGE_BYTES_MIN: u64 = 4096;

/// What one server may have in service, and has.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    limit: Limit,
    units: u32,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    None,
    Units(u32),
    Bytes(u64),
}

impl Bounds {
    /// The bounds of a server under this policy, with nothing in service.
    pub(crate) fn new(mode: Mode, scheduling: &Scheduling) -> Self {
        let limit = match (mode, scheduling.discipline, scheduling.depth) {
            (Mode::Observe | Mode::Shadow, ..) => Limit::None,
            // Arrival order takes a depth in bytes for as many full units.
            (Mode::Enforce, discipline, Depth::Bytes(bytes)) if discipline != Discipline::Fifo => {
                Limit::Bytes(bytes)
            }
            (Mode::Enforce, _, depth) => Limit::Units(depth.units_max(scheduling.unit_bytes)),
        };
        Self { limit, units: 0, bytes: 0 }
    }

    /// Another policy comes into force; what is in service stays.
    pub(crate) fn configure(&mut self, mode: Mode, scheduling: &Scheduling) {
        self.limit = Self::new(mode, scheduling).limit;
    }

    /// A unit went into service; so much of what is there has left the depth.
    pub(crate) fn enter(&mut self, now: Nanos, length: u64, has_left: u64) -> Verdict {
        self.units += 1;
        self.bytes += length.max(CHARGE_BYTES_MIN);
        let is_over = match self.limit {
            Limit::None => false,
            Limit::Units(units) => {
                u64::from(self.units) > u64::from(units) + has_left.min(units.into())
            }
            Limit::Bytes(bytes) => self.bytes > bytes + has_left.min(bytes) && self.units > 1,
        };
        if is_over {
            let what = format!(
                "{} units of {} bytes in service under {:?}",
                self.units, self.bytes, self.limit
            );
            return Err(broken(now, Rule::QueuesAreBounded, what));
        }
        Ok(())
    }

    /// A unit came back.
    pub(crate) fn leave(&mut self, length: u64) {
        self.units -= 1;
        self.bytes -= length.max(CHARGE_BYTES_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(depth: Depth) -> Bounds {
        Bounds::new(Mode::Enforce, &Scheduling { depth, ..Scheduling::default() })
    }

    #[test]
    fn a_unit_beyond_the_depth_is_noticed() {
        let mut bounds = bounds(Depth::Requests(2));
        assert!(bounds.enter(Nanos(0), 4096, 0).is_ok());
        assert!(bounds.enter(Nanos(0), 4096, 0).is_ok());
        bounds.leave(4096);
        assert!(bounds.enter(Nanos(1), 4096, 0).is_ok());
        let violation = bounds.enter(Nanos(2), 4096, 0).unwrap_err();
        assert_eq!((violation.at, violation.rule), (Nanos(2), Rule::QueuesAreBounded));
    }

    #[test]
    fn bytes_beyond_the_depth_are_noticed_unless_one_unit_is_that_large() {
        let mut bounds = bounds(Depth::Bytes(64 << 10));
        assert!(bounds.enter(Nanos(0), 1 << 20, 0).is_ok());
        assert!(bounds.enter(Nanos(0), 512, 0).is_err());
    }

    #[test]
    fn a_mode_that_holds_nothing_has_no_bound() {
        let mut bounds = Bounds::new(Mode::Observe, &Scheduling::default());
        assert!((0..10_000).all(|_| bounds.enter(Nanos(0), 4096, 0).is_ok()));
    }
}
