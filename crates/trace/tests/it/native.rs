//! Native files that no writer of this version makes: blocks and records of classes to come, and
//! what a hostile one could say of policies. They are put together byte by byte.

use evenkeel_core::crc32c::crc32c;
use evenkeel_trace::format::Format;
use evenkeel_trace::format::native::POLICY_BYTES_MAX;

use crate::support::{Outcome, decode};

/// A file of this version, block by block.
struct Bytes {
    file: Vec<u8>,
    blocks: u32,
}

fn checked(bytes: &mut Vec<u8>, from: usize) {
    let checksum = crc32c(&bytes[from..]);
    bytes.extend_from_slice(&checksum.to_le_bytes());
}

impl Bytes {
    fn of_version(version: u16) -> Self {
        let mut file = b"\xe9kTR\r\n\x1a\n".to_vec();
        file.extend_from_slice(&version.to_le_bytes());
        file.extend_from_slice(&[0; 10]);
        checked(&mut file, 0);
        Self { file, blocks: 0 }
    }

    fn new() -> Self {
        Self::of_version(2)
    }

    fn block(mut self, letter: u8, (count, value): (u32, u64), payload: &[u8]) -> Self {
        let start = self.file.len();
        self.file.extend_from_slice(b"\xe9kR");
        self.file.push(letter);
        let length = u32::try_from(payload.len()).unwrap();
        for word in [length, count, self.blocks] {
            self.file.extend_from_slice(&word.to_le_bytes());
        }
        self.file.extend_from_slice(&value.to_le_bytes());
        self.file.extend_from_slice(&crc32c(payload).to_le_bytes());
        checked(&mut self.file, start);
        self.file.extend_from_slice(payload);
        self.blocks += 1;
        self
    }

    /// A block of a policy: its number, the place of the part, its text.
    fn policy(self, number: u8, place: u8, (whole, at): (u32, u64), text: &[u8]) -> Self {
        self.block(b'P', (whole, at), &[&[number, place], text].concat())
    }

    /// One read of source `a`, behind so many policies.
    fn read(self, policies: u8, at: u64) -> Self {
        self.block(b'R', (1, at), &[policies, 0x30, 0, 0, 1, b'a'])
    }

    fn end(self, policies: u32, records: u64) -> Outcome {
        let file = self.block(b'E', (policies, records), &[]).file;
        let whole = decode(Format::Native, &file, &[usize::MAX]);
        assert_eq!(decode(Format::Native, &file, &[1]), whole);
        whole
    }
}

fn reasons(outcome: &Outcome) -> Vec<&str> {
    outcome.defects.iter().map(|defect| defect.reason.as_str()).collect()
}

fn texts(outcome: &Outcome) -> Vec<(u64, Option<&str>)> {
    outcome.policies.iter().map(|policy| (policy.at.0, policy.text.as_deref())).collect()
}

#[test]
fn records_of_even_classes_are_passed_over_and_counted() {
    // Class 2 with three bytes, a read, class 300 with none.
    let payload = [0, 7, 2, 3, 1, 2, 3, 0x30, 0, 0, 1, b'a', 7, 0xac, 2, 0];
    let outcome = Bytes::new().block(b'R', (3, 9), &payload).end(0, 3);
    assert_eq!((outcome.defects.len(), outcome.records.len(), outcome.passed_over), (0, 1, 2));
}

#[test]
fn records_of_odd_classes_are_refused_by_their_number() {
    let payload = [0, 0x30, 0, 0, 1, b'a', 7, 3, 0, 0x38, 0];
    let outcome = Bytes::new().block(b'R', (3, 9), &payload).read(0, 10).end(0, 4);
    let found = "a record of class 3, which this program does not know and may not leave out";
    assert!(outcome.defects[0].reason.starts_with(found), "{:?}", outcome.defects);
    assert_eq!((outcome.defects.len(), outcome.records.len()), (1, 2), "up to it, and behind");
}

#[test]
fn a_record_of_another_class_stays_within_its_block() {
    let payload = [0, 7, 2, 200, 1, 1, 2];
    let outcome = Bytes::new().block(b'R', (1, 9), &payload).read(0, 10).end(0, 2);
    assert!(outcome.defects[0].reason.contains("run over the end of their block"));
    assert_eq!(outcome.records.len(), 1);
}

#[test]
fn version_1_knows_no_other_classes() {
    let outcome = Bytes::of_version(1).block(b'B', (1, 9), &[7, 2, 0]).end(0, 1);
    assert!(outcome.defects[0].reason.starts_with("a request of an unknown kind"));
    assert_eq!(outcome.passed_over, 0);
}

