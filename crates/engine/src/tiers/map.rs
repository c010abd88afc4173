//! Which extent of the volume lies in which slot of which tier: each in exactly one.
//!
//! At first the volume's first extents lie on the fastest tier until it is full but for its
//! reserve, the next ones on the next slower tier, and so on; in order of their slots. So it is
//! plain what a test that reads the first gigabyte reads from.
//!
//! ```text
//! tiers slow (4 slots) and fast (3 slots), one of each in reserve:
//!
//!   extent   0  1  2  3  4            fast  | 0 | 1 | . |
//!   place   f0 f1 s0 s1 s2            slow  | 2 | 3 | 4 | . |
//! ```
//!
//! Memory: a quarter of a byte per extent, and 4 for each that has moved, at most 4.3 bytes per
//! extent (`runs.rs`); and the same once more for the slots of all tiers but the slowest.

use std::collections::VecDeque;
use std::fmt;

use super::layout::{Layout, RESERVE_SLOTS, TierLayout};
use super::runs::Runs;

/// Bits of a packed place that are its slot.
const SLOT_BITS: u32 = 29;
/// Most slots of a tier, and most extents of a volume.
pub const SLOTS_MAX: u32 = 1 << SLOT_BITS;
/// Stands for no extent.
const NOBODY: u32 = u32::MAX;

/// A slot of a tier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(u32);

impl Place {
    /// The place of this slot.
    pub fn new(tier: usize, slot: u32) -> Self {
        assert!(tier < crate::policy::TIERS_MAX && slot < SLOTS_MAX, "a place has 32 bits");
        Self(u32::try_from(tier).expect("below the bound") << SLOT_BITS | slot)
    }

    /// The tier, counted from the slowest.
    pub fn tier(self) -> usize {
        (self.0 >> SLOT_BITS) as usize
    }

    /// The slot.
    pub fn slot(self) -> u32 {
        self.0 & (SLOTS_MAX - 1)
    }

    /// The place in four bytes: three bits of tier above 29 of slot.
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// What [`Self::to_bits`] gave. Any bits are a place, though perhaps none of the volume's.
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.tier(), self.slot())
    }
}

/// The map. See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierMap {
    /// The bits of a place, by extent.
    places: Runs,
    tiers: Vec<TierSlots>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TierSlots {
    slots: u32,
    /// The one that is free for longest comes first.
    free: VecDeque<u32>,
    /// How many hold an extent.
    used: u32,
    /// By slot; left empty for the slowest tier, which nobody leaves for a slower one.
    occupants: Runs,
}

/// A map whose places come one by one, in the order of the extents.
#[derive(Debug)]
pub(super) struct MapBuilder {
    map: TierMap,
    /// By tier and slot: whether an extent is there; 64 slots a word.
    is_used: Vec<Vec<u64>>,
    extents: u32,
}

/// Why places are no map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// This extent is said to lie where the volume has no slot.
    OutOfBounds {
        /// The extent.
        extent: u32,
    },
    /// This extent is said to lie where another one does.
    Shared {
        /// The extent.
        extent: u32,
    },
}

impl TierMap {
    /// The map of a new volume.
    pub fn initial(layout: &Layout) -> Self {
        let mut map = MapBuilder::new(layout);
        for (tier, slots) in layout.tiers.iter().map(|tier| tier.slots).enumerate().rev() {
            for slot in 0..slots - RESERVE_SLOTS {
                map.push(Place::new(tier, slot)).expect("every extent has a slot of its own");
            }
        }
        map.finish().expect("every extent has a slot")
    }

    /// Extents of the volume.
    pub fn extents(&self) -> u32 {
        self.places.len()
    }

    /// Where an extent lies. O(1).
    pub fn place(&self, extent: u32) -> Place {
        Place(self.places.get(extent).expect("an extent of the volume"))
    }

