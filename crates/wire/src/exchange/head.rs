//! What all datagrams begin with.

use evenkeel_core::control::name::DeviceId;
use evenkeel_core::control::summary::HostId;

use super::varint::Varints;
use super::{DATAGRAM_BYTES_MAX, Malformed, TAG_BYTES, VERSION};

/// Its size.
pub(super) const HEAD_BYTES: usize = 12;

/// Added to the number of tenants in a part of a word.
const PART: u8 = 0x80;

/// How many tenants, of what, from whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) count: usize,
    /// Whether it is a part of a word, of which more follows.
    pub(super) is_part: bool,
    pub(super) device: DeviceId,
    pub(super) host: HostId,
}

impl Head {
    /// # Panics
    /// If it counts more tenants than 255: kinds of datagrams have lower bounds.
    pub(super) fn push(self, magic: u16, out: &mut Vec<u8>) {
        out.extend(magic.to_be_bytes());
        out.push(VERSION);
        let count = u8::try_from(self.count).expect("a datagram is bounded");
        out.push(if self.is_part { count | PART } else { count });
        out.extend(self.device.0.to_be_bytes());
        out.extend(self.host.0.to_be_bytes());
    }

    /// The head of a body that tells of `most` tenants at most, and what follows it.
    pub(super) fn read(
        body: &[u8],
        magic: u16,
        most: usize,
    ) -> Result<(Self, Varints<'_>), Malformed> {
        if body.len() > DATAGRAM_BYTES_MAX - TAG_BYTES {
            return Err(Malformed::Oversized);
        }
        let (fixed, rest) = body.split_first_chunk::<HEAD_BYTES>().ok_or(Malformed::Short)?;
        let [m0, m1, version, marked, d0, d1, d2, d3, h0, h1, h2, h3] = *fixed;
        if u16::from_be_bytes([m0, m1]) != magic {
            return Err(Malformed::Magic);
        }
        if version != VERSION {
            return Err(Malformed::Version { found: version });
        }
        let count = marked & !PART;
        if usize::from(count) > most {
            return Err(Malformed::Flows { found: count, most });
        }
        let is_part = marked & PART != 0;
        let device = DeviceId(u32::from_be_bytes([d0, d1, d2, d3]));
        let host = HostId(u32::from_be_bytes([h0, h1, h2, h3]));
        Ok((Self { count: usize::from(count), is_part, device, host }, Varints(rest)))
    }
}
