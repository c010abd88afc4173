//! The last requests of an endless recording: a whole file at any time, with the right policies,
//! in bounded memory.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_trace::codec::{Encoder, RecordedPolicy};
use evenkeel_trace::format::Format;
use evenkeel_trace::format::native::{
    NativeEncoder, POLICIES_BYTES_MAX, POLICIES_MAX, POLICY_BYTES_MAX, Recent, RecentBounds,
};
use evenkeel_trace::{Record, Sources};
use proptest::prelude::*;

use crate::support::{Outcome, Raw, decode, hold, raws};

const LOOSE: RecentBounds = RecentBounds { bytes_max: 16 << 20, age_max: Span(u64::MAX) };

/// An encoder, what keeps its last bytes, and all that was encoded.
struct Recording {
    encoder: NativeEncoder,
    recent: Recent,
    sources: Sources,
    records: Vec<Record>,
    policies: Vec<RecordedPolicy>,
    /// Where in `records` the blocks begin.
    blocks: Vec<usize>,
    is_open: bool,
    /// The instant of the last block.
    newest: Nanos,
    /// Bytes that [`Recent`] has not been given yet.
    out: Vec<u8>,
}

impl Recording {
    fn new(bounds: RecentBounds) -> Self {
        let mut sources = Sources::default();
        sources.intern("db/main").unwrap();
        Self {
            encoder: NativeEncoder::endless(),
            recent: Recent::new(bounds),
            sources,
            records: Vec::new(),
            policies: Vec::new(),
            blocks: Vec::new(),
            is_open: false,
            newest: Nanos::ZERO,
            out: Vec::new(),
        }
    }

    fn request(&mut self, record: Record) {
        self.encoder.encode(&self.sources, &record, &mut self.out).unwrap();
        if !std::mem::replace(&mut self.is_open, true) {
            self.blocks.push(self.records.len());
            self.newest = record.at;
        }
        self.records.push(record);
    }

    fn read_at(&mut self, at: u64) {
        let (source, kind) = (evenkeel_trace::SourceId(0), Kind::Read);
        let response = Some(Span(100));
        self.request(Record {
            at: Nanos(at),
            source,
            kind,
            offset: at * 512,
            length: 512,
            response,
        });
    }

    fn policy(&mut self, at: u64, text: Option<&str>) {
        let before = self.out.len();
        self.encoder.policy(Nanos(at), text, &mut self.out).unwrap();
        if self.out.len() > before {
            (self.is_open, self.newest) = (false, Nanos(at));
        }
        self.policies.push(RecordedPolicy { at: Nanos(at), text: text.map(str::to_owned) });
    }

    /// Hands over everything, in pieces of these sizes.
    fn flush(&mut self, sizes: &[usize]) {
        self.encoder.flush(&mut self.out);
        self.is_open = false;
        let out = std::mem::take(&mut self.out);
        let (mut sizes, mut rest) = (sizes.iter().cycle(), &out[..]);
        while !rest.is_empty() {
            let size = (*sizes.next().unwrap()).clamp(1, rest.len());
            let (piece, behind) = rest.split_at(size);
            self.recent.take(piece).unwrap();
            rest = behind;
        }
    }

    /// How many requests are in blocks that are no older than this.
    fn young(&self, age_ns: u64) -> usize {
        let oldest = self.newest.0.saturating_sub(age_ns);
        let mut blocks = self.blocks.iter();
        let first = blocks.find(|&&block| self.records[block].at.0 >= oldest);
        self.records.len() - first.map_or(self.records.len(), |&block| block)
    }

    /// Decodes the file; checks that it holds the last of what was flushed, and of each request
    /// the policy it was served under. Gives how many requests it has.
    fn check(&self) -> (usize, Outcome) {
        let outcome = decode(Format::Native, &self.recent.file(0), &[usize::MAX]);
        assert_eq!(outcome.defects, []);
        let kept = outcome.records.len();
        assert_eq!(self.recent.requests(), kept as u64);
        let tail = &self.records[self.records.len() - kept..];
        let base = tail.first().map_or(Nanos::ZERO, |record| record.at);
        for (found, record) in outcome.records.iter().zip(tail) {
            let source = &outcome.names[found.source.0 as usize];
            assert_eq!(source, self.sources.name(record.source));
            let moved =
                Record { at: Nanos(record.at.since(base).0), source: found.source, ..*record };
            assert_eq!(*found, moved);
            assert_eq!(
                in_force(&outcome.policies, found.at),
                in_force(&self.policies, record.at),
                "{record:?}"
            );
        }
        (kept, outcome)
    }
}

