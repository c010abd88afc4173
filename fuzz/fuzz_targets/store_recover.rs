//! A store whose drive was scribbled on: opening it gives a store or an error, reading it gives
//! bytes or an error, and nothing panics or hangs.
#![no_main]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use arbitrary::Arbitrary;
use evenkeel_core::crc32c::crc32c;
use evenkeel_store::drive::memory::MemoryDrive;
use evenkeel_store::{
    Buffer, CreateOptions, Durability, Geometry, Nonce, OpenOptions, Store, Uuid, VolumeId, create,
};
use libfuzzer_sys::fuzz_target;

const DRIVE_BLOCKS: usize = 250;
const VOLUME: VolumeId = VolumeId(0);

#[derive(Arbitrary, Debug)]
struct Input {
    writes: Vec<(u8, u8)>,
    scribbles: Vec<Scribble>,
}

#[derive(Arbitrary, Debug)]
struct Scribble {
    block: u8,
    offset: u16,
    bytes: [u8; 8],
    length: u8,
    /// Whether the block's checksum is made to fit again.
    is_sealed: bool,
}

/// Polls a future so often, waking or not: memory never waits for anybody else.
fn poll<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    (0..times).find_map(|_| match future.as_mut().poll(&mut context) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    })
}

fn scribble(bytes: &mut [u8], scribble: &Scribble) {
    let start = usize::from(scribble.block) % DRIVE_BLOCKS * 4096;
    let block = &mut bytes[start..start + 4096];
    let offset = usize::from(scribble.offset) % 4088;
    let length = usize::from(scribble.length % 9);
    block[offset..offset + length].copy_from_slice(&scribble.bytes[..length]);
    if scribble.is_sealed {
        let checksum = crc32c(&block[..4092]);
        block[4092..].copy_from_slice(&checksum.to_le_bytes());
    }
}

fuzz_target!(|input: Input| {
    let size_bytes = DRIVE_BLOCKS as u64 * 4096;
    let drive = MemoryDrive::new(Geometry { size_bytes, block_bytes: 4096, atomic_bytes: 4096 });
    let options = CreateOptions {
        store: Uuid([1; 16]),
        drives: vec![Uuid([2; 16])],
        copies: 1,
        segment_bytes: 64 << 10,
        over_provisioning_percent: 15,
        volume_bytes: vec![20 * 4096],
    };
    let drive = [drive];
    poll(create(&drive, &options), 1).expect("memory never waits").expect("it is large enough");
    let [drive] = drive;
    let drive = std::rc::Rc::new(drive);
    let opened = poll(Store::open(vec![drive.clone()], OpenOptions::new(Nonce(1))), 100);
    let store = opened.expect("memory never waits").expect("nothing is damaged yet");
    {
        let mut run = pin!(store.run());
        let mut context = Context::from_waker(Waker::noop());
        for &(block, byte) in input.writes.iter().take(60) {
            let data = Buffer::copy_of(&[byte; 4096]);
            let offset = u64::from(block % 20) * 4096;
            let mut write = pin!(store.write(VOLUME, offset, data, Durability::Volatile));
            while write.as_mut().poll(&mut context).is_pending() {
                assert!(run.as_mut().poll(&mut context).is_pending());
            }
        }
    }
    drop(store);
    drive.tamper(|bytes| input.scribbles.iter().for_each(|it| scribble(bytes, it)));
    let opened = poll(Store::open(vec![drive], OpenOptions::new(Nonce(2))), 100_000);
    if let Ok(store) = opened.expect("recovery ends") {
        for block in 0..20 {
            let _ = poll(store.read(VOLUME, block * 4096, 4096), 1000).expect("a read ends");
        }
        let mut run = pin!(store.run());
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..1000 {
            let _ = run.as_mut().poll(&mut context);
        }
    }
});
