//! The format, byte by byte: `testdata/format.txt` is what drives out there hold.
//!
//! A change of this file is a change of the format: either a feature bit says so, or the version
//! does. `EVENKEEL_BLESS=1` rewrites it.

use std::fmt::Write as _;

use evenkeel_store::format::cache::CacheLabel;
use evenkeel_store::format::checkpoint::{
    ChunkIdentity, ChunkWriter, Item, LeafRow, LeafRun, Phase, Root, SegmentRow, ShareRow,
    decode_chunk,
};
use evenkeel_store::format::increment::{Increment, RecordRow};
use evenkeel_store::format::layout::ZoneLayout;
use evenkeel_store::format::record::{Change, Extent, Identity, Kind, Previous, RecordHeader};
use evenkeel_store::format::segment::SegmentHeader;
use evenkeel_store::format::superblock::{
    CheckpointPlace, DriveRow, DriveState, Features, Superblock, ZONED,
};
use evenkeel_store::format::volume::{VolumeChange, VolumeKind, VolumeRow};
use evenkeel_store::units::{Address, SegmentId, Slot};
use evenkeel_store::{DriveIndex, Lsn, Mount, Nonce, Uuid, VolumeId};

const GOLDEN: &str = include_str!("../../testdata/format.txt");
const STORE: Uuid = Uuid(*b"the-store's-name");
const MOUNT: Mount = Mount { epoch: 0x0b, nonce: Nonce(0x7766_5544_3322_1100) };

fn superblock() -> Superblock {
    let row = |name: &[u8; 16], state| DriveRow {
        uuid: Uuid(*name),
        slots: 0x0102_0304,
        state,
        zones: None,
    };
    Superblock {
        store: STORE,
        drive: DriveIndex(1),
        sequence: 0x21,
        mount: MOUNT,
        features: Features { compatible: 0x80, ..Features::default() },
        copies: 2,
        segment_blocks: 0x400,
        area_blocks: 0x5000,
        capacity_blocks: 0x0060_0000,
        checkpoint: CheckpointPlace {
            number: 0x70,
            area: 1,
            chunks: 8,
            blocks: 0x0900,
            last_block: 0x08ff,
            copies: 1,
        },
        unix_time_s: 0x6a7b_8c9d,
        drives: vec![
            row(b"drive-number-one", DriveState::InSync),
            row(b"drive-number-two", DriveState::Stale { since: Lsn(0x0a00) }),
        ],
    }
}

/// One whose second drive has zones.
fn zoned_superblock() -> Superblock {
    let mut superblock = superblock();
    superblock.features.incompatible = ZONED;
    let zones = ZoneLayout { zone_blocks: 0x0001_0000, conventional_zones: 0x020c };
    superblock.drives[1].zones = Some(zones);
    superblock
}

fn cache_label() -> CacheLabel {
    CacheLabel { store: STORE, sequence: 0x31, written_bytes_max: 0x0102_0304_0506 }
}

fn copies() -> [Option<Slot>; 2] {
    [Some(Slot { drive: DriveIndex(1), slot: 0x0203 }), None]
}

fn segment() -> SegmentHeader {
    SegmentHeader {
        store: STORE,
        segment: SegmentId(0x1234),
        generation: 0x56,
        mount: MOUNT,
        copies: copies(),
    }
}

fn record(kind: Kind, changes: &[(u32, Change)]) -> RecordHeader {
    let extents: Vec<Extent> = (1..)
        .zip(changes)
        .map(|(volume, &(blocks, change))| Extent {
            volume: VolumeId(volume),
            block: 0x0700 + u64::from(volume),
            blocks,
            change,
        })
        .collect();
    let blocks: u32 = extents.iter().map(Extent::data_blocks).sum();
    RecordHeader {
        kind,
        identity: Identity {
            store: STORE,
            mount: MOUNT,
            generation: 0x56,
            address: Address(0x789),
        },
        sequence: 0x1001,
        durable: Lsn(0x0fff),
        moved_durable: 0x3003,
        extents,
        checksums: (1..=blocks).map(|block| 0xcccc_0000 + block).collect(),
        previous: None,
    }
}

fn items() -> Vec<Item> {
    let row = SegmentRow {
        segment: SegmentId(0x1234),
        generation: 0x56,
        phase: Phase::Replay,
        kind: Kind::Moved,
        copies: copies(),
        born: Lsn(0x0bbb),
    };
    let leaf = LeafRow {
        volume: VolumeId(3),
        index: 0x44,
        runs: vec![
            LeafRun { blocks: 2, address: Some(Address(0x12_3456_789a)) },
            LeafRun { blocks: 1022, address: None },
        ],
        tags: vec![0x00aa_bbcc, 0x0011_2233],
    };
    let root = Root {
        lsn: Lsn(0x1001),
        moved_sequence: 0x2002,
        next_generation: 0x57,
        next_volume: 5,
        segments: 1,
        volumes: 2,
    };
    let volume = VolumeRow {
        volume: VolumeId(3),
        kind: VolumeKind::Thin,
        family: VolumeId(3),
        origin: None,
        blocks: 0x0060_0000,
        since: Lsn(0),
    };
    let snapshot = VolumeRow {
        volume: VolumeId(4),
        kind: VolumeKind::Snapshot,
        origin: Some(VolumeId(3)),
        since: Lsn(0x0ff0),
        ..volume
    };
    let share = ShareRow { volume: VolumeId(4), source: VolumeId(3), first: 0x44, leaves: 0x0101 };
    vec![
        Item::Root(root),
        Item::Segment(row),
        Item::Volume(volume),
        Item::Volume(snapshot),
        Item::Leaf(leaf),
        Item::Share(share),
    ]
}

