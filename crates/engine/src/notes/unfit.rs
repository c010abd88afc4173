//! What can be wrong with a device that is to be a part of a volume, of whichever kind, and what to
//! do about it.

use std::fmt;

use evenkeel_core::bytes::Bytes;

use super::block::{BlockKind, VolumeId};
use super::opening::PartDevice;

/// What is wrong with a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It answered a read, a write or a flush with an error.
    Failed,
    /// A block of its notes cannot be read, and no other one makes up for it.
    Unreadable {
        /// Where, in bytes.
        offset: u64,
    },
    /// It holds something else.
    Foreign,
    /// It is blank, while other parts of the volume are in use.
    Blank,
    /// It has no head, but something stands where the volume would note what lies where.
    NotBlank {
        /// Where, in bytes.
        offset: u64,
        /// So much of it a volume would note in, in bytes.
        notes_bytes: u64,
    },
    /// It has no head, and this gate knows that there was a volume.
    Lost {
        /// The volume.
        expected: VolumeId,
    },
    /// It belongs to another volume than this gate knows.
    NotKnown {
        /// Its volume.
        found: VolumeId,
        /// What this gate has served by that name.
        expected: VolumeId,
    },
    /// Both its heads are damaged, or say what cannot be.
    HeadDamaged,
    /// Both its heads are bad, and nothing proves which part of the volume it is.
    Unproven {
        /// What is missing.
        why: Unproven,
    },
    /// It was made by a newer program, in this version of the format.
    Newer(u32),
    /// It was made by an older program, in this version of the format.
    Older(u32),
    /// It has features that this program does not know.
    Features(u32),
    /// It belongs to another volume than the first part.
    OtherVolume {
        /// Its volume.
        found: VolumeId,
        /// That of the first part.
        expected: VolumeId,
    },
    /// It has become smaller than what the volume uses of it.
    Shrunk {
        /// What the volume uses.
        needed_bytes: u64,
        /// What is there.
        found_bytes: u64,
    },
    /// It was not there when the volume was opened last: an older copy.
    Stale {
        /// Its generation.
        found: u64,
        /// That of other parts.
        expected: u64,
    },
    /// It is an older copy, of a time since the volume was opened last.
    RolledBack {
        /// How far the owner had counted by what it holds.
        found: u64,
        /// How far it is known to have been, in the same count: about a second each.
        expected: u64,
    },
    /// It is an older copy by what this gate knows, and no other part knows better.
    PutBack,
    /// Another gate uses the volume.
    InUse {
        /// What that gate calls itself.
        by: String,
    },
    /// Another gate has not let go of the volume, and could not be fenced off.
    Unfenced {
        /// What that gate calls itself.
        by: String,
    },
}

/// Why the heads of a part cannot be made anew from what the other parts say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unproven {
    /// Its owner's block is bad as well.
    Owner,
    /// Other parts have lost their heads too.
    Others,
    /// What the other parts say is not enough to tell what lies where on it.
    Layout,
}

/// What one kind of volume calls its parts, and knows them by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parlance {
    /// What heads its parts have.
    pub(crate) head: BlockKind,
    /// The kind of volume: "tiered".
    pub(crate) kind: &'static str,
    /// A part of it: "tier".
    pub(crate) part: &'static str,
    /// What a part is made of: "device".
    pub(crate) device: &'static str,
}

impl Unfit {
    /// Checks that a device still has room for what a volume uses of it.
    ///
    /// # Errors
    /// [`Self::Shrunk`].
    pub(crate) fn check_room(
        device: &PartDevice,
        data_offset: u64,
        used_bytes: u64,
    ) -> Result<(), Self> {
        let (found_bytes, needed_bytes) =
            (device.size_bytes, data_offset.saturating_add(used_bytes));
        if needed_bytes > found_bytes {
            return Err(Self::Shrunk { needed_bytes, found_bytes });
        }
        Ok(())
    }

