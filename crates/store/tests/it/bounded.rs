//! What a mount reads is bounded, wherever the power was cut, whatever clients do: in commands and
//! in bytes, as `docs/store-format.md` promises.

use std::cell::RefCell;

use evenkeel_core::prng::Prng;
use evenkeel_store::{
    Buffer, CreateOptions, Durability, OpenOptions, Store, Tuning, VolumeId, create,
};

use crate::support::drive::{CrashDrive, Power};
use crate::support::executor::{Spawner, block_on, run};
use crate::support::{options, usual};

const SEGMENT_BLOCKS: u64 = 64;
const SEGMENT_BYTES: u64 = SEGMENT_BLOCKS * 4096;
const VOLUME_BLOCKS: u64 = 2000;

/// The bounds that are tested: about a hundredth of what is usual.
fn tuning() -> Tuning {
    Tuning { log_bytes: 6 * SEGMENT_BYTES, volatile_bytes: 256 << 10, ..Tuning::default() }
}

/// What clients do, who never flush.
#[derive(Clone, Copy, Debug)]
struct Load {
    copies: u8,
    /// Of each drive. With the fewest, the cleaner has much to do.
    drive_blocks: u64,
    clients: u64,
    blocks: u64,
}

/// The most commands and bytes of a mount, of all drives together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reads {
    commands: u64,
    bytes: u64,
}

fn made(load: Load) -> Vec<CrashDrive> {
    let power = Power::new(9);
    let drives: Vec<_> =
        (0..load.copies).map(|_| CrashDrive::new(load.drive_blocks, &power)).collect();
    let usual = options(load.copies, load.copies, VOLUME_BLOCKS);
    let options = CreateOptions { segment_bytes: SEGMENT_BYTES, ..usual };
    block_on(create(&drives, &options)).unwrap();
    drives
}

async fn client(store: &Store<CrashDrive>, load: Load, prng: &RefCell<Prng>) {
    loop {
        let block = prng.borrow_mut().below(VOLUME_BLOCKS - load.blocks);
        let data = Buffer::zeroed(usize::try_from(load.blocks).unwrap() * 4096);
        store.write(VolumeId(0), block * 4096, data, Durability::Volatile).await.unwrap();
    }
}

/// Cuts the power again and again where the most is behind the last checkpoint: when the runway is
/// so short that the next one begins, or shorter. What the mounts behind that read at most.
fn worst(load: Load, tuning: Tuning) -> Reads {
    let drives = made(load);
    let prng = RefCell::new(Prng::new(load.blocks));
    let mut worst = Reads::default();
    for round in 0..5 {
        for drive in &drives {
            drive.reads.set((0, 0));
        }
        let store = block_on(Store::open(drives.clone(), OpenOptions { tuning, ..usual() }));
        let store = store.unwrap();
        let sum = |of: fn((u64, u64)) -> u64| drives.iter().map(|it| of(it.reads.get())).sum();
        worst.commands = worst.commands.max(sum(|(commands, _)| commands));
        worst.bytes = worst.bytes.max(sum(|(_, bytes)| bytes));
        let spawner = Spawner::default();
        spawner.spawn(async {
            store.run().await;
        });
        for _ in 0..load.clients {
            spawner.spawn(client(&store, load, &prng));
        }
        let full_segments = store.status().runway_segments;
        let is_worst = || store.status().runway_segments <= full_segments * (4 - round) / 8;
        drives[0].power.cut_after(4000);
        run(&spawner, std::future::pending(), || is_worst() || drives[0].power.is_off());
        drives[0].power.cut_after(u64::MAX);
        // The most is read where nothing is lost.
        for drive in &drives {
            drive.lose_cache(100);
        }
    }
    worst
}

/// What is promised for these drives.
fn bound(load: Load, tuning: &Tuning) -> Reads {
    let copies = u64::from(load.copies);
    // The runway of clients and cleaner, and what each of them had open.
    let segments = tuning.log_bytes / SEGMENT_BYTES * 3 / 2 + 2 + 2;
    let checkpoint_bytes = VOLUME_BLOCKS * 10 + 8192;
    let under_way = 2 * tuning.commit_depth as u64;
    // A record has a block at least, and counts for its header and eight blocks more.
    let records = 2 * tuning.volatile_bytes / 4096 / 10 + under_way;
    Reads {
        commands: 4 * copies + 1 + segments * (4 + copies) + records * copies,
        bytes: 4 * 4096 * copies
            + checkpoint_bytes
            + segments * SEGMENT_BYTES
            + (2 * tuning.volatile_bytes + under_way * SEGMENT_BYTES) * copies,
    }
}

const LOADS: [Load; 5] = [
    Load { copies: 1, drive_blocks: 5000, clients: 1, blocks: 1 },
    Load { copies: 1, drive_blocks: 5000, clients: 16, blocks: 1 },
    Load { copies: 2, drive_blocks: 5000, clients: 1, blocks: 1 },
    Load { copies: 2, drive_blocks: 5000, clients: 4, blocks: 16 },
    Load { copies: 1, drive_blocks: 20_000, clients: 2, blocks: 50 },
];

#[test]
fn a_mount_reads_no_more_than_is_promised_though_nobody_ever_flushed() {
    for load in LOADS {
        let (worst, bound) = (worst(load, tuning()), bound(load, &tuning()));
        println!("{load:?}: {worst:?} of {bound:?}");
        assert!(worst.commands <= bound.commands && worst.bytes <= bound.bytes, "{load:?}");
    }
}

#[test]
fn without_flushes_of_its_own_a_store_would_read_more_than_that() {
    let lax = Tuning { volatile_bytes: u64::MAX, ..tuning() };
    let exceeds = LOADS.into_iter().filter(|load| {
        let (worst, bound) = (worst(*load, lax), bound(*load, &tuning()));
        println!("{load:?}: {worst:?} of {bound:?}");
        worst.commands > bound.commands || worst.bytes > bound.bytes
    });
    assert!(exceeds.count() > 0);
}

#[test]
fn without_a_short_runway_a_store_would_read_more_than_that() {
    let load = Load { drive_blocks: 20_000, ..LOADS[0] };
    let lax = Tuning { log_bytes: u64::MAX, ..tuning() };
    let (worst, bound) = (worst(load, lax), bound(load, &tuning()));
    assert!(worst.commands > bound.commands, "{worst:?} of {bound:?}");
}
