//! Short journals: a server whose journal is long will soon stop to flush it.

use super::{Better, Policy, View, by_cost};
use crate::id::ServerId;

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Journal {
    /// How many bytes fewer another candidate's journals must hold together.
    pub margin_bytes: u64,
}

impl Policy for Journal {
    fn compare(&self, view: &View<'_>, kept: &[ServerId], other: &[ServerId]) -> Better {
        let unflushed = |servers: &[ServerId]| {
            let bytes = |&server: &ServerId| view.loads.reported(server).journal_bytes as f64;
            servers.iter().map(bytes).sum()
        };
        by_cost(unflushed(kept), unflushed(other), self.margin_bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{loads, zero_or_one};
    use super::*;
    use crate::place::loads::Metrics;

    #[test]
    fn the_shorter_journal_is_better_beyond_the_margin() {
        let report = |journal_bytes| Metrics { journal_bytes, ..Metrics::default() };
        let journal = Journal { margin_bytes: 1 << 20 };
        assert_eq!(zero_or_one(&journal, &loads(&[report(5 << 20), report(0)])), Better::Other);
        assert_eq!(zero_or_one(&journal, &loads(&[report(0), report(5 << 20)])), Better::Kept);
        assert_eq!(zero_or_one(&journal, &loads(&[report(1 << 20), report(0)])), Better::Even);
    }
}
