//! A store on simulated drives, and clients that keep it busy.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_core::time::{Nanos, Span};
use evenkeel_store::buffer::BufferMut;
use evenkeel_store::{
    BLOCK_BYTES, Buffer, Counters, CreateOptions, Durability, Nonce, OpenOptions, Store, Tuning,
    Uuid, VolumeId, create, possible_bytes,
};

use crate::device::Device;
use crate::device::second_arm::SecondArm;
use crate::device::simple::Constant;
use crate::device::spec::ConstantSpec;
use crate::device::spindle::{Spindle, SpindleSpec};
use crate::device::standby::{PowerMeter, Standby};
use crate::disk::{StripedDrive, TimedDrive};
use crate::executor::{Clock, Executor, Order};

/// The one volume of a rig.
pub const VOLUME: VolumeId = VolumeId(0);

/// Bytes of a client's write.
pub const WRITE_BYTES: u64 = 32 << 10;

/// Bytes of a stripe unit.
const STRIPE_UNIT_BYTES: u64 = 64 << 10;

/// Things that are done at once in preparation.
const AT_ONCE: u32 = 64;

/// Different contents that clients write.
const CONTENTS: u64 = 64;

/// What lies under the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One log over all drives: log+RAID 0.
    Striped,
    /// One log over mirrored pairs of drives: log+RAID 10.
    StripedMirrors,
    /// A chain of so many positions, each striped over as many drives as that leaves.
    Chain {
        /// Positions; they divide the number of drives.
        length: u32,
    },
    /// A chain of mirrored pairs.
    ChainOfMirrors,
    /// Two copies on pairs of drives that rotate.
    Pairs,
}

/// What a rig is made of.
#[derive(Clone, Debug)]
pub struct RigOptions {
    /// How the drives are put together.
    pub layout: Layout,
    /// Drives in all.
    pub drives: u32,
    /// Bytes of each.
    pub drive_bytes: u64,
    /// Bytes of the store's segments.
    pub segment_bytes: u64,
    /// Parts of one position's segments, in percent, for which the tail stays there.
    pub epoch_percent: u32,
    /// How the store works; its epoch is set from the percentage above.
    pub tuning: Tuning,
    /// After so long without a command a drive stops its spindle; never without.
    pub power_down: Option<Span>,
    /// Whether each drive writes with [an arm of its own](crate::device::second_arm).
    pub has_second_arm: bool,
    /// Bytes of an SSD that the store caches on; zero for none.
    pub flash_bytes: u64,
    /// Draws what is random.
    pub seed: u64,
}

/// A store at work. See the [module](self).
pub struct Rig {
    executor: Executor,
    /// The store.
    pub store: Rc<Store<StripedDrive>>,
    /// Bytes of its volume.
    pub volume_bytes: u64,
    /// Drives that the store knows.
    pub members: usize,
    /// What tells of the spindle of each drive.
    pub meters: Vec<PowerMeter>,
}

/// Bytes that clients and the cleaner wrote in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Of clients, in bytes per second.
    pub application: f64,
    /// Of the cleaner, in bytes per second.
    pub copies: f64,
}

impl Rates {
    /// Both together.
    pub fn aggregate(self) -> f64 {
        self.application + self.copies
    }
}

impl Layout {
    /// The drives that the store gets.
    fn members(self, drives: &[TimedDrive]) -> Vec<StripedDrive> {
        let array =
            |columns: &[Vec<TimedDrive>]| StripedDrive::new(columns.to_vec(), STRIPE_UNIT_BYTES);
        let singles: Vec<Vec<TimedDrive>> = drives.iter().map(|it| vec![it.clone()]).collect();
        let mirrors: Vec<Vec<TimedDrive>> = drives.chunks(2).map(<[_]>::to_vec).collect();
        match self {
            Self::Striped => vec![array(&singles)],
            Self::StripedMirrors => vec![array(&mirrors)],
            Self::Chain { length } => {
                singles.chunks(singles.len() / length as usize).map(array).collect()
            }
            Self::ChainOfMirrors => mirrors.chunks(1).map(array).collect(),
            Self::Pairs => singles.chunks(1).map(array).collect(),
        }
    }

