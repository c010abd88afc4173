//! The rules that keep a tiered volume whole, by name; see [`crate::rules`].

/// Which of them a test has broken, if any.
pub(super) type Rules = crate::rules::Rules<Mutant>;

/// Rules that tests break, one at a time, to see that they would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// What was written meanwhile is not copied again.
    CopyOnce,
    /// Writes are not held.
    SkipHold,
    /// Nobody waits for the writes under way.
    SkipDrain,
    /// The target is not flushed.
    SkipTargetFlush,
    /// The switch does not wait for the record.
    SkipNote,
    /// The switch does not wait for the record's flush.
    SkipNoteFlush,
    /// A record that may be there or not counts as not there.
    IgnoreDoubt,
    /// The old slot is free at once.
    FreeEarly,
    /// A flush that failed for the mover is of no concern to the clients.
    ForgetFlush,
    /// A flush that failed for a client is of no concern to the mover.
    TrustFlush,
    /// Extents move whether or not the volume is ours.
    MoveUnasked,
    /// Clients write where late writes may still come.
    WriteLate,
    /// Extents move from and to where late writes may still come. Either rule alone is enough.
    MoveLate,
    /// Extents move at once after an owner that has not let go.
    MoveEarly,
    /// A volume is served of which one copy of each head is as it was before the volume was made.
    OneHead,
    /// A tier counts that missed the last opening.
    AcceptOlder,
    /// A tier counts as the one in whose place it is.
    MixTiers,
    /// The journal ends where a record is damaged, though there are later ones.
    StopAtGap,
    /// The journal ends where no record follows, though members know of more.
    TrustEnd,
    /// The last record counts as durable since it could be read.
    TrustCache,
    /// What was noted in this half before its owner began there counts as well.
    CountOld,
}
