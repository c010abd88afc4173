//! What the tests share: records that a format can hold, and a driver that feeds a decoder.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_trace::codec::{Decoder, Defect, PIECE_BYTES_MAX, RecordedPolicy};
use evenkeel_trace::format::{Format, Options};
use evenkeel_trace::{Record, Sources};
use proptest::prelude::*;

/// A record before a format has had its say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw {
    pub(crate) gap_ns: u64,
    pub(crate) source: usize,
    pub(crate) kind: usize,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) response_ns: Option<u64>,
}

/// Some records, with gaps, ranges and responses of all sizes.
pub(crate) fn raws() -> impl Strategy<Value = Vec<Raw>> {
    let any_size =
        |bits: u32| (any::<u64>(), 0..bits).prop_map(move |(v, n)| (v >> (64 - bits)) >> n);
    let raw = (
        any_size(40),
        0_usize..4,
        0_usize..6,
        any_size(54),
        any_size(31),
        proptest::option::of(any_size(40)),
    );
    let raw = raw.prop_map(|(gap_ns, source, kind, offset, length, response_ns)| Raw {
        gap_ns,
        source,
        kind,
        offset,
        length,
        response_ns,
    });
    proptest::collection::vec(raw, 0..60)
}

/// What a format can hold.
pub(crate) struct Hold {
    names: [&'static str; 4],
    kinds: &'static [Kind],
    tick_ns: u64,
    offset_unit: u64,
    length_unit: u64,
    /// The resolution of responses; `None` if it has none.
    response: Option<Response>,
    /// Every range is asked for once: else nobody could tell completions apart.
    is_disjoint: bool,
    is_rebased: bool,
}

#[derive(Clone, Copy)]
struct Response {
    tick_ns: u64,
    is_zero_unknown: bool,
}

const READ_WRITE: &[Kind] = &[Kind::Read, Kind::Write];
const TICK_100: Option<Response> = Some(Response { tick_ns: 100, is_zero_unknown: true });
const TICK_US: Option<Response> = Some(Response { tick_ns: 1_000, is_zero_unknown: true });
const TICK_NS: Option<Response> = Some(Response { tick_ns: 1, is_zero_unknown: false });

/// Numbered sources, sectors, reads and writes: what most formats come down to.
const NUMBERS: Hold = Hold {
    names: ["0", "1", "7", "419"],
    kinds: READ_WRITE,
    tick_ns: 1,
    offset_unit: 512,
    length_unit: 512,
    response: None,
    is_disjoint: false,
    is_rebased: true,
};

const IN_BYTES: Hold = Hold { offset_unit: 1, length_unit: 1, ..NUMBERS };
const ONE_DISK: Hold = Hold { names: ["trace"; 4], ..NUMBERS };
const NAMED: Hold = Hold { names: ["db/main", "web", "hm_1", "vol/ume"], ..IN_BYTES };
const EVERYTHING: Hold = Hold { kinds: &Kind::ALL, response: TICK_NS, ..NAMED };

pub(crate) fn hold(format: Format) -> Hold {
    match format {
        Format::Native => Hold { is_rebased: false, ..EVERYTHING },
        Format::Csv => Hold {
            names: ["db/main", "a, b", "say \"x\"", " blank "],
            is_rebased: false,
            ..EVERYTHING
        },
        Format::Msr => Hold {
            names: ["hm_1", "hm_0", "prxy_1", "a.b_12"],
            tick_ns: 100,
            response: TICK_100,
            ..IN_BYTES
        },
        Format::Spc => Hold { length_unit: 1, ..NUMBERS },
        Format::Vscsi => Hold {
            kinds: &Kind::ALL,
            tick_ns: 1_000,
            length_unit: 1,
            response: TICK_US,
            ..ONE_DISK
        },
        Format::Alibaba => Hold { tick_ns: 1_000, ..IN_BYTES },
        Format::Tencent => Hold { tick_ns: 1_000_000_000, ..NUMBERS },
        Format::Blkparse | Format::Blktrace => Hold {
            names: ["8,0", "8,16", "259,1", "253,1048575"],
            kinds: &[Kind::Read, Kind::Write, Kind::Trim],
            response: TICK_NS,
            is_disjoint: true,
            ..NUMBERS
        },
        Format::Iolog2 | Format::Iolog3 => Hold {
            kinds: &[Kind::Read, Kind::Write, Kind::Trim, Kind::Flush],
            tick_ns: if format == Format::Iolog2 { 1_000_000 } else { 1_000 },
            ..NAMED
        },
        Format::Blkreplay => {
            Hold { response: Some(Response { tick_ns: 1, is_zero_unknown: true }), ..ONE_DISK }
        }
        Format::DiskSim | Format::SsdSim => NUMBERS,
        Format::Heimdall => IN_BYTES,
    }
}

impl Hold {
    /// The records that the format can hold exactly, with their sources.
    pub(crate) fn records(&self, raws: &[Raw]) -> (Sources, Vec<Record>) {
        let mut sources = Sources::default();
        let mut at_ns = 0;
        let records = raws.iter().zip(0_u64..).map(|(raw, number)| {
            at_ns += raw.gap_ns / self.tick_ns * self.tick_ns;
            let kind = self.kinds[raw.kind % self.kinds.len()];
            let (mut offset, mut length) = (
                raw.offset / self.offset_unit * self.offset_unit,
                raw.length / self.length_unit * self.length_unit,
            );
            if self.is_disjoint {
                offset = number << 32;
                length = length.max(512);
            }
            if kind == Kind::Flush {
                (offset, length) = (0, 0);
            }
            let source = sources.intern(self.names[raw.source]).unwrap();
            let response = raw.response_ns.and_then(|ns| self.response?.hold(ns));
            Record { at: Nanos(at_ns), source, kind, offset, length, response }
        });
        let records = records.collect();
        (sources, records)
    }

