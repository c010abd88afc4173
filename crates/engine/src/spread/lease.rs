//! What a server of a volume has to show before it is served from, and how its owner beats there
//! ([`crate::lease`]).
//!
//! | front of the server | verdict |
//! |---|---|
//! | this server, this opening; the last beat, or one whose answer was lost | ours |
//! | the same, but an owner that knows nothing of this opening | ours: late bytes, beaten over |
//! | an owner that claimed after this opening, or heads that count further | another gate's |
//! | another server of the volume, or another volume | misplaced: nothing of it is served |
//! | an earlier beat or generation | older content: nothing of it is served |
//!
//! A claim tells which opening it displaces: the last one that had come to its end when it was
//! written. So a beat or a claim that reaches a server late, when its gate had long lost the volume
//! or the race for it, is known for what it is, and throws nobody out.

use std::collections::VecDeque;
use std::fmt;

use super::format::head::Head;
use super::format::owner::{Owner, OwnerId};
use super::heads::Front;
use super::layout::{FRONT_BYTES, OWNER_OFFSET};
use super::refusal::PARLANCE;
use super::volume::Volume;
use crate::notes::block::{BLOCK, BLOCK_BYTES, Block};
use crate::notes::{Unfit, VolumeId};

/// Which server of which volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The volume.
    pub volume: VolumeId,
    /// The server's number.
    pub number: u32,
}

/// What one server's beats go by.
#[derive(Clone, Debug)]
pub struct Lease {
    identity: Identity,
    generation: u64,
    owner: Owner,
    /// Whether the next beat was sent and not answered.
    is_underway: bool,
    /// Numbers of the last beats that were sent again, since no answer came: one of them may reach
    /// the server late, after others.
    repeated: VecDeque<u64>,
}

/// Beats that were sent again of which is known.
const REPEATED_MAX: usize = 8;

/// Why a server is not served from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fenced {
    /// Another gate has claimed the volume; with what it calls itself.
    Claimed(String),
    /// It is another server of the volume.
    Misplaced {
        /// Its number.
        found: u32,
        /// The number of the server that belongs here.
        expected: u32,
    },
    /// It has come back with the content of an earlier day.
    Stale,
    /// It is no server of the volume.
    Unfit(Unfit),
}

impl Identity {
    /// Looks at the front of a server, as long as [`Lease::front_bytes`].
    ///
    /// # Errors
    /// That it is not this one.
    ///
    /// # Panics
    /// Unless there are so many bytes of it.
    pub fn check(&self, front: &[u8]) -> Result<(), Fenced> {
        let found = Front::read(front.as_chunks().0).map_err(Fenced::Unfit)?;
        self.check_head(found.head.as_ref())
    }

    fn check_head(&self, head: Option<&Head>) -> Result<(), Fenced> {
        let head = head.ok_or(Fenced::Unfit(Unfit::Blank))?;
        if head.volume != self.volume {
            let (found, expected) = (head.volume, self.volume);
            return Err(Fenced::Unfit(Unfit::OtherVolume { found, expected }));
        }
        if head.number != self.number {
            return Err(Fenced::Misplaced { found: head.number, expected: self.number });
        }
        Ok(())
    }
}

impl fmt::Display for Fenced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claimed(by) => write!(f, "{by} has claimed the volume"),
            Self::Misplaced { found, expected } => write!(
                f,
                "it is server {found} of the volume, and server {expected} belongs here; give each \
                 server its address back"
            ),
            Self::Stale => {
                write!(
                    f,
                    "it has come back with older content; attach the export that was used last"
                )
            }
            Self::Unfit(why) => why.tell(PARLANCE, f),
        }
    }
}

impl Lease {
    /// The lease that a volume was opened with, on one of its servers.
    pub fn new(volume: &Volume, server: usize) -> Self {
        let number = volume.layout.servers[server].number;
        let beat = volume.beats[server];
        let owner = Owner { beat, ..volume.as_owner() };
        let identity = Identity { volume: volume.id, number };
        let generation = volume.generation;
        Self { identity, generation, owner, is_underway: false, repeated: VecDeque::new() }
    }

