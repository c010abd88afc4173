//! Why servers are not opened as a volume: which server, what is wrong with it, and what to do.

use std::fmt;

use evenkeel_core::bytes::Bytes;

use super::layout::{LayoutError, SERVERS_MAX};
use crate::notes::block::BlockKind;
use crate::notes::{Parlance, Unfit};

/// What a spread volume calls its parts.
pub(super) const PARLANCE: Parlance =
    Parlance { head: BlockKind::SpreadHead, kind: "spread", part: "server", device: "export" };

/// Why the volume was not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The server's name.
    pub server: String,
    /// What is wrong with it.
    pub reason: RefusalReason,
}

/// What is wrong with a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// No volume could use it so.
    Unfit(Unfit),
    /// It is too small, or has too many objects.
    Layout(LayoutError),
    /// It, or another one, cannot be among the servers that are listed.
    Servers(WrongServers),
    /// The volume is not as the policy says.
    Shape {
        /// Bytes of its objects, bytes of it all, candidates of an object.
        found: (u64, u64, u32),
    },
    /// It does not answer, and the volume cannot be opened without it.
    Needed(Needed),
    /// Part of its table is damaged, and so are all copies of a page of the choices: nobody knows
    /// what was there.
    NotesDamaged,
}

/// Why a volume cannot be opened without a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// The volume is yet to be made.
    New,
    /// No opening with all servers has come to its end, as far as can be read.
    Unsettled,
    /// Fewer than three servers keep the choices.
    FewKeepers,
    /// Its servers change.
    Changing,
    /// It was opened without another server, which has not been taken up since.
    Another,
    /// Notes on other servers are damaged.
    Notes,
}

/// Why a volume is not opened with the servers that are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongServers {
    /// It is the same server of the volume as another one that is listed.
    Twice {
        /// Its number.
        number: u32,
    },
    /// The volume has more servers.
    ServerCount {
        /// How many it has.
        found: u32,
        /// How many of them are listed.
        listed: u32,
    },
    /// It was a server of the volume and has left, or holds nothing and is said to leave.
    HasLeft,
    /// Servers that are not listed may still hold objects.
    StillNeeded {
        /// How many.
        servers: u32,
        /// Objects that have not passed to the other servers.
        objects: u64,
    },
    /// The servers are to change while a change is under way.
    Changing {
        /// Objects that have not passed.
        objects: u64,
    },
    /// They have changed as often as can be counted.
    TooOften,
    /// It is to join, but all numbers are taken, by one that has left too.
    NoNumber,
}

impl From<Unfit> for RefusalReason {
    fn from(why: Unfit) -> Self {
        Self::Unfit(why)
    }
}

impl Refusal {
    /// What is wrong with a part as that of any volume, if that is it.
    pub fn unfit(&self) -> Option<&Unfit> {
        if let RefusalReason::Unfit(why) = &self.reason { Some(why) } else { None }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server \"{}\": {}", self.server, self.reason)
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfit(why) => why.tell(PARLANCE, f),
            Self::Layout(error) => write!(f, "{error}"),
            Self::Servers(why) => write!(f, "{why}"),
            Self::Shape { found: (object_bytes, size_bytes, candidates) } => write!(
                f,
                "its volume has {} in objects of {} with {candidates} candidates each; say so in \
                 the policy, or leave it out",
                Bytes(*size_bytes),
                Bytes(*object_bytes)
            ),
            Self::Needed(why) => write!(f, "it does not answer, and {why}"),
            Self::NotesDamaged => write!(
                f,
                "a part of its table is damaged, and so are all copies of the choices; restore all \
                 servers from the same backup"
            ),
        }
    }
}

impl fmt::Display for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::New => "the volume is made when all servers are there; start it",
            Self::Unsettled => "the volume was never opened with all servers; start it",
            Self::FewKeepers => {
                "fewer than three servers keep the choices, so that all are needed; start it"
            }
            Self::Changing => "the servers change, for which all are needed; start it",
            Self::Another => {
                "the volume was opened without another server, which has not been taken up since; \
                 only one may be absent: start it"
            }
            Self::Notes => "choices are damaged that only it may still have; start it",
        })
    }
}

impl fmt::Display for WrongServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice { number } => write!(
                f,
                "it is server {number} of the volume, and so is another one; one of them is a \
                 copy: list the one that was used last"
            ),
            Self::ServerCount { found, listed } => write!(
                f,
                "its volume has {found} servers, but {listed} of them are listed; list them all, \
                 and under `leaving` those that are to go"
            ),
            Self::HasLeft => write!(
                f,
                "it holds nothing of the volume; take it out of the list, or overwrite its first \
                 12 KiB with zeroes so that it joins"
            ),
            Self::StillNeeded { servers, objects } => write!(
                f,
                "{servers} servers of its volume that are not listed may hold some of {objects} \
                 objects; list them again until the status says that they hold nothing"
            ),
            Self::Changing { objects } => write!(
                f,
                "its volume is still passing {objects} objects from one set of servers to the \
                 next; list the servers, and those that leave, as before until the status says \
                 that it is done"
            ),
            Self::NoNumber => write!(
                f,
                "it cannot join yet: all {SERVERS_MAX} numbers are taken, one by a server that has \
                 left; open the volume once without this one, then list it"
            ),
            Self::TooOften => f.write_str(
                "the servers of its volume have changed 65535 times, and cannot any more; copy the \
                 volume to a new one",
            ),
        }
    }
}
