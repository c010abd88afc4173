//! Tiers with any damage, checksums made to fit: opening them ends, without a panic, in a volume or
//! a refusal; and a refusal has written nothing.
#![no_main]

use arbitrary::Arbitrary;
use evenkeel_core::crc32c::crc32c;
use evenkeel_core::time::Nanos;
use evenkeel_engine::lease::{Gate, Names, OwnerId};
use evenkeel_engine::notes::{Answer, Ask, Opens, PartDevice, VolumeId};
use evenkeel_engine::spread;
use evenkeel_engine::tiers::{Opening, format};
use libfuzzer_sys::fuzz_target;

const EXTENT_BYTES: u64 = 64 << 10;
const EXTENTS: [usize; 2] = [4, 20];
/// What a refused opening may write: heads and owners.
const FRONT_BYTES: u64 = 12 << 10;
const BLOCK: usize = 4096;
/// An opening that asks for more than this can only be a loop.
const ASKS_MAX: usize = 10_000;

#[derive(Arbitrary, Debug)]
struct Damage {
    fast: bool,
    block: u8,
    /// Which of the formats' first bytes the block gets.
    magic: u8,
    /// Fields: where, and what.
    words: Vec<(u16, u32)>,
    is_sealed: bool,
    is_unreadable: bool,
}

struct Device {
    bytes: Vec<u8>,
    unreadable: Vec<usize>,
}

fn open(devices: &mut [Device], run: u8) -> (bool, usize) {
    let device =
        |device: &Device| PartDevice { name: "tier".into(), size_bytes: device.bytes.len() as u64 };
    let devices_of_tiers = devices.iter().map(device).collect();
    let (volume, owner) = (VolumeId([7; 16]), OwnerId([run; 16]));
    let gate = Gate { state: [1; 16], run: [run; 16], ..Gate::default() };
    let names = Names { volume, owner, gate, before: Vec::new() };
    let mut opening = Opening::new(names, EXTENT_BYTES, devices_of_tiers);
    let (mut writes, mut now) = (0, Nanos::ZERO);
    for _ in 0..ASKS_MAX {
        let bytes;
        let answer = match opening.poll(now) {
            Ask::Read { part: tier, offset, length } => {
                let from = usize::try_from(offset).expect("small");
                let to = from + usize::try_from(length).expect("small");
                let blocks = from / BLOCK..to / BLOCK;
                bytes = devices[tier].bytes[from..to].to_vec();
                let is_readable = !devices[tier].unreadable.iter().any(|at| blocks.contains(at));
                if is_readable { Answer::Read(&bytes) } else { Answer::Failed }
            }
            Ask::Write { part: tier, offset, bytes } => {
                writes += usize::from(offset >= FRONT_BYTES);
                let from = usize::try_from(offset).expect("small");
                devices[tier].bytes[from..from + bytes.len()].copy_from_slice(bytes);
                Answer::Done
            }
            Ask::Wait(span) => {
                now += span;
                Answer::Done
            }
            Ask::Flush { .. } | Ask::Fence(_) => Answer::Done,
            Ask::Ready(_) => return (true, writes),
            Ask::Refused(_) => return (false, writes),
        };
        opening.answer(answer);
    }
    panic!("the opening never ends");
}

fn apply(damage: &Damage, devices: &mut [Device]) {
    let device = &mut devices[usize::from(damage.fast)];
    let block = usize::from(damage.block) % (device.bytes.len() / BLOCK);
    if damage.is_unreadable {
        device.unreadable.push(block);
    }
    let bytes = &mut device.bytes[block * BLOCK..(block + 1) * BLOCK];
    let magics =
        [b"\xe9kTH\r\n\x1a\n", b"\xe9kTC\r\n\x1a\n", b"\xe9kTJ\r\n\x1a\n", b"\xe9kSO\r\n\x1a\n"];
    if let Some(magic) = magics.get(usize::from(damage.magic)) {
        bytes[..8].copy_from_slice(*magic);
        bytes[12..16].copy_from_slice(&2_u32.to_le_bytes());
        bytes[16..32].fill(7);
        bytes[40..48].copy_from_slice(&((block * BLOCK) as u64).to_le_bytes());
    }
    for (at, word) in &damage.words {
        let at = usize::from(*at) % (BLOCK / 4) * 4;
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    if damage.is_sealed {
        let checksum = crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    }
    let _ = format::probe(bytes, VolumeId([7; 16]), (block * BLOCK) as u64);
    let _ = spread::format::probe(bytes, VolumeId([7; 16]), (block * BLOCK) as u64);
}

fuzz_target!(|all: Vec<Damage>| {
    let device = |extents| Device {
        bytes: vec![0; extents * usize::try_from(EXTENT_BYTES).expect("small")],
        unreadable: Vec::new(),
    };
    let mut devices = EXTENTS.map(device);
    assert!(open(&mut devices, 1).0, "blank devices become a volume");
    all.iter().take(64).for_each(|damage| apply(damage, &mut devices));
    let (is_open, writes) = open(&mut devices, 2);
    assert!(is_open || writes == 0, "who refuses writes nothing but fronts");
});