#[test]
fn blocks_of_small_letters_are_passed_over_and_of_capital_ones_are_refused() {
    let outcome = Bytes::new().block(b'x', (7, 7), b"news").read(0, 3).end(0, 1);
    assert_eq!((outcome.defects.len(), outcome.records.len(), outcome.passed_over), (0, 1, 1));
    let outcome = Bytes::new().block(b'X', (7, 7), b"news").read(0, 3).end(0, 1);
    assert!(
        outcome.defects[0]
            .reason
            .starts_with("a block of class X, which this program does not know")
    );
    assert_eq!((outcome.defects.len(), outcome.records.len(), outcome.passed_over), (1, 1, 0));
}

#[test]
fn a_version_to_come_is_refused_by_name_with_the_remedy() {
    for version in [0, 3, 65_535] {
        let outcome = Bytes::of_version(version).read(0, 3).end(0, 1);
        let expected = format!("version {version} of the format; this program reads 1 to 2: ");
        assert!(outcome.defects[0].reason.starts_with(&expected), "{:?}", outcome.defects);
        assert!(outcome.defects[0].reason.contains("a newer one"));
        assert_eq!((outcome.defects.len(), outcome.records.len()), (1, 0));
    }
}

#[test]
fn a_policy_that_cannot_be_is_refused_and_none_is_known_from_there_on() {
    let opened = || Bytes::new().policy(1, 0, (1, 0), b"a").read(1, 10);
    let too_long = u32::try_from(POLICY_BYTES_MAX + 1).unwrap();
    for (bytes, at, expected) in [
        (opened().policy(2, 0, (1, 10), b"b"), 11, "policy 2 stands behind what it applies to"),
        (opened().policy(1, 0, (1, 20), b"b"), 11, "policy 1 behind policy 1"),
        (opened().policy(2, 0, (too_long, 20), b"b"), 11, "a policy of 4194305 bytes"),
        (opened().policy(2, 0, (1, 20), b"bb"), 20, "a part of a policy that does not fit"),
        (opened().policy(2, 0, (2, 20), b""), 20, "a part of a policy that does not fit"),
        (opened().policy(2, 1, (2, 20), b"b"), 11, "a part of policy 2 is missing"),
        (opened().policy(2, 0, (2, 20), b"\xff\xff"), 11, "a policy that is no UTF-8"),
        (opened().block(b'P', (2, 20), &[0x80]), 11, "a part of a policy without its number"),
    ] {
        let outcome = bytes.read(2, 20).end(2, 2);
        assert!(outcome.defects[0].reason.starts_with(expected), "{:?}", outcome.defects);
        assert_eq!(reasons(&outcome).len(), 1, "{expected}");
        assert_eq!(texts(&outcome), [(0, Some("a")), (at, None)], "{expected}");
        assert_eq!(outcome.records.len(), 2, "the requests are there all the same");
    }
}

#[test]
fn numbers_of_policies_that_do_not_fit_what_was_told_are_defects() {
    let outcome = Bytes::new().policy(1, 0, (1, 0), b"a").read(2, 10).end(2, 1);
    assert_eq!(reasons(&outcome), ["policy 2 is missing, or a part of it"]);
    assert_eq!(texts(&outcome), [(0, Some("a")), (0, None)]);
    assert_eq!(outcome.records.len(), 1, "the request is there all the same");
    let outcome = Bytes::new().policy(1, 0, (1, 0), b"a").read(0, 10).end(0, 1);
    assert!(reasons(&outcome)[0].starts_with("1 policies were told of 0"));
    assert_eq!(texts(&outcome), [(0, Some("a")), (0, None)]);
    let outcome = Bytes::new().policy(1, 0, (2, 0), b"a").read(1, 10).end(1, 1);
    assert_eq!(reasons(&outcome), ["policy 1 is missing, or a part of it"]);
    assert_eq!(texts(&outcome), [(0, None)]);
    let outcome = Bytes::new().policy(1, 0, (2, 0), b"a").policy(2, 0, (1, 5), b"b").end(2, 0);
    assert_eq!(reasons(&outcome), ["policy 1 is missing, or a part of it"]);
    assert_eq!(texts(&outcome), [(0, None), (5, Some("b"))]);
    let outcome = Bytes::new().policy(1, 0, (1, 0), b"a").end(2, 0);
    assert_eq!(reasons(&outcome), ["policy 2 is missing, or a part of it"]);
}
