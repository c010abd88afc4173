//! Questions and answers while a volume is opened: reads, writes and flushes of its parts, one at a
//! time, until there is a volume or a reason why not.

use std::fmt;

use evenkeel_core::time::Span;

use super::block::{BLOCK_BYTES, Block};

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
    /// Time is to pass, so that others can be seen at work; answer with [`Answer::Done`]. Tiered
    /// volumes never ask for it.
    Wait(Span),
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

    /// What to do next; the same until it is answered.
    ///
    /// # Panics
    /// After [`Ask::Ready`].
    fn poll(&mut self) -> Ask<'_, Self::Volume, Self::Refusal>;

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
