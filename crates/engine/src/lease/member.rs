//! What a member of a volume, a tier or a server, has to show before it is served from, and how its
//! owner beats there.
//!
//! | front of the member | verdict |
//! |---|---|
//! | this member, this opening; the last beat, or one whose answer was lost | ours |
//! | the same, but an owner that knows nothing of this opening | ours: late bytes, beaten over |
//! | an owner that claimed after this opening, or heads that count further | another gate's |
//! | another member of the volume, or another volume | misplaced: nothing of it is served |
//! | an earlier beat or generation | older content: nothing of it is served |
//!
//! A claim tells which opening it displaces: the last one that had come to its end when it was
//! written. So a beat or a claim that reaches a server late, when its gate had long lost the volume
//! or the race for it, is known for what it is, and throws nobody out.

use std::collections::VecDeque;
use std::fmt;

use super::front::{FRONT_BYTES, Front, OWNER_OFFSET};
use super::mark::Mark;
use super::owner::{Owner, OwnerId};
use super::rules::{Mutant, Rules};
use crate::notes::block::{BLOCK, BLOCK_BYTES, Block};
use crate::notes::head::MemberHead;
use crate::notes::{Parlance, Unfit, VolumeId};

/// Which member of which volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The kind of volume.
    pub(crate) words: Parlance,
    /// The volume.
    pub volume: VolumeId,
    /// The member's number.
    pub number: u32,
}

/// What one member's beats go by.
#[derive(Clone, Debug)]
pub struct Lease {
    identity: Identity,
    generation: u64,
    owner: Owner,
    /// The oldest beat that may be found: the last one, or where the member may lose what was not
    /// flushed, the last one that was.
    oldest: u64,
    is_volatile: bool,
    /// Beats that may not be durable yet, and their counts.
    marked: VecDeque<(u64, u64)>,
    /// The count that is durable for certain.
    durable: u64,
    /// Until this count a beat that was sent before may still arrive, and lie over later ones:
    /// nothing counts as durable meanwhile that it would undo.
    doubtful_until: u64,
    /// For so many counts a beat may come late.
    late_counts: u64,
    /// Whether the next beat was sent and not answered.
    is_underway: bool,
    /// Numbers of the last beats that were sent again, since no answer came: one of them may reach
    /// the server late, after others.
    repeated: VecDeque<u64>,
    pub(crate) rules: Rules,
}

/// Beats whose counts are remembered until they are durable.
const MARKED_MAX: usize = 64;
/// Beats that were sent again of which is known.
const REPEATED_MAX: usize = 8;

/// Why a member is not served from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fenced {
    /// Another gate has claimed the volume; with what it calls itself.
    Claimed(String),
    /// It is another member of the volume.
    Misplaced {
        /// What the volume calls its members.
        part: &'static str,
        /// Its number.
        found: u32,
        /// The number of the member that belongs here.
        expected: u32,
    },
    /// It has come back with the content of an earlier day.
    Stale,
    /// It is no member of the volume.
    Unfit(Parlance, Unfit),
}

impl Identity {
    /// Looks at the front of a member, as long as [`Lease::front_bytes`].
    ///
    /// # Errors
    /// That it is not this one.
    ///
    /// # Panics
    /// Unless there are so many bytes of it.
    pub fn check(&self, front: &[u8]) -> Result<(), Fenced> {
        self.read(front, Rules::default()).map(drop)
    }

    /// The front of this member, if it is that.
    fn read(&self, front: &[u8], rules: Rules) -> Result<(MemberHead, Option<Owner>), Fenced> {
        let unfit = |why| Fenced::Unfit(self.words, why);
        let decode = |block: &Block| MemberHead::decode(self.words.head, block);
        let blocks: &[Block] = front.as_chunks().0;
        let blocks = [0, 1, 2].map(|at| blocks.get(at));
        let found = Front::read_by(blocks, decode, |head| *head).map_err(unfit)?;
        let head = found.head.ok_or_else(|| unfit(Unfit::Blank))?;
        if rules.is_broken(Mutant::TrustPlace) {
            return Ok((head, found.owner));
        }
        if head.volume != self.volume {
            let (found, expected) = (head.volume, self.volume);
            return Err(unfit(Unfit::OtherVolume { found, expected }));
        }
        if head.number != self.number {
            let (part, found, expected) = (self.words.part, head.number, self.number);
            return Err(Fenced::Misplaced { part, found, expected });
        }
        Ok((head, found.owner))
    }
}

