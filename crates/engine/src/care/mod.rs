//! Care for volumes over several members: what is wrong with one, found without writing a byte.
//!
//! ```text
//! fronts of all members -> who they are, whose they are, which copies are bad
//!   -> the opening, rehearsed: it reads the members, and its writes are kept in memory
//!     -> refused? rehearsed once more as a repair: would that help?
//!       -> maps and journal, or tables and choices, copy by copy
//! ```
//!
//! There is no second opinion on what a volume is: the verdict is that of the opening itself
//! ([`crate::tiers::Opening`], [`crate::spread::Opening`]). What is added here is what an opening
//! passes over: copies that are bad while another one is whole.
//!
//! A check claims nothing and takes part in no lease, so it may be made beside a gate that serves
//! the volume. What it finds may then be of the moment: [`Report::confirmed`] keeps what a second
//! check finds too.

mod finding;
mod front;
mod rehearsal;

pub use finding::{Doubt, Finding, MemberReport, OwnerReport, Report, Severity, Verdict};
pub(crate) use front::{Fronts, Kind, refused};
pub(crate) use rehearsal::{names, rehearse};

use crate::lease::Witness;
use crate::notes::block::{BLOCK, BLOCK_BYTES, Block};
use crate::notes::{PartDevice, STEP_BYTES_MAX};

/// Brings bytes of the members.
pub trait Reads {
    /// So many bytes of a member from this offset on, both multiples of 4 KiB; none if they cannot
    /// be read.
    fn read(&mut self, member: usize, offset: u64, length: u64) -> Option<Vec<u8>>;
}

/// What is to be checked.
#[derive(Clone, Debug)]
pub struct Case {
    /// The members, in the order of the policy.
    pub devices: Vec<PartDevice>,
    /// By member: why it cannot be reached, if it cannot.
    pub away: Vec<Option<String>>,
    /// What the gate has remembered of the volume in its state folder.
    pub witness: Option<Witness>,
}

impl Case {
    /// The members that can be reached.
    pub(crate) fn there(&self) -> impl Iterator<Item = usize> {
        (0..self.devices.len()).filter(|member| self.away[*member].is_none())
    }
}

/// Reads blocks one after the other, as many at once as can be read; those that cannot are none.
pub(crate) fn each_block(
    reads: &mut dyn Reads,
    member: usize,
    range: std::ops::Range<u64>,
    mut take: impl FnMut(u64, Option<&Block>),
) {
    let mut start = range.start;
    while start < range.end {
        let length = STEP_BYTES_MAX.min(range.end - start);
        let bytes = reads.read(member, start, length);
        for offset in (start..start + length).step_by(BLOCK) {
            let at = usize::try_from(offset - start).expect("a step is in memory");
            let single = match &bytes {
                Some(bytes) => bytes.get(at..).and_then(<[u8]>::first_chunk).copied(),
                None => reads
                    .read(member, offset, BLOCK_BYTES)
                    .and_then(|bytes| bytes.first_chunk().copied()),
            };
            take(offset, single.as_ref());
        }
        start += length;
    }
}
