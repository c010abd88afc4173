//! The drives of stores that are damaged on purpose.

use evenkeel_sim::disk::Fate;

use super::crash::{Scene, format};
use super::real::{Real, Setup};

/// Which drives there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    One,
    Three,
    Pair,
    /// A pair of which one drive was there when it was made.
    DegradedPair,
    /// Two pairs.
    Chain,
    /// Two pairs, of which a drive is lost when the work is done: a store that goes on without one
    /// puts everything on two of the others.
    DegradedChain,
}

impl Shape {
    pub(crate) const ALL: [Self; 6] =
        [Self::One, Self::Three, Self::Pair, Self::DegradedPair, Self::Chain, Self::DegradedChain];

    pub(crate) fn setup(self) -> Setup {
        let (drives, copies, spare_segments) = match self {
            Self::One => (1, 1, 4),
            Self::Three => (3, 1, 4),
            Self::Pair | Self::DegradedPair => (2, 2, 4),
            Self::Chain | Self::DegradedChain => (4, 2, 8),
        };
        let allow_missing = self.is_degraded();
        Setup { spare_segments, allow_missing, ..Setup::tiny(drives, copies) }
    }

    /// A new store.
    pub(crate) fn make(self, setup: &Setup) -> Scene {
        let mut scene = format::<Real>(setup);
        if self == Self::DegradedPair {
            scene.disks[1].detach(|_| Fate::Lost);
        }
        scene
    }

    /// Loses the drive that is lost when the work is done, if there is one.
    pub(crate) fn lose_drive(self, scene: &mut Scene) {
        if self == Self::DegradedChain {
            scene.disks[1].detach(|_| Fate::Lost);
        }
    }

    fn is_degraded(self) -> bool {
        matches!(self, Self::DegradedPair | Self::DegradedChain)
    }

    /// The drive that a fault hits: one that is there.
    pub(crate) fn victim(self, seed: u64) -> usize {
        let present: &[usize] = match self {
            Self::One | Self::DegradedPair => &[0],
            Self::Three => &[0, 1, 2],
            Self::Pair => &[0, 1],
            Self::Chain => &[0, 1, 2, 3],
            Self::DegradedChain => &[0, 2, 3],
        };
        present[usize::try_from(seed).expect("a small seed") % present.len()]
    }

    /// Whether everything lies on two drives.
    pub(crate) fn has_other_copy(self) -> bool {
        matches!(self, Self::Pair | Self::Chain)
    }
}
