//! Any bytes as any structure of a store's drives: decoding is total, and what it accepts encodes
//! to the same again.
#![no_main]

use evenkeel_store::Uuid;
use evenkeel_store::format::VERSION;
use evenkeel_store::format::cache::CacheLabel;
use evenkeel_store::format::checkpoint::{ChunkIdentity, ChunkWriter, decode_chunk};
use evenkeel_store::format::record::RecordHeader;
use evenkeel_store::format::segment::SegmentHeader;
use evenkeel_store::format::superblock::Superblock;
use evenkeel_store::units::{Mount, Nonce};
use libfuzzer_sys::fuzz_target;

/// Makes the checksum fit, since noise alone never gets past it.
fn sealed(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let mut block = vec![0; 4096];
    let length = bytes.len().min(4090);
    block[6..6 + length].copy_from_slice(&bytes[..length]);
    let magic: &[u8; 4] = [b"\xe9kSB", b"\xe9kSG", b"\xe9kRH", b"\xe9kCA"][usize::from(kind % 4)];
    block[..4].copy_from_slice(magic);
    block[4..6].copy_from_slice(&VERSION.to_le_bytes());
    let checksum = evenkeel_core::crc32c::crc32c(&block[..4092]);
    block[4092..].copy_from_slice(&checksum.to_le_bytes());
    block
}

/// A chunk with these items.
fn chunk(identity: ChunkIdentity, items: &[u8]) -> Vec<u8> {
    let (mut bytes, _) =
        ChunkWriter::new(identity.store, identity.mount, identity.checkpoint).finish();
    bytes.truncate(64);
    let length = u32::try_from(items.len()).expect("the fuzzer's inputs are short");
    bytes[52..56].copy_from_slice(&length.to_le_bytes());
    bytes[56..60].copy_from_slice(&evenkeel_core::crc32c::crc32c(items).to_le_bytes());
    let checksum = evenkeel_core::crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(items);
    bytes.resize(bytes.len().next_multiple_of(4096), 0);
    bytes
}

fuzz_target!(|input: (u8, &[u8])| {
    let (kind, bytes) = input;
    let block = sealed(kind, bytes);
    for block in [bytes, &block] {
        // Padding may hold anything on the way in; the second time around it is zeroes.
        if let Ok(superblock) = Superblock::decode(block) {
            assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
        }
        if let Ok(header) = SegmentHeader::decode(block) {
            assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
        }
        if let Ok(label) = CacheLabel::decode(block) {
            assert_eq!(CacheLabel::decode(&label.encode()), Ok(label));
        }
        if let Ok(header) = RecordHeader::decode(block) {
            assert_eq!(RecordHeader::decode(&header.encode()), Ok(header));
        }
    }
    let mount = Mount { epoch: 3, nonce: Nonce(9) };
    let identity = ChunkIdentity { store: Uuid([7; 16]), mount, checkpoint: 1, index: 0 };
    let _ = decode_chunk(bytes, identity);
    if let Ok((items, length)) = decode_chunk(&chunk(identity, bytes), identity) {
        let mut writer = ChunkWriter::new(identity.store, identity.mount, identity.checkpoint);
        assert!(length >= 4096);
        let cut = items.iter().find_map(|item| writer.push(item));
        let again = cut.unwrap_or_else(|| writer.finish().0);
        let (decoded, _) = decode_chunk(&again, identity).expect("it was just written");
        assert_eq!(decoded, items[..decoded.len()]);
    }
});