    /// Where the extents lie, from this one on.
    pub fn places_from(&self, extent: u32) -> impl ExactSizeIterator<Item = Place> + '_ {
        self.places.iter_from(extent).map(Place)
    }

    /// Slots of a tier.
    pub fn slots(&self, tier: usize) -> u32 {
        self.tiers[tier].slots
    }

    /// Slots of a tier that hold nothing and may be taken.
    pub fn free_slots(&self, tier: usize) -> u32 {
        count(self.tiers[tier].free.len())
    }

    /// Slots of a tier that hold an extent. O(1).
    pub fn used_slots(&self, tier: usize) -> u32 {
        self.tiers[tier].used
    }

    /// The extent in this slot, if there is one. O(1). The slowest tier does not know.
    pub fn occupant(&self, place: Place) -> Option<u32> {
        let extent = self.tiers[place.tier()].occupants.get(place.slot())?;
        (extent != NOBODY).then_some(extent)
    }

    /// Takes a slot of a tier out of the free ones: of those that `is_usable` the one that is free
    /// for longest, so that what is still on its way to a slot finds it empty.
    pub fn take_free(&mut self, tier: usize, is_usable: impl Fn(Place) -> bool) -> Option<Place> {
        let free = &mut self.tiers[tier].free;
        let index = free.iter().position(|slot| is_usable(Place::new(tier, *slot)))?;
        free.remove(index).map(|slot| Place::new(tier, slot))
    }

    /// Puts a slot back that [`Self::take_free`] gave or [`Self::switch`] vacated.
    pub fn release(&mut self, place: Place) {
        debug_assert!(self.occupant(place).is_none(), "{place:?} is in use");
        self.tiers[place.tier()].free.push_back(place.slot());
    }

    /// From now on the extent lies in this slot, which [`Self::take_free`] gave. Returns where it
    /// was; that slot is not free before [`Self::release`].
    pub fn switch(&mut self, extent: u32, to: Place) -> Place {
        let from = self.place(extent);
        self.places.set(extent, to.0);
        self.tiers[from.tier()].used -= 1;
        self.tiers[to.tier()].used += 1;
        self.set_occupant(from, NOBODY);
        self.set_occupant(to, extent);
        from
    }

    /// Follows a move that the journal tells of.
    ///
    /// # Errors
    /// If the extent was not there, or the slot not free.
    pub(super) fn replay(&mut self, extent: u32, from: Place, to: Place) -> Result<(), MapError> {
        if self.places.get(extent) != Some(from.0) || to.tier() >= self.tiers.len() {
            return Err(MapError::OutOfBounds { extent });
        }
        let free = &mut self.tiers[to.tier()].free;
        let index = free.iter().position(|slot| *slot == to.slot());
        free.remove(index.ok_or(MapError::Shared { extent })?);
        let from = self.switch(extent, to);
        self.release(from);
        Ok(())
    }

    fn set_occupant(&mut self, place: Place, extent: u32) {
        if place.tier() > 0 {
            self.tiers[place.tier()].occupants.set(place.slot(), extent);
        }
    }
}

impl MapBuilder {
    /// No extent has a place yet.
    pub(super) fn new(layout: &Layout) -> Self {
        // Most slots hold what they held at first: so the table of occupants begins with that.
        let mut first = layout.extents;
        let tiers = layout.tiers.iter().enumerate().map(|(tier, &TierLayout { slots, .. })| {
            first -= slots - RESERVE_SLOTS;
            let occupants = if tier == 0 { Runs::default() } else { Runs::counting(first, slots) };
            TierSlots { slots, free: VecDeque::new(), used: 0, occupants }
        });
        let tiers: Vec<_> = tiers.collect();
        let words = |tier: &TierSlots| vec![0; tier.slots.div_ceil(u64::BITS) as usize];
        let is_used = tiers.iter().map(words).collect();
        Self { map: TierMap { places: Runs::default(), tiers }, is_used, extents: layout.extents }
    }