fn in_force(policies: &[RecordedPolicy], at: Nanos) -> Option<&str> {
    policies.iter().rfind(|policy| policy.at <= at)?.text.as_deref()
}

#[test]
fn nothing_is_a_file_of_nothing() {
    let mut recording = Recording::new(LOOSE);
    assert_eq!(recording.check().0, 0);
    recording.policy(5, Some("first"));
    recording.flush(&[7]);
    let (kept, outcome) = recording.check();
    assert_eq!((kept, outcome.policies.len()), (0, 1));
}

#[test]
fn a_file_counts_from_its_first_request_and_says_when_that_was() {
    let mut recording = Recording::new(RecentBounds { age_max: Span(1_000), ..LOOSE });
    recording.policy(0, Some("first"));
    for at in [1_000_000, 1_000_500, 1_001_200] {
        recording.read_at(at);
        recording.flush(&[usize::MAX]);
    }
    let outcome = decode(Format::Native, &recording.recent.file(7_000_000_000), &[usize::MAX]);
    assert_eq!(outcome.records.iter().map(|it| it.at.0).collect::<Vec<_>>(), [0, 700]);
    assert_eq!(outcome.origin_ns, Some(7_001_000_500));
    assert_eq!(recording.check().1.origin_ns, None);
}

#[test]
fn a_policy_is_kept_as_long_as_a_request_is_that_was_served_under_it() {
    let mut recording = Recording::new(RecentBounds { age_max: Span(1_000), ..LOOSE });
    let texts = |recording: &Recording| {
        let policies = recording.check().1.policies;
        policies.into_iter().map(|policy| policy.text.unwrap()).collect::<Vec<_>>()
    };
    recording.policy(0, Some("first"));
    recording.read_at(100);
    recording.policy(500, Some("second"));
    recording.policy(600, Some("third"));
    recording.read_at(700);
    recording.flush(&[50]);
    assert_eq!(texts(&recording), ["first", "second", "third"]);
    recording.read_at(1_200);
    recording.flush(&[50]);
    assert_eq!(texts(&recording), ["third"]);
    recording.policy(9_000, Some("fourth"));
    recording.flush(&[50]);
    assert_eq!(recording.check().0, 0, "all are too old now");
    assert_eq!(texts(&recording), ["fourth"]);
}

#[test]
fn memory_is_bounded_whatever_comes() {
    let bounds = RecentBounds { bytes_max: 64 << 10, age_max: Span(u64::MAX) };
    let mut recording = Recording::new(bounds);
    let text = "share = 1\n".repeat(1_000);
    for round in 0..400_u64 {
        // Requests, then policies as large as may be, then some that are larger.
        let length = usize::try_from(round.saturating_sub(200) * 40).unwrap();
        recording.policy(round * 1_000, Some(&text[..length.clamp(10, text.len())]));
        for number in 0..100 * (round % 7) {
            recording.read_at(round * 1_000 + number);
        }
        recording.flush(&[100_000]);
        assert!(recording.recent.bytes() <= bounds.bytes_max, "{}", recording.recent.bytes());
        if round % 50 == 6 {
            assert!(recording.check().0 > 500);
        }
    }
    let file = recording.recent.file(0);
    assert!(file.len() <= bounds.bytes_max);
}

#[test]
fn a_policy_that_is_too_large_is_not_known_and_hides_the_one_before() {
    let bounds = RecentBounds { bytes_max: 64 << 10, age_max: Span(u64::MAX) };
    let mut recording = Recording::new(bounds);
    recording.policy(0, Some("first"));
    recording.read_at(100);
    let large = "share = 1\n".repeat(20_000);
    recording.policy(200, Some(&large));
    recording.policies.last_mut().unwrap().text = None;
    recording.read_at(300);
    recording.policy(400, Some("third"));
    recording.read_at(500);
    recording.flush(&[1_000]);
    let (kept, outcome) = recording.check();
    assert_eq!((kept, outcome.policies.len()), (3, 3));
}

