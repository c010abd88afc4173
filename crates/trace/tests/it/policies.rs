//! The policies in a native trace: they come back, and damage makes them unknown, never wrong.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;
use evenkeel_trace::codec::{Encoder, Place, RecordedPolicy};
use evenkeel_trace::format::native::{POLICIES_BYTES_MAX, POLICIES_MAX, POLICY_BYTES_MAX};
use evenkeel_trace::format::{Format, Options};
use evenkeel_trace::{Record, Sources};
use proptest::prelude::*;

use crate::support::{Outcome, decode};

fn encoder() -> Box<dyn Encoder> {
    Format::Native.encoder(&Options::default()).unwrap()
}

fn sources() -> Sources {
    let mut sources = Sources::default();
    sources.intern("db/main").unwrap();
    sources
}

fn read_at(at: u64) -> Record {
    let (source, kind) = (evenkeel_trace::SourceId(0), Kind::Read);
    Record { at: Nanos(at), source, kind, offset: at * 512, length: 512, response: None }
}

fn told(at: u64, text: &str) -> RecordedPolicy {
    RecordedPolicy { at: Nanos(at), text: Some(text.to_owned()) }
}

fn unknown(at: u64) -> RecordedPolicy {
    RecordedPolicy { at: Nanos(at), text: None }
}

/// Instants and the beginnings of texts: what a failed assertion can show.
fn short(policies: &[RecordedPolicy]) -> Vec<(u64, Option<&str>)> {
    policies
        .iter()
        .map(|policy| {
            let text = policy.text.as_deref();
            (policy.at.0, text.and_then(|text| text.split(' ').next()))
        })
        .collect()
}

/// What holds at an instant, as far as the trace tells.
fn in_force(policies: &[RecordedPolicy], at: Nanos) -> Option<&str> {
    policies.iter().rfind(|policy| policy.at <= at)?.text.as_deref()
}

/// A text that takes three blocks.
fn long_text() -> String {
    "tenant = \"a long one\"\n".repeat(6_000)
}

/// A file, what it says, and where each of its blocks starts.
struct File {
    bytes: Vec<u8>,
    /// Where a block starts, and whether it is one of a policy.
    blocks: Vec<(usize, bool)>,
    policies: Vec<RecordedPolicy>,
    records: Vec<Record>,
}

impl File {
    /// `first`, ten requests, `second`, ten and ten, the long one, ten.
    fn new() -> Self {
        let policies = vec![told(0, "first"), told(1_000, "second"), told(3_000, &long_text())];
        let mut file =
            Self { bytes: Vec::new(), blocks: Vec::new(), policies, records: Vec::new() };
        let mut encoder = encoder();
        let mut next = file.policies.clone().into_iter().peekable();
        for start in [0, 1_000, 2_000, 3_000] {
            if let Some(policy) = next.next_if(|policy| policy.at.0 == start) {
                encoder.policy(policy.at, policy.text.as_deref(), &mut file.bytes).unwrap();
            }
            for number in 0..10 {
                let record = read_at(start + number * 70);
                encoder.encode(&sources(), &record, &mut file.bytes).unwrap();
                file.records.push(record);
            }
            encoder.flush(&mut file.bytes);
        }
        encoder.finish(&mut file.bytes);
        let mut place = 24;
        while place < file.bytes.len() {
            file.blocks.push((place, file.bytes[place + 3] == b'P'));
            let length = file.bytes[place + 4..place + 8].try_into().unwrap();
            place += 32 + u32::from_le_bytes(length) as usize;
        }
        file
    }

    /// No request that was read stands under another policy than its own.
    fn check(&self, outcome: &Outcome, what: &str) {
        for record in &outcome.records {
            let found = in_force(&outcome.policies, record.at);
            let is_right = found.is_none() || found == in_force(&self.policies, record.at);
            assert!(is_right, "{what}: a wrong policy at {} ns", record.at.0);
        }
    }
}

#[test]
fn a_file_opens_with_its_policy_and_repeats_it_at_each_change() {
    let file = File::new();
    let kinds: String =
        file.blocks.iter().map(|&(_, is_policy)| if is_policy { 'P' } else { '-' }).collect();
    assert_eq!(kinds, "P-P--PPP--", "the last is the end");
    let outcome = decode(Format::Native, &file.bytes, &[777]);
    assert_eq!(outcome.defects, []);
    assert!(outcome.policies == file.policies, "{:?}", short(&outcome.policies));
    assert_eq!(outcome.records, file.records);
}

