//! When the clients of a group may start requests at all.
//!
//! ```text
//! start                    idle                 stop
//!   |--1--2--3--4--5--|             |--9--10--11--|        6, 7 and 8 are never sent
//! ```

use std::ops::Range;

use evenkeel_core::time::Nanos;
use evenkeel_core::workload::Pace;

/// When the clients of one group may start requests at all.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// None before the start, nor from the end on.
    pub(crate) active: Range<Nanos>,
    /// Nor in these intervals.
    pub(crate) idle: Vec<Range<Nanos>>,
}

/// What a client may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
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
    pub(crate) fn due(&self, now: Nanos, pace: &mut Pace) -> Due {
        if now >= self.active.end {
            return Due::Never;
        }
        let pause = self.idle.iter().find(|idle| idle.contains(&now)).map(|idle| idle.end);
        let before = (now < self.active.start).then_some(self.active.start);
        if let Some(resume) = pause.max(before) {
            pace.skip_to(resume);
            return self.later(resume);
        }
        match pace.due() {
            Some(due) if due > now => self.later(due),
            due => Due::At(due.unwrap_or(now)),
        }
    }

    fn later(&self, at: Nanos) -> Due {
        if at < self.active.end { Due::Later(at) } else { Due::Never }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::workload::Turn;

    use super::*;

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
    fn instants_in_an_idle_interval_are_dropped_and_late_ones_kept() {
        let schedule =
            Schedule { active: Nanos(0)..Nanos(1000), idle: vec![Nanos(100)..Nanos(205)] };
        let alone = Turn { start: Nanos(0), index: 0, clients: 1 };
        let mut pace = Pace::constant(1e8, None, alone);
        assert_eq!(schedule.due(Nanos(50), &mut pace), Due::At(Nanos(0)), "late, but due");
        assert_eq!(schedule.due(Nanos(150), &mut pace), Due::Later(Nanos(205)));
        assert_eq!(pace.due(), Some(Nanos(210)));
    }
}
