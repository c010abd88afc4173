//! What a client asks for, drawn from its seed: which request comes next, and when.
//!
//! One vocabulary and one set of draws for the live load generator and the simulator: a client of
//! the same seed asks for the same offsets and sizes at the same instants in both worlds.

mod draw;
mod hot;
mod pace;
mod schedule;
mod zipf;

use std::ops::Range;

pub use draw::{Draw, Drawer};
pub use pace::{Bursts, Pace, Turn};
pub use schedule::{Due, Schedule};

/// The longest request that may be asked for, in bytes: what every NBD server must accept.
pub const SIZE_BYTES_MAX: u32 = 32 << 20;

/// Requests that one client may have under way.
pub const DEPTH_MAX: u32 = 4096;

/// How the clients of a group use several targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Client `i` uses target `i` modulo their number.
    #[default]
    Spread,
    /// Each request goes to every target, the stated size to each, and ends when the last part
    /// ends: a parallel file system that stripes a file over its servers, as IOR sees it.
    Striped,
}

/// One size of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightedSize {
    /// Bytes per request (and per target when striped).
    pub size_bytes: u32,
    /// How often, relative to the others' weights.
    pub weight: u32,
}

/// Which offsets follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Pattern {
    /// One after the other; each client starts in its own part of the range.
    Sequential,
    /// Every offset equally likely.
    #[default]
    Uniform,
    /// Few offsets are drawn often: the k-th likeliest with a probability like `1 / k^theta`.
    Zipf {
        /// Skew, above 0; 0.99 is customary.
        theta: f64,
    },
    /// The first bytes of the range get so many of the requests, the rest the others; within
    /// either every offset is equally likely.
    Hot {
        /// Length of the first part.
        hot_bytes: u64,
        /// How many of a million requests fall into it.
        requests_ppm: u32,
    },
}

impl Pattern {
    /// What is wrong with its figures, if anything.
    pub fn fault(&self) -> Option<&'static str> {
        match *self {
            Self::Zipf { theta } if !(theta.is_finite() && theta > 0.0) => {
                Some("its skew is not above zero")
            }
            Self::Hot { requests_ppm, .. } if requests_ppm > hot::ALL_PPM => {
                Some("more than all of its requests are in the hot part")
            }
            _ => None,
        }
    }
}

/// Of what the requests of a client are made up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix<'a> {
    /// Sizes to draw from; at least one has a weight.
    pub sizes: &'a [WeightedSize],
    /// Offsets to draw.
    pub pattern: Pattern,
    /// Part of the requests that read, 0 to 100; the others write.
    pub read_percent: u8,
    /// Part of the writes that carry FUA, 0 to 100.
    pub fua_percent: u8,
    /// Flush after so many writes have been acknowledged; zero never flushes.
    pub flush_every: u32,
}

/// The part of the range that belongs to one of several clients, in steps of `step_bytes`.
pub fn part_of(whole: &Range<u64>, (index, clients): (u32, u32), step_bytes: u64) -> Range<u64> {
    let steps = (whole.end - whole.start) / step_bytes;
    let edge = |index: u32| {
        let edge = u128::from(steps) * u128::from(index) / u128::from(clients);
        whole.start + u64::try_from(edge).expect("at most the number of steps") * step_bytes
    };
    edge(index)..edge(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_begin_in_parts_that_cover_the_range() {
        let parts: Vec<_> = (0..3).map(|index| part_of(&(0..40_960), (index, 3), 4096)).collect();
        assert_eq!(parts, [0..12_288, 12_288..24_576, 24_576..40_960]);
    }
}
