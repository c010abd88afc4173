//! The examples in `docs/trace-format.md` are files, and mean what the text says.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_trace::codec::RecordedPolicy;
use evenkeel_trace::format::{Format, Options};
use evenkeel_trace::{Record, Sources};

use crate::support::decode;

const DOCUMENT: &str = include_str!("../../../../docs/trace-format.md");
const ORIGIN_NS: u64 = 1_700_000_000_000_000_000;

/// The bytes of the document's `hex` block behind a heading; its lines start with the place of
/// their first.
fn example(heading: &str) -> Vec<u8> {
    let section = DOCUMENT.split(heading).nth(1).unwrap();
    let block = section.split("```hex\n").nth(1).unwrap().split("```").next().unwrap();
    let mut bytes = Vec::new();
    for line in block.lines() {
        let (place, hex) = line.split_once("  ").unwrap();
        assert_eq!(usize::from_str_radix(place, 16), Ok(bytes.len()));
        bytes.extend(hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()));
    }
    bytes
}

fn version_2() -> Vec<u8> {
    example("\n## An example\n")
}

fn version_1() -> Vec<u8> {
    example("\n## Version 1\n")
}

/// What the text says of both.
fn told() -> (Sources, Vec<Record>) {
    let mut sources = Sources::default();
    let [db, web] = ["db/main", "web/logs"].map(|name| sources.intern(name).unwrap());
    let record = |at_ns, source, kind, offset, length, response_ns: Option<u64>| {
        let response = response_ns.map(Span);
        Record { at: Nanos(at_ns), source, kind, offset, length, response }
    };
    let records = vec![
        record(1_000, db, Kind::Read, 8_192, 4_096, Some(350_000)),
        record(26_000, db, Kind::Read, 12_288, 4_096, Some(90_000)),
        record(26_000, web, Kind::Write, 1_000, 100, None),
        record(30_000, db, Kind::Flush, 0, 0, Some(2_000_000)),
    ];
    (sources, records)
}

/// What the text says of version 2.
fn policies() -> [RecordedPolicy; 2] {
    [(0, "mode = \"observe\"\n"), (28_000, "mode = \"enforce\"\n")]
        .map(|(at, text)| RecordedPolicy { at: Nanos(at), text: Some(text.to_owned()) })
}

#[test]
fn the_example_reads_as_the_document_says() {
    let (sources, records) = told();
    let outcome = decode(Format::Native, &version_2(), &[usize::MAX]);
    assert_eq!(outcome.defects, []);
    assert_eq!(outcome.records, records);
    assert_eq!(outcome.names, sources.names());
    assert_eq!(outcome.origin_ns, Some(ORIGIN_NS));
    assert_eq!(outcome.policies, policies());
}

#[test]
fn the_example_is_what_is_written() {
    let (sources, records) = told();
    let options = Options { origin_ns: ORIGIN_NS, ..Options::default() };
    let mut encoder = Format::Native.encoder(&options).unwrap();
    let mut file = Vec::new();
    let mut policies = policies().into_iter().peekable();
    for record in &records {
        while let Some(policy) = policies.next_if(|policy| policy.at <= record.at) {
            encoder.policy(policy.at, policy.text.as_deref(), &mut file).unwrap();
        }
        encoder.encode(&sources, record, &mut file).unwrap();
    }
    encoder.finish(&mut file);
    assert_eq!(file, version_2());
}

/// The bytes that version 1 of this code wrote.
#[test]
fn version_1_is_read_for_ever() {
    let (sources, records) = told();
    for sizes in [[usize::MAX], [1]] {
        let outcome = decode(Format::Native, &version_1(), &sizes);
        assert_eq!(outcome.defects, []);
        assert_eq!(outcome.records, records);
        assert_eq!(outcome.names, sources.names());
        assert_eq!(outcome.origin_ns, Some(ORIGIN_NS));
        assert_eq!(outcome.policies, []);
    }
}
