//! Damage to the native format is noticed, named by byte, and costs the damaged block alone.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_trace::codec::Place;
use evenkeel_trace::format::{Format, Options};
use evenkeel_trace::{Record, Sources};

use crate::support::decode;

const FILE_HEAD_BYTES: usize = 24;
const BLOCK_HEAD_BYTES: usize = 32;
const BLOCKS: usize = 4;
/// Even, so that every block has both sources in the same order.
const RECORDS: usize = 6;

/// A file of four blocks of six records, and where its blocks and its end start.
fn file() -> (Vec<u8>, Vec<usize>) {
    let mut sources = Sources::default();
    let mut encoder = Format::Native.encoder(&Options::default()).unwrap();
    let (mut file, mut starts) = (Vec::new(), vec![FILE_HEAD_BYTES]);
    for (index, number) in (0..BLOCKS * RECORDS).zip(0_u64..) {
        let source = sources.intern(["db/main", "web/main"][index % 2]).unwrap();
        let record = Record {
            at: Nanos(number * 1_000_003),
            source,
            kind: Kind::ALL[index % 6],
            offset: number * number * 777,
            length: 4_096,
            response: Some(Span(number * 12_345)),
        };
        encoder.encode(&sources, &record, &mut file).unwrap();
        if (index + 1).is_multiple_of(RECORDS) {
            encoder.flush(&mut file);
            starts.push(file.len());
        }
    }
    encoder.finish(&mut file);
    (file, starts)
}

#[test]
fn every_damaged_byte_is_noticed_and_costs_one_block() {
    let (file, starts) = file();
    let whole = decode(Format::Native, &file, &[usize::MAX]);
    assert_eq!((whole.records.len(), whole.defects.len()), (BLOCKS * RECORDS, 0));
    for place in 0..file.len() {
        let mut damaged = file.clone();
        damaged[place] ^= 0x20;
        let outcome = decode(Format::Native, &damaged, &[usize::MAX]);
        assert_eq!(outcome.defects.len(), 1, "byte {place}: {:?}", outcome.defects);
        let block = starts.iter().rposition(|&start| start <= place);
        let start = block.map_or(0, |block| starts[block]);
        assert_eq!(outcome.defects[0].place, Place::Byte(start as u64));
        // A foreign version is not read on; head and end hold no records.
        let mut expected = whole.records.clone();
        if let Some(block) = block.filter(|&block| block < BLOCKS) {
            expected.drain(block * RECORDS..(block + 1) * RECORDS);
        }
        assert_eq!(outcome.records, expected, "byte {place}");
    }
}

#[test]
fn every_truncation_is_noticed_and_keeps_what_is_whole() {
    let (file, starts) = file();
    for length in 0..file.len() {
        let outcome = decode(Format::Native, &file[..length], &[usize::MAX]);
        assert_eq!(outcome.defects.len(), 1, "{length}: {:?}", outcome.defects);
        assert_eq!(outcome.defects[0].place, Place::Byte(length as u64));
        let blocks = starts[1..].iter().filter(|&&start| start <= length).count();
        assert_eq!(outcome.records.len(), blocks * RECORDS);
    }
}

#[test]
fn a_missing_block_is_noticed() {
    let (mut file, starts) = file();
    file.drain(starts[1]..starts[2]);
    let outcome = decode(Format::Native, &file, &[usize::MAX]);
    let reasons: Vec<_> = outcome.defects.iter().map(ToString::to_string).collect();
    assert_eq!(reasons, [format!("byte {}: expected block 1, found block 2", starts[1])]);
    assert_eq!(outcome.records.len(), (BLOCKS - 1) * RECORDS);
}

#[test]
fn lost_bytes_cost_the_blocks_that_lost_them() {
    let (mut file, starts) = file();
    // From within one block's records to within the next one's.
    file.drain(starts[1] + BLOCK_HEAD_BYTES + 5..starts[2] + BLOCK_HEAD_BYTES + 5);
    let outcome = decode(Format::Native, &file, &[usize::MAX]);
    assert_eq!(outcome.records.len(), (BLOCKS - 2) * RECORDS);
    assert_eq!(outcome.defects.len(), 1);
}

#[test]
fn two_files_in_one_are_noticed() {
    let (file, _) = file();
    let outcome = decode(Format::Native, &[&file[..], &file].concat(), &[usize::MAX]);
    assert_eq!(outcome.records.len(), BLOCKS * RECORDS);
    assert_eq!(outcome.defects[0].place, Place::Byte(file.len() as u64));
    assert_eq!(outcome.defects.len(), 1);
}

#[test]
fn the_origin_of_time_returns() {
    let options = Options { origin_ns: 1_700_000_000_000_000_000, ..Options::default() };
    let mut encoder = Format::Native.encoder(&options).unwrap();
    let mut file = Vec::new();
    encoder.finish(&mut file);
    assert_eq!(decode(Format::Native, &file, &[3]).origin_ns, Some(options.origin_ns));
}
