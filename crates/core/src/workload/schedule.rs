//! When the clients of a group may start requests at all.
//!
//! ```text
//! start                    idle                 stop
//!   |--1--2--3--4--5--|             |--9--10--11--|        6, 7 and 8 never arrive
//! ```
//!
//! In the open loop a request *arrives* when it is due, whether or not it can be sent then. What
//! arrived late in a burst is still sent in the idle interval behind it, and what arrived before
//! the stop is sent after it: to leave such requests out would omit those that waited longest.

use std::ops::Range;

use super::Pace;
use crate::time::Nanos;

/// When the clients of one group may start requests at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// No request arrives before the start, nor from the end on.
    pub active: Range<Nanos>,
    /// Nor in these intervals, which are in order.
    pub idle: Vec<Range<Nanos>>,
}

/// What a client may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Start a request, which was due at this instant.
    At(Nanos),
    /// Ask again at this instant.
    Later(Nanos),
    /// Nothing any more.
    Never,
}

impl Schedule {
    /// What a client with this pace may do now. Instants that fall into an idle interval are
    /// dropped.
    pub fn due(&self, now: Nanos, pace: &mut Pace) -> Due {
        if pace.due().is_none() {
            // A closed loop: its requests arrive when they are sent.
            return self.at_or_later(self.resume(now).max(now), now);
        }
        while let Some(due) = pace.due().filter(|due| *due < self.active.end) {
            let resume = self.resume(due);
            if resume <= due {
                return self.at_or_later(due, now);
            }
            pace.skip_to(resume);
        }
        Due::Never
    }

    /// Requests of a pace that were due but never started, of so many at most. None of a closed
    /// loop were due.
    pub fn overdue(&self, pace: &mut Pace, most: u64) -> u64 {
        let mut count = 0;
        while count < most
            && pace.due().is_some()
            && matches!(self.due(self.active.end, pace), Due::At(_))
        {
            pace.advance();
            count += 1;
        }
        count
    }

    /// The first instant from this one on at which requests may arrive, the end aside.
    fn resume(&self, at: Nanos) -> Nanos {
        let pause = self.idle.iter().find(|idle| idle.contains(&at)).map(|idle| idle.end);
        pause.unwrap_or(at).max(self.active.start)
    }

    fn at_or_later(&self, due: Nanos, now: Nanos) -> Due {
        match due {
            _ if due >= self.active.end => Due::Never,
            _ if due > now => Due::Later(due),
            _ => Due::At(due),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Turn;

    const ALONE: Turn = Turn { start: Nanos(0), index: 0, clients: 1 };

    /// A request every 10 ns.
    fn every_10() -> Pace {
        Pace::constant(1e8, None, ALONE)
    }

    #[test]
    fn nothing_starts_before_the_start_in_an_idle_interval_or_at_the_end() {
        let schedule =
            Schedule { active: Nanos(100)..Nanos(900), idle: vec![Nanos(300)..Nanos(500)] };
        let due = |now| schedule.due(Nanos(now), &mut Pace::closed());
        assert_eq!(due(0), Due::Later(Nanos(100)));
        assert_eq!(due(100), Due::At(Nanos(100)));
        assert_eq!(due(300), Due::Later(Nanos(500)));
        assert_eq!(due(500), Due::At(Nanos(500)));
        assert_eq!(due(900), Due::Never);
    }

    #[test]
    fn instants_in_an_idle_interval_are_dropped_and_those_before_it_are_only_late() {
        let schedule =
            Schedule { active: Nanos(0)..Nanos(1000), idle: vec![Nanos(15)..Nanos(205)] };
        let mut pace = every_10();
        assert_eq!(schedule.due(Nanos(150), &mut pace), Due::At(Nanos(0)), "late, but due");
        pace.advance();
        assert_eq!(schedule.due(Nanos(150), &mut pace), Due::At(Nanos(10)), "late, but due");
        pace.advance();
        assert_eq!(schedule.due(Nanos(150), &mut pace), Due::Later(Nanos(210)));
    }

    #[test]
    fn what_was_due_before_the_end_starts_after_it_and_is_counted_if_it_does_not() {
        let schedule = Schedule { active: Nanos(0)..Nanos(40), idle: Vec::new() };
        let mut pace = every_10();
        assert_eq!(schedule.due(Nanos(500), &mut pace), Due::At(Nanos(0)));
        pace.advance();
        assert_eq!(schedule.overdue(&mut pace.clone(), 2), 2);
        assert_eq!(schedule.overdue(&mut pace, u64::MAX), 3, "those of 10, 20 and 30");
        assert_eq!(schedule.due(Nanos(500), &mut pace), Due::Never);
        assert_eq!(schedule.overdue(&mut Pace::closed(), u64::MAX), 0);
    }

    #[test]
    fn instants_before_the_start_are_dropped() {
        let schedule = Schedule { active: Nanos(35)..Nanos(90), idle: Vec::new() };
        assert_eq!(schedule.due(Nanos(0), &mut every_10()), Due::Later(Nanos(40)));
    }
}
