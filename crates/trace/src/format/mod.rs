//! The trace formats, one a file, behind one [`Format`].
//!
//! What all decoders promise, whatever the bytes:
//!
//! - Records come in the order of their arrival. The first has `at = 0`, except in the native
//!   format, which keeps the instants it was given. Files that are slightly out of order are
//!   sorted within a window of [`Options::window_records`]; a record behind it is a defect.
//! - `offset + length` stays within 64 bits.
//! - They do not panic, and keep no more than the window, the names of the sources, and
//!   (for block layer traces) the requests under way. How the input is cut changes nothing.
//! - What is no record is a defect with its place, and decoding goes on behind it.
//!
//! Encoders refuse what their format cannot hold, and round instants down to its resolution.

mod detect;
mod line;
mod msr;
mod names;
pub mod native;
mod spc;
mod timeline;

use crate::codec::{Decoder, Encoder};
use line::LineDecoder;

/// How to read a trace, where its bytes do not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Records that are held back to bring neighbours in order of their arrival.
    pub window_records: usize,
    /// The source of all requests, for formats that tell none apart.
    pub source: String,
    /// The instant of `at = 0` that an encoder writes where its format has one, in nanoseconds
    /// since 1970; zero if it is not known.
    pub origin_ns: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { window_records: 1024, source: "trace".to_owned(), origin_ns: 0 }
    }
}

/// A trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// This project's own, and the gate's recording.
    Native,
    /// MSR Cambridge CSV.
    Msr,
    /// SPC text, as the `UMass` repository has it.
    Spc,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::Native, Self::Msr, Self::Spc];

    /// The name that people give it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Msr => "msr",
            Self::Spc => "spc",
        }
    }

    /// The format of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// How files of the format are commonly called, without what compression adds.
    pub fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Native => &["ektrace"],
            Self::Msr => &["csv"],
            Self::Spc => &["spc"],
        }
    }

    /// The format of a file, from its first bytes (not compressed; some hundred are plenty) and
    /// its name.
    pub fn detect(head: &[u8], file_name: &str) -> Option<Self> {
        detect::detect(head, file_name)
    }

    /// A decoder for a file from its start.
    pub fn decoder(self, options: &Options) -> Box<dyn Decoder> {
        match self {
            Self::Native => Box::new(native::NativeDecoder::new()),
            Self::Msr => Box::new(LineDecoder::new(msr::Msr::new(), options)),
            Self::Spc => Box::new(LineDecoder::new(spc::Spc::new(), options)),
        }
    }

    /// An encoder for a new file; `None` if the format is read only.
    pub fn encoder(self, options: &Options) -> Option<Box<dyn Encoder>> {
        Some(match self {
            Self::Native => Box::new(native::NativeEncoder::new(options.origin_ns)),
            Self::Msr => Box::new(msr::MsrEncoder),
            Self::Spc => Box::new(spc::SpcEncoder::default()),
        })
    }
}
