//! What the heads of all kinds of volumes have in common: two copies at the start of a device, of
//! which the newer one counts, and the features that whoever touches the device must know.

use super::block::{BLOCK_BYTES, Block, BlockKind, Label, Unlabelled, VolumeId, label, u32_at};
use super::unfit::Unfit;
use crate::lease::OwnerId;

/// Why a block is no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadError {
    /// It holds nothing but zeroes.
    Blank,
    /// It is something else.
    Foreign,
    /// It is a head, but damaged.
    Damaged,
    /// It is of this version of the format, which this program does not know yet.
    Newer(u32),
    /// It is of this version of the format, which this program does not know any more.
    Older(u32),
    /// It has features that this program does not know.
    Features(u32),
}

/// Where every head has the number of its member.
const NUMBER: usize = 56;

/// What every head says of the member that it stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberHead {
    pub(crate) volume: VolumeId,
    /// Which member of the volume it is.
    pub(crate) number: u32,
    pub(crate) generation: u64,
}

/// The head of one kind of volume.
pub(crate) trait VolumeHead: Copy + Eq {
    /// What a block says.
    fn decode(block: &Block) -> Result<Self, HeadError>;

    /// What all kinds say.
    fn member(&self) -> MemberHead;

    /// The opening that wrote it.
    fn opening(&self) -> OwnerId;
}

impl MemberHead {
    /// What a block says, if it is a head of this kind.
    pub(crate) fn decode(kind: BlockKind, block: &Block) -> Result<Self, HeadError> {
        let label = label_of_head(kind, 0, block)?;
        let (volume, generation) = (label.volume, label.number);
        Ok(Self { volume, number: u32_at(block, NUMBER), generation })
    }
}

/// Where the head of this generation stands: they take turns, so that the last one is never
/// overwritten.
pub(crate) fn head_offset(generation: u64) -> u64 {
    generation % 2 * BLOCK_BYTES
}

/// The label of a head, whose number is its generation. `known` are the features that whoever asks
/// knows.
pub(crate) fn label_of_head(
    kind: BlockKind,
    known: u32,
    block: &Block,
) -> Result<Label, HeadError> {
    if block.iter().all(|byte| *byte == 0) {
        return Err(HeadError::Blank);
    }
    let label = label(kind, block).map_err(|why| match why {
        Unlabelled::Foreign => HeadError::Foreign,
        Unlabelled::Damaged => HeadError::Damaged,
        Unlabelled::Newer(version) => HeadError::Newer(version),
        Unlabelled::Older(version) => HeadError::Older(version),
    })?;
    let features = u32_at(block, 48) & !known;
    if features != 0 {
        return Err(HeadError::Features(features));
    }
    // One that belongs elsewhere has strayed.
    if label.offset == head_offset(label.number) { Ok(label) } else { Err(HeadError::Damaged) }
}

/// What a copy of a head turned out to be; none if it could not be read.
pub(crate) type HeadCopy<H> = Option<Result<H, HeadError>>;

/// The newer of a device's copies that are whole; none if the device is blank.
///
/// # Errors
/// Why it cannot be touched.
pub(crate) fn newer_copy<H: Copy>(
    copies: [HeadCopy<H>; 2],
    generation: impl Fn(&H) -> u64,
) -> Result<Option<H>, Unfit> {
    for copy in copies {
        match copy {
            // Whatever the other copy says, a newer program was here since.
            Some(Err(HeadError::Newer(version))) => return Err(Unfit::Newer(version)),
            Some(Err(HeadError::Older(version))) => return Err(Unfit::Older(version)),
            Some(Err(HeadError::Features(bits))) => return Err(Unfit::Features(bits)),
            _ => {}
        }
    }
    let whole = copies.into_iter().flatten().flatten().max_by_key(generation);
    let is = |error| copies.iter().any(|copy| matches!(copy, Some(Err(found)) if *found == error));
    match whole {
        Some(head) => Ok(Some(head)),
        None if is(HeadError::Damaged) => Err(Unfit::HeadDamaged),
        None if copies.iter().any(Option::is_none) => Err(Unfit::Failed),
        None if is(HeadError::Foreign) => Err(Unfit::Foreign),
        None => Ok(None),
    }
}
