//! Which bytes of a read have arrived.
//!
//! Chunks of one read may come in any order and number, but they must lie within the request, must
//! not overlap, and must cover all of it by the time the server claims success. A client that only
//! counts bytes would take an overlap and a gap of the same size for a good read, and hand out what
//! its buffer held before.
//!
//! ```text
//! request   |----------------------------|
//! arrived   |=======|      |====|                 two runs
//! next                            |==|            a third
//! next              |======|                      joins two runs into one
//! ```

use std::fmt;

/// Disjoint runs that may be open at once; a server that sends in order needs one.
const MAX_RUNS: usize = 16;

/// What one read has and lacks. Sized for one per request in flight.
#[derive(Clone, Copy, Debug)]
pub struct ReadCoverage {
    offset: u64,
    end: u64,
    /// Disjoint, sorted, not touching each other; the first `count` count.
    runs: [Run; MAX_RUNS],
    count: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    start: u64,
    end: u64,
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
        let runs = [Run::default(); MAX_RUNS];
        Self { offset, end: offset.saturating_add(length), runs, count: 0 }
    }

    /// Takes note of a data or hole chunk.
    ///
    /// # Errors
    /// If it lies outside the request or overlaps an earlier one, or leaves more than 16 separate
    /// runs.
    pub fn add(&mut self, offset: u64, length: u32) -> Result<(), CoverageError> {
        let end = offset.checked_add(u64::from(length)).ok_or(CoverageError::Outside)?;
        if offset < self.offset || end > self.end || length == 0 {
            return Err(CoverageError::Outside);
        }
        let runs = &self.runs[..self.count];
        let index = runs.iter().position(|run| run.end > offset).unwrap_or(self.count);
        if runs.get(index).is_some_and(|run| run.start < end) {
            return Err(CoverageError::Overlap);
        }
        let joins_left = index > 0 && runs[index - 1].end == offset;
        let joins_right = runs.get(index).is_some_and(|run| run.start == end);
        match (joins_left, joins_right) {
            (true, true) => {
                self.runs[index - 1].end = self.runs[index].end;
                self.runs.copy_within(index + 1..self.count, index);
                self.count -= 1;
            }
            (true, false) => self.runs[index - 1].end = end,
            (false, true) => self.runs[index].start = offset,
            (false, false) => self.insert(index, Run { start: offset, end })?,
        }
        Ok(())
    }

    fn insert(&mut self, index: usize, run: Run) -> Result<(), CoverageError> {
        if self.count == MAX_RUNS {
            return Err(CoverageError::TooFragmented);
        }
        self.runs.copy_within(index..self.count, index + 1);
        self.runs[index] = run;
        self.count += 1;
        Ok(())
    }

    /// Whether every byte has come. A reply that ends without an error before that is a violation.
    pub fn is_complete(&self) -> bool {
        let whole = Run { start: self.offset, end: self.end };
        whole.start == whole.end || (self.count == 1 && self.runs[0] == whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn chunks_in_any_order_complete_the_read() {
        let mut coverage = ReadCoverage::new(100, 30);
        coverage.add(120, 10).unwrap();
        coverage.add(100, 10).unwrap();
        assert!(!coverage.is_complete());
        coverage.add(110, 10).unwrap();
        assert!(coverage.is_complete());
    }

    #[test]
    fn an_overlap_that_makes_up_for_a_gap_is_found() {
        let mut coverage = ReadCoverage::new(0, 30);
        coverage.add(0, 20).unwrap();
        assert_eq!(coverage.add(10, 10), Err(CoverageError::Overlap));
        assert!(!coverage.is_complete());
    }

    #[test]
    fn what_was_not_asked_for_is_refused() {
        let mut coverage = ReadCoverage::new(100, 10);
        assert_eq!(coverage.add(99, 2), Err(CoverageError::Outside));
        assert_eq!(coverage.add(105, 6), Err(CoverageError::Outside));
        assert_eq!(coverage.add(u64::MAX, 2), Err(CoverageError::Outside));
        assert_eq!(coverage.add(105, 0), Err(CoverageError::Outside));
    }

    #[test]
    fn a_read_in_dust_is_refused() {
        let mut coverage = ReadCoverage::new(0, 1000);
        for piece in 0..16 {
            coverage.add(piece * 10, 1).unwrap();
        }
        assert_eq!(coverage.add(500, 1), Err(CoverageError::TooFragmented));
    }

    proptest! {
        /// The oracle marks each byte by itself.
        #[test]
        fn agrees_with_a_map_of_bytes(
            chunks in prop::collection::vec((0u32..70, 0u32..20), 0..40),
        ) {
            let mut coverage = ReadCoverage::new(8, 48);
            let mut seen = [false; 96];
            for (offset, length) in chunks {
                let (from, to) = (offset as usize, offset as usize + length as usize);
                let expected = if from < 8 || to > 56 || length == 0 {
                    Err(CoverageError::Outside)
                } else if seen[from..to].contains(&true) {
                    Err(CoverageError::Overlap)
                } else {
                    seen[from..to].fill(true);
                    Ok(())
                };
                prop_assume!(coverage.count < MAX_RUNS);
                prop_assert_eq!(coverage.add(offset.into(), length), expected);
                prop_assert_eq!(coverage.is_complete(), seen[8..56].iter().all(|&byte| byte));
            }
        }
    }
}