impl fmt::Display for Fenced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claimed(by) => write!(f, "{by} has claimed the volume"),
            Self::Misplaced { part, found, expected } => write!(
                f,
                "it is {part} {found} of the volume, and {part} {expected} belongs here; give each \
                 {part} its address back"
            ),
            Self::Stale => {
                write!(
                    f,
                    "it has come back with older content; attach the export that was used last"
                )
            }
            Self::Unfit(words, why) => why.tell(*words, f),
        }
    }
}

impl Lease {
    /// The lease of an opening that has come to its end, on this member: its head has this
    /// generation, and this was written last to its front.
    pub(crate) fn new(identity: Identity, generation: u64, owner: Owner) -> Self {
        Self {
            identity,
            generation,
            oldest: owner.beat,
            owner,
            is_volatile: false,
            marked: VecDeque::new(),
            durable: 0,
            doubtful_until: 0,
            late_counts: 0,
            is_underway: false,
            repeated: VecDeque::new(),
            rules: Rules::default(),
        }
    }

    /// The member may lose what was not flushed, beats included, when it is started again.
    pub fn may_lose_beats(&mut self) {
        self.is_volatile = true;
    }

    /// A beat whose answer was lost may come late by so many counts.
    pub fn may_beat_late(&mut self, counts: u64) {
        self.late_counts = counts;
    }

    /// The next beat says this.
    pub fn mark(&mut self, mark: Mark) {
        self.owner.mark = mark;
    }

    /// The count that the member has for certain.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// By how many counts what is durable is behind.
    pub fn counts_behind(&self) -> u64 {
        self.owner.mark.count.saturating_sub(self.durable)
    }

    /// The number of the last beat that was answered.
    pub fn beats(&self) -> u64 {
        self.owner.beat
    }

    /// A flush that was asked for when this was the number of the last beat has made that durable.
    pub fn flushed(&mut self, beats: u64) {
        self.oldest = self.oldest.max(beats);
        let is_doubtful = self.owner.mark.count < self.doubtful_until;
        while let Some((_, count)) = self.marked.pop_front_if(|(beat, _)| *beat <= beats) {
            if !is_doubtful {
                self.durable = self.durable.max(count);
            }
        }
    }

    /// The number of the member.
    pub fn number(&self) -> u32 {
        self.identity.number
    }

    /// Bytes from a member's start that [`Self::look`] wants to see; a multiple of 4 KiB.
    pub const fn front_bytes() -> u64 {
        FRONT_BYTES
    }

    /// Looks at the front of the member.
    ///
    /// # Errors
    /// That it is another gate's, or not what it was.
    ///
    /// # Panics
    /// Unless there are [`Self::front_bytes`] of it.
    pub fn look(&self, front: &[u8]) -> Result<(), Fenced> {
        let (head, owner) = self.identity.read(front, self.rules)?;
        let owner = owner.as_ref();
        if let Some(by) = owner.filter(|owner| self.is_displaced_by(owner)) {
            return Err(Fenced::Claimed(by.gate.name.clone()));
        }
        if head.generation > self.generation {
            let by = owner.map_or_else(|| "another gate".to_owned(), |by| by.gate.name.clone());
            return Err(Fenced::Claimed(by));
        }
        // A beat whose answer was lost may have been written, now or late.
        let beats = self.oldest..=self.owner.beat + 1;
        let is_own = |beat: &u64| beats.contains(beat) || self.repeated.contains(beat);
        let is_last = |owner: &Owner| owner.id != self.owner.id || is_own(&owner.beat);
        let is_last = owner.is_none_or(is_last);
        let is_current = is_last && head.generation == self.generation;
        if is_current || self.rules.is_broken(Mutant::TrustReturn) {
            Ok(())
        } else {
            Err(Fenced::Stale)
        }
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
        if std::mem::replace(&mut self.is_underway, true) {
            self.doubtful_until = self.owner.mark.count + self.late_counts;
            if self.repeated.front() != Some(&beat) {
                self.repeated.truncate(REPEATED_MAX - 1);
                self.repeated.push_front(beat);
            }
        }
        self.block(&Owner { beat, ..self.owner.clone() })
    }

    /// The beat was written and answered.
    pub fn beaten(&mut self) {
        self.owner.beat += 1;
        self.is_underway = false;
        self.marked.truncate(MARKED_MAX - 1);
        self.marked.push_back((self.owner.beat, self.owner.mark.count));
        if !self.is_volatile {
            self.oldest = self.owner.beat;
        }
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

/// Who owns the volume of these fronts and may still be alive, in each member's words: not this
/// gate itself, nor a process that it has taken the place of.
pub(super) fn claims<H>(
    fronts: &[Front<H>],
    is_own: impl Fn(&Owner) -> bool,
) -> Vec<Option<Claim>> {
    let claim = |front: &Front<H>| {
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
