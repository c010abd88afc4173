//! The first 48 bytes that every block has, and the checksum over all of it.
//!
//! | byte | size | what |
//! |---|---|---|
//! | 0 | 8 | what it is: `e9 6b`, two letters ([`BlockKind`]), `0d 0a 1a 0a` |
//! | 8 | 4 | CRC-32C of bytes 12 to 4095 |
//! | 12 | 4 | version of the format |
//! | 16 | 16 | the volume |
//! | 32 | 8 | generation of a head, number of a map, sequence number of a record: below 2^63 |
//! | 40 | 8 | where on its device the block belongs, in bytes |
//!
//! A block that a power cut tore, that strayed to another address or that another volume left
//! behind is thus known for what it is.

use std::cmp::Ordering;
use std::fmt;

use evenkeel_core::crc32c::crc32c;

/// Bytes of a block in memory.
pub(crate) const BLOCK: usize = 4096;
/// Bytes of a block on a device.
pub(crate) const BLOCK_BYTES: u64 = BLOCK as u64;

/// A block in memory.
pub(crate) type Block = [u8; BLOCK];

/// Numbers from here on are damage, whatever the checksum says: no volume ever counts so far, so
/// the next number can be reckoned without a thought.
pub(crate) const NUMBER_END: u64 = 1 << 63;

/// What a volume is known by; whoever makes one draws it at random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeId(
    /// 16 random bytes.
    pub [u8; 16],
);

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// `TH`: the head of a tier.
    Head,
    /// `TC`: a part of the map of a tiered volume.
    Checkpoint,
    /// `TJ`: a record of its journal.
    Journal,
    /// `SH`: the head of a server that a volume is spread over.
    SpreadHead,
    /// `SO`: who owns a volume, of either kind, at present.
    Owner,
    /// `SD`: a part of the directory of a server's notes.
    Directory,
    /// `ST`: a part of the table of a server's slots.
    Table,
    /// `SC`: a page of the choices.
    Choices,
}

impl BlockKind {
    const ALL: [Self; 8] = [
        Self::Head,
        Self::Checkpoint,
        Self::Journal,
        Self::SpreadHead,
        Self::Owner,
        Self::Directory,
        Self::Table,
        Self::Choices,
    ];

    fn magic(self) -> [u8; 8] {
        match self {
            Self::Head => *b"\xe9kTH\r\n\x1a\n",
            Self::Checkpoint => *b"\xe9kTC\r\n\x1a\n",
            Self::Journal => *b"\xe9kTJ\r\n\x1a\n",
            Self::SpreadHead => *b"\xe9kSH\r\n\x1a\n",
            Self::Owner => *b"\xe9kSO\r\n\x1a\n",
            Self::Directory => *b"\xe9kSD\r\n\x1a\n",
            Self::Table => *b"\xe9kST\r\n\x1a\n",
            Self::Choices => *b"\xe9kSC\r\n\x1a\n",
        }
    }

    /// Version of the format that this code reads and writes. Before version 2 there was no owner,
    /// or one place for what is noted; before version 3 a spread volume had no directories.
    pub(crate) fn version(self) -> u32 {
        match self {
            Self::Head | Self::Checkpoint | Self::Journal | Self::Owner => 2,
            Self::SpreadHead | Self::Directory | Self::Table | Self::Choices => 3,
        }
    }
}

/// The fields that every block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) volume: VolumeId,
    pub(crate) number: u64,
    pub(crate) offset: u64,
}

/// Why bytes are no block of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unlabelled {
    /// They are something else.
    Foreign,
    /// They are such a block of a version that this code does not know yet.
    Newer(u32),
    /// They are such a block of a version that this code does not know any more.
    Older(u32),
    /// The checksum does not fit, or the number is beyond all that can be.
    Damaged,
}

/// Whose a block is, if it has the label of any volume; it may be damaged.
pub(crate) fn volume_of(block: &Block) -> Option<VolumeId> {
    let has_label = BlockKind::ALL.iter().any(|kind| block[..8] == kind.magic());
    has_label.then(|| VolumeId(std::array::from_fn(|index| block[16 + index])))
}