    fn copies(self) -> u8 {
        if self == Self::Pairs { 2 } else { 1 }
    }
}

impl Rig {
    /// Makes the drives, makes them a store with one volume as large as it can be, and opens it.
    pub fn new(options: &RigOptions) -> Self {
        let mut executor = Executor::new(Order::Fair);
        let clock = executor.clock();
        let spec = SpindleSpec::of_2013().of_size(options.drive_bytes);
        let mut meters = Vec::new();
        let drives = (0..u64::from(options.drives)).map(|number| {
            let spindle = Spindle::new(spec.clone(), options.seed.wrapping_mul(1000) + number);
            let drive = Standby::new(spindle, spec.power.clone(), options.power_down);
            let meter = drive.meter();
            meters.push(meter.clone());
            let drive: Box<dyn Device> = if options.has_second_arm {
                Box::new(SecondArm::new(drive, spec.rate_bytes_per_s))
            } else {
                Box::new(drive)
            };
            TimedDrive::new(&clock, drive).with_meter(&clock, meter)
        });
        let members = options.layout.members(&drives.collect::<Vec<_>>());
        let count = members.len();
        let sizes: Vec<u64> =
            members.iter().map(|it| evenkeel_store::Drive::geometry(it).size_bytes).collect();
        let mut create_options = CreateOptions {
            store: Uuid([1; 16]),
            drives: (0..count)
                .map(|number| Uuid([u8::try_from(number + 2).expect("few"); 16]))
                .collect(),
            copies: options.layout.copies(),
            segment_bytes: options.segment_bytes,
            over_provisioning_percent: 10,
            volume_bytes: Vec::new(),
        };
        create_options.volume_bytes = vec![1 << 20];
        let volume_bytes = possible_bytes(&sizes, &create_options).expect("the options are valid");
        create_options.volume_bytes = vec![volume_bytes];
        let slots = sizes[0] / options.segment_bytes * u64::from(options.epoch_percent) / 100;
        let epoch_segments = u32::try_from(slots).expect("slots are few").max(1);
        let tuning = Tuning { epoch_segments, ..options.tuning };
        let nonce = Nonce(options.seed);
        let flash = (options.flash_bytes > 0).then(|| flash_drive(&clock, options.flash_bytes));
        let store = executor.block_on(async move {
            create(&members, &create_options).await.expect("a store can be made of them");
            let options = OpenOptions { tuning, ..OpenOptions::new(nonce) };
            let mut store = Store::open(members, options).await.expect("it was made just now");
            if let Some(drive) = flash {
                store.format_cache_drive(&drive).await.expect("it has room for regions");
                store.add_cache_drive(drive).await.expect("it was formatted just now");
            }
            store
        });
        let store = Rc::new(store.expect("drives answer in bounded time"));
        let running = Rc::clone(&store);
        clock.spawn(async move {
            let halt = running.run().await;
            panic!("the store stopped: {halt:?}");
        });
        Self { executor, store, volume_bytes, members: count, meters }
    }

    /// The clock of its world.
    pub fn clock(&self) -> Clock {
        self.executor.clock()
    }

