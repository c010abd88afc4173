//! Any bytes as a trace of any format: decoding is total, does not care how the bytes are cut, and
//! its records keep what all decoders promise.
#![no_main]

use evenkeel_trace::Record;
use evenkeel_trace::codec::{Defect, PIECE_BYTES_MAX, RecordedPolicy};
use evenkeel_trace::format::{Arrival, Format, Options, WaitUnit};
use libfuzzer_sys::fuzz_target;

#[derive(PartialEq, Debug)]
struct Outcome {
    records: Vec<Record>,
    defects: Vec<Defect>,
    names: Vec<String>,
    origin_ns: Option<u64>,
    policies: Vec<RecordedPolicy>,
    passed_over: u64,
}

fn run(format: Format, options: &Options, bytes: &[u8], piece: usize) -> Outcome {
    let mut decoder = format.decoder(options);
    let (mut records, mut defects, mut pending) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = bytes;
    loop {
        let (next, behind) = rest.split_at(piece.min(rest.len()));
        pending.extend_from_slice(next);
        rest = behind;
        loop {
            match decoder.decode(&pending, rest.is_empty(), &mut records) {
                Ok(used) => {
                    pending.drain(..used);
                    break;
                }
                Err(at) => {
                    defects.push(at.defect);
                    pending.drain(..at.used);
                }
            }
            assert!(defects.len() <= 2 * bytes.len() + 2, "defects without end");
        }
        assert!(pending.len() < PIECE_BYTES_MAX);
        if rest.is_empty() {
            return Outcome {
                records,
                defects,
                names: decoder.sources().names().to_vec(),
                origin_ns: decoder.origin_ns(),
                policies: decoder.policies().to_vec(),
                passed_over: decoder.passed_over(),
            };
        }
    }
}

fuzz_target!(|input: (u8, u8, u8, &[u8])| {
    let (format, piece, bits, bytes) = input;
    let format = Format::ALL[usize::from(format) % Format::ALL.len()];
    let options = Options {
        window_records: usize::from(bits >> 4),
        arrival: if bits & 1 > 0 { Arrival::Issued } else { Arrival::Queued },
        wait_unit: if bits & 2 > 0 {
            WaitUnit::MicrosecondsSinceLast
        } else {
            WaitUnit::MillisecondsSinceStart
        },
        ..Options::default()
    };
    let whole = run(format, &options, bytes, usize::MAX);
    assert_eq!(run(format, &options, bytes, usize::from(piece) + 1), whole);
    let Outcome { records, defects, names, policies, .. } = whole;
    assert!(policies.is_sorted_by_key(|policy| policy.at));
    assert!(records.is_sorted_by_key(|record| record.at));
    for record in records {
        assert!(record.offset.checked_add(record.length).is_some());
        assert!((record.source.0 as usize) < names.len());
    }
    for defect in defects {
        assert!(!defect.to_string().contains(char::is_control));
    }
    let _ = Format::detect(bytes, "x.csv");
});
