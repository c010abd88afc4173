//! Which gates of a shard are in its sum, in parts of one datagram each
//! ([`evenkeel_core::control::sums`]).
//!
//! ```text
//!  0        2         3       4          8        12
//!  | "ER"   | version | 0     | device   | host   | incarnation | period | term |
//!    u16      u8        u8      u32        u32      varint        varint   varint
//!
//!  | first u32 | last u32 | count | gate .. | tag
//!                           varint  varint    16
//! ```
//!
//! A part says of all gates with numbers from `first` to `last` whether they are counted. Of these
//! it has those that are, each by its distance from the one before, or from `first`.

use evenkeel_core::control::name::DeviceId;
use evenkeel_core::control::summary::HostId;

use super::head::Head;
use super::varint::{self, Varints};
use super::{Malformed, Speaker};

/// What every such datagram begins with.
pub const MAGIC: u16 = u16::from_be_bytes(*b"ER");

/// The most gates in a part: with a thousand in a shard some four bytes each.
pub const GATES_MAX: usize = 256;

/// One datagram without its tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RosterDatagram {
    /// The device that they are before.
    pub device: DeviceId,
    /// The gate that collects, and its incarnation.
    pub collector: Speaker,
    /// The period that the sum is of.
    pub period: u64,
    /// The term in which it collects.
    pub term: u64,
    /// The least number that the part says something of.
    pub first: HostId,
    /// The greatest.
    pub last: HostId,
    /// Who of these is counted, in order, at most [`GATES_MAX`].
    pub gates: Vec<HostId>,
}

impl RosterDatagram {
    /// What it says of a gate; none if that is in another part.
    pub fn counts(&self, gate: HostId) -> Option<bool> {
        let is_told = (self.first..=self.last).contains(&gate);
        is_told.then(|| self.gates.binary_search(&gate).is_ok())
    }

    /// The same of any number of gates, in parts.
    pub fn into_parts(self) -> Vec<Self> {
        let mut chunks = self.gates.chunks(GATES_MAX).peekable();
        let (mut first, mut parts) = (self.first, Vec::new());
        while let Some(gates) = chunks.next() {
            let next = chunks.peek().map(|next| next[0]);
            let last = next.map_or(self.last, |next| HostId(next.0 - 1));
            let gates = gates.to_vec();
            parts.push(Self { first, last, gates, ..Self { gates: Vec::new(), ..self } });
            first = next.unwrap_or(self.last);
        }
        if parts.is_empty() { vec![self] } else { parts }
    }
}

/// Appends the body of a datagram.
///
/// # Panics
/// If it has more than [`GATES_MAX`] gates, or any out of order or out of its range.
pub fn encode(datagram: &RosterDatagram, out: &mut Vec<u8>) {
    let RosterDatagram { device, collector, period, term, first, last, gates } = datagram;
    assert!(gates.len() <= GATES_MAX, "a datagram is bounded");
    let (host, incarnation) = *collector;
    Head { count: 0, is_part: false, device: *device, host }.push(MAGIC, out);
    for field in [incarnation, *period, *term] {
        varint::push(out, field);
    }
    out.extend(first.0.to_be_bytes());
    out.extend(last.0.to_be_bytes());
    varint::push(out, gates.len() as u64);
    let mut least = first.0;
    for gate in gates {
        let distance = gate.0.checked_sub(least).expect("they are in order");
        varint::push(out, u64::from(distance));
        least = gate.0.saturating_add(1);
    }
    assert!(gates.last().is_none_or(|gate| gate <= last), "they are in its range");
}

/// A datagram, and what follows it.
pub(super) fn figures(body: &[u8]) -> Result<(RosterDatagram, Varints<'_>), Malformed> {
    let (head, mut fields) = Head::read(body, MAGIC, 0)?;
    if head.is_part {
        return Err(Malformed::Field { name: "part" });
    }
    let incarnation = fields.u64("incarnation")?;
    let (period, term) = (fields.u64("period")?, fields.u64("term")?);
    let [first, last] = [fields.fixed()?, fields.fixed()?].map(u32::from_be_bytes);
    let count = usize::try_from(fields.u32("gates")?).unwrap_or(usize::MAX);
    let name = "gate";
    if first > last || count > GATES_MAX {
        return Err(Malformed::Field { name: "gates" });
    }
    // Wider than a number, so that none is counted behind the greatest.
    let mut bound = u64::from(first);
    let mut gates = Vec::with_capacity(count);
    for _ in 0..count {
        let gate = bound + u64::from(fields.u32(name)?);
        let number = u32::try_from(gate).ok().filter(|gate| *gate <= last);
        gates.push(HostId(number.ok_or(Malformed::Field { name })?));
        bound = gate + 1;
    }
    let (collector, first, last) = ((head.host, incarnation), HostId(first), HostId(last));
    Ok((
        RosterDatagram { device: head.device, collector, period, term, first, last, gates },
        fields,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_roster_say_something_of_every_gate_once() {
        for count in [0, 1, 256, 257, 1_250] {
            let gates: Vec<HostId> = (0..count).map(|gate| HostId(7 + 3 * gate)).collect();
            let last = HostId(u32::MAX);
            let whole = RosterDatagram { last, gates: gates.clone(), ..RosterDatagram::default() };
            let parts = whole.into_parts();
            assert_eq!(parts.len(), gates.len().div_ceil(GATES_MAX).max(1));
            for gate in [0, 7, 8, 10, 775, 778, 1_000, 3_754, u32::MAX].map(HostId) {
                let said: Vec<bool> = parts.iter().filter_map(|part| part.counts(gate)).collect();
                assert_eq!(said, [gates.contains(&gate)], "{gate:?} of {count}");
            }
        }
    }
}
