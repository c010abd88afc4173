//! One gate at a time: how a volume's owner shows that it is alive, and learns that it is not the
//! owner any more.
//!
//! A plain NBD server locks nothing, so the gates keep a lease on its blocks, as cluster file
//! systems do on a shared disk (Chockler and Malkhi, "Light-weight leases for storage-centric
//! coordination", 2006). Once a [`BEAT`] the owner reads the front of every server, sees that it is
//! still its own, and counts up:
//!
//! ```text
//! owner A   beat 17 . . beat 18 . . beat 19 . . (dies)
//! gate B          sees 17, waits ------ sees 19: refused
//! gate B                                    sees 19, waits ---- LEASE ---- sees 19: claims
//! gate B                                                   claim, waits SETTLE, still its own
//! ```
//!
//! An owner that could not beat for [`HOLD`] on any server serves nothing until it can. That is
//! less than [`LEASE`], so nobody serves beside a gate that has claimed the volume meanwhile. What
//! a server had been sent before and carries out later is not covered: no lease can.
//!
//! The same look tells a server that came back with older content than it had: its front is not
//! what was written last.

use evenkeel_core::time::Span;

use super::format::owner::{Owner, OwnerId};
use super::heads::Front;
use super::layout::{FRONT_BYTES, OWNER_OFFSET};
use super::volume::Volume;
use crate::notes::VolumeId;
use crate::notes::block::{BLOCK, BLOCK_BYTES, Block};

/// Between two beats.
pub const BEAT: Span = Span::from_secs(1);
/// For so long after the begin of its last good beat an owner serves.
pub const HOLD: Span = Span::from_secs(3);
/// For so long a gate watches an owner that has not let go.
pub const LEASE: Span = Span::from_secs(5);
/// For so long a claim must stand before it counts: longer than any gate takes from its look to its
/// claim.
pub const SETTLE: Span = Span::from_secs(1);

/// What one server's beats go by.
#[derive(Clone, Debug)]
pub struct Lease {
    volume: VolumeId,
    generation: u64,
    owner: Owner,
}

/// Why a server is not served from any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fenced {
    /// Another gate has claimed the volume; with what it calls itself.
    Claimed(String),
    /// It has come back with the content of an earlier day, or of something else.
    Stale,
}

impl Lease {
    /// The lease that a volume was opened with. Each server has one of its own.
    pub fn new(volume: &Volume) -> Self {
        Self { volume: volume.id, generation: volume.generation, owner: volume.as_owner() }
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
        let found = Front::read(blocks).map_err(|_| Fenced::Stale)?;
        let head = found.head.filter(|head| head.volume == self.volume).ok_or(Fenced::Stale)?;
        match found.owner {
            Some(owner) if owner.id == self.owner.id => {
                // A beat whose answer was lost may have been written.
                let is_last = (self.owner.beat..=self.owner.beat + 1).contains(&owner.beat);
                if is_last && head.generation == self.generation {
                    Ok(())
                } else {
                    Err(Fenced::Stale)
                }
            }
            Some(owner) if head.generation >= self.generation && !owner.is_released => {
                Err(Fenced::Claimed(owner.name))
            }
            _ => Err(Fenced::Stale),
        }
    }

    /// What is to be written after a look, and where; once that is done call [`Self::beaten`].
    pub fn beat(&self) -> (u64, Vec<u8>) {
        self.block(&Owner { beat: self.owner.beat + 1, ..self.owner.clone() })
    }

    /// The beat was written and answered.
    pub fn beaten(&mut self) {
        self.owner.beat += 1;
    }

    /// What is to be written, and where, to let go of the volume: the next gate need not watch.
    pub fn release(&self) -> (u64, Vec<u8>) {
        let beat = self.owner.beat + 1;
        self.block(&Owner { beat, is_released: true, ..self.owner.clone() })
    }

    fn block(&self, owner: &Owner) -> (u64, Vec<u8>) {
        let mut block: Block = [0; BLOCK];
        owner.encode(self.volume, &mut block);
        (OWNER_OFFSET, block.to_vec())
    }
}

/// Who owns the volume of these fronts and may still be alive, in each server's words; not this
/// gate itself.
pub(super) fn claims(fronts: &[Front], own: &[OwnerId]) -> Vec<Option<(OwnerId, u64)>> {
    let claim = |front: &Front| {
        let owner = front.owner.as_ref().filter(|owner| !owner.is_released)?;
        let owner = Some(owner).filter(|owner| !own.contains(&owner.id))?;
        Some((owner.id, owner.beat))
    };
    fronts.iter().map(claim).collect()
}

const _: () = assert!(HOLD.0 < LEASE.0 && BEAT.0 * 2 < HOLD.0 && FRONT_BYTES == 3 * BLOCK_BYTES);
