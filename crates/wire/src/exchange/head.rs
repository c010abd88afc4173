//! What datagrams of both kinds begin with.

use evenkeel_core::control::name::DeviceId;
use evenkeel_core::control::summary::{FLOWS_MAX, HostId};

use super::varint::Varints;
use super::{DATAGRAM_BYTES_MAX, Malformed, TAG_BYTES, VERSION};

/// Its size.
pub(super) const HEAD_BYTES: usize = 12;

/// How many tenants, of what, from whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) count: usize,
    pub(super) device: DeviceId,
    pub(super) host: HostId,
}

impl Head {
    /// # Panics
    /// If it counts more than [`FLOWS_MAX`] tenants.
    pub(super) fn push(self, magic: u16, out: &mut Vec<u8>) {
        assert!(self.count <= FLOWS_MAX, "a datagram is bounded");
        out.extend(magic.to_be_bytes());
        out.push(VERSION);
        out.push(u8::try_from(self.count).expect("at most FLOWS_MAX"));
        out.extend(self.device.0.to_be_bytes());
        out.extend(self.host.0.to_be_bytes());
    }

    /// The head of a body, and what follows it.
    pub(super) fn read(body: &[u8], magic: u16) -> Result<(Self, Varints<'_>), Malformed> {
        if body.len() > DATAGRAM_BYTES_MAX - TAG_BYTES {
            return Err(Malformed::Oversized);
        }
        let (fixed, rest) = body.split_first_chunk::<HEAD_BYTES>().ok_or(Malformed::Short)?;
        let [m0, m1, version, count, d0, d1, d2, d3, h0, h1, h2, h3] = *fixed;
        if u16::from_be_bytes([m0, m1]) != magic {
            return Err(Malformed::Magic);
        }
        if version != VERSION {
            return Err(Malformed::Version { found: version });
        }
        if usize::from(count) > FLOWS_MAX {
            return Err(Malformed::Flows { found: count });
        }
        let device = DeviceId(u32::from_be_bytes([d0, d1, d2, d3]));
        let host = HostId(u32::from_be_bytes([h0, h1, h2, h3]));
        Ok((Self { count: usize::from(count), device, host }, Varints(rest)))
    }
}
