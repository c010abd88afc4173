//! The rules by which a volume of either kind has one owner, and is what it was when it was left, by
//! name; see [`crate::rules`].

/// Which of them a test has broken, if any.
pub(crate) type Rules = crate::rules::Rules<Mutant>;

/// Rules that tests break, one at a time, to see that they would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Data goes without a right.
    DataUnasked,
    /// Whoever is out of office sends on.
    StayIn,
    /// A gate that has not let go is displaced without a fence.
    SkipFence,
    /// A claim counts though heads have changed since the verdict.
    SkipHeads,
    /// Notes go where an owner that has not let go may still write.
    SameHalf,
}
