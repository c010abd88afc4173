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
}
