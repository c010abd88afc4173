//! Questions and answers while a volume is opened: reads, writes and flushes of its parts, one at a
//! time, until there is a volume or a reason why not.

use std::fmt;

use evenkeel_core::time::{Nanos, Span};

use super::block::{BLOCK_BYTES, Block};
use crate::lease::{Gate, Gatekeeper, Identity, Sending};

/// A device that is to be a part of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartDevice {
    /// What people know it by.
    pub name: String,
    /// How much of it may be used.
    pub size_bytes: u64,
}

/// What an opening asks for. Parts are counted in the order of the policy; offsets and lengths are
/// multiples of 4 KiB, lengths at most [`STEP_BYTES_MAX`](super::STEP_BYTES_MAX).
#[derive(Debug, PartialEq, Eq)]
pub enum Ask<'a, V, R> {
    /// Bytes of a part; answer with [`Answer::Read`].
    Read {
        /// The part.
        part: usize,
        /// First byte.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// Bytes to a part; answer with [`Answer::Done`].
    Write {
        /// The part.
        part: usize,
        /// First byte.
        offset: u64,
        /// What is to stand there.
        bytes: &'a [u8],
    },
    /// What was written to a part is to be durable; answer with [`Answer::Done`].
    Flush {
        /// The part.
        part: usize,
    },
    /// Time is to pass, so that others can be seen at work, or if it is none, so that others on the
    /// thread have their turn; answer with [`Answer::Done`].
    Wait(Span),
    /// These gates have not let go, and were silent for as long as they are watched. They must not
    /// reach the parts any more before another gate may claim the volume; answer with
    /// [`Answer::Done`] once that is so, or as the operator takes it upon them, else with
    /// [`Answer::Failed`].
    Fence(Vec<Gate>),
    /// The volume is open. There is nothing more to ask for.
    Ready(Box<V>),
    /// The volume cannot be opened, for this reason. There is nothing more to ask for.
    Refused(R),
}

/// The opening of a volume of either kind.
pub trait Opens {
    /// What is opened.
    type Volume;
    /// Why it cannot be.
    type Refusal: fmt::Display;

    /// What to do next; the same until it is answered. The time is that by which leases are
    /// judged.
    ///
    /// # Panics
    /// After [`Ask::Ready`].
    fn poll(&mut self, now: Nanos) -> Ask<'_, Self::Volume, Self::Refusal>;

    /// What right it takes to send what was asked for last.
    fn sending(&self) -> Sending {
        Sending::Data
    }

    /// Which server of which volume a part has to be from now on; none while nobody knows.
    fn identity(&self, _part: usize) -> Option<Identity> {
        None
    }

    /// The reads that are asked for next if nothing comes between, behind the one at hand: part,
    /// offset and length of each, up to so many. They may be begun already; nothing that they read
    /// changes.
    fn reads_ahead(&self, _count: usize) -> Vec<(usize, u64, u64)> {
        Vec::new()
    }

    /// How much of what it has to read was read, and how much there is, in bytes; none as long as
    /// nobody knows.
    fn progress(&self) -> Option<(u64, u64)> {
        None
    }

    /// The right to send that the opening has gained so far; none if the parts are not leased.
    fn right(&self) -> Option<&Gatekeeper> {
        None
    }

    /// Takes the answer to what was asked for last.
    ///
    /// # Panics
    /// If nothing was asked for, or the answer is of another kind or length.
    fn answer(&mut self, answer: Answer<'_>);
}

/// What became of what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The bytes, as many as were asked for.
    Read(&'a [u8]),
    /// It was written, or flushed.
    Done,
    /// The part answered with an error.
    Failed,
}

impl<'a> Answer<'a> {
    /// The blocks that were read; none if that failed.
    pub(crate) fn blocks(self, count: u64) -> Option<&'a [Block]> {
        let Answer::Read(bytes) = self else {
            assert!(self == Answer::Failed, "a read is answered with bytes");
            return None;
        };
        assert!(bytes.len() as u64 == count * BLOCK_BYTES, "as many bytes as were asked for");
        Some(bytes.as_chunks().0)
    }
}
