//! Little-endian fields in fixed order, and the seal that a block of metadata carries.
//!
//! A [`Writer`] appends fields; a [`Reader`] takes them in the same order and never reads past its
//! end, so that a decoder over it cannot panic, whatever the bytes.
//!
//! A *sealed* block has a CRC-32C of all its other bytes in its last four.

use std::fmt;

use evenkeel_core::crc32c::crc32c;

use super::VERSION;
use crate::units::{BLOCK_BYTES, Mount, Nonce, Uuid};

/// Bytes of the checksum at the end of a sealed block.
pub(crate) const SEAL_BYTES: usize = 4;

/// Bytes of magic and version.
const HEAD_BYTES: usize = 6;

/// Counters stay below this, so that adding to them cannot overflow.
const COUNTER_END: u64 = 1 << 62;

/// What is wrong with bytes that should be a structure of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// The structure ends before its last field.
    Truncated,
    /// It does not begin as such a structure does.
    Magic,
    /// The bytes are not those that were written.
    Checksum,
    /// It is of another version of the format, this one.
    Version(u16),
    /// It uses features that this version does not know, these bits.
    Features(u64),
    /// A field has a value that nobody writes.
    Field(&'static str),
    /// It is whole, but belongs elsewhere or to another time.
    Identity(&'static str),
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("it ends too early"),
            Self::Magic => f.write_str("it does not begin as one"),
            Self::Checksum => f.write_str("its checksum does not match"),
            Self::Version(version) => {
                let age = if *version < VERSION { "older" } else { "newer" };
                write!(f, "it is of version {version}, which is {age}")
            }
            Self::Features(bits) => write!(f, "it uses unknown features, bits {bits:#x}"),
            Self::Field(name) => write!(f, "its field `{name}` has an impossible value"),
            Self::Identity(name) => write!(f, "its {name} is another's"),
        }
    }
}

impl std::error::Error for Defect {}

/// Appends fields to a block or to a longer run of bytes.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

/// Takes fields from the front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend(value.to_le_bytes());
    }

    /// Seven bits in each byte, the low ones first; the highest bit says that more follow.
    pub(crate) fn varint(&mut self, value: u64) {
        let mut rest = value;
        loop {
            let [low, ..] = rest.to_le_bytes();
            rest >>= 7;
            if rest == 0 {
                return self.u8(low);
            }
            self.u8(low | 0x80);
        }
    }

    pub(crate) fn uuid(&mut self, uuid: Uuid) {
        self.bytes.extend(uuid.0);
    }

    pub(crate) fn mount(&mut self, mount: Mount) {
        self.u64(mount.epoch);
        self.u64(mount.nonce.0);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Zeroes up to byte `offset`.
    pub(crate) fn pad_to(&mut self, offset: usize) {
        assert!(self.bytes.len() <= offset, "the fields before {offset} fit");
        self.bytes.resize(offset, 0);
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The fields as one sealed block.
    pub(crate) fn into_sealed_block(mut self) -> Vec<u8> {
        self.pad_to(BLOCK_BYTES - SEAL_BYTES);
        let checksum = crc32c(&self.bytes);
        self.u32(checksum);
        self.bytes
    }
}

/// Bytes of a number as [`Writer::varint`] writes it.
pub(crate) fn varint_bytes(value: u64) -> usize {
    let bits = (u64::BITS - value.leading_zeros()).max(1);
    bits.div_ceil(7) as usize
}

/// The fields of a sealed block of this kind, behind its magic and version.
///
/// The version is looked at before the seal: a later version may keep its seal elsewhere. A block
/// that is sealed as one of this version, but for its version, is damaged.
///
/// # Errors
/// The first [`Defect`] found.
pub(crate) fn unseal(block: &[u8], magic: [u8; 4]) -> Result<Reader<'_>, Defect> {
    let mut reader = Reader::new(block);
    reader.magic(magic)?;
    match reader.u16()? {
        VERSION => {}
        _ if is_sealed_but_for_version(block) => return Err(Defect::Checksum),
        other => return Err(Defect::Version(other)),
    }
    if block.len() != BLOCK_BYTES {
        return Err(Defect::Truncated);
    }
    let (fields, seal) = block.split_at(BLOCK_BYTES - SEAL_BYTES);
    if seal != crc32c(fields).to_le_bytes() {
        return Err(Defect::Checksum);
    }
    Ok(Reader::new(&fields[HEAD_BYTES..]))
}

