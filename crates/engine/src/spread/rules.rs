//! The rules that keep a spread volume whole, by name; see [`crate::rules`].

/// Which of them a test has broken, if any.
pub(super) type Rules = crate::rules::Rules<Mutant>;

/// Rules that tests break, one at a time, to see that they would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Slots are not wiped.
    SkipWipe,
    /// Entries do not wait until their slots are wiped for good.
    SkipWipeFlush,
    /// Placings count before their notes are flushed.
    SkipNoteFlush,
    /// Notes count that no directory lists.
    SkipListing,
    /// Choices do not wait for the entries.
    ChoiceFirst,
    /// Entries are cleared before the choices are taken back.
    ClearFirst,
    /// What was written to an object on its way is not copied again.
    CopyOnce,
    /// Writes to an object on its way are not held.
    SkipHold,
    /// Nobody waits for writes under way to an object that moves.
    SkipDrain,
    /// A flush that failed is of no concern to what was copied.
    TrustCopy,
    /// A new place is in force before its choice is noted.
    SkipChoice,
    /// An object counts as freed before its entry is cleared.
    SkipClear,
    /// A flush that failed for a client is of no concern to what is noted.
    TrustFlush,
    /// A flush of notes that failed is of no concern to the clients.
    ForgetFlush,
    /// A choice counts that one keeper of three has.
    OneCopy,
    /// The choices of a keeper that was away count like any other's.
    TrustReturned,
    /// An object without a choice is where a server that was away says.
    AdoptReturned,
    /// An object without a choice is where a copy of a table says that may not be the newest.
    AdoptDoubtful,
    /// Whoever was away is taken up, whatever it knows.
    AcceptStale,
    /// A second server may be absent.
    TwoAbsent,
    /// Notes are written whether or not the volume is ours.
    NoteUnasked,
    /// Clients write where late writes may still come.
    WriteLate,
    /// Slots are taken first that an owner that has not let go took first.
    SameEnd,
    /// A volume is served of which one copy of each head is as it was before the volume was made.
    OneHead,
    /// A server counts that missed the last opening.
    AcceptOlder,
    /// A server counts of an opening of the same generation that came to nothing.
    AcceptSplit,
    /// Servers may be taken out of the list though objects lie on them.
    TakeOut,
    /// A volume is made without the server that does not answer.
    MakeWithout,
    /// Objects are given up for a block that cannot be read now.
    GiveUpUnread,
    /// Choices that are damaged are made anew though a table is damaged as well.
    GuessChoices,
    /// Choices that are damaged are made anew without the server that may have them.
    GuessWithout,
    /// Notes count as durable since they could be read.
    TrustCache,
}
