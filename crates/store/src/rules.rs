//! The commit rules by name, so that each can be broken on purpose.
//!
//! A rule is one piece of code that asks [`Rules::hold`]. In a normal build the answer is a
//! constant and costs nothing. With the feature `mutants`, a crash test breaks one rule and must
//! find the damage: what no test can miss is not proven to be needed.

/// A rule of `docs/store-format.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A record counts only in its own place, generation and epoch.
    RecordIdentity,
    /// A record counts only if its data blocks match their checksums.
    RecordData,
    /// Clients' records take effect and are acknowledged in the order of their LSNs.
    LogOrder,
    /// Replay of clients' records stops at the first gap.
    StopAtGap,
    /// A damaged record does not end the log: records behind it are looked for, and the store is
    /// refused if they say that it was durable.
    LookBehind,
    /// Every record's header repeats that of the record before.
    HeaderTwice,
    /// A flush reaches every drive that was written to, not only where the tail is now.
    FlushAllTouched,
    /// A moved block counts only if the block is still where it was moved from.
    CompareAndSwap,
    /// A moved block is moved in every volume and snapshot that holds it.
    MoveEverywhere,
    /// Volumes and snapshots are made, changed and deleted between the writes before and those
    /// behind, in replay as well.
    VolumeOrder,
    /// A segment is used again only after a checkpoint that does not need it is durable.
    DeferReuse,
    /// The body of a checkpoint is durable before the superblock that names it.
    CheckpointBarrier,
    /// An increment of a checkpoint repeats every record since the one before.
    IncrementRepeatsAll,
    /// Every mount has an epoch, and every use of a segment a generation, of its own.
    FreshEpoch,
    /// A drive that failed a write or flush is marked before anything is acknowledged without it.
    StaleBeforeAck,
    /// Drives of which each went on without the other are refused.
    OneHistory,
    /// A drive that is an older image of itself counts for nothing until it is brought up to date.
    OneTime,
    /// A store that is older than whoever opens it remembers is refused.
    KnownPosition,
    /// A block that is read matches the tag in the map.
    VerifyTags,
    /// A sequential zone is written at its write pointer, one write at a time.
    WriteAtPointer,
    /// A sequential zone is reset before the first write of a new use.
    ResetForReuse,
    /// A sequential zone is reset only after a checkpoint that does not need it is durable.
    ResetAfterCheckpoint,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::RecordIdentity,
        Self::RecordData,
        Self::LogOrder,
        Self::StopAtGap,
        Self::LookBehind,
        Self::HeaderTwice,
        Self::FlushAllTouched,
        Self::CompareAndSwap,
        Self::MoveEverywhere,
        Self::VolumeOrder,
        Self::DeferReuse,
        Self::CheckpointBarrier,
        Self::IncrementRepeatsAll,
        Self::FreshEpoch,
        Self::StaleBeforeAck,
        Self::OneHistory,
        Self::OneTime,
        Self::KnownPosition,
        Self::VerifyTags,
        Self::WriteAtPointer,
        Self::ResetForReuse,
        Self::ResetAfterCheckpoint,
    ];
}

/// Which rules hold: all, but in the crash tests of mutants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    #[cfg(feature = "mutants")]
    broken: [Option<Rule>; 2],
}

impl Rules {
    /// All rules but this one.
    #[cfg(feature = "mutants")]
    pub fn without(rule: Rule) -> Self {
        Self { broken: [Some(rule), None] }
    }

    /// All rules but these, of which each does for the other where both hold.
    #[cfg(feature = "mutants")]
    pub fn without_both(rules: [Rule; 2]) -> Self {
        Self { broken: rules.map(Some) }
    }

    #[cfg(feature = "mutants")]
    pub(crate) fn hold(self, rule: Rule) -> bool {
        !self.broken.contains(&Some(rule))
    }

    #[cfg(not(feature = "mutants"))]
    #[expect(clippy::unused_self, reason = "with mutants, the answer depends on it")]
    pub(crate) const fn hold(self, _rule: Rule) -> bool {
        true
    }
}
