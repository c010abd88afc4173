//! The price of 4 KiB in the chained log, in processor time, with 32 clients at once over drives in
//! memory, cleaning and checkpoints included. The aims are at most 5 microseconds for a write at
//! random to one drive, and at most 3 for a read.
//!
//! `cargo bench -p evenkeel-bench --bench store` measures; as a test (`cargo test --benches`) each
//! measurement is made once. The time of an iteration is what the kernel has counted for this
//! thread, so that a busy machine changes little. The copy to the memory of each drive is part of
//! it, and so is the executor. Volumes are written `at-random` or `in-sequence`, before and while
//! writes are measured; reads are of random blocks.

use std::cell::{Cell, RefCell};
use std::fs;
use std::rc::Rc;
use std::time::Duration;

use criterion::{Criterion, SamplingMode, criterion_group, criterion_main};
use evenkeel_core::prng::Prng;
use evenkeel_sim::crowd;
use evenkeel_sim::executor::{Executor, Order};
use evenkeel_store::drive::memory::MemoryDrive;
use evenkeel_store::{
    Buffer, CreateOptions, Durability, Geometry, Nonce, OpenOptions, Store, Uuid, VolumeId, create,
};

const VOLUME: VolumeId = VolumeId(0);
const BLOCK_BYTES: u64 = 4096;
const CLIENTS: u64 = 32;

/// Beyond the processor's caches, and roomy, so that the cleaner has little to copy: what it copies
/// costs about as much as a client's write, and write amplification says how often.
const VOLUME_BYTES: u64 = 128 << 20;
const DRIVE_BYTES: u64 = 512 << 20;

/// Requests between two looks at the processor time. The executor gives up on tasks that are busy
/// for a million polls while its time stands still.
const REQUESTS_MAX: u64 = 100_000;

/// In which order blocks are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    AtRandom,
    InSequence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Write(Pattern),
    Read,
}

/// A store that is open, and its clients.
struct Bench {
    executor: Executor,
    clients: Rc<Clients>,
}

/// What the clients share.
struct Clients {
    store: Store<MemoryDrive>,
    data: Buffer,
    prng: RefCell<Prng>,
    next_block: Cell<u64>,
}

impl Bench {
    /// A volume that was written once as a whole.
    fn new(drives: u8, pattern: Pattern) -> Self {
        let mut executor = Executor::new(Order::Fair);
        let opened = executor.block_on(open(drives)).expect("memory never waits");
        let clients = Rc::new(Clients {
            store: opened,
            data: Buffer::copy_of(&[0x5a; 4096]),
            prng: RefCell::new(Prng::new(1)),
            next_block: Cell::new(0),
        });
        let worker = Rc::clone(&clients);
        executor.clock().spawn(async move {
            worker.store.run().await;
        });
        let mut bench = Self { executor, clients };
        bench.requests(Work::Write(Pattern::InSequence), VOLUME_BYTES / BLOCK_BYTES);
        bench.requests(Work::Write(pattern), (DRIVE_BYTES + VOLUME_BYTES) / BLOCK_BYTES);
        bench
    }

    /// Makes so many requests; gives the processor time that they took.
    fn requests(&mut self, work: Work, count: u64) -> Duration {
        let start = processor_time();
        let mut left = count;
        while left > 0 {
            let batch = left.min(REQUESTS_MAX);
            let (clients, clock) = (Rc::clone(&self.clients), self.executor.clock());
            let request = move || Rc::clone(&clients).request(work);
            let work = crowd::work(clock, CLIENTS, batch, request);
            self.executor.block_on(work).expect("memory never waits");
            left -= batch;
        }
        processor_time().saturating_sub(start)
    }
}

impl Clients {
    async fn request(self: Rc<Self>, work: Work) {
        let block = match work {
            Work::Write(Pattern::InSequence) => self.next_block.replace(self.next_block.get() + 1),
            Work::Write(Pattern::AtRandom) | Work::Read => self.prng.borrow_mut().next_u64(),
        };
        let offset_bytes = block % (VOLUME_BYTES / BLOCK_BYTES) * BLOCK_BYTES;
        if work == Work::Read {
            let read = self.store.read(VOLUME, offset_bytes, 4096).await;
            assert!(read.expect("drives in memory are good")[0] == 0x5a, "it was written");
        } else {
            let data = self.data.clone();
            let written = self.store.write(VOLUME, offset_bytes, data, Durability::Volatile);
            written.await.expect("drives in memory are good");
        }
    }
}

/// A new store with a copy on each of so many drives.
async fn open(drives: u8) -> Store<MemoryDrive> {
    let options = CreateOptions {
        store: Uuid([0xaa; 16]),
        drives: (0..drives).map(|drive| Uuid([drive; 16])).collect(),
        copies: drives,
        segment_bytes: 4 << 20,
        over_provisioning_percent: 15,
        volume_bytes: vec![VOLUME_BYTES],
    };
    let geometry = Geometry { size_bytes: DRIVE_BYTES, block_bytes: 4096, atomic_bytes: 4096 };
    let drives: Vec<_> = (0..drives).map(|_| MemoryDrive::new(geometry)).collect();
    create(&drives, &options).await.expect("the volume fits the drives");
    Store::open(drives, OpenOptions::new(Nonce(1))).await.expect("a new store")
}

/// What this thread has used of the processor, to the nanosecond.
fn processor_time() -> Duration {
    let path = "/proc/thread-self/schedstat";
    let text = fs::read_to_string(path).expect("Linux counts the run time of threads");
    let run_ns = text.split_whitespace().next().and_then(|run_ns| run_ns.parse().ok());
    Duration::from_nanos(run_ns.expect("the first field is a number"))
}

fn requests(criterion: &mut Criterion) {
    for (name, drives) in [("one", 1), ("pair", 2)] {
        let mut group = criterion.benchmark_group(format!("store/{name}"));
        group.sample_size(10).sampling_mode(SamplingMode::Flat);
        for (order, pattern) in
            [("at-random", Pattern::AtRandom), ("in-sequence", Pattern::InSequence)]
        {
            let mut bench = Bench::new(drives, pattern);
            for (name, work) in [("write", Work::Write(pattern)), ("read", Work::Read)] {
                group.bench_function(format!("{name}/{order}"), |b| {
                    b.iter_custom(|iterations| bench.requests(work, iterations));
                });
            }
        }
        group.finish();
    }
}

criterion_group!(benches, requests);
criterion_main!(benches);
