//! The price of a read of 4 KiB that the store's cache has in memory, and of a written block that
//! it takes in. The aim for a cached read is 3 us of CPU.
//!
//! The drive is memory, so that a read that is not cached shows what the store itself costs, with a
//! copy and a checksum instead of a drive. `cargo bench -p evenkeel-bench --bench cached_read`
//! measures; as a test (`cargo test --benches`) each measurement is made once.

use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use criterion::{Criterion, criterion_group, criterion_main};
use evenkeel_core::prng::Prng;
use evenkeel_core::time::Nanos;
use evenkeel_store::cache::{Endurance, FlashMeasures, Key, Measures, Place, Replay, Side};
use evenkeel_store::drive::memory::MemoryDrive;
use evenkeel_store::{
    Buffer, CacheOptions, CreateOptions, Durability, Geometry, Nonce, OpenOptions, Store, Tuning,
    Uuid, VolumeId, create,
};

const VOLUME_BLOCKS: u64 = 2048;

/// Polls until it is done; memory never waits for anything but another turn.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut context) {
            return outcome;
        }
    }
}

/// A store in memory, with a volume full of data.
fn store(memory_bytes: usize) -> Store<MemoryDrive> {
    let geometry = Geometry { size_bytes: 64 << 20, block_bytes: 4096, atomic_bytes: 4096 };
    let drives = vec![MemoryDrive::new(geometry)];
    let options = CreateOptions {
        store: Uuid([1; 16]),
        drives: vec![Uuid([2; 16])],
        copies: 1,
        segment_bytes: 1 << 20,
        over_provisioning_percent: 15,
        volume_bytes: vec![VOLUME_BLOCKS * 4096],
    };
    run(create(&drives, &options)).expect("the drive is large enough");
    let cache = CacheOptions { memory_bytes, ..CacheOptions::default() };
    let options =
        OpenOptions { tuning: Tuning { cache, ..Tuning::default() }, ..OpenOptions::new(Nonce(1)) };
    let store = run(Store::open(drives, options)).expect("a new store");
    {
        let mut work = pin!(store.run());
        let mut fill = pin!(async {
            for block in 0..VOLUME_BLOCKS {
                let byte = u8::try_from(block % 251).expect("below 251");
                let data = Buffer::copy_of(&[byte; 4096]);
                store
                    .write(VolumeId(0), block * 4096, data, Durability::Volatile)
                    .await
                    .expect("memory does not fail");
            }
        });
        let mut context = Context::from_waker(Waker::noop());
        while fill.as_mut().poll(&mut context).is_pending() {
            assert!(work.as_mut().poll(&mut context).is_pending(), "the store goes on");
        }
    }
    store
}

fn reads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read of 4 KiB");
    for (name, memory_bytes) in [("cached", 32 << 20), ("not cached", 0)] {
        let store = store(memory_bytes);
        let mut prng = Prng::new(1);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let block = prng.below(VOLUME_BLOCKS);
                black_box(run(store.read(VolumeId(0), block * 4096, 4096)).expect("it is there"))
            });
        });
        if let Some(cache) = store.status().cache {
            assert_eq!(cache.counters.tail.misses + cache.counters.body.misses, 0, "{cache:?}");
        }
    }
    group.finish();
}

fn policy(criterion: &mut Criterion) {
    let flash = Some(FlashMeasures { regions: 1024, region_blocks: 256 });
    let measures = Measures { tail_blocks: 1 << 16, body_blocks: 1 << 16, flash };
    let mut replay = Replay::new(Nanos::ZERO, measures, Endurance::default());
    let mut prng = Prng::new(1);
    let mut next = 0;
    criterion.bench_function("policy: a write and a read of something written", |bencher| {
        bencher.iter(|| {
            next += 1;
            replay.write(Nanos(next), Key(next), Place::of(0, next), |_| Side::Tail.into());
            let back = prng.below(next.min(1 << 19));
            let (key, place) = (Key(next - back), Place::of(0, next - back));
            black_box(replay.read(Nanos(next), key, place, |_| Side::Tail.into()))
        });
    });
}

criterion_group!(benches, reads, policy);
criterion_main!(benches);
