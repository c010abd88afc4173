//! Write amplification of the store's cleaner: the store itself, over a drive in memory, written at
//! random until it is in its stride, with what was published of its policy beside it.
//!
//! It is measured in blocks and in bytes. In blocks, headers and checkpoints are not counted, as in
//! the figures to compare with; bytes are all that the drives get. The figures to compare with come
//! from a simulation that knows nothing but segments: a share U of all blocks is alive, four
//! segments are kept free, and cleaning begins when there are fewer. The store keeps more: a
//! sixty-fourth of all segments, where the price of writing balances cleaning
//! (`crates/store/src/clean/pace.rs`), and the cleaner's own. So it is measured twice:
//!
//! ```text
//! net     segments = blocks / U / blocks of a segment, and what it keeps ahead: the policies alone
//! gross   segments = blocks / U / blocks of a segment: what somebody pays who fills it to U
//! ```

mod published;
mod theory;

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_core::workload::{Drawer, Mix, Pattern, WeightedSize};
use evenkeel_store::drive::Drive;
use evenkeel_store::drive::memory::MemoryDrive;
use evenkeel_store::format::superblock::Superblock;
use evenkeel_store::{
    Buffer, CreateOptions, Durability, Geometry, Nonce, OpenOptions, Status, Store, Uuid, VolumeId,
    create,
};

use crate::crowd;
use crate::executor::{Executor, Order};
pub use published::{PUBLISHED, Published};
pub use theory::fifo;

const BLOCK_BYTES: u64 = 4096;
const VOLUME: VolumeId = VolumeId(0);

/// Writes under way at once: as many as make records as long as they get.
const CLIENTS: u64 = 256;

/// Requests between two returns from the executor, which gives up on tasks that are busy for long
/// while its time stands still.
const WRITES_MAX: u64 = 20_000;

/// Which blocks are overwritten.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// All alike.
    Uniform,
    /// So many percent of the writes go to the rest of the hundred of the blocks: 80 to 20.
    Hot(u32),
    /// By Zipf's law with this exponent.
    Zipf(f64),
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// Which blocks are overwritten.
    pub load: Load,
    /// U in percent.
    pub full_percent: u64,
    /// Segments that the volume would fill without a hole. The fewer there are, the more the few
    /// count that are being filled.
    pub volume_segments: u64,
    /// Data blocks of a segment: 64 or more.
    pub segment_blocks: u64,
    /// Whether U leaves aside what the store keeps ahead.
    pub is_net: bool,
    /// Drives, on which everything has one copy.
    pub drives: usize,
}

/// What a store writes for each block of its clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Amplification {
    /// Blocks written for clients and by the cleaner, over those written for clients.
    pub blocks: f64,
    /// Bytes written to drives, whatever for, over the bytes of clients.
    pub bytes: f64,
    /// The part of these bytes that are checkpoints, in percent.
    pub checkpoint_percent: f64,
}

/// Writes each block once and then eight times as much at random, as the published simulation does;
/// gives the write amplification of the second half of that.
pub fn amplification(setup: &Setup) -> Amplification {
    let blocks = setup.volume_blocks();
    let mut bench = Bench::new(setup);
    bench.draw(Pattern::Sequential);
    bench.write(blocks);
    // Not anew for the second half: it would overwrite the same blocks in the same order.
    bench.draw(setup.load.pattern(blocks));
    bench.write(4 * blocks);
    let before = bench.status();
    bench.write(4 * blocks);
    let after = bench.status();
    let counted = |amount: fn(&Status) -> u64| (amount(&after) - amount(&before)) as f64;
    let written_blocks = counted(|it| it.counters.written_blocks);
    let drive_bytes = counted(|it| it.telemetry.drive_written_bytes);
    // Each drive gets every checkpoint.
    let checkpoint_bytes = counted(|it| it.counters.checkpoint_bytes) * setup.drives as f64;
    Amplification {
        blocks: 1.0 + counted(|it| it.counters.moved_blocks) / written_blocks,
        bytes: drive_bytes / (written_blocks * BLOCK_BYTES as f64),
        checkpoint_percent: 100.0 * checkpoint_bytes / drive_bytes,
    }
}

impl Load {
    fn pattern(self, blocks: u64) -> Pattern {
        match self {
            Self::Uniform => Pattern::Uniform,
            Self::Hot(percent) => Pattern::Hot {
                hot_bytes: blocks * u64::from(100 - percent) / 100 * BLOCK_BYTES,
                requests_ppm: percent * 10_000,
            },
            Self::Zipf(theta) => Pattern::Zipf { theta },
        }
    }
}

