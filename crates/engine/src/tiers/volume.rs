//! A volume as its tiers tell of it: what an engine needs to serve it.

use super::format::VolumeId;
use super::journal::Journal;
use super::layout::Layout;
use super::map::TierMap;

/// A volume that was opened. See [`super::Opening`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    pub(crate) layout: Layout,
    pub(crate) map: TierMap,
    pub(crate) journal: Journal,
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

    /// What lies where on the tiers.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Which extent lies in which slot.
    pub fn map(&self) -> &TierMap {
        &self.map
    }
}