    /// The next extent lies there.
    ///
    /// # Errors
    /// If there is no such slot, or another extent in it.
    pub(super) fn push(&mut self, place: Place) -> Result<(), MapError> {
        let extent = self.map.extents();
        let tier = self.map.tiers.get_mut(place.tier()).filter(|tier| place.slot() < tier.slots);
        let tier = tier.ok_or(MapError::OutOfBounds { extent })?;
        let (word, bit) = word_of(place.slot());
        let used = &mut self.is_used[place.tier()][word];
        if *used & bit != 0 {
            return Err(MapError::Shared { extent });
        }
        *used |= bit;
        tier.used += 1;
        self.map.places.push(place.0);
        self.map.set_occupant(place, extent);
        Ok(())
    }

    /// The map, once every extent has a place.
    pub(super) fn finish(self) -> Option<TierMap> {
        let Self { mut map, is_used, extents } = self;
        if map.extents() != extents {
            return None;
        }
        for (tier, used) in is_used.iter().enumerate() {
            let slots = map.slots(tier);
            let words = (0..).zip(used).filter(|(_, used)| **used != u64::MAX);
            let bits = words.flat_map(|(word, used)| {
                let is_free = move |bit: &u32| used >> bit & 1 == 0;
                (0..u64::BITS).filter(is_free).map(move |bit| word * u64::BITS + bit)
            });
            let free: VecDeque<u32> = bits.take_while(|slot| *slot < slots).collect();
            for slot in &free {
                map.set_occupant(Place::new(tier, *slot), NOBODY);
            }
            map.tiers[tier].free = free;
        }
        Some(map)
    }
}

/// The word of a slot in a bitmap, and its bit there.
fn word_of(slot: u32) -> (usize, u64) {
    ((slot / u64::BITS) as usize, 1 << (slot % u64::BITS))
}

