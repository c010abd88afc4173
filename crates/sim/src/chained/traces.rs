//! Traces beside each other on mirrored drives, through the store and its cache.
//!
//! ```text
//!  trace 1 --so many under way-+     cache: memory, SSD     chain:   . .  . .  tail tail
//!  trace 2 --so many under way-+-->                     ->
//!  ..                          |     (misses and writes)    striped: all are the tail
//! ```
//!
//! Every trace is a tenant that goes as fast as it is served: it keeps its requests under way in
//! the order of its trace, and the next one begins when one has ended. Addresses are folded into
//! what was filled before. Of a chain the old data lies on all positions but the last, and the tail
//! has just come to that one, as it stands for most of the time where a whole drive is an epoch.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use evenkeel_core::prng::Prng;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Span;
use evenkeel_store::cache::Hits;
use evenkeel_store::{BLOCK_BYTES, CacheOptions, Durability, Tuning};
use evenkeel_trace::Record;

use super::rig::{Layout, Rig, RigOptions, VOLUME, repeated};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// What is written at once in preparation.
const STEP: u64 = 1 << 20;

/// Records under way, as in [`super::contention`].
const COMMIT_DEPTH: usize = 8;

/// Of each position, or of all pairs that a drive is in, so much belongs to one epoch.
const EPOCH_PERCENT: u32 = 75;

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracesRun {
    /// What lies under the store.
    pub layout: Layout,
    /// Whether each drive writes with [an arm of its own](crate::device::second_arm).
    pub has_second_arm: bool,
    /// Drives in all.
    pub drives: u32,
    /// Bytes of each.
    pub drive_bytes: u64,
    /// Bytes of old data, which all requests are folded into.
    pub filled_bytes: u64,
    /// Bytes of memory of the store's cache.
    pub memory_bytes: u64,
    /// Bytes of its SSD.
    pub flash_bytes: u64,
    /// Requests of each trace under way.
    pub under_way: u32,
    /// For how long the cache is warmed.
    pub warm_up: Span,
    /// How long it is measured after that.
    pub measure: Span,
    /// Draws where the traces and the platters are.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TracesOutcome {
    /// Bytes per second that were read.
    pub read: f64,
    /// Bytes per second that were written.
    pub written: f64,
    /// Where blocks that were read were found, of those on the tail's drives.
    pub tail: Hits,
    /// The same of all others.
    pub body: Hits,
}

impl TracesOutcome {
    /// Bytes per second in all.
    pub fn sum(&self) -> f64 {
        self.read + self.written
    }
}

/// A trace and what it has still to ask.
struct Player<I> {
    records: I,
    trace: u64,
    seed: u64,
    filled_bytes: u64,
    /// Where each source's address zero lies.
    bases: BTreeMap<u32, u64>,
}

/// Bytes that were read and written.
type Done = Rc<Cell<[u64; 2]>>;

impl TracesRun {
    /// Replays traces.
    ///
    /// # Panics
    /// If one of them ends before the run does.
    pub fn run<I: Iterator<Item = Record> + 'static>(&self, traces: Vec<I>) -> TracesOutcome {
        let mut rig = self.rig();
        self.fill(&mut rig);
        let done = Done::default();
        for (trace, records) in (0..).zip(traces) {
            let (seed, filled_bytes) = (self.seed, self.filled_bytes);
            let player = Player { records, trace, seed, filled_bytes, bases: BTreeMap::new() };
            let player = Rc::new(RefCell::new(player));
            for _ in 0..self.under_way {
                spawn(&rig, Rc::clone(&player), Rc::clone(&done));
            }
        }
        rig.go_on(self.warm_up);
        let cache = |rig: &Rig| rig.store.status().cache.map(|cache| cache.counters);
        let (before, cached) = (done.get(), cache(&rig).unwrap_or_default());
        rig.go_on(self.measure);
        let after = done.get();
        let rate =
            |which: usize| (after[which] - before[which]) as f64 / self.measure.as_secs_f64();
        let counters = cache(&rig).unwrap_or_default();
        TracesOutcome {
            read: rate(0),
            written: rate(1),
            tail: counters.tail.since(cached.tail),
            body: counters.body.since(cached.body),
        }
    }

    fn rig(&self) -> Rig {
        let memory_bytes = usize::try_from(self.memory_bytes).expect("it fits memory");
        let cache = CacheOptions { memory_bytes, ..CacheOptions::default() };
        Rig::new(&RigOptions {
            layout: self.layout,
            drives: self.drives,
            drive_bytes: self.drive_bytes,
            segment_bytes: self.drive_bytes / 256,
            epoch_percent: match self.layout {
                Layout::Pairs => EPOCH_PERCENT / (self.drives - 1),
                _ => EPOCH_PERCENT,
            },
            tuning: Tuning { commit_depth: COMMIT_DEPTH, cache, ..Tuning::default() },
            power_down: None,
            has_second_arm: self.has_second_arm,
            flash_bytes: self.flash_bytes,
            seed: self.seed,
        })
    }

    /// Fills in old data, a part on each position but the last, and goes on until the tail is
    /// there.
    fn fill(&self, rig: &mut Rig) {
        let parts = (rig.members as u64 - 1).max(1);
        let part_bytes = (self.filled_bytes / parts).next_multiple_of(STEP);
        for part in 0..parts {
            let start = part * part_bytes;
            let end = (start + part_bytes).min(self.filled_bytes);
            rig.fill(start..end);
            let is_there = |rig: &Rig| rig.store.is_on_tail(VOLUME, start / BLOCK);
            while rig.members > 1 && is_there(rig) {
                // Over and over in one place behind the old data: what it leaves is garbage.
                rig.fill(self.filled_bytes..self.filled_bytes + STEP);
            }
        }
    }
}