fn increment() -> Vec<Item> {
    let head = Increment {
        lsn: Lsn(0x1003),
        moved_sequence: 0x2003,
        next_generation: 0x58,
        records: 3,
        freed: 1,
        segments: 1,
    };
    let records = [user(), moved(), volumes()];
    let row = |RecordHeader { kind, extents, checksums, .. }| {
        let tags = checksums.into_iter().map(|checksum: u32| checksum & 0x00ff_ffff).collect();
        Item::Record(RecordRow { kind, data: Address(0x0001_2345), extents, tags })
    };
    let records = records.map(row);
    let Item::Segment(row) = items()[1].clone() else { panic!("the second is a segment") };
    let row = SegmentRow { phase: Phase::Sealed, ..row };
    let table = [Item::Freed(SegmentId(0x1235)), Item::Segment(row)];
    [Item::Increment(head)].into_iter().chain(records).chain(table).collect()
}

fn identity(index: u32) -> ChunkIdentity {
    ChunkIdentity { store: STORE, mount: MOUNT, checkpoint: 0x70, index }
}

fn chunk(index: u32, items: &[Item]) -> Vec<u8> {
    let mut writer = ChunkWriter::behind(identity(index));
    for item in items {
        assert_eq!(writer.push(item), None);
    }
    writer.finish().0
}

fn user() -> RecordHeader {
    let before = record(Kind::User, &[(1, Change::Written), (0x0700, Change::Unmapped)]);
    RecordHeader {
        previous: Some(Box::new(Previous::of(&before))),
        ..record(Kind::User, &[(2, Change::Written), (0x0900, Change::Unmapped)])
    }
}

fn moved() -> RecordHeader {
    record(Kind::Moved, &[(2, Change::Moved { from: Address(0x4321) })])
}

/// Every change of a volume as a whole.
fn volumes() -> RecordHeader {
    let changes = [
        VolumeChange::Create { kind: VolumeKind::Thin, blocks: 0x0001_2345 },
        VolumeChange::Resize { blocks: 0x0054_3210 },
        VolumeChange::Delete,
        VolumeChange::Snapshot { of: VolumeId(0x99) },
        VolumeChange::Clone { of: VolumeId(0x88), kind: VolumeKind::Provisioned },
        VolumeChange::RollBack { to: VolumeId(0x77) },
    ];
    let extents = (1..).zip(changes);
    let extents = extents.map(|(volume, change)| Extent::of_volume(VolumeId(volume), change));
    RecordHeader { extents: extents.collect(), ..record(Kind::User, &[]) }
}

/// Lines of 16 bytes behind their place, without lines of zeroes.
fn dump(name: &str, bytes: &[u8]) -> String {
    let mut text = format!("{name}\n----\n");
    for (line, bytes) in bytes.chunks(16).enumerate() {
        if bytes.iter().any(|&byte| byte != 0) {
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "{:04x}  {}", line * 16, hex.join(" ")).unwrap();
        }
    }
    text + "\n"
}

/// The bytes under a name.
fn stored(name: &str) -> Vec<u8> {
    let text = GOLDEN.split(&format!("{name}\n----\n")).nth(1).unwrap();
    let mut bytes = vec![0; 4096];
    for line in text.lines().take_while(|line| !line.is_empty()) {
        let (place, hex) = line.split_once("  ").unwrap();
        let place = usize::from_str_radix(place, 16).unwrap();
        for (byte, hex) in bytes[place..].iter_mut().zip(hex.split(' ')) {
            *byte = u8::from_str_radix(hex, 16).unwrap();
        }
    }
    bytes
}

#[test]
fn what_is_written_is_what_was_always_written() {
    let text = [
        dump("superblock", &superblock().encode()),
        dump("segment header", &segment().encode()),
        dump("user record", &user().encode()),
        dump("moved record", &moved().encode()),
        dump("record of volumes", &volumes().encode()),
        dump("checkpoint chunk", &chunk(0, &items())),
        dump("chunk of an increment", &chunk(7, &increment())),
        dump("cache label", &cache_label().encode()),
        dump("superblock with zones", &zoned_superblock().encode()),
    ]
    .concat();
    if std::env::var_os("EVENKEEL_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/format.txt");
        std::fs::write(path, text.trim_end().to_owned() + "\n").unwrap();
    } else {
        assert_eq!(text.trim_end(), GOLDEN.trim_end());
    }
}

#[test]
fn what_was_written_once_is_still_read() {
    assert_eq!(Superblock::decode(&stored("superblock")), Ok(superblock()));
    assert_eq!(Superblock::decode(&stored("superblock with zones")), Ok(zoned_superblock()));
    assert_eq!(SegmentHeader::decode(&stored("segment header")), Ok(segment()));
    assert_eq!(RecordHeader::decode(&stored("user record")), Ok(user()));
    assert_eq!(RecordHeader::decode(&stored("moved record")), Ok(moved()));
    assert_eq!(RecordHeader::decode(&stored("record of volumes")), Ok(volumes()));
    assert_eq!(CacheLabel::decode(&stored("cache label")), Ok(cache_label()));
    let decoded = decode_chunk(&stored("checkpoint chunk"), identity(0));
    assert_eq!(decoded, Ok((items(), 4096)));
    let decoded = decode_chunk(&stored("chunk of an increment"), identity(7));
    assert_eq!(decoded, Ok((increment(), 4096)));
}