#[test]
fn a_policy_is_told_before_the_requests_that_it_applies_to() {
    let file = File::new();
    let mut decoder = Format::Native.decoder(&Options::default());
    let (mut records, mut pending) = (Vec::new(), Vec::new());
    for piece in file.bytes.chunks(100) {
        pending.extend_from_slice(piece);
        let used = decoder.decode(&pending, false, &mut records).unwrap();
        pending.drain(..used);
        for record in records.drain(..) {
            assert_eq!(
                in_force(decoder.policies(), record.at),
                in_force(&file.policies, record.at)
            );
        }
    }
}

#[test]
fn no_damaged_byte_puts_a_request_under_another_policy() {
    let file = File::new();
    let long = file.policies[2].text.as_ref().unwrap().len();
    // Every byte of all heads and requests, and some of the long text.
    let places = (0..file.bytes.len()).filter(|place| {
        place % 997 == 0 || {
            let long_at = file.blocks[5].0;
            !(long_at + 100..long_at + long).contains(place)
        }
    });
    for place in places {
        let mut damaged = file.bytes.clone();
        damaged[place] ^= 0x20;
        let outcome = decode(Format::Native, &damaged, &[usize::MAX]);
        assert_eq!(outcome.defects.len(), 1, "byte {place}: {:?}", outcome.defects);
        let block = file.blocks.iter().rfind(|(start, _)| *start <= place);
        let &(start, is_policy) = block.unwrap_or(&(0, false));
        assert_eq!(outcome.defects[0].place, Place::Byte(start as u64));
        file.check(&outcome, &format!("byte {place}"));
        let known = outcome.policies.iter().filter(|policy| policy.text.is_some()).count();
        assert_eq!(known, if is_policy { 2 } else { 3 }, "byte {place}");
    }
}

#[test]
fn a_lost_policy_is_not_known_until_the_next() {
    let file = File::new();
    let without = |blocks: std::ops::Range<usize>| {
        let mut bytes = file.bytes.clone();
        bytes.drain(file.blocks[blocks.start].0..file.blocks[blocks.end].0);
        let outcome = decode(Format::Native, &bytes, &[usize::MAX]);
        file.check(&outcome, &format!("{blocks:?}"));
        assert_eq!(outcome.defects.len(), 1, "{blocks:?}: {:?}", outcome.defects);
        outcome.policies
    };
    let [first, second, third] =
        [(0, Some("first")), (1_000, Some("second")), (3_000, Some("tenant"))];
    let unknown = |at| (at, None);
    for (blocks, expected) in [
        (0..1, vec![unknown(0), second, third]),
        // The last request before it came at 630.
        (2..3, vec![first, unknown(631), third]),
        (5..6, vec![first, second, unknown(2_631)]),
        (6..7, vec![first, second, unknown(3_000)]),
        (7..8, vec![first, second, unknown(3_000)]),
        // With requests, and with another policy.
        (1..5, vec![first, unknown(0), third]),
        (2..9, vec![first, unknown(631)]),
        (3..4, vec![first, second, third]),
    ] {
        assert_eq!(short(&without(blocks.clone())), expected, "{blocks:?}");
    }
}

#[test]
fn no_truncation_puts_a_request_under_another_policy() {
    let file = File::new();
    for length in (0..file.bytes.len()).step_by(7) {
        let outcome = decode(Format::Native, &file.bytes[..length], &[usize::MAX]);
        assert_eq!(outcome.defects.len(), 1, "{length}: {:?}", outcome.defects);
        file.check(&outcome, &format!("{length} bytes"));
    }
}

#[test]
fn what_is_no_policy_of_a_trace_is_refused_and_nothing_is_written() {
    let mut encoder = encoder();
    let mut file = Vec::new();
    encoder.policy(Nanos(5), Some("a"), &mut file).unwrap();
    encoder.encode(&sources(), &read_at(9), &mut file).unwrap();
    encoder.flush(&mut file);
    let whole = file.len();
    let mut refused =
        |at, text: Option<&str>| encoder.policy(Nanos(at), text, &mut file).unwrap_err();
    assert!(refused(9, Some("b")).contains("before the requests that they apply to"));
    assert!(refused(4, None).contains("in order"));
    assert!(refused(10, Some("")).contains("1 to 4194304 bytes, this one 0"));
    let long = "x".repeat(POLICY_BYTES_MAX + 1);
    assert!(refused(10, Some(&long)).ends_with("4194305"));
    assert_eq!(file.len(), whole);
}

