//! Places: objects of skewed popularity, scattered over a device, and sequences that go on.
//!
//! A rank is drawn by [Zipf's law](super::zipf) and a keyed permutation gives it a slot, so that
//! popular objects lie anywhere and the whole device is used. A request goes on where the last one
//! ended with a given chance.
//!
//! ```text
//! rank 0 -> slot 5, rank 1 -> slot 2, ..        | . | . | 1 | . | . | 0 | . | 2 |
//! ```

use evenkeel_core::prng::Prng;

use super::profile::{PlaceProfile, Profile};
use super::zipf::Zipf;
use crate::transform::permutation::Permutation;
use crate::transform::siphash::Key;

/// Where one source's requests go.
#[derive(Clone, Debug)]
pub(super) struct Places {
    profile: PlaceProfile,
    ranks: Zipf,
    slots: Permutation,
}

impl Places {
    /// The places of a source of a profile that was checked.
    pub(super) fn new(profile: &Profile, source: usize, prng: &mut Prng) -> Self {
        let places = profile.places;
        let ranks = Zipf::grouped(profile.objects_of(source), places.skew, places.ranks_each);
        let [low, high] = [prng.next_u64().to_le_bytes(), prng.next_u64().to_le_bytes()];
        let key = Key::new(std::array::from_fn(|i| if i < 8 { low[i] } else { high[i - 8] }));
        let slots = Permutation::new(key, places.device_bytes / places.object_bytes);
        Self { profile: places, ranks, slots }
    }

    /// Where a request of so many bytes begins that continues no other.
    pub(super) fn draw(&self, length: u64, prng: &mut Prng) -> u64 {
        let offset = self.slots.of(self.ranks.draw(prng)) * self.profile.object_bytes;
        let last = (self.profile.device_bytes - length) & !(self.profile.alignment_bytes - 1);
        offset.min(last)
    }

    /// Whether the device has room for a request of so many bytes from here on.
    pub(super) fn has_room(&self, offset: u64, length: u64) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.profile.device_bytes)
    }

    /// The next multiple of the alignment.
    pub(super) fn aligned_up(&self, offset: u64) -> u64 {
        let rest = self.profile.alignment_bytes - 1;
        offset.saturating_add(rest) & !rest
    }
}
