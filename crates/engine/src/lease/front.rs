//! The front of a member of a volume: what it is, and whose it is.
//!
//! ```text
//! | head A | head B | owner |
//! 0        4 KiB    8 KiB   12 KiB
//! ```

use super::owner::{Owner, Settled};
use crate::notes::Unfit;
use crate::notes::block::{BLOCK_BYTES, Block};
use crate::notes::head::{HeadError, MemberHead, VolumeHead, newer_copy};

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
    /// What three blocks say: two heads and the owner.
    ///
    /// # Errors
    /// Why they cannot be touched.
    pub(crate) fn read(blocks: &[Block]) -> Result<Self, Unfit> {
        Self::read_by(blocks, H::decode, H::member)
    }
}

impl<H: Copy> Front<H> {
    /// The same, with heads that these tell.
    pub(crate) fn read_by(
        blocks: &[Block],
        decode: impl Fn(&Block) -> Result<H, HeadError>,
        member: impl Fn(&H) -> MemberHead,
    ) -> Result<Self, Unfit> {
        let copies = [0, 1].map(|copy| Some(decode(&blocks[copy])));
        let head = newer_copy(copies, |head: &H| member(head).generation)?;
        let owner = head.and_then(|head| Owner::decode(member(&head).volume, &blocks[2]));
        Ok(Self { head, owner })
    }
}

/// The last opening that came to its end, as far as these members tell.
pub(crate) fn settled<H>(fronts: &[Front<H>]) -> Settled {
    let words = fronts.iter().filter_map(|front| Some(front.owner.as_ref()?.settled));
    words.max_by_key(|settled| (settled.generation, settled.by.is_known())).unwrap_or_default()
}