#[test]
fn formats_that_hold_no_policy_say_so() {
    for format in Format::ALL.into_iter().filter(|&format| format != Format::Native) {
        let mut encoder = format.encoder(&Options::default()).unwrap();
        let refused = encoder.policy(Nanos(0), Some("a"), &mut Vec::new()).unwrap_err();
        assert!(refused.contains("holds no policy"), "{format:?}");
    }
}

#[test]
fn a_policy_that_is_not_known_is_told_once() {
    let mut encoder = encoder();
    let mut file = Vec::new();
    for (at, text) in [(0, None), (1, Some("a")), (2, None), (3, None), (4, Some("b"))] {
        encoder.policy(Nanos(at), text, &mut file).unwrap();
    }
    encoder.finish(&mut file);
    let outcome = decode(Format::Native, &file, &[1]);
    assert_eq!(outcome.defects, []);
    assert_eq!(outcome.policies, [told(1, "a"), unknown(2), told(4, "b")]);
}

#[test]
fn a_trace_holds_no_more_policies_than_a_reader_keeps() {
    let mut encoder = encoder();
    let (mut file, mut taken) = (Vec::new(), 0);
    while encoder.policy(Nanos(taken), Some("a"), &mut file).is_ok() {
        taken += 1;
    }
    assert_eq!(taken, u64::from(POLICIES_MAX) - 1);
    encoder.policy(Nanos(taken), None, &mut file).expect("this can still be said");
    encoder.finish(&mut file);
    let outcome = decode(Format::Native, &file, &[usize::MAX]);
    assert_eq!((outcome.defects.len(), outcome.policies.len()), (0, POLICIES_MAX as usize));
}

#[test]
fn the_bytes_of_all_policies_are_bounded() {
    let mut encoder = encoder();
    let text = "x".repeat(POLICY_BYTES_MAX);
    let (mut file, mut taken) = (Vec::new(), 0);
    while encoder.policy(Nanos(taken), Some(&text), &mut file).is_ok() {
        taken += 1;
    }
    assert_eq!(usize::try_from(taken), Ok(POLICIES_BYTES_MAX / POLICY_BYTES_MAX));
}

/// A step of a trace.
#[derive(Clone, Debug)]
enum Step {
    Request,
    Policy(Option<String>),
}

/// Steps, and how long after the last each comes.
fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let text = proptest::option::of("[a-z\u{e4}\n]{1,40}");
    let step = prop_oneof![Just(Step::Request), text.prop_map(Step::Policy)];
    proptest::collection::vec((0_u64..3, step), 0..40)
}

proptest! {
    #[test]
    fn policies_return_among_requests(
        steps in steps(),
        sizes in proptest::collection::vec(1_usize..90, 1..4),
    ) {
        let (mut encoder, mut file, mut at) = (encoder(), Vec::new(), 0);
        let (mut policies, mut records): (Vec<RecordedPolicy>, Vec<Record>) = (vec![], vec![]);
        for (gap, step) in steps {
            at += gap;
            match step {
                Step::Request => {
                    encoder.encode(&sources(), &read_at(at), &mut file).unwrap();
                    records.push(read_at(at));
                }
                Step::Policy(text) => {
                    let policy = RecordedPolicy { at: Nanos(at), text };
                    let was_known = policies.last().is_some_and(|last| last.text.is_some());
                    let is_new = policy.text.is_some() || was_known;
                    let is_late = records.last().is_some_and(|record| record.at.0 >= at);
                    let taken = encoder.policy(policy.at, policy.text.as_deref(), &mut file);
                    prop_assert_eq!(taken.is_ok(), !is_new || !is_late);
                    policies.extend((taken.is_ok() && is_new).then_some(policy));
                }
            }
        }
        encoder.finish(&mut file);
        let outcome = decode(Format::Native, &file, &sizes);
        prop_assert_eq!(outcome.defects, vec![]);
        prop_assert_eq!(outcome.policies, policies);
        prop_assert_eq!(outcome.records, records);
    }
}
