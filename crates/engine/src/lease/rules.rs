//! The rules by which a volume of either kind has one owner, and is what it was when it was left,
//! by name; see [`crate::rules`].

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
    /// A volume is made over what members without heads hold.
    MakeOver,
    /// Members whose heads are damaged are blank, whatever else they hold. Either rule alone is
    /// enough, since of a blank member more is looked at than the heads.
    BlankIfDamaged,
    /// A volume is made though this gate has served one by that name.
    ForgetVolume,
    /// A volume is opened though this gate has served another one by that name.
    TakeOther,
    /// Members count that were all put back to an earlier opening than this gate knows of.
    ForgetOpening,
    /// Members count that were all put back to an earlier beat than this gate knows of.
    ForgetCount,
    /// A member counts of which the others know that it had more.
    TrustRolledBack,
    /// A claim does not keep what the owner before has said of the other members.
    DropMarks,
    /// While a volume is served, members count that have come back with older content.
    TrustReturn,
    /// While a volume is served, any member of any volume counts as the one that belongs there.
    TrustPlace,
    /// A member gets heads though it missed the last opening.
    MendOlder,
}
