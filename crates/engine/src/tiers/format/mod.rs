//! What a tiered volume notes of itself on its tiers, block by block.
//!
//! Everything is in blocks of 4 KiB that describe themselves ([`crate::notes`]). The bytes are told
//! in `docs/tiered-volumes.md`.

pub(super) mod checkpoint;
pub(super) mod head;
pub(super) mod journal;

use crate::lease::Owner;
pub use crate::notes::VolumeId;
pub(super) use crate::notes::block::{BLOCK, BLOCK_BYTES, Block};
use crate::notes::head::VolumeHead;

/// Places that one block of the map holds.
pub(super) const PLACES_PER_BLOCK: u32 = 1006;

/// Reads whatever these bytes are, as an opening would; for the fuzz target. True if they are a
/// block that this program would have written just so.
pub fn probe(bytes: &[u8], volume: VolumeId, offset: u64) -> bool {
    let Ok(bytes) = <&Block>::try_from(bytes) else { return false };
    let mut again: Block = [0; BLOCK];
    if let Ok(head) = head::Head::decode(bytes) {
        head.encode(offset, &mut again);
    } else if let Some(owner) = Owner::decode(volume, bytes) {
        owner.encode(volume, &mut again);
    } else if let Some(record) = journal::Record::decode(volume, offset, bytes) {
        record.encode(volume, offset, &mut again);
    } else if let Some((head, places)) = checkpoint::decode(volume, offset, bytes) {
        let places: Vec<_> = places.collect();
        checkpoint::encode(volume, offset, &head, places.iter().copied(), &mut again);
    } else {
        return false;
    }
    again == *bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::map::Place;
    use super::checkpoint::CheckpointHead;
    use super::head::Head;
    use super::journal::Record;
    use super::*;
    use crate::lease::OwnerId;
    use crate::notes::VolumeId;
    use crate::notes::head::HeadError;

    const VOLUME: VolumeId = VolumeId(*b"sixteen bytes...");

    /// In lines of 16 bytes.
    fn hex(bytes: &[u8]) -> Vec<String> {
        let line =
            |line: &[u8]| line.iter().fold(String::new(), |out, byte| format!("{out}{byte:02x}"));
        bytes.chunks(16).map(line).collect()
    }

    fn head() -> Head {
        Head {
            volume: VOLUME,
            generation: 3,
            features_optional: 0,
            tier: 1,
            tiers: 2,
            extent_bytes: 1 << 20,
            data_offset: 2 << 20,
            slots: 1000,
            extents: 50_998,
            checkpoint_blocks: 51,
            journal_records: 102,
            opening: OwnerId([8; 16]),
        }
    }

    #[test]
    fn heads_are_written_as_documented() {
        let mut block = [0xaa; BLOCK];
        head().encode(4096, &mut block);
        let expected = [
            "e96b54480d0a1a0a1f43b3e102000000",
            "7369787465656e2062797465732e2e2e",
            "03000000000000000010000000000000",
            "00000000000000000100000002000000",
            "00001000000000000000200000000000",
            "e803000036c700003300000066000000",
            "08080808080808080808080808080808",
        ];
        assert_eq!(hex(&block[..112]), expected);
        assert!(block[112..].iter().all(|byte| *byte == 0));
        assert_eq!(Head::decode(&block), Ok(head()));
    }

    #[test]
    fn records_are_written_as_documented() {
        let record = Record {
            sequence: 7,
            term: 3,
            extent: 5,
            from: Place::new(0, 9),
            to: Place::new(1, 2),
        };
        let mut block = [0xaa; BLOCK];
        record.encode(VOLUME, 65_536, &mut block);
        let expected = [
            "e96b544a0d0a1a0a48f40dab02000000",
            "7369787465656e2062797465732e2e2e",
            "07000000000000000000010000000000",
            "05000000090000000200002000000000",
            "03000000000000000000000000000000",
        ];
        assert_eq!(hex(&block[..80]), expected);
        assert_eq!(Record::decode(VOLUME, 65_536, &block), Some(record));
        assert_eq!(Record::decode(VOLUME, 69_632, &block), None, "it has strayed");
        assert_eq!(Record::decode(VolumeId([1; 16]), 65_536, &block), None, "it is another's");
    }

    #[test]
    fn maps_are_written_as_documented() {
        let (head, places) = (
            CheckpointHead { number: 4, sequence: 90, term: 3, index: 2 },
            [Place::new(1, 0), Place::new(0, 3), Place::new(7, (1 << 29) - 1)],
        );
        let mut block = [0xaa; BLOCK];
        checkpoint::encode(VOLUME, 16_384, &head, places.into_iter(), &mut block);
        let expected = [
            "e96b54430d0a1a0a569e446c02000000",
            "7369787465656e2062797465732e2e2e",
            "04000000000000000040000000000000",
            "5a000000000000000200000003000000",
            "03000000000000000000002003000000",
            "ffffffff000000000000000000000000",
        ];
        assert_eq!(hex(&block[..96]), expected);
        let (read, found) = checkpoint::decode(VOLUME, 16_384, &block).unwrap();
        assert_eq!((read, found.collect::<Vec<_>>()), (head, places.to_vec()));
        assert!(checkpoint::decode(VOLUME, 20_480, &block).is_none(), "it has strayed");
    }

    #[test]
    fn what_is_older_or_newer_is_known_as_such() {
        let mut block = [0; BLOCK];
        assert_eq!(Head::decode(&block), Err(HeadError::Blank));
        head().encode(4096, &mut block);
        block[12] = 3;
        assert_eq!(Head::decode(&block), Err(HeadError::Newer(3)));
        block[12] = 1;
        let checksum = evenkeel_core::crc32c::crc32c(&block[12..]);
        block[8..12].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Head::decode(&block), Err(HeadError::Older(1)));
        block.fill(1);
        assert_eq!(Head::decode(&block), Err(HeadError::Foreign));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            mut bytes in prop::collection::vec(any::<u8>(), BLOCK),
            magic in 0..4_usize,
        ) {
            let magics = [b"\xe9kTH\r\n\x1a\n", b"\xe9kTC\r\n\x1a\n", b"\xe9kTJ\r\n\x1a\n"];
            if let Some(magic) = magics.get(magic) {
                bytes[..8].copy_from_slice(*magic);
                let checksum = evenkeel_core::crc32c::crc32c(&bytes[12..]);
                bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
            }
            probe(&bytes, VOLUME, 0);
        }
    }
}
