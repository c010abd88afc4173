//! How many segments are ready for writing before the next checkpoint, and when that is due.

use crate::format::record::Kind;
use crate::state::State;
use crate::units::BLOCK_BYTES_U64;

/// Segments that a checkpoint provides for writing until the next one.
///
/// The more there are, the rarer checkpoints need to be, and the longer a replay takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runway {
    pub(crate) user: usize,
    pub(crate) moved: usize,
}

impl Runway {
    /// Segments of the cleaner that every checkpoint provides before clients get any.
    pub(crate) const MOVED_MIN: usize = 2;

    /// For a store of so many segments, of which clients' records may fill so many before the next
    /// checkpoint.
    fn of(segments: usize, log_segments: usize) -> Self {
        Self {
            user: (segments / 8).clamp(1, 128).min(log_segments.max(1)),
            moved: (segments / 16).clamp(1, 64).min(log_segments / 2).max(Self::MOVED_MIN),
        }
    }
}

impl State {
    /// How much is provided: as much log as is wanted behind a checkpoint.
    fn runway(&self) -> Runway {
        let segment_bytes = u64::from(self.space.segment_blocks()) * BLOCK_BYTES_U64;
        let log_segments = usize::try_from(self.log_bytes / segment_bytes).unwrap_or(usize::MAX);
        Runway::of(self.space.segment_count(), log_segments)
    }

    /// Stages what the runway lacks: a minimum for the cleaner first, which makes room for all.
    pub(super) fn stage_runway(&mut self) {
        let runway = self.runway();
        for (kind, wanted) in [
            (Kind::Moved, Runway::MOVED_MIN),
            (Kind::User, runway.user),
            (Kind::Moved, runway.moved),
        ] {
            while self.space.runway_segments(kind) < wanted {
                let generation = self.fresh_generation();
                if !self.space.stage(kind, generation) {
                    return;
                }
            }
        }
    }

    /// Whether a checkpoint made now would provide segments that are needed.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        let runway = self.runway();
        let lacking = |kind, wanted: usize| wanted.saturating_sub(self.space.runway_segments(kind));
        let supply = self.space.supply_segments();
        // The cleaner's minimum is provided first; what is more is for clients. While room is short
        // a checkpoint for every segment would cost a tenth of the drive, so it waits until it
        // provides three times what is left.
        let left = self.space.runway_segments(Kind::User);
        let gain = supply.saturating_sub(lacking(Kind::Moved, Runway::MOVED_MIN));
        let is_for_clients = left <= runway.user / 2 && gain > 0 && gain >= 3 * left;
        let is_for_cleaner = self.space.runway_segments(Kind::Moved) == 0 && supply > 0;
        is_for_clients || is_for_cleaner || self.is_checkpoint_unfinished
    }
}
