//! A volume in service: what the engine asks it on the way of every request.

use evenkeel_core::id::ServerId;
use evenkeel_core::ticket::Kind;

use super::volume::Volume;
use crate::placement::{Piece, Placement};
use crate::policy::TierPlan;

/// The volume of a domain, with the servers that its tiers are.
pub(crate) struct Serving {
    volume: Volume,
    /// By tier.
    servers: Vec<ServerId>,
    /// Bits of a volume's offset that lie within an extent.
    extent_bits: u32,
    /// What the step that writes notes has to write.
    note: Vec<u8>,
}

impl Serving {
    /// Begins to serve.
    pub(crate) fn new(volume: Volume, plan: &TierPlan) -> Self {
        assert!(plan.servers.len() == volume.layout.tiers.len(), "a server for each tier");
        let extent_bits = volume.layout.extent_bytes.trailing_zeros();
        Self { volume, servers: plan.servers.clone(), extent_bits, note: Vec::new() }
    }

    /// What the step that writes notes has to write.
    pub(crate) fn note_bytes(&self) -> &[u8] {
        &self.note
    }
}

impl Placement for Serving {
    fn piece(&self, _: Kind, offset: u64, length: u64) -> Piece {
        // An empty request may stand at the very end.
        let last = self.volume.map.extents() - 1;
        let extent = u32::try_from(offset >> self.extent_bits).map_or(last, |one| one.min(last));
        let place = self.volume.map.place(extent);
        let into = offset - (u64::from(extent) << self.extent_bits);
        let left = (1 << self.extent_bits) - into;
        Piece {
            server: self.servers[place.tier()],
            offset: self.volume.layout.slot_offset(place.tier(), place.slot()) + into,
            length: length.min(left),
        }
    }

    fn flushed(&self, index: usize) -> Option<ServerId> {
        self.servers.get(index).copied()
    }
}
