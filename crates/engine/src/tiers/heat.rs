//! How often extents are asked for: counts that halve with every [`HALF_LIFE`].
//!
//! Requests count, not bytes; a run of requests of one tenant, each beginning where the last one
//! ended, counts once in every extent that it passes. So a backup that reads everything once makes
//! nothing hot, while a table that is looked up at random does.
//!
//! Counts are kept in pages of 256 extents, with the half-life in which the page was touched last.
//! The first access to a page in a half-life halves its counts, once for each half-life since, and
//! nothing ever goes over all extents. Counts are in sixteenths, so that one access is not
//! forgotten at the first halving; they end at 4095. 16 bits number the half-lives: after 22 days
//! extents that nobody touched may for 30 seconds look as hot as they were, which costs a needless
//! move at worst.
//!
//! Memory: 2 bytes per extent of the pages that were ever touched.

use evenkeel_core::id::TenantId;
use evenkeel_core::time::{Nanos, Span};

/// After so long a count weighs half.
pub(super) const HALF_LIFE: Span = Span::from_secs(30);
/// What one access adds.
const ONE: u16 = 16;
/// Extents of a page.
const PAGE: usize = 256;

/// The counts of all extents.
#[derive(Debug)]
pub(super) struct Heat {
    /// None where nothing was ever asked for.
    pages: Vec<Option<Box<Page>>>,
    /// Where the last request of each tenant ended, in bytes of the volume.
    last_ends: Vec<u64>,
}

#[derive(Debug)]
struct Page {
    /// In sixteenths of an access.
    counts: [u16; PAGE],
    /// The half-life in which they were right.
    touched: u16,
}

/// A part of a request that lies in one extent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) tenant: TenantId,
    pub(super) extent: u32,
    /// Where it begins, in bytes of the volume.
    pub(super) offset: u64,
    /// Where its request ends, in bytes of the volume.
    pub(super) request_end: u64,
    /// Whether the request begins with it.
    pub(super) is_first: bool,
    /// Whether the extent begins with it.
    pub(super) at_start: bool,
}

impl Heat {
    /// Counts of zero.
    pub(super) fn new(extents: u32) -> Self {
        let pages = (extents as usize).div_ceil(PAGE);
        Self { pages: (0..pages).map(|_| None).collect(), last_ends: Vec::new() }
    }

    /// Counts an access; none if it goes on with what was counted before. Returns the accesses of
    /// the extent.
    pub(super) fn touch(&mut self, now: Nanos, access: &Access) -> Option<u32> {
        let goes_on = !access.is_first || self.follows_the_last(access);
        if goes_on && !access.at_start {
            return None;
        }
        let half_life = half_life(now);
        let (page, at) = split(access.extent);
        let page = self.pages[page].get_or_insert_with(|| Page::new(half_life));
        page.age_to(half_life);
        let count = &mut page.counts[at];
        *count = count.saturating_add(ONE);
        Some(u32::from(*count / ONE))
    }

    /// The accesses of an extent, those of long ago at less.
    pub(super) fn of(&self, now: Nanos, extent: u32) -> u32 {
        let (page, at) = split(extent);
        let count = self.pages[page].as_ref().map_or(0, |page| page.count(at, half_life(now)));
        u32::from(count / ONE)
    }

    /// Whether the request begins where its tenant's last one ended.
    fn follows_the_last(&mut self, access: &Access) -> bool {
        let index = access.tenant.index();
        if index >= self.last_ends.len() {
            self.last_ends.resize(index + 1, u64::MAX);
        }
        let last_end = std::mem::replace(&mut self.last_ends[index], access.request_end);
        last_end == access.offset
    }
}

impl Page {
    fn new(half_life: u16) -> Box<Self> {
        Box::new(Self { counts: [0; PAGE], touched: half_life })
    }

    fn count(&self, at: usize, half_life: u16) -> u16 {
        let age = half_life.wrapping_sub(self.touched);
        self.counts[at].checked_shr(u32::from(age)).unwrap_or(0)
    }

    fn age_to(&mut self, half_life: u16) {
        if self.touched != half_life {
            self.counts = std::array::from_fn(|at| self.count(at, half_life));
            self.touched = half_life;
        }
    }
}

/// The page of an extent, and where it is there.
fn split(extent: u32) -> (usize, usize) {
    (extent as usize / PAGE, extent as usize % PAGE)
}

fn half_life(now: Nanos) -> u16 {
    u16::try_from((now.0 / HALF_LIFE.0) & u64::from(u16::MAX)).expect("masked")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENT_BYTES: u64 = 1 << 20;

    fn access(offset: u64, length: u64) -> Access {
        Access {
            tenant: TenantId(0),
            extent: u32::try_from(offset / EXTENT_BYTES).unwrap(),
            offset,
            request_end: offset + length,
            is_first: true,
            at_start: offset.is_multiple_of(EXTENT_BYTES),
        }
    }

    #[test]
    fn counts_halve_with_time() {
        let mut heat = Heat::new(4);
        for index in 0..8 {
            heat.touch(Nanos::ZERO, &access(8192 * index + 4096, 4096));
        }
        let later = |half_lives: u64| Nanos(HALF_LIFE.0 * half_lives);
        let counts: Vec<_> = (0..5).map(|age| heat.of(later(age), 0)).collect();
        assert_eq!(counts, [8, 4, 2, 1, 0]);
        assert_eq!(heat.touch(later(2), &access(500_000, 1)), Some(3));
    }

    #[test]
    fn a_sequential_run_counts_once_per_extent() {
        let mut heat = Heat::new(3);
        for index in 0..3 * EXTENT_BYTES / 65_536 {
            heat.touch(Nanos::ZERO, &access(index * 65_536, 65_536));
        }
        assert_eq!([0, 1, 2].map(|extent| heat.of(Nanos::ZERO, extent)), [1, 1, 1]);
    }

    #[test]
    fn a_count_never_overflows() {
        let mut heat = Heat::new(1);
        for index in 0..10_000 {
            heat.touch(Nanos::ZERO, &access(8192 * (index % 100) + 1, 1));
        }
        assert_eq!(heat.of(Nanos::ZERO, 0), 4095);
    }
}