impl Setup {
    fn volume_blocks(&self) -> u64 {
        self.volume_segments * self.segment_blocks
    }

    /// Blocks of a segment on the drive: its header, and those of its records.
    fn drive_segment_blocks(&self) -> u64 {
        self.segment_blocks + 1 + self.segment_blocks.div_ceil(132)
    }

    fn segments(&self) -> u64 {
        let segments = self.volume_segments * 100 / self.full_percent;
        if self.is_net { segments + segments / 64 + 1 } else { segments }
    }

    fn options(&self) -> CreateOptions {
        CreateOptions {
            store: Uuid([0xaa; 16]),
            drives: (1..).take(self.drives).map(|name| Uuid([name; 16])).collect(),
            copies: 1,
            segment_bytes: self.drive_segment_blocks() * BLOCK_BYTES,
            over_provisioning_percent: 5,
            volume_bytes: vec![self.volume_blocks() * BLOCK_BYTES],
        }
    }
}

/// A store that is open, and its clients.
struct Bench {
    executor: Executor,
    clients: Rc<Clients>,
    blocks: u64,
}

struct Clients {
    store: Store<MemoryDrive>,
    data: Buffer,
    drawer: RefCell<Option<Drawer>>,
}

impl Bench {
    fn new(setup: &Setup) -> Self {
        let mut executor = Executor::new(Order::Fair);
        let (options, segments) = (setup.options(), setup.segments());
        let store = executor.block_on(open(options, segments)).expect("memory never waits");
        let clients =
            Rc::new(Clients { store, data: Buffer::zeroed(4096), drawer: RefCell::new(None) });
        let worker = Rc::clone(&clients);
        executor.clock().spawn(async move {
            worker.store.run().await;
        });
        Self { executor, clients, blocks: setup.volume_blocks() }
    }

    /// From now on, draws like this what is written.
    fn draw(&mut self, pattern: Pattern) {
        let mix = Mix {
            sizes: &[WeightedSize { size_bytes: 4096, weight: 1 }],
            pattern,
            read_percent: 0,
            fua_percent: 0,
            flush_every: 0,
        };
        let drawer = Drawer::new(&mix, 0..self.blocks * BLOCK_BYTES, 0, 5);
        self.clients.drawer.replace(drawer);
    }

    fn write(&mut self, count: u64) {
        let mut left = count;
        while left > 0 {
            let batch = left.min(WRITES_MAX);
            let (clients, clock) = (Rc::clone(&self.clients), self.executor.clock());
            let write = move || Rc::clone(&clients).write();
            let work = crowd::work(clock, CLIENTS, batch, write);
            self.executor.block_on(work).expect("memory never waits");
            left -= batch;
        }
    }

    fn status(&self) -> Status {
        self.clients.store.status()
    }
}

impl Clients {
    async fn write(self: Rc<Self>) {
        let draw = self.drawer.borrow_mut().as_mut().expect("a block fits the volume").draw();
        let data = self.data.clone();
        let written = self.store.write(VOLUME, draw.offset, data, Durability::Volatile).await;
        written.expect("there is always room within a volume");
    }
}

/// A new store of so many segments at least, on drives of one size.
async fn open(options: CreateOptions, segments: u64) -> Store<MemoryDrive> {
    let drives = options.drives.len();
    let of_each = segments.div_ceil(drives as u64);
    let mut size_bytes = of_each * options.segment_bytes;
    loop {
        // How much of a drive is not for segments is the store's affair: create it and look.
        let geometry = Geometry { size_bytes, block_bytes: 4096, atomic_bytes: 4096 };
        let drives: Vec<_> = (0..drives).map(|_| MemoryDrive::new(geometry)).collect();
        let missing = match create(&drives, &options).await {
            Ok(()) => of_each - slots(&drives[0]).await,
            Err(_) => 1,
        };
        if missing == 0 {
            let opened = Store::open(drives, OpenOptions::new(Nonce(1))).await;
            return opened.expect("a new store");
        }
        size_bytes += missing * options.segment_bytes;
    }
}

async fn slots(drive: &MemoryDrive) -> u64 {
    let block = drive.read(0, 4096).await.expect("the drive has a first block");
    let superblock = Superblock::decode(&block).expect("the store was just made");
    u64::from(superblock.drives[0].slots)
}
