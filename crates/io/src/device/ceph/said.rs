//! What was said in the log, so that what is tried again and again is said once for each reason,
//! and of what fails by the thousand one in each second.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use evenkeel_core::time::{Nanos, Span};

/// Most reasons that are remembered; beyond that they are said again.
const REASONS_MAX: usize = 16;

/// The reasons that were said since it last went well.
#[derive(Debug, Default)]
pub(super) struct Said(RefCell<BTreeSet<String>>);

impl Said {
    /// Whether this reason is to be said now.
    pub(super) fn is_news(&self, why: &str) -> bool {
        let mut known = self.0.borrow_mut();
        if known.len() >= REASONS_MAX {
            known.clear();
        }
        known.insert(why.to_owned())
    }

    /// It went well: whatever comes next is news. Whether anything was said before.
    pub(super) fn is_over(&self) -> bool {
        !std::mem::take(&mut *self.0.borrow_mut()).is_empty()
    }
}

/// Between two lines of those that come by the thousand.
const LINE_EVERY: Span = Span::from_secs(1);

/// Lines of which one a second is written, with how many were left out before it.
#[derive(Debug, Default)]
pub(super) struct Sparing {
    written_at: Cell<Option<Nanos>>,
    left_out: Cell<u64>,
}

impl Sparing {
    /// Whether the next is to be written now; how many were not since the last.
    pub(super) fn next(&self, now: Nanos) -> Option<u64> {
        if self.written_at.get().is_some_and(|at| now.since(at) < LINE_EVERY) {
            self.left_out.set(self.left_out.get() + 1);
            return None;
        }
        self.written_at.set(Some(now));
        Some(self.left_out.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_lines_one_a_second_is_written() {
        let sparing = Sparing::default();
        let at = |ms| Nanos::ZERO + Span::from_millis(ms);
        let written: Vec<u64> = (0..3000).filter_map(|ms| sparing.next(at(ms))).collect();
        assert_eq!(written, [0, 999, 999]);
    }

    #[test]
    fn a_reason_is_said_once_until_it_went_well() {
        let said = Said::default();
        assert!(said.is_news("a") && said.is_news("b"));
        assert!(!said.is_news("a") && !said.is_news("b"), "they take turns");
        assert!(said.is_over() && !said.is_over());
        assert!(said.is_news("a"));
    }
}