fn is_sealed_but_for_version(block: &[u8]) -> bool {
    let Some((fields, seal)) = block.split_at_checked(BLOCK_BYTES - SEAL_BYTES) else {
        return false;
    };
    let mut fields = fields.to_vec();
    fields[HEAD_BYTES - 2..HEAD_BYTES].copy_from_slice(&VERSION.to_le_bytes());
    seal == crc32c(&fields).to_le_bytes()
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Defect> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Defect::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Defect> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Defect::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Defect> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Defect> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Defect> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Defect> {
        self.array().map(u64::from_le_bytes)
    }

    /// A counter of the store; none of them ever gets near the end of 64 bits.
    pub(crate) fn counter(&mut self) -> Result<u64, Defect> {
        let counter = self.u64()?;
        if counter < COUNTER_END { Ok(counter) } else { Err(Defect::Field("counter")) }
    }

    /// A number below 2^62 as [`Writer::varint`] writes it, and in no other way.
    pub(crate) fn varint(&mut self) -> Result<u64, Defect> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let is_padded = byte == 0 && shift > 0;
                let is_sound = value < COUNTER_END && !is_padded;
                return if is_sound { Ok(value) } else { Err(Defect::Field("number")) };
            }
        }
        Err(Defect::Field("number"))
    }

    pub(crate) fn uuid(&mut self) -> Result<Uuid, Defect> {
        self.array().map(Uuid)
    }

    pub(crate) fn mount(&mut self) -> Result<Mount, Defect> {
        Ok(Mount { epoch: self.counter()?, nonce: Nonce(self.u64()?) })
    }

    pub(crate) fn magic(&mut self, magic: [u8; 4]) -> Result<(), Defect> {
        if self.array()? == magic { Ok(()) } else { Err(Defect::Magic) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_seal_is_noticed_wherever_it_breaks() {
        let sealed = |version| {
            let mut writer = Writer::default();
            writer.bytes(b"test");
            writer.u16(version);
            writer.u64(42);
            writer.into_sealed_block()
        };
        let block = sealed(VERSION);
        let outcome = |block: &[u8]| unseal(block, *b"test").and_then(|mut reader| reader.u64());
        assert_eq!(outcome(&block), Ok(42));
        for (byte, defect) in [
            (0, Defect::Magic),
            (4, Defect::Checksum),
            (7, Defect::Checksum),
            (4095, Defect::Checksum),
        ] {
            let mut rotten = block.clone();
            rotten[byte] ^= 0x10;
            assert_eq!(outcome(&rotten), Err(defect));
        }
        assert_eq!(outcome(&block[..100]), Err(Defect::Truncated));
        for later in [sealed(VERSION + 1), [b"test\x04", &[0; 4091][..]].concat()] {
            assert_eq!(outcome(&later), Err(Defect::Version(VERSION + 1)));
        }
    }

    #[test]
    fn numbers_of_any_length_come_back_and_have_one_form() {
        let numbers = (0..62).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for number in numbers.filter(|&it| it < COUNTER_END) {
            let mut writer = Writer::default();
            writer.varint(number);
            let bytes = writer.into_bytes();
            let mut reader = Reader::new(&bytes);
            assert_eq!((reader.varint(), reader.is_empty()), (Ok(number), true));
            assert_eq!(bytes.len(), varint_bytes(number));
            assert_eq!(Reader::new(&bytes[..bytes.len() - 1]).varint(), Err(Defect::Truncated));
        }
        for odd in
            [&[0x80, 0][..], &[0xff; 12], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x40]]
        {
            assert!(Reader::new(odd).varint().is_err(), "{odd:x?}");
        }
    }

    #[test]
    fn a_reader_stops_at_its_end() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.u16(), Ok(0x0201));
        assert_eq!(reader.u32(), Err(Defect::Truncated));
        assert_eq!(reader.u8(), Ok(3));
        assert!(reader.is_empty());
    }
}
