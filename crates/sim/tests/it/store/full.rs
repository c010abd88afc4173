//! A store that is full: every block of its volume is written, and then all of them ten times over.
//! No write fails, and none meets a wall.
//!
//! Latency is counted in commands that the drive was given between a write and its answer, so that
//! it does not depend on how fast a drive is.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_core::prng::Prng;
use evenkeel_core::time::Span;
use evenkeel_sim::device::Device;
use evenkeel_sim::disk::{CrashDisk, Jitter, JitterOptions, Rack, SimDrive, SimDriveOptions};
use evenkeel_sim::executor::{Executor, Order};
use evenkeel_store::{
    Buffer, CreateOptions, Durability, Nonce, OpenOptions, Store, Uuid, VolumeId, create,
    possible_bytes,
};

pub(crate) const BLOCK_BYTES: u64 = 4096;
const VOLUME: VolumeId = VolumeId(0);
const SEGMENTS: u64 = 128;

/// Blocks of a segment: its header, that of a record, and 64 of data.
const SEGMENT_BLOCKS: u64 = 66;

/// Commands that 99 of 100 writes take at most: those of reading and writing two victims block by
/// block. In a volume this full, a victim yields a third of itself or less.
const COMMANDS_P99: u64 = 2 * SEGMENT_BLOCKS;

/// A store that is open on one drive.
pub(crate) struct Full {
    pub(crate) executor: Executor,
    pub(crate) rack: Rack,
    pub(crate) store: Rc<Store<SimDrive>>,
    pub(crate) blocks: u64,
    seed: u64,
}

fn options(volume_bytes: u64, segment_blocks: u64) -> CreateOptions {
    CreateOptions {
        store: Uuid([0xaa; 16]),
        drives: vec![Uuid([1; 16])],
        copies: 1,
        segment_bytes: segment_blocks * BLOCK_BYTES,
        over_provisioning_percent: 10,
        volume_bytes: vec![volume_bytes],
    }
}

impl Full {
    /// One volume over so many percent of what the drive can hold in segments of this size.
    pub(crate) fn new(
        percent: u64,
        segment_blocks: u64,
        timing: impl FnOnce(u64) -> Box<dyn Device>,
    ) -> Self {
        let mut executor = Executor::new(Order::Fair);
        let size_bytes = SEGMENTS * segment_blocks * BLOCK_BYTES;
        let options = move |volume_bytes| options(volume_bytes, segment_blocks);
        let possible = possible_bytes(&[size_bytes], &options(BLOCK_BYTES)).expect("good options");
        let blocks = possible / BLOCK_BYTES * percent / 100;
        let rack = Rack::new(executor.clock());
        let bay = rack.install(CrashDisk::new(size_bytes), timing(size_bytes));
        let drive = SimDrive::open(&rack, bay, SimDriveOptions::default());
        let store = executor.block_on(async move {
            let drives = vec![drive];
            create(&drives, &options(blocks * BLOCK_BYTES)).await.expect("it fits");
            Rc::new(Store::open(drives, OpenOptions::new(Nonce(1))).await.expect("a new store"))
        });
        let store = store.expect("a drive answers");
        let worker = Rc::clone(&store);
        executor.clock().spawn(async move {
            worker.run().await;
        });
        Self { executor, rack, store, blocks, seed: 0 }
    }

    /// So many clients write so many blocks, one after the other or at random; how many commands
    /// each write took, the fewest first.
    pub(crate) fn write(&mut self, clients: u64, count: u64, is_random: bool) -> Vec<u64> {
        self.seed += 1;
        let blocks = self.blocks;
        let prng = Rc::new(RefCell::new(Prng::new(self.seed)));
        let begun = Rc::new(Cell::new(0));
        let took = Rc::new(RefCell::new(Vec::new()));
        for _ in 0..clients {
            let (store, rack) = (Rc::clone(&self.store), self.rack.clone());
            let (prng, begun, took) = (Rc::clone(&prng), Rc::clone(&begun), Rc::clone(&took));
            self.executor.clock().spawn(async move {
                while begun.get() < count {
                    let number = begun.replace(begun.get() + 1);
                    let block = if is_random { prng.borrow_mut().below(blocks) } else { number };
                    let (start, data) = (rack.commands(), Buffer::zeroed(4096));
                    let offset_bytes = block % blocks * BLOCK_BYTES;
                    let written = store.write(VOLUME, offset_bytes, data, Durability::Volatile);
                    written.await.expect("there is always room within the volume");
                    took.borrow_mut().push(rack.commands() - start);
                }
            });
        }
        let (clock, ended) = (self.executor.clock(), Rc::clone(&took));
        let waited = self.executor.block_on(async move {
            while (ended.borrow().len() as u64) < count {
                clock.sleep(Span::from_micros(100)).await;
            }
        });
        waited.expect("the store goes on");
        let mut took = took.take();
        took.sort_unstable();
        took
    }
}

fn percentile(sorted: &[u64], percent: usize) -> u64 {
    sorted[(sorted.len() * percent).div_ceil(100) - 1]
}

#[test]
fn a_full_volume_is_overwritten_ten_times_without_an_error_or_a_cliff() {
    let jitter = |size_bytes| Box::new(Jitter::new(JitterOptions::default(), size_bytes, 3)) as _;
    let mut full = Full::new(100, SEGMENT_BLOCKS, jitter);
    let blocks = full.blocks;
    full.write(8, blocks, false);
    let p99: Vec<u64> = (0..10).map(|_| percentile(&full.write(8, blocks, true), 99)).collect();
    assert!(p99.iter().all(|&commands| commands <= COMMANDS_P99), "{p99:?}");
    // No cliff: the tenth time is like the first ones.
    assert!(p99[9] <= 2 * p99[..3].iter().sum::<u64>() / 3, "{p99:?}");
}
