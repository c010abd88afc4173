//! What was said in the log, so that what is tried again and again is said once for each reason.

use std::cell::RefCell;
use std::collections::BTreeSet;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_said_once_until_it_went_well() {
        let said = Said::default();
        assert!(said.is_news("a") && said.is_news("b"));
        assert!(!said.is_news("a") && !said.is_news("b"), "they take turns");
        assert!(said.is_over() && !said.is_over());
        assert!(said.is_news("a"));
    }
}
