//! How long a store takes to be open again after its process was killed, with 8 GiB of log on a
//! file: `cargo bench -p evenkeel-bench --bench restart`, which needs 10 GiB in the folder that
//! `TMPDIR` names and takes some minutes. As a test (`cargo test --benches`) the log is short.
//!
//! Blocks of 4 KiB are written at random by so many clients, who never flush. At several points
//! the store is dropped in the midst of it, as `kill -9` would, and opened anew past the page
//! cache. The aim is less than 2 s, wherever the log was cut. `log` is what clients have written by
//! then, `read` what the mount has read of the drive to be open.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::{Duration, Instant};

use evenkeel_core::prng::Prng;
use evenkeel_io::store::{
    FileDrive, OpenDrive, beside, block_on, fresh_nonce, fresh_uuid, open_drives,
};
use evenkeel_store::{
    Buffer, CreateOptions, Durability, OpenOptions, Store, VolumeId, create, possible_bytes,
};

const BLOCK_BYTES: u64 = 4096;
const VOLUME: VolumeId = VolumeId(0);

/// What is written, and how often it is cut.
#[derive(Clone, Copy)]
struct Load {
    clients: usize,
    drive_bytes: u64,
    segment_bytes: u64,
    /// Bytes of the log at each cut.
    cuts_bytes: &'static [u64],
}

/// Writes of a client between two looks at how long the log is.
const WRITES_PER_LOOK: usize = 64;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Odd points, so that cuts come at all distances from the last checkpoint.
const LOADS: [Load; 2] = [
    Load {
        clients: 32,
        drive_bytes: 10 * GIB,
        segment_bytes: 64 * MIB,
        cuts_bytes: &[GIB, 2111 * MIB, 3333 * MIB, 4777 * MIB, 6001 * MIB, 7107 * MIB, 8 * GIB],
    },
    Load {
        clients: 1,
        drive_bytes: 10 * GIB,
        segment_bytes: 64 * MIB,
        cuts_bytes: &[701 * MIB, 1201 * MIB, 1733 * MIB, 2255 * MIB, 2600 * MIB],
    },
];

const SMOKE: Load =
    Load { clients: 8, drive_bytes: 64 * MIB, segment_bytes: MIB, cuts_bytes: &[3 * MIB, 9 * MIB] };

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let loads = if is_bench { &LOADS[..] } else { &[SMOKE] };
    if is_bench {
        println!("{:>7} {:>9} {:>9} {:>9} {:>9}", "clients", "log MiB", "read MiB", "ms", "cpu ms");
    }
    // A toy has no figures worth reading.
    let say = |line: &str| println!("{}", if is_bench { line } else { "smoke: a restart" });
    for load in loads {
        let folder = tempfile::tempdir().expect("a folder for the drive");
        block_on(measure(load, &folder.path().join("drive"), say)).expect("a runtime");
    }
}

/// Says a line for each cut.
async fn measure(load: &Load, path: &Path, say: impl Fn(&str)) {
    let drives = open(path, load).await;
    let mut options = CreateOptions {
        store: fresh_uuid().expect("random numbers"),
        drives: vec![fresh_uuid().expect("random numbers")],
        copies: 1,
        segment_bytes: load.segment_bytes,
        over_provisioning_percent: 25,
        volume_bytes: Vec::new(),
    };
    let possible = possible_bytes(&[load.drive_bytes], &options).expect("valid options");
    options.volume_bytes = vec![possible / BLOCK_BYTES * BLOCK_BYTES];
    create(&drives, &options).await.expect("a new store");
    let mut store = mount(drives).await;
    let prng = RefCell::new(Prng::new(load.clients as u64));
    let written = Cell::new(0);
    for &cut_bytes in load.cuts_bytes {
        let span = (written.get(), cut_bytes);
        let clients: Vec<_> =
            (0..load.clients).map(|_| client(&store, &prng, &written, span)).collect();
        beside(&store, race(clients)).await;
        drop(store);
        let drives = open(path, load).await;
        let (begin, cpu) = (Instant::now(), processor_time());
        store = mount(drives).await;
        let (took, cpu) = (begin.elapsed(), processor_time().saturating_sub(cpu));
        say(&format!(
            "{:>7} {:>9} {:>9} {:>9} {:>9}",
            load.clients,
            written.get() / MIB,
            store.status().telemetry.drive_read_bytes / MIB,
            took.as_millis(),
            cpu.as_millis(),
        ));
    }
}

async fn open(path: &Path, load: &Load) -> Vec<FileDrive> {
    let how = OpenDrive { create_bytes: Some(load.drive_bytes), ..OpenDrive::default() };
    open_drives(&[path.to_owned()], &how).await.expect("a file for the drive")
}

async fn mount(drives: Vec<FileDrive>) -> Store<FileDrive> {
    let nonce = fresh_nonce().expect("random numbers");
    Store::open(drives, OpenOptions::new(nonce)).await.expect("a good store")
}

/// Writes at random until the log has so many bytes; `base_bytes` of them are of earlier mounts.
async fn client(
    store: &Store<FileDrive>,
    prng: &RefCell<Prng>,
    written: &Cell<u64>,
    (base_bytes, until_bytes): (u64, u64),
) {
    let blocks = store.volumes()[0].size_bytes / BLOCK_BYTES;
    let data = Buffer::copy_of(&[0x5a; 4096]);
    while written.get() < until_bytes {
        for _ in 0..WRITES_PER_LOOK {
            let offset_bytes = prng.borrow_mut().below(blocks) * BLOCK_BYTES;
            let write = store.write(VOLUME, offset_bytes, data.clone(), Durability::Volatile);
            write.await.expect("a good drive");
        }
        let counters = store.status().counters;
        let log_blocks = counters.records + counters.written_blocks;
        written.set(base_bytes + log_blocks * BLOCK_BYTES);
    }
}

/// Drives all of them until the first ends, and drops the others where they are.
async fn race(clients: Vec<impl Future<Output = ()>>) {
    let mut clients: Vec<_> = clients.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        let is_over = clients.iter_mut().any(|client| client.as_mut().poll(context).is_ready());
        if is_over { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// What this process has used of the processor.
fn processor_time() -> Duration {
    let usage = std::fs::read_to_string("/proc/self/schedstat").expect("Linux counts run times");
    let run_ns = usage.split_whitespace().next().and_then(|run_ns| run_ns.parse().ok());
    Duration::from_nanos(run_ns.expect("the first field is a number"))
}
