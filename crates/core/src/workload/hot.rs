//! A hot part: so many of the requests fall within the first bytes of the range, the others within
//! the rest, each place of either part equally likely.
//!
//! ```text
//!   hot_bytes            rest
//! |##########|......................|
//!  p of 10^6     10^6 - p of 10^6         p = requests_ppm
//! ```
//!
//! Where a fast tier or a cache holds just the first part, the hit ratio is what was asked for.
//! Places of the hot part end within it, places of the rest begin behind it, so no request lies in
//! both.

use crate::prng::Prng;

/// All requests, in parts per million.
pub(super) const ALL_PPM: u32 = 1_000_000;

/// Draws places of one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hot {
    requests_ppm: u64,
    /// Places within the hot part.
    first_places: u64,
    /// The first place behind the hot part.
    rest_first: u64,
    rest_places: u64,
}

impl Hot {
    /// Places `align_bytes` apart for requests of `size_bytes` in a range of `room_bytes`. None if
    /// a part that is to be used has no place for them.
    pub(super) fn new(
        (hot_bytes, requests_ppm): (u64, u32),
        room_bytes: u64,
        (size_bytes, align_bytes): (u64, u64),
    ) -> Option<Self> {
        let places = |bytes: u64| bytes.checked_sub(size_bytes).map_or(0, |s| s / align_bytes + 1);
        let rest_first = hot_bytes.div_ceil(align_bytes);
        let hot = Self {
            requests_ppm: u64::from(requests_ppm),
            first_places: places(hot_bytes.min(room_bytes)),
            rest_first,
            rest_places: places(room_bytes).saturating_sub(rest_first),
        };
        let hot_is_used = requests_ppm > 0;
        let rest_is_used = requests_ppm < ALL_PPM;
        let fits = !(hot_is_used && hot.first_places == 0 || rest_is_used && hot.rest_places == 0);
        fits.then_some(hot)
    }

    /// The next place.
    pub(super) fn draw(&self, prng: &mut Prng) -> u64 {
        if prng.below(u64::from(ALL_PPM)) < self.requests_ppm {
            prng.below(self.first_places)
        } else {
            self.rest_first + prng.below(self.rest_places)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_gets_its_requests_and_all_of_its_places() {
        // 100,000 bytes: places 0 to 3 end within the first 20,000, place 5 is the first behind.
        let hot = Hot::new((20_000, 900_000), 100_000, (4096, 4096)).unwrap();
        let mut prng = Prng::new(3);
        let mut counts = [0u32; 24];
        for _ in 0..100_000 {
            counts[usize::try_from(hot.draw(&mut prng)).unwrap()] += 1;
        }
        assert!(counts[..4].iter().all(|&count| count.abs_diff(22_500) < 600), "{counts:?}");
        assert_eq!(counts[4], 0, "it would lie in both parts");
        assert!(counts[5..].iter().all(|&count| count.abs_diff(526) < 110), "{counts:?}");
    }

    #[test]
    fn a_part_without_room_is_refused_if_it_is_needed() {
        let places = |hot_bytes, ppm| Hot::new((hot_bytes, ppm), 8192, (4096, 4096));
        assert!(places(4096, 500_000).is_some());
        assert!(places(4095, 500_000).is_none() && places(4095, 0).is_some());
        assert!(places(4097, 500_000).is_none() && places(4097, ALL_PPM).is_some());
        assert!(places(1 << 40, ALL_PPM).is_some(), "all of the range is hot");
    }
}
