//! The tail's cache under traces: how many reads of the tail it keeps from its drive, and what that
//! costs the SSD.
//!
//! ```text
//! records --> log: block -> address on the tail's drive --> the store's cache policy --> hits
//!                  (none: it lies in the body)                                     wear
//! ```
//!
//! The policy is the store's own, without bytes ([`evenkeel_store::cache::Replay`]). The cache is
//! the tail's alone, as in the paper: reads of the body, which is everything that was not written
//! since the tail came to its drive, go to a cache of their own and are not looked at here. Nothing
//! is cleaned, so that the tail's drive fills with what clients write.
//!
//! Sizes are a part of the published ones, all by the same factor: drive, memory, SSD and what the
//! traces touch, so that the ratios between them are the published ones. What part of the requests
//! goes to what part of the blocks stays as it is: see [`Profile::divided`].

use std::collections::BTreeMap;
use std::iter::Peekable;

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;
use evenkeel_store::BLOCK_BYTES;
use evenkeel_store::cache::{
    CacheCounters, Endurance, FlashMeasures, Found as Placement, Hits, Key, Measures, Place,
    Replay, Side, Standing,
};
use evenkeel_trace::Record;
use evenkeel_trace::generate::{Generator, Limit, Profile};

use super::clairvoyant::{self, Access, Best, Steps};
use super::published::{self, Found, Published};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Blocks of a region of the SSD's log: 256 KiB.
const REGION_BLOCKS: u32 = 64;

/// The sizes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSizes {
    /// Bytes of memory, half for what was written last and half for what was read.
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
    /// The same accesses to the talk's cache.
    pub published: Published,
    /// The same, if it has no memory: blocks that go to its SSD.
    pub without_memory: u64,
    /// Reads of the tail by the same steps: hits are those of what was read before.
    pub read_before: Vec<Hits>,
    /// The same to a cache that knows the future.
    pub best: Best,
}

impl CacheOutcome {
    /// How many times as long the SSD of a cache lives that writes so many blocks to it, as it
    /// would without memory before it.
    pub fn times_longer(&self, flash_written: u64) -> f64 {
        self.without_memory as f64 / flash_written.max(1) as f64
    }
}

/// Replays records, each with the number of its trace, until the tail's drive is full.
pub fn replay(records: impl Iterator<Item = (usize, Record)>, sizes: &CacheSizes) -> CacheOutcome {
    let mut log = Log::new(sizes);
    let mut steps = Steps::new(sizes);
    let most = sizes.step_bytes * u64::from(sizes.steps) / BLOCK;
    for (trace, record) in records {
        log.take(trace, &record, &mut steps);
        if u64::from(log.head) >= most {
            break;
        }
    }
    let accesses = log.accesses;
    let no_memory = CacheSizes { memory_bytes: 0, ..*sizes };
    let mut by_step = steps.finished();
    by_step.truncate(sizes.steps as usize);
    CacheOutcome {
        by_step,
        counters: log.cache.counters(),
        published: published::replay(&accesses, sizes),
        without_memory: published::replay(&accesses, &no_memory).flash_written,
        read_before: clairvoyant::read_before(&accesses, sizes),
        best: clairvoyant::best(&accesses, sizes),
    }
}

/// Traces drawn like these; what they touch is divided by `divisor`.
///
/// # Panics
/// If a profile is not valid.
pub fn drawn(profiles: &[Profile], divisor: u64, seed: u64) -> Vec<Generator> {
    let generators = profiles.iter().zip(seed..).map(|(profile, seed)| {
        Generator::new(&profile.divided(divisor), seed, Limit::default())
            .expect("the profile is valid")
    });
    generators.collect()
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

/// What a client calls a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    trace: usize,
    source: u32,
    block: u64,
}

impl Name {
    fn place(self) -> Place {
        Place::of((self.trace as u64) << u32::BITS | u64::from(self.source), self.block)
    }
}

/// The log and its cache.
struct Log {
    cache: Replay,
    /// Where the blocks of the tail's drive are that are alive.
    map: BTreeMap<Name, u32>,
    /// Blocks written to the tail's drive.
    head: u32,
    accesses: Vec<Access>,
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
        Self { cache, map: BTreeMap::new(), head: 0, accesses: Vec::new() }
    }

    fn take(&mut self, trace: usize, record: &Record, steps: &mut Steps) {
        let blocks = record.offset / BLOCK..(record.offset + record.length).div_ceil(BLOCK);
        for block in blocks {
            let name = Name { trace, source: record.source.0, block };
            match record.kind {
                Kind::Read => self.read(record.at, name, steps),
                Kind::Write | Kind::WriteZeroes => self.write(record.at, name, steps),
                Kind::Flush | Kind::Trim | Kind::Cache => {}
            }
        }
    }

    fn read(&mut self, now: Nanos, name: Name, steps: &mut Steps) {
        let Some(&key) = self.map.get(&name) else { return };
        self.accesses.push(Access::Read(key));
        steps.read(match self.cache.read(now, Key(u64::from(key)), name.place(), on_tail) {
            Placement::Memory(_) => Found::Memory,
            Placement::Flash(_) => Found::Flash,
            Placement::Nowhere => Found::Nowhere,
        });
    }

    fn write(&mut self, now: Nanos, name: Name, steps: &mut Steps) {
        let key = self.head;
        self.head += 1;
        let before = self.map.insert(name, key);
        self.accesses.push(Access::Write(key, before));
        if let Some(before) = before {
            self.cache.forget(Key(u64::from(before)));
        }
        self.cache.write(now, Key(u64::from(key)), name.place(), on_tail);
        steps.write();
    }
}

fn on_tail(_: Key) -> Standing {
    Side::Tail.into()
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
        let outcome = replay(merged(drawn(&profiles, 4096, 1)), &SIZES);
        assert_eq!(outcome.by_step.len(), 3);
        assert_eq!(outcome.by_step[0].misses, 0);
        assert!(outcome.by_step[0].reads() > 0);
    }

    #[test]
    fn memory_keeps_writes_from_the_ssd() {
        let profiles = [profile("prxy").unwrap(), profile("src1").unwrap()];
        let written = |memory_bytes| {
            let sizes = CacheSizes { memory_bytes, ..SIZES };
            replay(merged(drawn(&profiles, 4096, 1)), &sizes).counters.flash_written
        };
        assert!(written(16 << 20) < written(64 << 10));
    }
}
