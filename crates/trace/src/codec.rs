//! The contract of every trace format: bytes in, records out, and the other way round.

use std::fmt;

use crate::{Record, Sources};

/// Where in its input a decoder is, or found something wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A line of a text, from 1.
    Line(u64),
    /// A byte of a binary file, from 0.
    Byte(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "{line}"),
            Self::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

/// A piece of input that is no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// Where it stands.
    pub place: Place,
    /// What is wrong and what is expected, printable.
    pub reason: String,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

impl std::error::Error for Defect {}

/// Turns bytes into records.
///
/// Call [`decode`](Self::decode) with what is there, drop as many bytes as it used, add what came
/// next, call again. With `end` set there is nothing to come: what is left is a record, or a
/// defect.
pub trait Decoder {
    /// Appends records to `records` until the input is used up, its rest is an incomplete record,
    /// or something is wrong. Returns how many bytes it used.
    ///
    /// # Errors
    /// A [`Defect`] stands behind the records that were appended by the same call. The decoder has
    /// passed it: a caller that skips defects drops [`DefectAt::used`] bytes and calls again.
    fn decode(
        &mut self,
        input: &[u8],
        end: bool,
        records: &mut Vec<Record>,
    ) -> Result<usize, DefectAt>;

    /// The sources that have appeared so far.
    fn sources(&self) -> &Sources;
}

/// A defect, and how many bytes of the input end with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefectAt {
    /// What is wrong.
    pub defect: Defect,
    /// Bytes used, the defect included.
    pub used: usize,
}

/// Turns records into bytes.
pub trait Encoder {
    /// Appends one record; the first call writes the head of the file as well.
    ///
    /// # Errors
    /// A text that says what the format cannot hold (a kind, a length, a time before the last).
    fn encode(
        &mut self,
        sources: &Sources,
        record: &Record,
        out: &mut Vec<u8>,
    ) -> Result<(), String>;

    /// Appends what a complete file ends with.
    fn finish(&mut self, out: &mut Vec<u8>);
}