#[test]
fn a_file_may_be_asked_for_while_a_policy_comes_in() {
    let mut recording = Recording::new(LOOSE);
    recording.policy(0, Some("first"));
    recording.read_at(100);
    recording.flush(&[usize::MAX]);
    let long = "share = 1\n".repeat(20_000);
    recording.policy(200, Some(&long));
    let out = std::mem::take(&mut recording.out);
    for piece in out.chunks(9_999) {
        recording.check();
        recording.recent.take(piece).unwrap();
    }
    recording.read_at(300);
    recording.flush(&[usize::MAX]);
    let policies = recording.check().1.policies;
    assert_eq!(policies[1].text.as_deref(), Some(&long[..]));
}

/// More policies than a file could tell, and more bytes of them.
#[test]
fn there_is_no_end_to_the_policies() {
    let mut recording = Recording::new(LOOSE);
    let longest = "x".repeat(POLICY_BYTES_MAX);
    let rounds = POLICIES_BYTES_MAX / POLICY_BYTES_MAX + 2;
    for at in 0..rounds as u64 {
        recording.policy(at, Some(&longest));
        recording.flush(&[1 << 20]);
    }
    // Those before have been dropped: they need not be looked at any more.
    recording.policies.clear();
    for at in 0..u64::from(POLICIES_MAX) + 100 {
        recording.policy(100 + 2 * at, Some(&at.to_string()));
        recording.read_at(101 + 2 * at);
        recording.flush(&[usize::MAX]);
    }
    let (kept, outcome) = recording.check();
    assert!(kept > 1_000 && outcome.policies.len() >= kept, "{kept}");
    assert!(outcome.policies.len() < 5_000, "not all of those that a file could hold");
}

#[test]
fn other_bytes_are_refused() {
    let mut recording = Recording::new(LOOSE);
    recording.read_at(100);
    recording.flush(&[usize::MAX]);
    assert!(recording.recent.take(&[0; 100]).is_err());
    assert_eq!(recording.check().0, 1, "what was kept stays");
    assert!(Recent::new(LOOSE).take(b"at,source,kind,offset,length\n").is_err());
}

/// What happens in front of a request.
#[derive(Clone, Debug)]
enum Event {
    Nothing,
    Flush,
    Policy(Option<usize>),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => Just(Event::Nothing),
        2 => Just(Event::Flush),
        1 => proptest::option::of(1_usize..400).prop_map(Event::Policy),
    ];
    proptest::collection::vec(event, 60)
}

proptest! {
    #[test]
    fn a_file_is_the_tail_of_what_was_encoded(
        raws in raws(),
        events in events(),
        sizes in proptest::collection::vec(1_usize..200, 1..5),
        bytes_max in prop_oneof![Just(usize::MAX), 2_000_usize..20_000],
        age_ns in prop_oneof![Just(u64::MAX), (0_u32..42).prop_map(|bits| 1 << bits)],
    ) {
        let raws: Vec<_> = raws.iter().map(|raw| Raw { gap_ns: raw.gap_ns + 1, ..*raw }).collect();
        let (sources, records) = hold(Format::Native).records(&raws);
        let bounds = RecentBounds { bytes_max, age_max: Span(age_ns) };
        let mut recording = Recording { sources, ..Recording::new(bounds) };
        let is_loose = bytes_max == usize::MAX && age_ns == u64::MAX;
        for (record, event) in records.iter().zip(&events) {
            match event {
                Event::Nothing => {}
                Event::Flush => {
                    recording.flush(&sizes);
                    prop_assert!(recording.recent.bytes() <= bytes_max);
                    let kept = recording.check().0;
                    prop_assert!(!is_loose || kept == recording.records.len());
                }
                Event::Policy(length) => {
                    let text = length.map(|length| "x".repeat(length));
                    recording.policy(record.at.0, text.as_deref());
                }
            }
            recording.request(*record);
        }
        recording.flush(&sizes);
        prop_assert!(recording.recent.bytes() <= bytes_max);
        let kept = recording.check().0;
        prop_assert!(!is_loose || kept == records.len(), "nothing is dropped without need");
        if bytes_max == usize::MAX {
            prop_assert_eq!(kept, recording.young(age_ns));
        }
    }
}
