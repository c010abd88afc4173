//! Several policies, the most important first: the first with an opinion decides.
//!
//! "Near the client, unless that is five percent fuller; all else equal, the emptier":
//!
//! ```
//! # use evenkeel_core::place::cluster::DomainId;
//! # use evenkeel_core::place::policy::{in_order::InOrder, local::Local, space::Space};
//! let policy = InOrder(vec![
//!     Box::new(Space::with_margin(0.05)),
//!     Box::new(Local::new(&[], DomainId(0))),
//!     Box::new(Space::with_margin(0.01)),
//! ]);
//! ```

use super::{Better, Policy, View};
use crate::id::ServerId;
use crate::place::loads::Loads;

/// See the [module](self).
pub struct InOrder(pub Vec<Box<dyn Policy>>);

impl Policy for InOrder {
    fn compare(&self, view: &View<'_>, kept: &[ServerId], other: &[ServerId]) -> Better {
        let opinions = self.0.iter().map(|policy| policy.compare(view, kept, other));
        opinions.into_iter().find(|opinion| *opinion != Better::Even).unwrap_or(Better::Even)
    }

    fn refresh(&mut self, loads: &Loads) {
        self.0.iter_mut().for_each(|policy| policy.refresh(loads));
    }
}

#[cfg(test)]
mod tests {
    use super::super::cpu::Cpu;
    use super::super::space::Space;
    use super::super::testing::{loads, zero_or_one};
    use super::*;
    use crate::place::loads::Metrics;

    #[test]
    fn the_first_opinion_counts() {
        let report = |used_bytes, cpu_milli| Metrics {
            used_bytes,
            cpu_milli,
            capacity_bytes: 100,
            ..Metrics::default()
        };
        let policy =
            InOrder(vec![Box::new(Space::with_margin(0.1)), Box::new(Cpu { margin: 0.0 })]);
        let outcome = |reports: [Metrics; 2]| zero_or_one(&policy, &loads(&reports));
        assert_eq!(outcome([report(50, 100), report(30, 900)]), Better::Other);
        assert_eq!(outcome([report(35, 100), report(30, 900)]), Better::Kept);
        assert_eq!(outcome([report(30, 900), report(35, 100)]), Better::Other);
        assert_eq!(outcome([report(30, 100), report(30, 100)]), Better::Even);
    }
}