    /// It in the words of a kind of volume.
    pub(crate) fn told(&self, words: Parlance) -> String {
        struct Told<'a>(&'a Unfit, Parlance);
        impl fmt::Display for Told<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.tell(self.1, f)
            }
        }
        Told(self, words).to_string()
    }

    /// Says it, with the remedy.
    pub(crate) fn tell(&self, words: Parlance, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parlance { kind, part, device, .. } = words;
        match self {
            Self::Failed => write!(f, "it answers with errors; see to the {part} and try again"),
            Self::Unreadable { offset } => write!(
                f,
                "its 4 KiB at byte {offset} cannot be read, and no other copy tells what they \
                 noted; see to the {part} and try again. If they are lost for good, overwrite them \
                 with zeroes: what was noted there alone is then named as lost"
            ),
            Self::Foreign => write!(
                f,
                "it holds something else than a part of a {kind} volume; if that may go, blank it: \
                 discard all of it, or overwrite it with zeroes"
            ),
            Self::Blank => write!(
                f,
                "it is blank, but other {part}s of the volume are in use; attach the {device} that \
                 was in its place, or blank every {part} of the volume to begin anew"
            ),
            Self::HeadDamaged => write!(
                f,
                "its heads are damaged; restore the {device}, or blank every {part} of the volume \
                 to begin anew"
            ),
            Self::Unproven { why } => {
                let why = match why {
                    Unproven::Owner => "so is its owner's block",
                    Unproven::Others => "so are those of others",
                    Unproven::Layout => "the others do not say what lies where on it",
                };
                write!(
                    f,
                    "its heads are damaged, and {why}: nothing proves which {part} of the volume \
                     it is; restore the {device}, or all of the volume from a backup"
                )
            }
            Self::NotBlank { offset, notes_bytes } => write!(
                f,
                "it has no head, but there is something at byte {offset}, where the volume would \
                 note what lies where: its heads may have been lost. Restore the {device}; or, if \
                 all on it may go, overwrite its first {} with zeroes",
                Bytes(*notes_bytes)
            ),
            Self::Newer(version) => {
                write!(f, "it has version {version} of the format; use a newer evenkeel")
            }
            Self::Older(version) => write!(
                f,
                "it has version {version} of the format, which this evenkeel does not use any \
                 more; serve the volume with the evenkeel that made it, and copy its disk to a \
                 new volume of this one"
            ),
            Self::Features(bits) => write!(
                f,
                "it has features that this evenkeel does not know ({bits:#x}); use a newer one"
            ),
            Self::Shrunk { needed_bytes, found_bytes } => write!(
                f,
                "it has {}, but the volume uses {}; give it its size back",
                Bytes(*found_bytes),
                Bytes(*needed_bytes)
            ),
            _ => self.tell_of_others(words, f),
        }
    }

    /// Says what is wrong beside other parts, or other gates.
    fn tell_of_others(&self, words: Parlance, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parlance { part, device, .. } = words;
        match self {
            Self::Lost { expected } => write!(
                f,
                "it is blank, but this gate has served volume {expected} by that name; attach the \
                 {device}s that were used last"
            ),
            Self::NotKnown { found, expected } => write!(
                f,
                "it belongs to volume {found}, but this gate has served volume {expected} by that \
                 name; attach the {device}s that were used last"
            ),
            Self::OtherVolume { found, expected } => write!(
                f,
                "it belongs to volume {found}, the first {part} to {expected}; list the {part}s of \
                 one volume"
            ),
            Self::Stale { found, expected } => write!(
                f,
                "it is an older copy (generation {found}, others have {expected}); attach the \
                 {device} that was used last"
            ),
            Self::RolledBack { found, expected } => write!(
                f,
                "it is an older copy: it holds beat {found} of the gate that used the volume last, \
                 and had beat {expected} already; attach the {device} that was used last"
            ),
            Self::PutBack => write!(
                f,
                "it is an older copy: this gate has served later content of the volume; attach \
                 the {device}s that were used last"
            ),
            Self::InUse { by } => {
                write!(f, "{by} uses the volume; stop that gate first, or wait until it is gone")
            }
            Self::Unfenced { by } => write!(
                f,
                "{by} has not let go of the volume, and is not fenced off: it may still write"
            ),
            _ => unreachable!("told by the part alone"),
        }
    }
}
