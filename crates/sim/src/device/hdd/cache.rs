//! The buffer of a drive: a few segments, each with one run of consecutive sectors.
//!
//! A read that misses takes a segment, and reading ahead makes it grow; at its size the oldest
//! sectors fall out at the front. A write takes a segment too, and what other segments held of its
//! sectors is forgotten with the whole segment. The segment used least recently is taken first,
//! empty ones before all.

use std::ops::Range;

use super::parameters::{CacheParameters, Writes};

/// What of a range the buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Its segment, valid until the buffer changes.
    pub segment: usize,
    /// The sector behind the last that is held.
    pub end: u64,
}

/// The segments, the one used last at the end.
#[derive(Clone, Debug)]
pub struct Cache {
    segments: Vec<Range<u64>>,
    segment_sectors: u64,
    keeps_writes: bool,
}

impl Cache {
    /// An empty buffer.
    pub fn new(parameters: &CacheParameters) -> Self {
        // A segment of their own takes writes out of the way of the reads; nothing reads it.
        let own = parameters.writes == Writes::ThroughOwnSegment;
        let for_reads = parameters.segments - usize::from(own);
        Self {
            segments: vec![0..0; for_reads],
            segment_sectors: parameters.segment_sectors,
            keeps_writes: !own,
        }
    }

    /// The segment that holds the first sector of `wanted`: one with all of it, if there is one.
    pub fn find(&self, wanted: &Range<u64>) -> Option<Hit> {
        let holding =
            self.segments.iter().enumerate().filter(|(_, held)| held.contains(&wanted.start));
        let reach = |held: &Range<u64>| held.end.min(wanted.end);
        let best = holding.max_by_key(|(index, held)| (reach(held), *index))?;
        Some(Hit { segment: best.0, end: reach(best.1) })
    }

    /// Whether a segment is the one used last.
    pub fn is_latest(&self, segment: usize) -> bool {
        segment + 1 == self.segments.len()
    }

    /// The range of the segment used last.
    pub fn latest(&self) -> &Range<u64> {
        self.segments.last().expect("a drive has a segment")
    }

    /// A segment is used: it goes last.
    pub fn touch(&mut self, segment: usize) {
        self.segments[segment..].rotate_left(1);
    }

    /// Takes a segment for sectors from `start` on; it is the one used last.
    pub fn take(&mut self, start: u64) {
        let empty = self.segments.iter().position(Range::is_empty);
        self.touch(empty.unwrap_or(0));
        *self.latest_mut() = start..start;
    }

    /// The segment used last holds everything up to `end`, as far as its size allows.
    pub fn extend(&mut self, end: u64) {
        let most = self.segment_sectors;
        let latest = self.latest_mut();
        latest.end = latest.end.max(end);
        latest.start = latest.start.max(latest.end.saturating_sub(most));
    }

    /// Takes in what is written.
    pub fn write(&mut self, sectors: &Range<u64>) {
        for held in &mut self.segments {
            if held.start < sectors.end && sectors.start < held.end {
                *held = 0..0;
            }
        }
        if self.keeps_writes {
            self.take(sectors.start);
            self.extend(sectors.end);
        }
    }

    fn latest_mut(&mut self) -> &mut Range<u64> {
        self.segments.last_mut().expect("a drive has a segment")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::hdd::parameters::ReadAhead;

    fn cache(segments: usize, writes: Writes) -> Cache {
        Cache::new(&CacheParameters {
            segments,
            segment_sectors: 100,
            writes,
            read_ahead: ReadAhead::Sectors(0),
            read_ahead_on_hit: false,
            whole_track: false,
        })
    }

    fn fill(cache: &mut Cache, range: Range<u64>) {
        cache.take(range.start);
        cache.extend(range.end);
    }

    fn end(cache: &Cache, range: Range<u64>) -> Option<u64> {
        cache.find(&range).map(|hit| hit.end)
    }

    #[test]
    fn a_hit_is_whole_or_from_the_front() {
        let mut cache = cache(2, Writes::Back);
        fill(&mut cache, 10..40);
        assert_eq!(end(&cache, 10..40), Some(40));
        assert_eq!(end(&cache, 30..50), Some(40));
        assert_eq!(end(&cache, 5..20), None);
        assert_eq!(end(&cache, 40..41), None);
    }

    #[test]
    fn the_segment_used_least_recently_goes_first() {
        let mut cache = cache(2, Writes::Back);
        fill(&mut cache, 0..10);
        fill(&mut cache, 20..30);
        let hit = cache.find(&(0..10)).unwrap();
        cache.touch(hit.segment);
        fill(&mut cache, 40..50);
        assert_eq!(end(&cache, 0..10), Some(10));
        assert_eq!(end(&cache, 20..30), None);
    }

    #[test]
    fn a_full_segment_forgets_its_front() {
        let mut cache = cache(1, Writes::Back);
        fill(&mut cache, 0..130);
        assert_eq!(cache.latest(), &(30..130));
    }

    #[test]
    fn a_write_voids_what_it_overlaps_and_can_be_read_back() {
        let mut cache = cache(3, Writes::Back);
        fill(&mut cache, 0..10);
        fill(&mut cache, 20..30);
        cache.write(&(8..12));
        assert_eq!(end(&cache, 0..4), None);
        assert_eq!(end(&cache, 8..12), Some(12));
        assert_eq!(end(&cache, 20..30), Some(30));
    }

    #[test]
    fn a_segment_of_their_own_keeps_writes_away_from_reads() {
        let mut cache = cache(2, Writes::ThroughOwnSegment);
        fill(&mut cache, 20..30);
        cache.write(&(0..10));
        assert_eq!(end(&cache, 0..10), None);
        assert_eq!(end(&cache, 20..30), Some(30));
    }
}
