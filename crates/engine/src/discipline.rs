//! From the policy's words to a scheduler.

use evenkeel_core::sched::Scheduler;
use evenkeel_core::sched::edf::Edf;
use evenkeel_core::sched::fifo::Fifo;
use evenkeel_core::sched::limit::Limited;
use evenkeel_core::sched::mclock::Mclock;
use evenkeel_core::sched::sfq::{Sfq, SfqOptions};

use crate::policy::{Depth, Discipline, Scheduling};

/// The scheduler that delays nothing: arrival order, no depth, no limits.
pub(crate) fn open_gate() -> Box<dyn Scheduler> {
    Box::new(Fifo::new(None))
}

/// The scheduler that enforces a backend's policy: its discipline below, the tenants' limits above.
/// It knows no tenant yet.
pub fn scheduler_for(scheduling: &Scheduling) -> Box<dyn Scheduler> {
    match scheduling.discipline {
        Discipline::Fifo => Box::new(Limited::new(Fifo::new(Some(fifo_depth(scheduling))))),
        // Disciplines over the tiers of a volume are not a matter of one server.
        Discipline::Sfq | Discipline::Fair | Discipline::Drf | Discipline::Baa => {
            let Scheduling { depth, hold, .. } = *scheduling;
            Box::new(Limited::new(Sfq::new(SfqOptions { depth, hold })))
        }
        Discipline::Mclock => Box::new(Mclock::new(scheduling.depth)),
        Discipline::Edf => Box::new(Limited::new(Edf::new(scheduling.depth))),
    }
}

/// Arrival order counts units only: a depth in bytes is taken for as many full units, an adaptive
/// one for its greatest. `Policy::check` refuses both.
fn fifo_depth(scheduling: &Scheduling) -> u32 {
    match scheduling.depth {
        Depth::Requests(units) | Depth::Adaptive { max: units, .. } => units,
        Depth::Bytes(bytes) => u32::try_from(bytes / scheduling.unit_bytes).unwrap_or(u32::MAX),
    }
}
