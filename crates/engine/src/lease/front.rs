//! The front of a member of a volume: what it is, and whose it is.
//!
//! ```text
//! | head A | head B | owner |
//! 0        4 KiB    8 KiB   12 KiB
//! ```

use super::owner::{Owner, Settled};
use crate::notes::block::{BLOCK_BYTES, Block};
use crate::notes::head::{HeadError, MemberHead, VolumeHead, newer_copy};
use crate::notes::{Answer, Unfit};

/// Where the owner stands.
pub(crate) const OWNER_OFFSET: u64 = 2 * BLOCK_BYTES;
/// Bytes from the start that hold heads and owner.
pub(crate) const FRONT_BYTES: u64 = 3 * BLOCK_BYTES;

/// The front of a member, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Front<H> {
    /// The newer head that is whole.
    pub(crate) head: Option<H>,
    /// Who claimed it last, if that can be read.
    pub(crate) owner: Option<Owner>,
}

impl<H> Default for Front<H> {
    fn default() -> Self {
        Self { head: None, owner: None }
    }
}

impl<H: VolumeHead> Front<H> {
    /// What an answer to a look says.
    ///
    /// # Errors
    /// Why the member cannot be touched.
    pub(crate) fn of(answer: Answer<'_>) -> Result<Self, Unfit> {
        Self::read(answer.blocks(FRONT_BYTES / BLOCK_BYTES).ok_or(Unfit::Failed)?)
    }

    /// What three blocks say: two heads and the owner.
    ///
    /// # Errors
    /// Why they cannot be touched.
    pub(crate) fn read(blocks: &[Block]) -> Result<Self, Unfit> {
        Self::read_by([0, 1, 2].map(|at| blocks.get(at)), H::decode, H::member)
    }

    /// The same where some could not be read.
    ///
    /// # Errors
    /// Why they cannot be touched.
    pub(crate) fn read_some(blocks: [Option<&Block>; 3]) -> Result<Self, Unfit> {
        Self::read_by(blocks, H::decode, H::member)
    }
}

impl<H: Copy> Front<H> {
    /// The same, with heads that these tell.
    pub(crate) fn read_by(
        [first, second, owner]: [Option<&Block>; 3],
        decode: impl Fn(&Block) -> Result<H, HeadError>,
        member: impl Fn(&H) -> MemberHead,
    ) -> Result<Self, Unfit> {
        let copies = [first, second].map(|copy| copy.map(&decode));
        let head = match newer_copy(copies, |head: &H| member(head).generation) {
            // Something else does not have our owner's block.
            Err(Unfit::Foreign) if owner.is_some_and(Owner::is_of_any) => Err(Unfit::HeadDamaged),
            head => head,
        }?;
        let owner = head.zip(owner);
        let owner = owner.and_then(|(head, owner)| Owner::decode(member(&head).volume, owner));
        Ok(Self { head, owner })
    }
}

/// The last opening that came to its end, as far as these members tell.
pub(crate) fn settled<H>(fronts: &[Front<H>]) -> Settled {
    let words = fronts.iter().filter_map(|front| Some(front.owner.as_ref()?.settled));
    words.max_by_key(|settled| (settled.generation, settled.by.is_known())).unwrap_or_default()
}
