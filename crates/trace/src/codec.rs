//! The contract of every trace format: bytes in, records out, and the other way round.
//!
//! A driver reads a piece of a file, hands it over, keeps what was not used, and appends the next
//! piece. A decoder asks for no more than [`PIECE_BYTES_MAX`] bytes at once, so that bounds the
//! driver's buffer. Records come in the order of their arrival: `at` never steps back.

use std::fmt;

use evenkeel_core::time::Nanos;

use crate::{Record, Sources};

/// A decoder that is given so many bytes uses at least one of them, or reports a defect.
pub const PIECE_BYTES_MAX: usize = 256 * 1024;

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

/// What a trace says about the policy that its requests were served under, from an instant on.
///
/// It holds until the next one. Of several with the same instant the last holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedPolicy {
    /// When it came into force, on the clock of [`Record::at`].
    pub at: Nanos,
    /// The policy, complete, as the text of a policy file. `None`: it is not known from here on,
    /// because that part of the trace is damaged or because whoever wrote the trace did not know.
    pub text: Option<String>,
}

/// Turns bytes into records.
///
/// Call [`decode`](Self::decode) with what is there, drop as many bytes as it used, add what came
/// next, call again. With `end` set there is nothing to come: what is left is a record, or a
/// defect. Records may be held back until it is known that no earlier one follows; the last ones
/// come with `end`, so call until that returns without a defect, even with nothing left.
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

    /// The instant that became `at = 0`, in nanoseconds of the format's own clock: what two files
    /// of one recording are aligned by. `None` before the first record, and where the format's
    /// clock starts with the trace.
    fn origin_ns(&self) -> Option<u64> {
        None
    }

    /// The policies that the trace has told so far, in the order of their instants; empty for the
    /// formats that hold none. Once a record was given, every policy that came into force at or
    /// before its instant is here.
    fn policies(&self) -> &[RecordedPolicy] {
        &[]
    }

    /// Parts of the trace that a newer program wrote, that this one does not know, and that may be
    /// left out: so many were. A request of a kind to come may be among them.
    fn passed_over(&self) -> u64 {
        0
    }
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

    /// Appends the policy that is in force from `at` on, until the next; `None` for one that is not
    /// known. It lies behind the last record that was encoded, and not before the last policy.
    ///
    /// # Errors
    /// A text that says why the format cannot hold it, which is so for all but the native one.
    fn policy(
        &mut self,
        _at: Nanos,
        _text: Option<&str>,
        _out: &mut Vec<u8>,
    ) -> Result<(), String> {
        Err("the format holds no policy; the native one does".to_owned())
    }

    /// Appends whatever a reader needs to see all the records encoded so far; costs compactness.
    fn flush(&mut self, _out: &mut Vec<u8>) {}

    /// Appends what a complete file ends with, and its head if there was no record.
    fn finish(&mut self, _out: &mut Vec<u8>) {}
}

/// Decodes all of an input that is in memory, going on behind every defect.
pub fn decode_all(decoder: &mut dyn Decoder, input: &[u8]) -> (Vec<Record>, Vec<Defect>) {
    let (mut records, mut defects) = (Vec::new(), Vec::new());
    let mut rest = input;
    loop {
        match decoder.decode(rest, true, &mut records) {
            Ok(_) => return (records, defects),
            Err(DefectAt { defect, used }) => {
                defects.push(defect);
                rest = &rest[used..];
            }
        }
    }
}