/// A client that makes one request of its trace after the other.
fn spawn<I>(rig: &Rig, player: Rc<RefCell<Player<I>>>, done: Done)
where
    I: Iterator<Item = Record> + 'static,
{
    let store = Rc::clone(&rig.store);
    rig.clock().spawn(async move {
        loop {
            let (kind, offset, length) = player.borrow_mut().next();
            let [read, written] = if kind == Kind::Read {
                let bytes = usize::try_from(length).expect("a request fits memory");
                store.read(VOLUME, offset, bytes).await.expect("it was filled");
                [length, 0]
            } else {
                let data = repeated(offset / BLOCK, length);
                let write = store.write(VOLUME, offset, data, Durability::Volatile);
                write.await.expect("it lies within the volume");
                [0, length]
            };
            let before = done.get();
            done.set([before[0] + read, before[1] + written]);
        }
    });
}

impl<I: Iterator<Item = Record>> Player<I> {
    /// The next read or write, as whole blocks within what was filled.
    fn next(&mut self) -> (Kind, u64, u64) {
        loop {
            let record = self.records.next().expect("the traces outlast the run");
            let is_data = matches!(record.kind, Kind::Read | Kind::Write);
            if !is_data || record.length == 0 {
                continue;
            }
            let start = record.offset / BLOCK * BLOCK;
            let length = (record.offset + record.length).next_multiple_of(BLOCK) - start;
            let folded = (self.base(record.source.0) + start) % self.filled_bytes;
            // What would reach over the end lies before it.
            let offset = folded.min(self.filled_bytes.saturating_sub(length));
            return (record.kind, offset, length.min(self.filled_bytes));
        }
    }

    fn base(&mut self, source: u32) -> u64 {
        let (seed, blocks) =
            (self.seed.wrapping_mul(1_000_003) + self.trace, self.filled_bytes / BLOCK);
        let draw = || Prng::new(seed.wrapping_mul(1_009) + u64::from(source)).below(blocks) * BLOCK;
        *self.bases.entry(source).or_insert_with(draw)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_trace::generate::profile;

    use super::super::caches::drawn;
    use super::*;

    fn run(layout: Layout) -> TracesOutcome {
        let run = TracesRun {
            layout,
            has_second_arm: false,
            drives: 4,
            drive_bytes: 256 << 20,
            filled_bytes: 32 << 20,
            memory_bytes: 8 << 20,
            flash_bytes: 32 << 20,
            under_way: 8,
            warm_up: Span::from_secs(1),
            measure: Span::from_secs(1),
            seed: 1,
        };
        let profiles = ["prxy", "src1"].map(|name| profile(name).expect("published"));
        run.run(drawn(&profiles, 4096, 1))
    }

    #[test]
    fn all_is_done_through_the_cache_and_the_same_every_time() {
        for layout in [Layout::StripedMirrors, Layout::ChainOfMirrors] {
            let outcome = run(layout);
            assert!(outcome.read > 1e6 && outcome.written > 1e6, "{outcome:?}");
            let TracesOutcome { tail, body, .. } = outcome;
            assert!(tail.memory + tail.flash > 0, "{outcome:?}");
            assert!(layout == Layout::StripedMirrors || body.reads() > 0, "{outcome:?}");
            assert_eq!(outcome, run(layout));
        }
    }
}
