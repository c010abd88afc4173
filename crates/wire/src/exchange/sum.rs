//! What a sum says before its flows ([`evenkeel_core::control::sums`]): whose it is, and of whom.
//!
//! ```text
//!   host of the sum u32 | term | hosts | leader u32
//! ```
//!
//! The head of the datagram has the gate that collects, and its incarnation. The host of the sum
//! is one of the numbers that no gate has.

use evenkeel_core::control::summary::{HostId, SumOf, Summary};
use evenkeel_core::control::sums::Shard;

use super::varint::{self, Varints};
use super::{Malformed, Speaker};

/// What every such datagram begins with.
pub const MAGIC: u16 = u16::from_be_bytes(*b"EA");

/// The most that it takes.
pub(super) const BYTES_MAX: usize = 4 + varint::BYTES_MAX_64 + varint::BYTES_MAX_32 + 4;

/// # Panics
/// If the summary counts as a host that is no sum.
pub(super) fn push(summary: &Summary, sum: SumOf, out: &mut Vec<u8>) {
    assert!(Shard::of_sum(summary.host).is_some(), "no gate has its number");
    out.extend(summary.host.0.to_be_bytes());
    varint::push(out, summary.incarnation);
    varint::push(out, u64::from(sum.hosts));
    out.extend(sum.leader.0.to_be_bytes());
}

/// The host of the sum and its term, which take the place of those of the gate that tells it.
pub(super) fn read(fields: &mut Varints<'_>) -> Result<(Speaker, SumOf), Malformed> {
    let host = HostId(u32::from_be_bytes(fields.fixed()?));
    if Shard::of_sum(host).is_none() {
        return Err(Malformed::Field { name: "host of a sum" });
    }
    let term = fields.u64("term")?;
    let hosts = fields.u32("hosts")?;
    let leader = HostId(u32::from_be_bytes(fields.fixed()?));
    Ok(((host, term), SumOf { hosts, leader }))
}