    /// Runs a future, and beside it whatever was spawned.
    pub fn run<T: 'static>(&mut self, future: impl Future<Output = T> + 'static) -> T {
        self.executor.block_on(future).expect("somebody always has something to do")
    }

    /// Lets the world go on for a while.
    pub fn go_on(&mut self, span: Span) {
        let clock = self.clock();
        self.run(async move { clock.sleep(span).await });
    }

    /// Writes a range once, in order, with a few MiB under way.
    pub fn fill(&mut self, bytes: std::ops::Range<u64>) {
        let store = Rc::clone(&self.store);
        self.run(async move {
            let mut offset = bytes.start;
            while offset < bytes.end {
                let length = (1 << 20).min(bytes.end - offset);
                let data = repeated(offset, length);
                store.write(VOLUME, offset, data, Durability::Volatile).await.expect("it fits");
                offset += length;
            }
        });
    }

    /// Does something to each, many at once, and returns when all is done.
    pub fn at_once<F: Future<Output = ()> + 'static>(
        &mut self,
        items: impl Iterator<Item = u64> + 'static,
        work: impl Fn(u64) -> F + 'static,
    ) {
        let items = Rc::new(RefCell::new(items));
        let work = Rc::new(work);
        let left = Rc::new(Cell::new(AT_ONCE));
        for _ in 0..AT_ONCE {
            let (items, work, left) = (Rc::clone(&items), Rc::clone(&work), Rc::clone(&left));
            self.clock().spawn(async move {
                loop {
                    let next = items.borrow_mut().next();
                    let Some(item) = next else { break };
                    work(item).await;
                }
                left.set(left.get() - 1);
            });
        }
        while left.get() > 0 {
            self.go_on(Span::from_millis(1));
        }
    }

    /// Starts clients that keep `window_bytes` of writes under way, all over `bytes`, no part of it
    /// twice before all of it once; they stop with the guard.
    pub fn write_all_over(&self, bytes: std::ops::Range<u64>, window_bytes: u64) -> Busy {
        let busy = Busy::new();
        let units = (bytes.end - bytes.start) / WRITE_BYTES;
        let stride = coprime(units);
        let next = Rc::new(Cell::new(0_u64));
        for _ in 0..window_bytes / WRITE_BYTES {
            let (store, stop, next) = (Rc::clone(&self.store), busy.stop(), Rc::clone(&next));
            self.clock().spawn(async move {
                while !stop.get() {
                    let number = next.replace(next.get() + 1);
                    let unit = number % units * stride % units;
                    let offset = bytes.start + unit * WRITE_BYTES;
                    let data = repeated(number, WRITE_BYTES);
                    store.write(VOLUME, offset, data, Durability::Volatile).await.expect("it fits");
                }
            });
        }
        busy
    }

    /// What is written within a while.
    pub fn rates(&mut self, span: Span) -> Rates {
        let before = self.counters();
        self.go_on(span);
        let after = self.counters();
        let rate =
            |from: u64, to: u64| (to - from) as f64 * BLOCK_BYTES as f64 / span.as_secs_f64();
        Rates {
            application: rate(before.written_blocks, after.written_blocks),
            copies: rate(before.moved_blocks, after.moved_blocks),
        }
    }

    /// What the store has done so far.
    pub fn counters(&self) -> Counters {
        self.store.status().counters
    }

    /// The present instant.
    pub fn now(&self) -> Nanos {
        self.executor.clock().now()
    }
}

/// Clients at work until this is dropped.
#[derive(Debug)]
pub struct Busy {
    stop: Rc<Cell<bool>>,
}

impl Busy {
    /// A guard for clients that look at [`Self::stop`].
    pub fn new() -> Self {
        Self { stop: Rc::default() }
    }

    /// True once the clients should stop.
    pub fn stop(&self) -> Rc<Cell<bool>> {
        Rc::clone(&self.stop)
    }
}

impl Default for Busy {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.set(true);
    }
}

/// An SSD that answers after 0.1 ms and reads or writes 480 MB/s, four requests at once.
fn flash_drive(clock: &Clock, size_bytes: u64) -> StripedDrive {
    let fixed = Span::from_micros(100);
    let spec = ConstantSpec { size_bytes, fixed, rate_bytes: 120_000_000, servers: 4 };
    StripedDrive::single(TimedDrive::new(clock, Box::new(Constant::new(spec))))
}

/// Bytes that a drive keeps as one word per block.
pub(super) fn repeated(number: u64, length: u64) -> Buffer {
    let mut bytes = BufferMut::zeroed(usize::try_from(length).expect("a write fits memory"));
    let word = (number % CONTENTS + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    bytes.chunks_exact_mut(8).for_each(|to| to.copy_from_slice(&word));
    bytes.freeze()
}

/// A stride that visits all of `units` in an order without neighbours.
fn coprime(units: u64) -> u64 {
    let gcd = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let start = units * 618 / 1000 + 1;
    let mut strides = start..=start + units;
    strides.find(|stride| gcd(*stride, units) == 1).expect("one more than the units is one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stride_visits_every_unit_once() {
        for units in [2, 3, 100, 1024, 999] {
            let stride = coprime(units);
            let seen: std::collections::BTreeSet<u64> =
                (0..units).map(|number| number * stride % units).collect();
            assert_eq!(seen.len() as u64, units);
        }
    }
}
