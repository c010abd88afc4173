//! What a spread volume notes of itself on its servers, block by block ([`crate::notes`]). The
//! bytes are told in `docs/spread-volumes.md`.

pub(super) mod choices;
pub(super) mod directory;
pub(super) mod head;
pub(super) mod table;

use crate::lease::Owner;
use crate::notes::VolumeId;
use crate::notes::block::{BLOCK, Block};
use crate::notes::head::VolumeHead;

/// Reads whatever these bytes are, as an opening would; for the fuzz target. True if they are a
/// block that this program would have written just so.
pub fn probe(bytes: &[u8], volume: VolumeId, offset: u64) -> bool {
    let Ok(bytes) = <&Block>::try_from(bytes) else { return false };
    let mut again: Block = [0; BLOCK];
    if let Ok(head) = head::Head::decode(bytes) {
        head.encode(offset, &mut again);
    } else if let Some(owner) = Owner::decode(volume, bytes) {
        owner.encode(volume, &mut again);
    } else if let Some(part) = table::TablePart::decode(volume, offset, bytes) {
        part.encode(volume, offset, &mut again);
    } else if let Some(page) = choices::Page::decode(volume, offset, bytes) {
        page.encode(volume, offset, &mut again);
    } else if let Some(part) = directory::DirectoryPart::decode(volume, offset, bytes) {
        part.encode(volume, offset, &mut again);
    } else {
        return false;
    }
    again == *bytes
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Span;
    use proptest::prelude::*;

    use super::super::members::Members;
    use super::choices::{Page, Passed};
    use super::directory::{BITS_BYTES, DirectoryPart};
    use super::head::Head;
    use super::table::{Entry, TablePart};
    use super::*;
    use crate::lease::{Absent, Gate, Half, Mark, OwnerId, Settled, Times};
    use crate::notes::block::u32_at;
    use crate::notes::head::HeadError;

    const VOLUME: VolumeId = VolumeId(*b"sixteen bytes...");

    fn head() -> Head {
        Head {
            volume: VOLUME,
            generation: 3,
            features_optional: 0,
            number: 1,
            members: Members::of_new(4),
            object_bytes: 4 << 20,
            data_offset: 8 << 20,
            slots: 1000,
            objects: 3600,
            pages: 1,
            candidates: 2,
            is_parted: true,
            all_slots: std::array::from_fn(|number| if number < 4 { 1000 } else { 0 }),
            opening: OwnerId([8; 16]),
            after: OwnerId([9; 16]),
        }
    }

    fn owner() -> Owner {
        Owner {
            id: OwnerId([4; 16]),
            beat: 7,
            settled: Settled {
                generation: 2,
                by: OwnerId([5; 16]),
                half: Half::Second,
                since: 0x0102,
                absent: Some(Absent { number: 0, known: OwnerId([6; 16]) }),
            },
            is_released: false,
            half: Half::Second,
            mark: Mark::default(),
            gate: Gate {
                name: "host:17".into(),
                times: Times::of(Span::from_secs(7)),
                addresses: "10.0.0.1 fd00::1".into(),
                state: [1; 16],
                run: [2; 16],
            },
        }
    }

    fn part() -> TablePart {
        let mut part =
            TablePart { number: 9, generation: 3, index: 2, entries: Box::new([None; 252]) };
        part.entries[17] = Entry::new(5, 99);
        part
    }

    fn page() -> Page {
        let passed = Passed { era: 2, left: 17 };
        Page { number: 2, generation: 3, index: 0, passed, bits: [0x1b; 4032] }
    }

    fn directory() -> DirectoryPart {
        let bits = Box::new([0; BITS_BYTES]);
        let mut part = DirectoryPart { number: 4, generation: 3, index: 1, bits };
        for bit in [0, 9, 32255] {
            part.insert(bit);
        }
        part
    }

    #[test]
    fn heads_are_read_as_they_were_written() {
        let mut block: Block = [0; BLOCK];
        head().encode(4096, &mut block);
        assert_eq!(Head::decode(&block), Ok(head()));
        head().encode(0, &mut block);
        assert_eq!(Head::decode(&block), Err(HeadError::Damaged), "it has strayed");
        let members = head().members.change(0b11011).unwrap();
        let changed = Head { members, ..head() };
        changed.encode(4096, &mut block);
        assert_eq!(Head::decode(&block), Ok(changed));
        assert_eq!(Head::decode(&[0; BLOCK]), Err(HeadError::Blank));
        assert_eq!(Head::decode(&[9; BLOCK]), Err(HeadError::Foreign));
    }

    #[test]
    fn owners_parts_and_pages_are_read_as_they_were_written_and_only_where() {
        let mut block: Block = [0; BLOCK];
        let (owner, part) = (owner(), part());
        owner.encode(VOLUME, &mut block);
        assert_eq!(Owner::decode(VOLUME, &block), Some(owner));
        assert_eq!(Owner::decode(VolumeId([1; 16]), &block), None);
        part.encode(VOLUME, 65536, &mut block);
        assert_eq!(TablePart::decode(VOLUME, 65536, &block), Some(part));
        assert_eq!(TablePart::decode(VOLUME, 0, &block), None);
        let page = page();
        page.encode(VOLUME, 8192, &mut block);
        assert_eq!(Page::decode(VOLUME, 8192, &block), Some(page));
        assert_eq!(Page::decode(VolumeId([1; 16]), 8192, &block), None);
        let part = directory();
        part.encode(VOLUME, 16384, &mut block);
        assert_eq!(DirectoryPart::decode(VOLUME, 16384, &block), Some(part.clone()));
        assert_eq!(DirectoryPart::decode(VOLUME, 8192, &block), None);
        let listed = (0..32256).filter(|bit| part.has(*bit)).collect::<Vec<_>>();
        assert_eq!(listed, [0, 9, 32255]);
    }

    /// The checksum of a block is over all that is in it.
    #[test]
    fn blocks_of_version_3_are_what_they_have_always_been() {
        let mut block: Block = [0; BLOCK];
        let mut checksums = Vec::new();
        let mut seal = |encode: &dyn Fn(&mut Block)| {
            encode(&mut block);
            checksums.push(u32_at(&block, 8));
        };
        seal(&|block| head().encode(4096, block));
        seal(&|block| owner().encode(VOLUME, block));
        seal(&|block| part().encode(VOLUME, 65536, block));
        seal(&|block| page().encode(VOLUME, 8192, block));
        seal(&|block| directory().encode(VOLUME, 16384, block));
        assert_eq!(checksums, [0x8c8e_967d, 0xf1d0_35fb, 0xc100_3a10, 0xc711_5921, 0x3ffb_e746]);
    }

    proptest! {
        #[test]
        fn blocks_with_any_damage_are_blocks_or_not_but_never_a_panic(
            at in 0..BLOCK, byte in any::<u8>(), what in 0..5,
        ) {
            let mut block: Block = [0; BLOCK];
            match what {
                0 => head().encode(4096, &mut block),
                1 => Owner::default().encode(VOLUME, &mut block),
                2 => {
                    let entries = Box::new([None; 252]);
                    let part = TablePart { number: 1, generation: 1, index: 0, entries };
                    part.encode(VOLUME, 4096, &mut block);
                }
                3 => directory().encode(VOLUME, 4096, &mut block),
                _ => {
                    let passed = Passed { era: 0, left: 0 };
                    let page = Page { number: 1, generation: 1, index: 0, passed, bits: [0; 4032] };
                    page.encode(VOLUME, 4096, &mut block);
                }
            }
            prop_assert!(probe(&block, VOLUME, 4096));
            let was = std::mem::replace(&mut block[at], byte);
            prop_assert_eq!(probe(&block, VOLUME, 4096), was == byte);
        }
    }
}
