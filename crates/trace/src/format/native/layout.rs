//! The fixed parts of the format: the head of a file, the heads of blocks, and varints.
//! `docs/trace-format.md` has the drawing.

use evenkeel_core::crc32c::crc32c;

/// The first bytes of a file. The high bit, the carriage return and the control-Z show what text
/// tools do to binary files, before anything else does.
pub(super) const MAGIC: [u8; 8] = *b"\xe9kTR\r\n\x1a\n";
/// Version of the format that this code writes.
pub(super) const VERSION: u16 = 2;
/// The first version, which had no policies and no other records than requests.
const VERSION_MIN: u16 = 1;
/// Bytes of a file's head.
pub(super) const FILE_HEAD_BYTES: usize = 24;
/// Bytes of a block's head.
pub(super) const BLOCK_HEAD_BYTES: usize = 32;
/// The first bytes of every block; a letter follows, its [`Class`].
pub(super) const BLOCK_MARK: [u8; 3] = *b"\xe9kR";

/// A writer closes a block that has so many bytes of records.
pub(super) const BLOCK_BYTES: usize = 64 * 1024;
/// The most bytes of a source's name: a tenant, a stroke and the longest export name of NBD.
pub(super) const NAME_BYTES_MAX: usize = 8 * 1024;
/// The most bytes of a record: a tag, a source's number, length and name, four varints.
pub(super) const RECORD_BYTES_MAX: usize = 1 + 5 + 2 + NAME_BYTES_MAX + 4 * VARINT_BYTES_MAX;
/// The most bytes behind a block's head.
pub(super) const PAYLOAD_BYTES_MAX: usize = BLOCK_BYTES + RECORD_BYTES_MAX;
/// Bytes of a policy's text in one block.
pub(super) const POLICY_PART_BYTES: usize = BLOCK_BYTES;
/// The most bytes of a varint.
pub(super) const VARINT_BYTES_MAX: usize = 10;

/// Why a block, or a record, cannot be passed over.
pub(super) const UNKNOWN_CLASS: &str = "which this program does not know and may not leave out; \
                                        read the file with a newer evenkeel";

/// The head of a file: magic, version, flags, origin, checksum.
pub(super) fn push_file_head(out: &mut Vec<u8>, origin_ns: u64) {
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&0_u16.to_le_bytes());
    out.extend_from_slice(&origin_ns.to_le_bytes());
    let checksum = crc32c(&out[start..]);
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// What is wrong with the head of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeadError {
    /// It is damaged; the blocks behind it may be whole.
    Damaged(&'static str),
    /// The file is for another program.
    Foreign(String),
}

/// The origin of time in a file's head.
pub(super) fn read_file_head(head: &[u8; FILE_HEAD_BYTES]) -> Result<u64, HeadError> {
    if head[..8] != MAGIC {
        return Err(HeadError::Damaged("the first bytes are not those of this format"));
    }
    if u32_at(head, 20) != crc32c(&head[..20]) {
        return Err(HeadError::Damaged("the head of the file fails its checksum"));
    }
    let version = u16::from_le_bytes([head[8], head[9]]);
    if !(VERSION_MIN..=VERSION).contains(&version) {
        return Err(HeadError::Foreign(format!(
            "version {version} of the format; this program reads {VERSION_MIN} to {VERSION}: read \
             the file with the evenkeel that wrote it, or a newer one"
        )));
    }
    if u16::from_le_bytes([head[10], head[11]]) != 0 {
        let reason = "the head of the file has flags that this program does not know";
        return Err(HeadError::Foreign(reason.to_owned()));
    }
    Ok(u64_at(head, 12))
}

/// What a block holds, as the last letter of its mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Requests as version 1 wrote them.
    RequestsOfVersion1,
    /// The number of the policy told last, then requests and records of other classes.
    Requests,
    /// A policy, or a part of one.
    Policy,
    /// Nothing: the file ends here.
    End,
    /// Something that this code does not know.
    Unknown(u8),
}

impl Class {
    fn letter(self) -> u8 {
        match self {
            Self::RequestsOfVersion1 => b'B',
            Self::Requests => b'R',
            Self::Policy => b'P',
            Self::End => b'E',
            Self::Unknown(letter) => letter,
        }
    }

