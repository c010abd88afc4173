//! Heads that a repair makes anew: a member both of whose heads are bad, and whose owner's block
//! still says whose it is.
//!
//! ```text
//! head A  head B  owner             head of the member, from what the others say
//!   x       x     of the volume,  ->  -- looks bring it as if it were there -->  written with the
//!                 current                                                       next generation
//! ```
//!
//! An owner's block proves the volume, and that the member is as it was left: it names the last
//! opening that came to its end, and how far its beats were. Which member it is, it does not tell;
//! so no more than one may have lost its heads.

use super::front::{Front, settled};
use super::owner::Owner;
use super::rules::{Mutant, Rules};
use crate::notes::block::Block;
use crate::notes::head::VolumeHead;
use crate::notes::{Unfit, Unproven, VolumeId};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Rebuilding<H> {
    /// By member: its owner's block where no head is whole, and what is wrong with the heads.
    found: Vec<Option<(Box<Block>, Unfit)>>,
    /// By member: the head that it is to have.
    heads: Vec<Option<H>>,
}

impl<H: VolumeHead> Rebuilding<H> {
    /// Nothing is known yet of so many members.
    pub(crate) fn new(members: usize) -> Self {
        Self { found: vec![None; members], heads: vec![None; members] }
    }

    /// The front of a member, of whose blocks some could not be read.
    ///
    /// # Errors
    /// Why it cannot be touched.
    pub(crate) fn front(
        &mut self,
        member: usize,
        blocks: [Option<&Block>; 3],
    ) -> Result<Front<H>, Unfit> {
        let why = match Front::read_some(blocks) {
            Ok(front) if front.head.is_some() => {
                self.found[member] = None;
                return Ok(front);
            }
            Ok(_) => Unfit::Blank,
            Err(why @ (Unfit::HeadDamaged | Unfit::Failed | Unfit::Foreign)) => why,
            Err(why) => return Err(why),
        };
        let Some(block) = blocks[2] else { return Err(why) };
        if let Some(head) = self.heads[member] {
            let owner = Owner::decode(head.member().volume, block);
            return Ok(Front { head: Some(head), owner });
        }
        self.found[member] = Some((Box::new(*block), why));
        Ok(Front::default())
    }

    /// The member whose heads are to be made anew, if there is one, and its owner's block. Members
    /// that are blank stay what they are.
    ///
    /// # Errors
    /// Which member's heads are bad beyond that, and why.
    pub(crate) fn lost(
        &self,
        fronts: &[Front<H>],
        rules: Rules,
    ) -> Result<Option<(usize, Owner)>, (usize, Unfit)> {
        let heads = fronts.iter().filter_map(|front| front.head);
        let volume = heads.map(|head| head.member().volume).next();
        let mut lost = None;
        for (member, found) in self.found.iter().enumerate() {
            let Some((block, why)) = found.as_ref().filter(|_| !self.is_given(member)) else {
                continue;
            };
            let owner = volume.and_then(|volume| Owner::decode(volume, block));
            let is_blank = *why == Unfit::Blank;
            // Whoever is yet to join has a claim, and no opening has come to its end with it.
            let owner = match owner.filter(|owner| !is_blank || owner.has_served()) {
                Some(owner) => owner,
                None if is_blank => continue,
                None if is_other(volume, block) => return Err((member, why.clone())),
                None => return Err((member, Unfit::Unproven { why: Unproven::Owner })),
            };
            let known = settled(fronts);
            let is_current = owner.settled.by == known.by && known.by.is_known();
            if !is_current && !rules.is_broken(Mutant::MendOlder) {
                let (found, expected) = (owner.settled.generation, known.generation);
                return Err((member, Unfit::Stale { found, expected }));
            }
            let is_another = self.heads.iter().any(Option::is_some);
            if is_another || lost.replace((member, owner)).is_some() {
                return Err((member, Unfit::Unproven { why: Unproven::Others }));
            }
        }
        Ok(lost)
    }

    /// The head that a member is to have; returns its front as looks bring it from now on.
    pub(crate) fn give(&mut self, member: usize, head: H, owner: Owner) -> Front<H> {
        self.heads[member] = Some(head);
        Front { head: Some(head), owner: Some(owner) }
    }

    /// Whether the heads of a member are made anew.
    pub(crate) fn is_given(&self, member: usize) -> bool {
        self.heads[member].is_some()
    }
}

/// Whether an owner's block is none of this volume: then the member is something else.
fn is_other(volume: Option<VolumeId>, block: &Block) -> bool {
    let found = crate::notes::block::volume_of(block);
    volume.is_none() || found.is_none_or(|found| Some(found) != volume)
}