    /// The same, as a decoder gives them.
    pub(crate) fn expected(&self, records: &[Record]) -> Vec<Record> {
        let first = records.first().map_or(Nanos::ZERO, |record| record.at);
        let origin = if self.is_rebased { first } else { Nanos::ZERO };
        records.iter().map(|r| Record { at: Nanos(r.at.since(origin).0), ..*r }).collect()
    }
}

impl Response {
    fn hold(self, ns: u64) -> Option<Span> {
        let ns = ns / self.tick_ns * self.tick_ns;
        (ns > 0 || !self.is_zero_unknown).then_some(Span(ns))
    }
}

/// A complete file of these records, all of which the format takes, and of some policies, if it
/// takes such.
pub(crate) fn encode(format: Format, sources: &Sources, records: &[Record]) -> Vec<u8> {
    let mut encoder = format.encoder(&Options::default()).unwrap();
    let mut out = Vec::new();
    for (number, record) in records.iter().enumerate() {
        if number % 5 == 0 {
            // Not at the instant of a request before it.
            let _ = encoder.policy(record.at, Some("mode = \"enforce\"\n"), &mut out);
        }
        encoder.encode(sources, record, &mut out).unwrap();
    }
    encoder.finish(&mut out);
    out
}

/// All that a decoder gives.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) records: Vec<Record>,
    pub(crate) defects: Vec<Defect>,
    pub(crate) names: Vec<String>,
    pub(crate) origin_ns: Option<u64>,
    pub(crate) policies: Vec<RecordedPolicy>,
    pub(crate) passed_over: u64,
}

/// Feeds pieces of these sizes, over and over; checks what every decoder promises.
pub(crate) fn decode(format: Format, bytes: &[u8], sizes: &[usize]) -> Outcome {
    let mut decoder = format.decoder(&Options::default());
    let (mut records, mut defects, mut pending) = (Vec::new(), Vec::new(), Vec::new());
    let mut sizes = sizes.iter().cycle();
    let mut rest = bytes;
    loop {
        let size = (*sizes.next().unwrap()).clamp(1, rest.len().max(1));
        let (piece, behind) = rest.split_at(size.min(rest.len()));
        pending.extend_from_slice(piece);
        rest = behind;
        feed(&mut *decoder, &mut pending, rest.is_empty(), &mut records, &mut defects);
        assert!(pending.len() < PIECE_BYTES_MAX, "the decoder wants more than it may");
        assert!(defects.len() <= 2 * bytes.len() + 2, "defects without end");
        if rest.is_empty() {
            break;
        }
    }
    assert!(records.is_sorted_by_key(|record| record.at));
    let names = decoder.sources().names().to_vec();
    for record in &records {
        assert!(record.offset.checked_add(record.length).is_some());
        assert!((record.source.0 as usize) < names.len());
    }
    let policies = decoder.policies().to_vec();
    assert!(policies.is_sorted_by_key(|policy| policy.at));
    let (origin_ns, passed_over) = (decoder.origin_ns(), decoder.passed_over());
    Outcome { records, defects, names, origin_ns, policies, passed_over }
}

fn feed(
    decoder: &mut dyn Decoder,
    pending: &mut Vec<u8>,
    end: bool,
    records: &mut Vec<Record>,
    defects: &mut Vec<Defect>,
) {
    loop {
        match decoder.decode(pending, end, records) {
            Ok(used) => {
                pending.drain(..used);
                return;
            }
            Err(at) => {
                defects.push(at.defect);
                pending.drain(..at.used);
            }
        }
    }
}

/// Says that the running test is skipped, and why: on the terminal, and in the file that the
/// summary of `cargo xtask test` repeats.
pub(crate) fn tell_skip(why: &str) {
    use std::io::Write;
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("unnamed test");
    eprintln!("SKIPPED {test}: {why}");
    if let Some(path) = std::env::var_os("EVENKEEL_SKIPS") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{test}: {why}").unwrap();
    }
}
