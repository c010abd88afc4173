//! A primary with free memory: what is read there again comes from its cache.
//!
//! Only the primary counts, since it alone is read from. It helps on servers that cache in what
//! memory is free; one with a cache of fixed size has nothing to offer here.

use super::{Better, Policy, View, by_cost};
use crate::id::ServerId;

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// How much more of its memory must be free for another candidate to be better, 0 to 1.
    pub margin: f64,
}

impl Policy for Memory {
    fn compare(&self, view: &View<'_>, kept: &[ServerId], other: &[ServerId]) -> Better {
        let taken = |servers: &[ServerId]| {
            let metrics = view.loads.reported(servers[0]);
            1.0 - metrics.memory_free_bytes as f64 / metrics.memory_bytes.max(1) as f64
        };
        by_cost(taken(kept), taken(other), self.margin)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{loads, zero_or_one};
    use super::*;
    use crate::place::loads::Metrics;

    #[test]
    fn the_server_beside_a_memory_hog_is_avoided() {
        let report = |memory_free_bytes| Metrics {
            memory_free_bytes,
            memory_bytes: 100,
            ..Metrics::default()
        };
        let memory = Memory { margin: 0.1 };
        assert_eq!(zero_or_one(&memory, &loads(&[report(5), report(60)])), Better::Other);
        assert_eq!(zero_or_one(&memory, &loads(&[report(55), report(60)])), Better::Even);
    }
}
