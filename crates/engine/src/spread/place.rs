//! Where an object lies: a slot of a server, in four bytes.

use std::fmt;

use super::layout::SERVERS_MAX;

/// Bits of a packed place that are its slot.
const SLOT_BITS: u32 = 26;
/// Most slots of a server: 256 TiB in objects of 4 MiB.
pub(super) const SLOTS_MAX: u32 = (1 << SLOT_BITS) - 1;
/// Most objects of a volume: 4 PiB in objects of 4 MiB.
pub(super) const OBJECTS_MAX: u32 = 1 << 30;

/// A slot of a server, or nowhere.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u32);

impl Place {
    /// No slot at all.
    pub(super) const NOWHERE: Self = Self(u32::MAX);
    /// Some slot of the server that is away.
    pub(super) const AWAY: Self = Self(u32::MAX - (1 << SLOT_BITS));

    /// The place of this slot.
    pub(super) fn new(server: usize, slot: u32) -> Self {
        assert!(server < SERVERS_MAX && slot < SLOTS_MAX, "a place has 32 bits");
        Self(u32::try_from(server).expect("below the bound") << SLOT_BITS | slot)
    }

    /// Server and slot, if they are known.
    pub(super) fn get(self) -> Option<(usize, u32)> {
        let (server, slot) = ((self.0 >> SLOT_BITS) as usize, self.0 & SLOTS_MAX);
        (slot < SLOTS_MAX).then_some((server, slot))
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some((server, slot)) => write!(f, "{server}:{slot}"),
            None if *self == Self::AWAY => write!(f, "away"),
            None => write!(f, "nowhere"),
        }
    }
}
