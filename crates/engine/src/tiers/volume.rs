//! A volume as its tiers tell of it: what an engine needs to serve it.

use evenkeel_core::time::Nanos;

use super::format::VolumeId;
use super::journal::Journal;
use super::layout::Layout;
use super::map::{Place, TierMap};
use super::refusal::PARLANCE;
use crate::lease::{Identity, LateWrites, Lease, Office, OwnerId, Witness};

/// A volume that was opened. See [`super::Opening`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    pub(crate) layout: Layout,
    pub(crate) map: TierMap,
    pub(crate) journal: Journal,
    /// What is said of the opening on the tiers.
    pub(super) office: Office,
    /// What an earlier process of this gate may still change.
    pub(super) late: LateWrites,
    /// No extent moves before: an owner that has not let go may still have writes under way to
    /// where extents were.
    pub(super) moves_from: Nanos,
}

impl Volume {
    /// Its size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.layout.size_bytes()
    }

    /// What it is known by.
    pub fn id(&self) -> VolumeId {
        self.journal.volume()
    }

    /// What this opening is known by.
    pub fn owner(&self) -> OwnerId {
        self.office.owner
    }

    /// What this gate is to remember of it.
    pub fn witness(&self) -> Witness {
        self.office.witness(self.id())
    }

    /// What lies where on the tiers.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Which extent lies in which slot.
    pub fn map(&self) -> &TierMap {
        &self.map
    }

    /// Whether a late write may still reach a slot.
    pub(super) fn is_slot_late(&self, now: Nanos, place: Place) -> bool {
        let range = self.layout.slot_range(place.tier(), place.slot());
        self.late.reaches(now, place.tier(), &range)
    }

    /// Takes a free slot of a tier that no late write may reach any more.
    pub(super) fn take_free(&mut self, now: Nanos, tier: usize) -> Option<Place> {
        let Self { map, late, layout, .. } = self;
        let is_late =
            |place: Place| late.reaches(now, tier, &layout.slot_range(tier, place.slot()));
        map.take_free(tier, |place| !is_late(place))
    }

    /// A write to a slot has failed: until then it may still come through.
    pub(super) fn leave(&mut self, place: Place, until: Nanos) {
        let range = self.layout.slot_range(place.tier(), place.slot());
        self.late.add(place.tier(), &range, until);
    }

    /// Whether a late write may still reach what is noted on the fastest tier.
    pub(super) fn are_notes_late(&self, now: Nanos) -> bool {
        let fastest = self.layout.fastest();
        self.late.reaches(now, fastest, &(0..self.layout.slot_offset(fastest, 0)))
    }

    /// The lease that it was opened with, on one of its tiers.
    pub fn lease(&self, tier: usize) -> Lease {
        // An opening counts all heads up twice.
        self.office.lease((identity(self.id(), tier), self.office.generation + 1), tier, None)
    }
}

/// Which tier of which volume that is.
pub(super) fn identity(volume: VolumeId, tier: usize) -> Identity {
    Identity { words: PARLANCE, volume, number: u32::try_from(tier).expect("few tiers") }
}
