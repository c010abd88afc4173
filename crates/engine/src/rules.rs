//! The rules that keep a volume whole, by name, so that a trial can break each and see that it
//! would notice: a rule whose absence no trial notices is not shown to be needed.
//!
//! `lease/rules.rs` has those that both kinds of volumes stand on, `tiers/rules.rs` and
//! `spread/rules.rs` those of one kind. A rule is one piece of code that asks [`Rules::is_broken`].
//! Outside tests none is ever broken, and asking costs nothing.

use std::marker::PhantomData;

/// Which of the rules that `M` names a test has broken, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules<M> {
    #[cfg(test)]
    pub(crate) mutant: Option<M>,
    named: PhantomData<M>,
}

impl<M> Default for Rules<M> {
    fn default() -> Self {
        Self {
            #[cfg(test)]
            mutant: None,
            named: PhantomData,
        }
    }
}

impl<M: Copy + Eq> Rules<M> {
    /// Whether a test has broken this rule.
    #[cfg(test)]
    pub(crate) fn is_broken(self, rule: M) -> bool {
        self.mutant == Some(rule)
    }

    /// Whether a test has broken this rule.
    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "the tests' version looks")]
    pub(crate) fn is_broken(self, _: M) -> bool {
        false
    }
}
