//! Which bytes of a read have arrived.
//!
//! Chunks of one read may come in any order and number, but they must lie within the request, must
//! not overlap, and must cover all of it by the time the server claims success. A client that counts
//! bytes only would take an overlap and a gap of the same size for a good read, and hand out what its
//! buffer held before.

use std::fmt;

/// Disjoint runs that may be open at once; a server that sends in order needs one.
const MAX_RUNS: usize = 16;

/// What one read still lacks.
#[derive(Clone, Copy, Debug)]
pub struct ReadCoverage {
    offset: u64,
    end: u64,
    runs: [(u64, u64); MAX_RUNS],
    count: usize,
}

/// A chunk that does not belong where the server put it: drop the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoverageError {
    /// It lies outside the request.
    Outside,
    /// It repeats bytes that came before.
    Overlap,
    /// It leaves more gaps than are followed here.
    TooFragmented,
}

impl fmt::Display for CoverageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Outside => "the server sent data outside the range that was asked for",
            Self::Overlap => "the server sent the same bytes of a read twice",
            Self::TooFragmented => "the server sent a read in too many scattered pieces",
        })
    }
}

impl std::error::Error for CoverageError {}

impl ReadCoverage {
    /// A read of which nothing has come.
    pub fn new(offset: u64, length: u64) -> Self {
        Self { offset, end: offset.saturating_add(length), runs: [(0, 0); MAX_RUNS], count: 0 }
    }

    /// Takes note of a data or hole chunk.
    ///
    /// # Errors
    /// If it lies outside the request or overlaps an earlier one.
    pub fn add(&mut self, offset: u64, length: u32) -> Result<(), CoverageError> {
        unimplemented!("{offset} {length} {} {} {:?}", self.offset, self.end, self.runs)
    }

    /// Whether every byte has come. A reply that ends without an error before that is a violation.
    pub fn is_complete(&self) -> bool {
        unimplemented!("{}", self.count)
    }
}
