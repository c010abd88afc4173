//! Which request the arm serves next.
//!
//! | policy | takes next |
//! |---|---|
//! | first come, first served | the oldest |
//! | elevator (SCAN) | the nearest ahead in the present direction; turns where none is left |
//! | shortest seek time first | the nearest sector number on either side |
//! | shortest positioning time first | the one whose first sector passes under the head soonest |
//!
//! The first three look at sector numbers alone, as a host can; the last needs the drive's map and
//! clock. Sources: Worthington, Ganger and Patt, "Scheduling algorithms for modern disk drives",
//! SIGMETRICS 1994; Seltzer, Chen and Ousterhout, "Disk scheduling revisited", USENIX Winter 1990.

use std::collections::VecDeque;
use std::ops::Range;

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use serde::Deserialize;

use super::geometry::Place;
use super::mechanics::{Mechanics, Purpose};
use super::sweep::Arm;

/// The order of service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// First come, first served.
    #[default]
    Fcfs,
    /// Up and down by sector number.
    Elevator,
    /// Upwards by sector number; where nothing lies above, the nearest below, and upwards again.
    /// So do the drives of DiskSim 4.0 in place of an elevator, since they forget that they turned:
    /// what lies far below can wait for ever.
    ElevatorUpwards,
    /// Shortest seek time first, by sector number.
    Sstf,
    /// Shortest positioning time first.
    Sptf,
    /// The same by a clock that stands still between sectors: the angle is taken to be that at
    /// which a sector was last read or written. So does DiskSim 4.0, whose figures need it; a drive
    /// that waited for its bus meanwhile is then wrong by a part of a revolution.
    SptfLastSector,
}

impl Policy {
    /// The name used in files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fcfs => "fcfs",
            Self::Elevator => "elevator",
            Self::ElevatorUpwards => "elevator_upwards",
            Self::Sstf => "sstf",
            Self::Sptf => "sptf",
            Self::SptfLastSector => "sptf_last_sector",
        }
    }
}

/// A request that waits for the arm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The owner's handle.
    pub tag: u32,
    /// What for.
    pub kind: Kind,
    /// Its sectors; none for a flush.
    pub sectors: Range<u64>,
    /// Where the first lies.
    pub place: Place,
    /// From when on its data may use the bus if the cache holds them.
    pub hit_ready: Nanos,
    /// From when on the arm may move for it.
    pub arm_ready: Nanos,
}

impl Waiting {
    /// What the head is to do for it.
    pub fn purpose(&self) -> Purpose {
        match self.kind {
            Kind::Read | Kind::Cache => Purpose::Read,
            Kind::Write | Kind::WriteZeroes | Kind::Flush | Kind::Trim => Purpose::Write,
        }
    }

    /// Whether it needs no arm: it only has to come behind what was acknowledged before.
    pub fn moves_nothing(&self) -> bool {
        matches!(self.kind, Kind::Flush | Kind::Trim)
    }
}

/// The requests that wait, the oldest first.
#[derive(Clone, Debug)]
pub struct Queue {
    policy: Policy,
    waiting: VecDeque<Waiting>,
    upwards: bool,
    /// The sector behind the last request that was taken.
    head_lbn: u64,
}

impl Queue {
    /// Nothing waits.
    pub fn new(policy: Policy) -> Self {
        Self { policy, waiting: VecDeque::new(), upwards: true, head_lbn: 0 }
    }

    /// A request waits.
    pub fn push(&mut self, request: Waiting) {
        self.waiting.push_back(request);
    }

    /// Takes out the one to serve next; linear in their number.
    pub fn take(&mut self, now: Nanos, arm: Arm, mechanics: &Mechanics) -> Option<Waiting> {
        let index = self.next(now, arm, mechanics)?;
        Some(self.take_at(index))
    }

    /// Takes out the one to serve next if it is a write from sector `end` on.
    pub fn take_continuing(
        &mut self,
        end: u64,
        now: Nanos,
        arm: Arm,
        mechanics: &Mechanics,
    ) -> Option<Waiting> {
        let continues = |waiting: &Waiting| {
            waiting.sectors.start == end && matches!(waiting.kind, Kind::Write | Kind::WriteZeroes)
        };
        // Most writes continue nothing, and then the policy need not be asked.
        self.waiting.iter().find(|waiting| continues(waiting))?;
        let next = self.next(now, arm, mechanics)?;
        continues(&self.waiting[next]).then(|| self.take_at(next))
    }

    fn take_at(&mut self, index: usize) -> Waiting {
        let taken = self.waiting.remove(index).expect("an index into the queue");
        if !taken.moves_nothing() {
            self.head_lbn = taken.sectors.end;
        }
        taken
    }

