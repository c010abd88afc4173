//! The tail's cache under traces: how many reads of the tail it keeps from its drive, and what that
//! costs the SSD.
//!
//! ```text
//! records --> log: block -> address --> side(address) --> the store's cache policy --> hits, wear
//!                  |<-- body: older --|-- tail's drive: what was written since -->|
//! ```
//!
//! The policy is the store's own, without bytes ([`evenkeel_store::cache::Replay`]). A block that
//! is read before it was written is old data of the body. Nothing is cleaned, so that the tail's
//! drive fills with what clients write.
//!
//! Sizes are a part of the published ones, all by the same factor: drive, memory, SSD and what the
//! traces touch, so that the ratios between them are the published ones.

use std::collections::BTreeMap;
use std::iter::Peekable;

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;
use evenkeel_store::BLOCK_BYTES;
use evenkeel_store::cache::{
    CacheCounters, Endurance, FlashMeasures, Hits, Key, Measures, Replay, Side,
};
use evenkeel_trace::Record;
use evenkeel_trace::generate::{Generator, Limit, Profile};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Blocks of a region of the SSD's log: 1 MiB.
const REGION_BLOCKS: u32 = 256;

/// Where old data lies that was there before the trace began.
const OLD: u64 = 1 << 60;

/// The sizes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSizes {
    /// Bytes of memory, half for what was written and half for what was read.
    pub memory_bytes: u64,
    /// Bytes of the SSD.
    pub flash_bytes: u64,
    /// Bytes by which the tail's drive is filled from one figure to the next.
    pub step_bytes: u64,
    /// How many figures.
    pub steps: u32,
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CacheOutcome {
    /// Reads of the tail, while its drive was filled by one step after the other. The last ones are
    /// missing if the trace ended before.
    pub by_step: Vec<Hits>,
    /// All that happened.
    pub counters: CacheCounters,
    /// Blocks that were written to the tail and overwritten later: no memory, however large, can
    /// keep more writes from the SSD.
    pub overwritten: u64,
}

/// Replays records, each with the number of its trace, until the tail's drive is full.
pub fn replay(records: impl Iterator<Item = (usize, Record)>, sizes: &CacheSizes) -> CacheOutcome {
    let mut log = Log::new(sizes);
    let mut by_step = Vec::new();
    let mut before = Hits::default();
    for (trace, record) in records {
        log.take(trace, &record);
        let step = log.head * BLOCK / sizes.step_bytes;
        while by_step.len() < usize::try_from(step).expect("steps are few") {
            let tail = log.cache.counters().tail;
            by_step.push(since(tail, before));
            before = tail;
        }
        if step >= u64::from(sizes.steps) {
            break;
        }
    }
    by_step.truncate(sizes.steps as usize);
    CacheOutcome { by_step, counters: log.cache.counters(), overwritten: log.overwritten }
}

/// Traces drawn like these, as if they ran side by side; what they touch is divided by `divisor`.
///
/// # Panics
/// If a profile is not valid.
pub fn mix(profiles: &[Profile], divisor: u64, seed: u64) -> impl Iterator<Item = (usize, Record)> {
    let generators = profiles.iter().zip(seed..).map(|(profile, seed)| {
        let mut profile = profile.clone();
        let places = &mut profile.places;
        places.objects = (places.objects / divisor).max(1);
        places.device_bytes = (places.device_bytes / divisor).next_multiple_of(places.object_bytes);
        Generator::new(&profile, seed, Limit::default()).expect("the profile is valid")
    });
    merged(generators.collect())
}

/// Records of several traces by their time.
pub fn merged<I: Iterator<Item = Record>>(traces: Vec<I>) -> impl Iterator<Item = (usize, Record)> {
    let mut traces: Vec<Peekable<I>> = traces.into_iter().map(Iterator::peekable).collect();
    std::iter::from_fn(move || {
        let heads = traces.iter_mut().enumerate();
        let heads = heads.filter_map(|(trace, records)| Some((records.peek()?.at, trace)));
        let (_, trace) = heads.min()?;
        Some((trace, traces[trace].next()?))
    })
}

/// The log and its cache.
struct Log {
    cache: Replay,
    map: BTreeMap<(usize, u32, u64), u64>,
    /// Blocks written to the tail's drive.
    head: u64,
    old: u64,
    overwritten: u64,
}

impl Log {
    fn new(sizes: &CacheSizes) -> Self {
        let half = usize::try_from(sizes.memory_bytes / BLOCK / 2).expect("it fits memory").max(1);
        let regions = sizes.flash_bytes / BLOCK / u64::from(REGION_BLOCKS);
        let regions = u32::try_from(regions).expect("an SSD has fewer").max(4);
        let measures = Measures {
            tail_blocks: half,
            body_blocks: half,
            flash: Some(FlashMeasures { regions, region_blocks: REGION_BLOCKS }),
        };
        let cache = Replay::new(Nanos::ZERO, measures, Endurance::default());
        Self { cache, map: BTreeMap::new(), head: 0, old: OLD, overwritten: 0 }
    }

    fn take(&mut self, trace: usize, record: &Record) {
        let blocks = record.offset / BLOCK..(record.offset + record.length).div_ceil(BLOCK);
        for block in blocks {
            let place = (trace, record.source.0, block);
            match record.kind {
                Kind::Read => self.read(record.at, place),
                Kind::Write | Kind::WriteZeroes => self.write(record.at, place),
                Kind::Flush | Kind::Trim | Kind::Cache => {}
            }
        }
    }

    fn read(&mut self, now: Nanos, place: (usize, u32, u64)) {
        let old = &mut self.old;
        let key = *self.map.entry(place).or_insert_with(|| {
            *old += 1;
            *old
        });
        self.cache.read(now, Key(key), side);
    }

    fn write(&mut self, now: Nanos, place: (usize, u32, u64)) {
        let key = self.head;
        self.head += 1;
        if let Some(before) = self.map.insert(place, key) {
            self.cache.forget(Key(before));
            self.overwritten += u64::from(side(Key(before)) == Side::Tail);
        }
        self.cache.write(now, Key(key), side);
    }
}

fn side(key: Key) -> Side {
    if key.0 < OLD { Side::Tail } else { Side::Body }
}

fn since(now: Hits, before: Hits) -> Hits {
    Hits {
        memory: now.memory - before.memory,
        flash: now.flash - before.flash,
        misses: now.misses - before.misses,
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_trace::generate::profile;

    use super::*;

    const SIZES: CacheSizes =
        CacheSizes { memory_bytes: 4 << 20, flash_bytes: 64 << 20, step_bytes: 64 << 20, steps: 3 };

    #[test]
    fn while_all_of_the_tail_fits_every_read_of_it_hits() {
        let profiles = [profile("prxy").unwrap(), profile("prn").unwrap()];
        let outcome = replay(mix(&profiles, 4096, 1), &SIZES);
        assert_eq!(outcome.by_step.len(), 3);
        assert_eq!(outcome.by_step[0].misses, 0);
        assert!(outcome.by_step[0].reads() > 0);
    }

    #[test]
    fn memory_keeps_writes_from_the_ssd() {
        let profiles = [profile("prxy").unwrap(), profile("src1").unwrap()];
        let written = |memory_bytes| {
            let sizes = CacheSizes { memory_bytes, ..SIZES };
            replay(mix(&profiles, 4096, 1), &sizes).counters.flash_written
        };
        assert!(written(16 << 20) < written(64 << 10));
    }
}