    fn of(letter: u8) -> Option<Self> {
        let known = [Self::RequestsOfVersion1, Self::Requests, Self::Policy, Self::End];
        let found = known.into_iter().find(|class| class.letter() == letter);
        found.or_else(|| letter.is_ascii_alphabetic().then_some(Self::Unknown(letter)))
    }
}

/// The head of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHead {
    /// What the block holds.
    pub(super) class: Class,
    /// Bytes behind the head.
    pub(super) payload_bytes: u32,
    /// Of requests: the records. Of a policy: the bytes of its whole text. At the end: the policies
    /// of the file.
    pub(super) count: u32,
    /// Number of the block in its file, from zero.
    pub(super) number: u32,
    /// Of requests: the instant of the first record. Of a policy: that from which it is in force.
    /// At the end: the records of the file.
    pub(super) value: u64,
    /// Checksum of the payload.
    pub(super) payload_checksum: u32,
}

impl BlockHead {
    pub(super) fn push(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&BLOCK_MARK);
        out.push(self.class.letter());
        out.extend_from_slice(&self.payload_bytes.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.value.to_le_bytes());
        out.extend_from_slice(&self.payload_checksum.to_le_bytes());
        let checksum = crc32c(&out[start..]);
        out.extend_from_slice(&checksum.to_le_bytes());
    }

    /// The head that stands here; `None` if it is none, or damaged.
    pub(super) fn read(head: &[u8; BLOCK_HEAD_BYTES]) -> Option<Self> {
        let class = Class::of(head[3])?;
        let payload_bytes = u32_at(head, 4);
        if head[..3] != BLOCK_MARK
            || u32_at(head, 28) != crc32c(&head[..28])
            || payload_bytes as usize > PAYLOAD_BYTES_MAX
        {
            return None;
        }
        Some(Self {
            class,
            payload_bytes,
            count: u32_at(head, 8),
            number: u32_at(head, 12),
            value: u64_at(head, 16),
            payload_checksum: u32_at(head, 24),
        })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Seven bits a byte, the lowest first; the high bit says that more follow.
#[inline]
pub(super) fn push_varint(out: &mut Vec<u8>, value: u64) {
    let mut rest = value;
    while rest >= 0x80 {
        out.push(rest.to_le_bytes()[0] | 0x80);
        rest >>= 7;
    }
    out.push(rest.to_le_bytes()[0]);
}

/// Takes a varint; `None` if the bytes end within it, or it is above 64 bits.
#[inline]
pub(super) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        *bytes = rest;
        return Some(u64::from(first));
    }
    let mut value = u64::from(first & 0x7f);
    for (place, &byte) in rest.iter().take(VARINT_BYTES_MAX - 1).enumerate() {
        let shift = 7 * (place + 1);
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            *bytes = &rest[place + 1..];
            return Some(value);
        }
    }
    None
}

/// Signed to unsigned, small to small: 0, -1, 1, -2 become 0, 1, 2, 3.
#[inline]
pub(super) fn zigzag(value: i64) -> u64 {
    (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned()
}

/// The reverse of [`zigzag`].
#[inline]
pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_varint_that_is_cut_or_too_long_is_none() {
        for bytes in [&b""[..], b"\x80", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", &[0x80; 12]] {
            let mut rest = bytes;
            assert_eq!(take_varint(&mut rest), None);
            assert_eq!(rest, bytes);
        }
    }

    #[test]
    fn a_damaged_head_is_no_head() {
        let head = BlockHead {
            class: Class::Requests,
            payload_bytes: 7,
            count: 1,
            number: 2,
            value: 3,
            payload_checksum: 4,
        };
        let mut out = Vec::new();
        head.push(&mut out);
        let bytes: [u8; BLOCK_HEAD_BYTES] = out.try_into().unwrap();
        assert_eq!(BlockHead::read(&bytes), Some(head));
        for place in 0..bytes.len() {
            let mut damaged = bytes;
            damaged[place] ^= 0x10;
            assert_eq!(BlockHead::read(&damaged), None);
        }
    }

    proptest! {
        #[test]
        fn varints_return(value: u64, shift in 0..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            push_varint(&mut out, value);
            prop_assert!(out.len() <= VARINT_BYTES_MAX);
            let mut rest = &out[..];
            prop_assert_eq!(take_varint(&mut rest), Some(value));
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn zigzag_returns(value: i64) {
            prop_assert_eq!(unzigzag(zigzag(value)), value);
        }
    }
}
