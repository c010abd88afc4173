//! What checkpoints cost where much is mapped at random:
//! `cargo bench -p evenkeel-bench --bench checkpoint`, which takes some 4 GiB of memory and some
//! minutes. As a test (`cargo test --benches`) little is mapped.
//!
//! A volume is written once from end to end, 4 KiB at a time in an order that looks random, and
//! then some of it again, by many clients at once. The drive keeps in memory what is not zero, and
//! answers at once: so what a client waits for is the processor, and what is counted are bytes.
//! `each` is what one checkpoint writes to every drive, `between` what clients wrote from one to
//! the next. `beside` is the slowest write while some of a checkpoint was written, `else` the
//! slowest of the others.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use evenkeel_io::store::{beside, block_on, fresh_nonce, fresh_uuid};
use evenkeel_store::{
    Buffer, CreateOptions, Drive, DriveError, Durability, Geometry, OpenOptions, Store, VolumeId,
    create, read_superblock,
};

const BLOCK_BYTES: u64 = 4096;
const VOLUME: VolumeId = VolumeId(0);
const CLIENTS: u64 = 256;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Odd, and so a step that comes by each of a power of two of blocks once.
const STEP: u64 = 0x9E37_79B1;

/// A drive of zeroes, and what else was written to it.
struct SparseDrive {
    geometry: Geometry,
    blocks: RefCell<HashMap<u64, Box<[u8]>>>,
    /// Where the log begins; before it lie superblocks and checkpoints.
    log_bytes: Cell<u64>,
    /// Bytes written before that.
    checkpoint_bytes: Cell<u64>,
}

impl SparseDrive {
    fn new(size_bytes: u64) -> Self {
        Self {
            geometry: Geometry { size_bytes, block_bytes: 4096, atomic_bytes: 4096 },
            blocks: RefCell::default(),
            log_bytes: Cell::new(0),
            checkpoint_bytes: Cell::new(0),
        }
    }
}

impl Drive for SparseDrive {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, offset_bytes: u64, length_bytes: usize) -> Result<Buffer, DriveError> {
        let mut bytes = vec![0; length_bytes];
        let first = offset_bytes / BLOCK_BYTES;
        for (block, target) in (first..).zip(bytes.chunks_exact_mut(4096)) {
            if let Some(found) = self.blocks.borrow().get(&block) {
                target.copy_from_slice(found);
            }
        }
        Ok(Buffer::copy_of(&bytes))
    }

    async fn write(
        &self,
        offset_bytes: u64,
        data: Vec<Buffer>,
        _durability: Durability,
    ) -> Result<(), DriveError> {
        // As long as a drive is at work, others have the processor.
        tokio::task::yield_now().await;
        let mut blocks = self.blocks.borrow_mut();
        let pieces = data.iter().flat_map(|buffer| buffer.chunks_exact(4096));
        let mut block = offset_bytes / BLOCK_BYTES;
        for piece in pieces {
            if piece.iter().all(|&byte| byte == 0) {
                blocks.remove(&block);
            } else {
                blocks.insert(block, piece.into());
            }
            block += 1;
        }
        if offset_bytes < self.log_bytes.get() {
            let written = block * BLOCK_BYTES - offset_bytes;
            self.checkpoint_bytes.set(self.checkpoint_bytes.get() + written);
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), DriveError> {
        Ok(())
    }

    async fn discard(&self, _offset_bytes: u64, _length_bytes: u64) -> Result<(), DriveError> {
        Ok(())
    }
}

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        // A toy has no figures worth reading.
        block_on(measure(32 * MIB, 256 * MIB)).expect("a runtime");
        println!("smoke: checkpoints beside writes");
        return;
    }
    println!(
        "{:>10} {:>8} {:>10} {:>7} {:>9} {:>9}",
        "mapped", "each", "between", "part", "beside", "else"
    );
    for mapped_bytes in [GIB, 4 * GIB, 16 * GIB, 64 * GIB] {
        println!("{}", block_on(measure(mapped_bytes, 16 * GIB)).expect("a runtime"));
    }
}

/// Maps so much, and overwrites so much of it; what that took, as a line of the table.
async fn measure(mapped_bytes: u64, overwritten_bytes: u64) -> String {
    let drive = Rc::new(SparseDrive::new(2 * mapped_bytes));
    let options = CreateOptions {
        store: fresh_uuid().expect("random numbers"),
        drives: vec![fresh_uuid().expect("random numbers")],
        copies: 1,
        segment_bytes: (mapped_bytes / 128).clamp(MIB, 64 * MIB),
        over_provisioning_percent: 20,
        volume_bytes: vec![mapped_bytes],
    };
    let drives = vec![Rc::clone(&drive)];
    create(&drives, &options).await.expect("a new store");
    let superblock = read_superblock(&drive).await.expect("a good drive").expect("it is new");
    drive.log_bytes.set((2 + 2 * superblock.area_blocks) * BLOCK_BYTES);
    let nonce = fresh_nonce().expect("random numbers");
    let store = Store::open(drives, OpenOptions::new(nonce)).await.expect("a good store");
    beside(&store, write(&store, &drive, mapped_bytes, 0..mapped_bytes / BLOCK_BYTES)).await;
    let before = (store.status().counters, drive.checkpoint_bytes.get());
    let from = mapped_bytes / BLOCK_BYTES;
    let span = from..from + overwritten_bytes / BLOCK_BYTES;
    let [while_written, usual] = beside(&store, write(&store, &drive, mapped_bytes, span)).await;
    let after = store.status().counters;
    let checkpoints = after.checkpoints - before.0.checkpoints;
    let (each, between) = (
        (drive.checkpoint_bytes.get() - before.1) / checkpoints.max(1),
        (after.written_blocks - before.0.written_blocks) * BLOCK_BYTES / checkpoints.max(1),
    );
    format!(
        "{:>6} MiB {:>4} MiB {:>6} MiB {:>5.1} % {:>6.1} ms {:>6.1} ms",
        mapped_bytes / MIB,
        each / MIB,
        between / MIB,
        each as f64 / between as f64 * 100.0,
        while_written.as_secs_f64() * 1e3,
        usual.as_secs_f64() * 1e3,
    )
}

/// Writes blocks by their places in an order that looks random; how long the slowest took, while a
/// checkpoint was written and otherwise.
async fn write(
    store: &Store<Rc<SparseDrive>>,
    drive: &SparseDrive,
    volume_bytes: u64,
    places: std::ops::Range<u64>,
) -> [Duration; 2] {
    let blocks = volume_bytes / BLOCK_BYTES;
    let (next, longest) = (Cell::new(places.start), Cell::new([Duration::ZERO; 2]));
    let data = Buffer::copy_of(&[0; 4096]);
    let client = async || {
        while next.get() < places.end {
            let place = next.replace(next.get() + 1);
            let offset_bytes = place.wrapping_mul(STEP) % blocks * BLOCK_BYTES;
            let (begin, before) = (Instant::now(), drive.checkpoint_bytes.get());
            let write = store.write(VOLUME, offset_bytes, data.clone(), Durability::Volatile);
            write.await.expect("a good drive");
            let mut known = longest.get();
            let slowest = &mut known[usize::from(before == drive.checkpoint_bytes.get())];
            *slowest = begin.elapsed().max(*slowest);
            longest.set(known);
        }
    };
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| Box::pin(client())).collect();
    std::future::poll_fn(|context| {
        clients.retain_mut(|client| client.as_mut().poll(context).is_pending());
        if clients.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    longest.get()
}