    fn next(&mut self, now: Nanos, arm: Arm, mechanics: &Mechanics) -> Option<usize> {
        // No policy would ever choose what lies nowhere.
        if let Some(index) = self.waiting.iter().position(Waiting::moves_nothing) {
            return Some(index);
        }
        match self.policy {
            Policy::Fcfs => (!self.waiting.is_empty()).then_some(0),
            Policy::Elevator => self.elevator(),
            Policy::ElevatorUpwards => self.least(|waiting| match waiting.sectors.start {
                above if above >= self.head_lbn => above - self.head_lbn,
                below => BELOW + (self.head_lbn - below),
            }),
            Policy::Sstf => self.least(|waiting| waiting.sectors.start.abs_diff(self.head_lbn)),
            Policy::Sptf => self.least(|waiting| {
                let begins = now.max(arm.ready).max(waiting.arm_ready);
                positioning(waiting, begins, arm, mechanics).0 + begins.0
            }),
            Policy::SptfLastSector => {
                self.least(|waiting| positioning(waiting, arm.seen, arm, mechanics).0)
            }
        }
    }

    fn elevator(&mut self) -> Option<usize> {
        for _ in 0..2 {
            let head_lbn = self.head_lbn;
            let next = if self.upwards {
                self.least(|waiting| {
                    waiting.sectors.start.checked_sub(head_lbn).unwrap_or(u64::MAX)
                })
            } else {
                self.least(|waiting| {
                    head_lbn.checked_sub(waiting.sectors.start).unwrap_or(u64::MAX)
                })
            }?;
            let start = self.waiting[next].sectors.start;
            if start == head_lbn || (start > head_lbn) == self.upwards {
                return Some(next);
            }
            self.upwards = !self.upwards;
        }
        unreachable!("a request lies ahead or behind")
    }

    /// The one with the least cost, the oldest of equals.
    fn least(&self, cost: impl Fn(&Waiting) -> u64) -> Option<usize> {
        let costs = self.waiting.iter().map(cost).enumerate();
        costs.min_by_key(|(_, cost)| *cost).map(|(index, _)| index)
    }
}

/// More than any distance upwards.
const BELOW: u64 = 1 << 62;

/// From `begins` until the first sector of a request would begin to pass.
fn positioning(waiting: &Waiting, begins: Nanos, arm: Arm, mechanics: &Mechanics) -> Span {
    let reposition = mechanics.reposition(arm.track, waiting.place.track, waiting.purpose());
    reposition + mechanics.rotation(begins + reposition, waiting.place.angle_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::hdd::geometry::Track;
    use crate::device::hdd::parameters::MechanicsParameters;

    fn mechanics() -> Mechanics {
        let parameters = MechanicsParameters {
            revolution_ns: 1_000,
            head_switch_ns: 50,
            write_settle_ns: 500,
            seek_ns: vec![(1, 100), (2, 110)],
        };
        Mechanics::new(&parameters, 200)
    }

    /// Ten sectors per cylinder, their angle ten times their number.
    fn request(tag: u32, kind: Kind, lbn: u64) -> Waiting {
        let place = Place {
            track: Track { cylinder: u32::try_from(lbn / 10).unwrap(), head: 0 },
            angle_ns: lbn * 10 % 1_000,
            sectors_per_track: 10,
            before: 0,
            left: 10,
        };
        let sectors = lbn..lbn + 1;
        Waiting { tag, kind, sectors, place, hit_ready: Nanos(0), arm_ready: Nanos(0) }
    }

    fn order(policy: Policy, lbns: &[u64]) -> Vec<u64> {
        let mut queue = Queue::new(policy);
        queue.head_lbn = 50;
        for (tag, lbn) in (0..).zip(lbns) {
            queue.push(request(tag, Kind::Read, *lbn));
        }
        let arm = Arm { track: Track { cylinder: 5, head: 0 }, ready: Nanos(0), seen: Nanos(0) };
        let next = || queue.take(Nanos(0), arm, &mechanics()).map(|taken| taken.sectors.start);
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn each_policy_has_its_order() {
        let lbns = [90, 45, 55, 10, 70];
        assert_eq!(order(Policy::Fcfs, &lbns), lbns);
        assert_eq!(order(Policy::Elevator, &lbns), [55, 70, 90, 45, 10]);
        assert_eq!(order(Policy::Sstf, &lbns), [45, 55, 70, 90, 10]);
        // Sector 10 passes at 100, before the arm can be there: it comes a revolution later.
        assert_eq!(order(Policy::Sptf, &[90, 40, 10, 55]), [40, 55, 90, 10]);
    }

    #[test]
    fn a_write_waits_for_its_settle_time_under_shortest_positioning() {
        let mut queue = Queue::new(Policy::Sptf);
        queue.push(request(0, Kind::Write, 40));
        queue.push(request(1, Kind::Read, 55));
        let arm = Arm { track: Track { cylinder: 5, head: 0 }, ready: Nanos(0), seen: Nanos(0) };
        assert_eq!(queue.take(Nanos(0), arm, &mechanics()).unwrap().tag, 1);
    }

    #[test]
    fn a_flush_goes_at_once() {
        let mut queue = Queue::new(Policy::Sstf);
        queue.push(request(0, Kind::Read, 0));
        queue.push(request(1, Kind::Flush, 900));
        assert_eq!(queue.take(Nanos(0), Arm::default(), &mechanics()).unwrap().tag, 1);
    }
}