fn count(slots: usize) -> u32 {
    u32::try_from(slots).expect("slots are numbered by u32")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn from_places(layout: &Layout, places: &[Place]) -> Result<TierMap, MapError> {
        let mut map = MapBuilder::new(layout);
        for place in places {
            map.push(*place)?;
        }
        Ok(map.finish().expect("all places are there"))
    }

    pub(super) fn layout(slots: &[u32]) -> Layout {
        Layout {
            extent_bytes: 64 << 10,
            tiers: slots.iter().map(|&slots| TierLayout { data_offset: 0, slots }).collect(),
            extents: slots.iter().map(|slots| slots - 1).sum(),
            checkpoint_blocks: 1,
            journal_records: 64,
        }
    }

    #[test]
    fn the_first_extents_lie_on_the_fastest_tier() {
        let map = TierMap::initial(&layout(&[4, 3]));
        let places: Vec<_> = map.places_from(0).map(|place| format!("{place:?}")).collect();
        assert_eq!(places, ["1:0", "1:1", "0:0", "0:1", "0:2"]);
        assert_eq!((map.free_slots(0), map.free_slots(1)), (1, 1));
        assert_eq!(map.occupant(Place::new(1, 1)), Some(1));
    }

    #[test]
    fn a_vacated_slot_is_free_only_when_it_is_released() {
        let mut map = TierMap::initial(&layout(&[3, 2]));
        let to = map.take_free(1, |_| true).unwrap();
        let from = map.switch(2, to);
        assert_eq!((map.place(2), from), (to, Place::new(0, 1)));
        assert_eq!((map.free_slots(0), map.free_slots(1)), (1, 0));
        map.release(from);
        assert_eq!(map.free_slots(0), 2);
        assert_eq!(map.occupant(to), Some(2));
    }

    #[test]
    fn places_that_are_shared_or_do_not_exist_are_no_map() {
        let layout = layout(&[3, 2]);
        let place = Place::new;
        let made = |places: &[Place]| from_places(&layout, places).unwrap_err();
        let shared = made(&[place(0, 1), place(1, 1), place(0, 1)]);
        assert_eq!(shared, MapError::Shared { extent: 2 });
        for outside in [place(0, 3), place(2, 0)] {
            assert_eq!(made(&[place(0, 0), outside]), MapError::OutOfBounds { extent: 1 });
        }
    }

    proptest! {
        #[test]
        fn any_moves_leave_the_map_that_a_naive_one_has(
            slots in prop::collection::vec(2..9_u32, 2..=8),
            moves in prop::collection::vec((any::<u32>(), any::<usize>(), any::<bool>()), 0..80),
        ) {
            let layout = layout(&slots);
            let mut map = TierMap::initial(&layout);
            let mut naive: BTreeMap<u32, Place> = (0..).zip(map.places_from(0)).collect();
            for (extent, tier, is_given_up) in moves {
                let (extent, tier) = (extent % layout.extents, tier % slots.len());
                let Some(to) = map.take_free(tier, |_| true) else {
                    let used = naive.values().filter(|place| place.tier() == tier).count();
                    prop_assert_eq!(used, slots[tier] as usize);
                    continue;
                };
                prop_assert!(naive.values().all(|place| *place != to), "it was free");
                if is_given_up {
                    map.release(to);
                } else {
                    let from = map.switch(extent, to);
                    prop_assert_eq!(naive.insert(extent, to), Some(from));
                    map.release(from);
                }
            }
            let places: Vec<_> = naive.values().copied().collect();
            prop_assert!(map.places_from(0).eq(places.iter().copied()));
            let again = from_places(&layout, &places).unwrap();
            for (tier, slots) in slots.into_iter().enumerate() {
                prop_assert_eq!(map.free_slots(tier), again.free_slots(tier));
                prop_assert_eq!(map.used_slots(tier), again.used_slots(tier));
                for slot in 0..slots {
                    let place = Place::new(tier, slot);
                    prop_assert_eq!(map.occupant(place), again.occupant(place));
                }
            }
        }
    }

    /// Bytes that a map takes while it is built.
    fn built_bytes(layout: &Layout, places: impl Iterator<Item = Place>) -> usize {
        let mut map = MapBuilder::new(layout);
        places.for_each(|place| map.push(place).unwrap());
        let bitmaps: usize = map.is_used.iter().map(|words| words.len() * 8).sum();
        let map = map.finish().unwrap();
        let occupants: usize = map.tiers.iter().map(|tier| tier.occupants.bytes()).sum();
        map.places.bytes() + occupants + bitmaps
    }

    #[test]
    fn a_map_takes_less_than_five_bytes_an_extent_and_little_for_what_has_not_moved() {
        // A 64th of 8 TiB in extents of 64 KiB, a tenth of it fast.
        let layout = layout(&[1_887_437, 209_715]);
        let mut places: Vec<_> = TierMap::initial(&layout).places_from(0).collect();
        let mut prng = evenkeel_core::prng::Prng::new(1);
        let (fast, all) = (u64::from(layout.tiers[1].slots - 1), u64::from(layout.extents));
        for _ in 0..all / 20 {
            let [hot, cold] = [fast + prng.below(all - fast), prng.below(fast)];
            places.swap(usize::try_from(hot).unwrap(), usize::try_from(cold).unwrap());
        }
        let moved_bytes = built_bytes(&layout, places.iter().copied());
        assert!(64 * moved_bytes < 130_000_000, "{moved_bytes}");
        let shuffled_bytes = built_bytes(&layout, places.iter().rev().copied());
        assert!(shuffled_bytes as u64 <= 5 * all, "{shuffled_bytes} for {all}");
    }

    #[test]
    fn a_replayed_move_must_fit_the_map() {
        let mut map = TierMap::initial(&layout(&[3, 2]));
        let place = Place::new;
        assert_eq!(map.replay(0, place(1, 0), place(0, 2)), Ok(()));
        assert_eq!((map.place(0), map.free_slots(0), map.free_slots(1)), (place(0, 2), 0, 2));
        let again = map.replay(0, place(1, 0), place(1, 1));
        assert_eq!(again, Err(MapError::OutOfBounds { extent: 0 }), "it is not there any more");
        let taken = map.replay(0, place(0, 2), place(0, 0));
        assert_eq!(taken, Err(MapError::Shared { extent: 0 }));
        let beyond = map.replay(0, place(0, 2), place(7, 0));
        assert_eq!(beyond, Err(MapError::OutOfBounds { extent: 0 }));
    }
}