/// Writes label and checksum over a block whose body is written, and whose first bytes are not.
pub(crate) fn seal(kind: BlockKind, label: &Label, block: &mut Block) {
    block[..8].copy_from_slice(&kind.magic());
    put_u32(block, 12, kind.version());
    block[16..32].copy_from_slice(&label.volume.0);
    put_u64(block, 32, label.number);
    put_u64(block, 40, label.offset);
    let checksum = crc32c(&block[12..]);
    put_u32(block, 8, checksum);
}

/// The label of a block of this kind.
pub(crate) fn label(kind: BlockKind, block: &Block) -> Result<Label, Unlabelled> {
    if block[..8] != kind.magic() {
        return Err(Unlabelled::Foreign);
    }
    let (version, own) = (u32_at(block, 12), kind.version());
    let is_whole = u32_at(block, 8) == crc32c(&block[12..]);
    match version.cmp(&own) {
        // It may place its checksum elsewhere.
        Ordering::Greater => return Err(Unlabelled::Newer(version)),
        Ordering::Less if is_whole && version > 0 => return Err(Unlabelled::Older(version)),
        Ordering::Equal if is_whole => {}
        _ => return Err(Unlabelled::Damaged),
    }
    let volume = VolumeId(std::array::from_fn(|index| block[16 + index]));
    let number = u64_at(block, 32);
    if number >= NUMBER_END {
        return Err(Unlabelled::Damaged);
    }
    Ok(Label { volume, number, offset: u64_at(block, 40) })
}

/// Whether a block that is damaged was one of this kind, volume and place, and older than `number`:
/// by what is left of its label, and unless just that is what is damaged.
pub(crate) fn was_older(kind: BlockKind, wanted: &Label, block: &Block) -> bool {
    let volume = VolumeId(std::array::from_fn(|index| block[16 + index]));
    let is_it = block[..8] == kind.magic()
        && u32_at(block, 12) == kind.version()
        && (volume, u64_at(block, 40)) == (wanted.volume, wanted.offset);
    let mut newer = *block;
    put_u64(&mut newer, 32, wanted.number + 1);
    is_it && u64_at(block, 32) < wanted.number && label(kind, &newer).is_err()
}

pub(crate) fn u32_at(block: &Block, at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|index| block[at + index]))
}

pub(crate) fn u64_at(block: &Block, at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| block[at + index]))
}

pub(crate) fn put_u32(block: &mut Block, at: usize, value: u32) {
    block[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(block: &mut Block, at: usize, value: u64) {
    block[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_flipped_bit_is_noticed(bit in 0..4096 * 8_usize, number in 0..NUMBER_END) {
            let label_ = Label { volume: VolumeId([7; 16]), number, offset: 4096 };
            let mut block: Block = [0x5a; 4096];
            seal(BlockKind::Journal, &label_, &mut block);
            prop_assert_eq!(label(BlockKind::Journal, &block), Ok(label_));
            prop_assert_eq!(label(BlockKind::Head, &block), Err(Unlabelled::Foreign));
            block[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(label(BlockKind::Journal, &block).is_err());
        }
    }

    #[test]
    fn what_is_damaged_tells_that_it_was_older_unless_its_number_is_what_is_damaged() {
        let label_ = |number| Label { volume: VolumeId([7; 16]), number, offset: 4096 };
        for (written, bit, is_older) in
            [(4, 8 * 2000, true), (6, 8 * 2000, false), (6, 8 * 32 + 1, false), (4, 8, false)]
        {
            let mut block: Block = [0; 4096];
            seal(BlockKind::Table, &label_(written), &mut block);
            block[bit / 8] ^= 1 << (bit % 8);
            let found = was_older(BlockKind::Table, &label_(5), &block);
            assert_eq!(found, is_older, "number {written}, bit {bit}");
        }
    }

    #[test]
    fn a_number_that_no_volume_can_reach_is_damage() {
        let mut block: Block = [0; 4096];
        for (number, is_whole) in [(NUMBER_END - 1, true), (NUMBER_END, false), (u64::MAX, false)] {
            let label_ = Label { volume: VolumeId([7; 16]), number, offset: 0 };
            seal(BlockKind::Head, &label_, &mut block);
            assert_eq!(label(BlockKind::Head, &block).is_ok(), is_whole, "{number}");
        }
    }
}
