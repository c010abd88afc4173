//! Any bytes as a trace of any format, with anything stated of a table's columns: decoding is
//! total, does not care how the bytes are cut, and its records keep what all decoders promise.
#![no_main]

use arbitrary::Arbitrary;
use evenkeel_core::ticket::Kind;
use evenkeel_trace::Record;
use evenkeel_trace::codec::{Defect, PIECE_BYTES_MAX, RecordedPolicy};
use evenkeel_trace::format::{
    Arrival, Field, Format, Options, Order, TableOptions, Unit, UnitRule, WaitUnit, foreign,
    understand,
};
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

/// What somebody states of a table: texts of the command line, and units of any size.
#[derive(Arbitrary, Debug)]
struct Stated<'a> {
    columns: Vec<&'a str>,
    units: Vec<&'a str>,
    digits: Option<u32>,
    unit_bytes: Option<u64>,
    assume: Option<bool>,
}

impl Stated<'_> {
    fn options(&self) -> TableOptions {
        let columns = self.columns.iter().filter_map(|text| text.parse().ok()).collect();
        let mut units: Vec<UnitRule> =
            self.units.iter().filter_map(|text| text.parse().ok()).collect();
        let time = self.digits.map(|digits| Unit::Time { digits });
        units.extend(time.map(|unit| UnitRule { field: Field::Time, unit }));
        let space = self.unit_bytes.map(Unit::Bytes);
        units.extend(space.map(|unit| UnitRule { field: Field::Size, unit }));
        let assume = self.assume.map(|is_read| if is_read { Kind::Read } else { Kind::Write });
        TableOptions::new(columns, units, assume).unwrap_or_default()
    }
}

fuzz_target!(|input: (u8, u8, u8, Stated<'_>, &[u8])| {
    let (format, piece, bits, stated, bytes) = input;
    let format = Format::ALL[usize::from(format) % Format::ALL.len()];
    let options = Options {
        window_records: usize::from(bits >> 4),
        arrival: if bits & 1 > 0 { Arrival::Issued } else { Arrival::Queued },
        wait_unit: if bits & 2 > 0 {
            WaitUnit::MicrosecondsSinceLast
        } else {
            WaitUnit::MillisecondsSinceStart
        },
        table: stated.options(),
        order: if bits & 4 > 0 { Order::AsGiven } else { Order::Arrival },
        ..Options::default()
    };
    let whole = run(format, &options, bytes, usize::MAX);
    assert_eq!(run(format, &options, bytes, usize::from(piece) + 1), whole);
    let Outcome { records, defects, names, policies, .. } = whole;
    assert!(policies.is_sorted_by_key(|policy| policy.at));
    assert!(options.order == Order::AsGiven || records.is_sorted_by_key(|record| record.at));
    for record in records {
        assert!(record.offset.checked_add(record.length).is_some());
        assert!((record.source.0 as usize) < names.len());
    }
    for defect in defects {
        assert!(!defect.to_string().contains(char::is_control));
    }
    let told = match understand(bytes, bits & 8 > 0, &options.table) {
        Ok(understood) => understood.text,
        Err(unclear) => unclear.problems.concat(),
    };
    assert!(!told.contains(char::is_control));
    let _ = (Format::detect(bytes, "x.csv"), foreign(bytes));
});
