//! Order of dispatch in virtual time: start tag, then arrival.

use std::cmp::Ordering;

use super::tag::Tag;

/// The start tag of a tenant's head and its arrival number.
///
/// Halves keep it at 24 bytes, so that a heap node with its id takes 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    start_halves: [u64; 2],
    arrival: u64,
}

impl Key {
    pub(crate) fn new(start: Tag, arrival: u64) -> Self {
        Self { start_halves: start.halves(), arrival }
    }

    fn start(self) -> u128 {
        let [high, low] = self.start_halves.map(u128::from);
        (high << 64) | low
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.start().cmp(&other.start()).then(self.arrival.cmp(&other.arrival))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    #[expect(clippy::needless_bitwise_bool, reason = "a jump that nobody can predict costs more")]
    fn lt(&self, other: &Self) -> bool {
        let tied = self.start() == other.start();
        (self.start() < other.start()) | (tied & (self.arrival < other.arrival))
    }
}
