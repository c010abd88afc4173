//! Writing while readers read: what a tail of its own is worth by the number of readers and by the
//! length of the chain.
//!
//! Readers are closed loops over old data that fills half of the drives. A cache before the store
//! is stood for by its hit ratios, one for what lies on the tail's drives and one for the rest: a
//! hit takes 0.2 ms and no drive. What would reach a drive goes through the store.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_core::prng::Prng;
use evenkeel_core::time::Span;
use evenkeel_store::{BLOCK_BYTES, Tuning};

use super::rig::{Busy, Layout, Rates, Rig, RigOptions, VOLUME};

/// What a hit of the cache takes.
const HIT: Span = Span::from_micros(200);

/// Records under way: more than the drives of any layout, so that one drive that is busy with reads
/// does not hold up the others.
const COMMIT_DEPTH: usize = 8;

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentionRun {
    /// What lies under the store.
    pub layout: Layout,
    /// Drives in all.
    pub drives: u32,
    /// Readers.
    pub readers: u32,
    /// Bytes of a read.
    pub read_bytes: u32,
    /// Bytes of writes under way.
    pub window_bytes: u64,
    /// Hits among reads of what does not lie on the tail, in thousandths.
    pub body_hits_milli: u32,
    /// Hits among reads of what does.
    pub tail_hits_milli: u32,
    /// Bytes of a drive.
    pub drive_bytes: u64,
    /// How long it is measured.
    pub measure: Span,
    /// Draws offsets, hits and where the platters are.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ContentionOutcome {
    /// Bytes per second that readers got.
    pub read: f64,
    /// What was written.
    pub written: Rates,
    /// Latencies of reads that the cache did not have, in nanoseconds, ascending.
    pub misses_ns: Vec<u64>,
}

impl ContentionOutcome {
    /// So many of a hundred misses took no longer than this, in milliseconds.
    pub fn miss_ms(&self, percent: usize) -> f64 {
        let index = self.misses_ns.len().saturating_sub(1) * percent / 100;
        self.misses_ns.get(index).map_or(0.0, |ns| *ns as f64 / 1e6)
    }
}

/// What the readers have had.
#[derive(Debug, Default)]
struct Books {
    bytes: u64,
    misses_ns: Vec<u64>,
}

impl ContentionRun {
    /// Runs it.
    pub fn run(&self) -> ContentionOutcome {
        let mut rig = Rig::new(&RigOptions {
            layout: self.layout,
            drives: self.drives,
            drive_bytes: self.drive_bytes,
            segment_bytes: self.drive_bytes / 256,
            epoch_percent: self.epoch_percent(),
            tuning: Tuning { commit_depth: COMMIT_DEPTH, ..Tuning::default() },
            power_down: None,
            has_second_arm: false,
            flash_bytes: 0,
            seed: self.seed,
        });
        let old_bytes = (rig.volume_bytes / 2).next_multiple_of(1 << 20);
        rig.fill(0..old_bytes);
        let region = old_bytes..rig.volume_bytes;
        let _writers = rig.write_all_over(region, self.window_bytes);
        let readers = Busy::new();
        let books = Rc::new(RefCell::new(Books::default()));
        for reader in 0..self.readers {
            self.spawn_reader(&rig, &readers, &books, old_bytes, reader);
        }
        rig.go_on(Span(self.measure.0 / 4));
        books.replace(Books::default());
        let written = rig.rates(self.measure);
        let Books { bytes, mut misses_ns } = books.take();
        misses_ns.sort_unstable();
        ContentionOutcome { read: bytes as f64 / self.measure.as_secs_f64(), written, misses_ns }
    }

    /// The old data fills half of every drive, and ends where an epoch ends: the tail goes once
    /// round the chain, or through all pairs, of which each drive belongs to one for each other.
    fn epoch_percent(&self) -> u32 {
        match self.layout {
            Layout::Pairs => 50 / (self.drives - 1),
            _ => 50,
        }
    }

    fn spawn_reader(
        &self,
        rig: &Rig,
        busy: &Busy,
        books: &Rc<RefCell<Books>>,
        old_bytes: u64,
        reader: u32,
    ) {
        let run = *self;
        let (store, clock, stop) = (Rc::clone(&rig.store), rig.clock(), busy.stop());
        // Where everything lies on one array, there is no tail apart, and no cache for it.
        let is_chain = rig.members > 1;
        let books = Rc::clone(books);
        let mut prng = Prng::new(self.seed.wrapping_mul(1_000_003) + u64::from(reader));
        rig.clock().spawn(async move {
            let places = old_bytes / u64::from(run.read_bytes);
            while !stop.get() {
                let offset = prng.below(places) * u64::from(run.read_bytes);
                let is_on_tail = is_chain && store.is_on_tail(VOLUME, offset / BLOCK_BYTES as u64);
                let hits = if is_on_tail { run.tail_hits_milli } else { run.body_hits_milli };
                let began = clock.now();
                if prng.below(1000) < u64::from(hits) {
                    clock.sleep(HIT).await;
                } else {
                    let read = store.read(VOLUME, offset, run.read_bytes as usize).await;
                    read.expect("it was written");
                    books.borrow_mut().misses_ns.push(clock.now().since(began).0);
                }
                books.borrow_mut().bytes += u64::from(run.read_bytes);
            }
        });
    }
}