    /// The number of the server.
    pub fn number(&self) -> u32 {
        self.identity.number
    }

    /// Bytes from a server's start that [`Self::look`] wants to see; a multiple of 4 KiB.
    pub const fn front_bytes() -> u64 {
        FRONT_BYTES
    }

    /// Looks at the front of the server.
    ///
    /// # Errors
    /// That it is another gate's, or not what it was.
    ///
    /// # Panics
    /// Unless there are [`Self::front_bytes`] of it.
    pub fn look(&self, front: &[u8]) -> Result<(), Fenced> {
        let blocks: &[Block] = front.as_chunks().0;
        let found = Front::read(blocks).map_err(Fenced::Unfit)?;
        self.identity.check_head(found.head.as_ref())?;
        let generation = found.head.map_or(0, |head| head.generation);
        if let Some(by) = found.owner.as_ref().filter(|owner| self.is_displaced_by(owner)) {
            return Err(Fenced::Claimed(by.gate.name.clone()));
        }
        if generation > self.generation {
            let by = found.owner.map_or_else(|| "another gate".to_owned(), |owner| owner.gate.name);
            return Err(Fenced::Claimed(by));
        }
        // A beat whose answer was lost may have been written, now or late.
        let beats = self.owner.beat..=self.owner.beat + 1;
        let is_own = |beat: &u64| beats.contains(beat) || self.repeated.contains(beat);
        let is_last = |owner: &Owner| owner.id != self.owner.id || is_own(&owner.beat);
        let is_last = found.owner.as_ref().is_none_or(is_last);
        if is_last && generation == self.generation { Ok(()) } else { Err(Fenced::Stale) }
    }

    /// Whether an owner has claimed the volume after this opening had come to its end.
    fn is_displaced_by(&self, other: &Owner) -> bool {
        let settled = &other.settled;
        other.id != self.owner.id
            && (settled.by == self.owner.id || settled.generation > self.generation)
    }

    /// What is to be written after a look, and where; once that is done call [`Self::beaten`].
    pub fn beat(&mut self) -> (u64, Vec<u8>) {
        let beat = self.owner.beat + 1;
        if std::mem::replace(&mut self.is_underway, true) && self.repeated.front() != Some(&beat) {
            self.repeated.truncate(REPEATED_MAX - 1);
            self.repeated.push_front(beat);
        }
        self.block(&Owner { beat, ..self.owner.clone() })
    }

    /// The beat was written and answered.
    pub fn beaten(&mut self) {
        self.owner.beat += 1;
        self.is_underway = false;
    }

    /// What is to be written, and where, to let go of the volume: the next gate need not watch.
    pub fn release(&self) -> (u64, Vec<u8>) {
        let beat = self.owner.beat + 1;
        self.block(&Owner { beat, is_released: true, ..self.owner.clone() })
    }

    fn block(&self, owner: &Owner) -> (u64, Vec<u8>) {
        let mut block: Block = [0; BLOCK];
        owner.encode(self.identity.volume, &mut block);
        (OWNER_OFFSET, block.to_vec())
    }
}

/// Who owns the volume of these fronts and may still be alive, in each server's words: not this
/// gate itself, nor a process that it has taken the place of.
pub(super) fn claims(fronts: &[Front], is_own: impl Fn(&Owner) -> bool) -> Vec<Option<Claim>> {
    let claim = |front: &Front| {
        let owner = front.owner.as_ref().filter(|owner| !owner.is_released && !is_own(owner))?;
        Some(Claim { by: owner.id, beat: owner.beat })
    };
    fronts.iter().map(claim).collect()
}

/// A claim as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    by: OwnerId,
    beat: u64,
}

const _: () = assert!(FRONT_BYTES == 3 * BLOCK_BYTES);
