//! Any records and policies into any format: a refusal appends nothing, and what was taken is read
//! back without a defect, from the native format and from tables to the last bit.
#![no_main]

use arbitrary::Arbitrary;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_trace::codec::{RecordedPolicy, decode_all};
use evenkeel_trace::format::{Format, Options};
use evenkeel_trace::{Record, Sources};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Request {
    gap_ns: u64,
    is_far: bool,
    name: String,
    kind: u8,
    offset: u64,
    length: u64,
    in_sectors: bool,
    response_ns: Option<u64>,
    flush: bool,
    /// A policy in front of it: how long after the request before, and its text.
    policy: Option<(u8, Option<String>)>,
}

impl Request {
    fn record(&self, sources: &mut Sources, last: Nanos) -> Record {
        let unit = if self.in_sectors { 512 } else { 1 };
        let gap = if self.is_far { self.gap_ns } else { self.gap_ns % 1_000_000 };
        Record {
            at: Nanos(last.0.wrapping_add(gap)),
            source: sources.intern(&self.name).expect("few names"),
            kind: Kind::ALL[usize::from(self.kind) % Kind::ALL.len()],
            offset: self.offset / unit * unit,
            length: self.length / unit * unit,
            response: self.response_ns.map(Span),
        }
    }
}

fuzz_target!(|input: (u8, Vec<Request>)| {
    let (format, requests) = input;
    let format = Format::ALL[usize::from(format) % Format::ALL.len()];
    let Some(mut encoder) = format.encoder(&Options::default()) else { return };
    let (mut sources, mut file) = (Sources::default(), Vec::new());
    let (mut taken, mut last) = (Vec::new(), Nanos::ZERO);
    let mut policies: Vec<RecordedPolicy> = Vec::new();
    for request in &requests {
        if let Some((gap, text)) = &request.policy {
            let at = Nanos(last.0.saturating_add(u64::from(*gap)));
            let before = file.len();
            let is_new = text.is_some() || policies.last().is_some_and(|last| last.text.is_some());
            match encoder.policy(at, text.as_deref(), &mut file) {
                Ok(()) if is_new => policies.push(RecordedPolicy { at, text: text.clone() }),
                Ok(()) | Err(_) => assert_eq!(file.len(), before),
            }
        }
        let record = request.record(&mut sources, last);
        let before = file.len();
        match encoder.encode(&sources, &record, &mut file) {
            Ok(()) => {
                last = record.at;
                taken.push((record, request.name.as_str()));
            }
            Err(_) => assert_eq!(file.len(), before),
        }
        if request.flush {
            encoder.flush(&mut file);
        }
    }
    encoder.finish(&mut file);
    let mut decoder = format.decoder(&Options::default());
    let (records, defects) = decode_all(&mut *decoder, &file);
    assert_eq!((defects, records.len()), (vec![], taken.len()));
    assert_eq!(decoder.policies(), policies);
    if matches!(format, Format::Native | Format::Csv) {
        for (record, (known, name)) in records.iter().zip(taken) {
            assert_eq!(decoder.sources().name(record.source), name);
            // A flush in a table has no bytes, whatever it was given.
            let is_flush = format == Format::Csv && known.kind == Kind::Flush;
            let length = if is_flush { 0 } else { known.length };
            assert_eq!(*record, Record { source: record.source, length, ..known });
        }
    }
});
