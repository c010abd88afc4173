//! Idle processors, over all servers of a set.
//!
//! It helps where the processor is the bottleneck, which it rarely is: the paper found no gain, and
//! a figure that changes faster than it is reported misleads. The margin keeps it from harm.

use super::{Better, Policy, View, by_cost};
use crate::id::ServerId;

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpu {
    /// How much less busy another candidate's processors must be together, 1 for one server's.
    pub margin: f64,
}

impl Policy for Cpu {
    fn compare(&self, view: &View<'_>, kept: &[ServerId], other: &[ServerId]) -> Better {
        let busy = |servers: &[ServerId]| {
            let milli = |&server: &ServerId| f64::from(view.loads.reported(server).cpu_milli);
            servers.iter().map(milli).sum::<f64>() / 1000.0
        };
        by_cost(busy(kept), busy(other), self.margin)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{loads, zero_or_one};
    use super::*;
    use crate::place::loads::Metrics;

    #[test]
    fn idle_processors_are_better_beyond_the_margin() {
        let report = |cpu_milli| Metrics { cpu_milli, ..Metrics::default() };
        let cpu = Cpu { margin: 0.2 };
        assert_eq!(zero_or_one(&cpu, &loads(&[report(900), report(300)])), Better::Other);
        assert_eq!(zero_or_one(&cpu, &loads(&[report(400), report(300)])), Better::Even);
    }
}
