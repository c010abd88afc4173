//! What an encoder writes, a decoder gives back, within what the format can hold.

use evenkeel_trace::Record;
use evenkeel_trace::format::{Format, Options, TableOptions, understand};
use proptest::prelude::*;

use crate::support::{Raw, decode, encode, hold, raws};

/// Ids depend on which source appears first; names do not.
fn by_name<'a>(records: &[Record], names: &'a [String]) -> Vec<(Record, &'a str)> {
    let name = |record: &Record| names[record.source.0 as usize].as_str();
    let anonymous = |record: &Record| Record { source: evenkeel_trace::SourceId(0), ..*record };
    records.iter().map(|record| (anonymous(record), name(record))).collect()
}

proptest! {
    #[test]
    fn records_return(raws in raws()) {
        for format in Format::ALL {
            let hold = hold(format);
            let (sources, records) = hold.records(&raws);
            let file = encode(format, &sources, &records);
            let outcome = decode(format, &file, &[usize::MAX]);
            prop_assert_eq!(&outcome.defects[..], &[][..], "{:?}", format);
            prop_assert_eq!(
                by_name(&outcome.records, &outcome.names),
                by_name(&hold.expected(&records), sources.names()),
                "{:?}",
                format
            );
            if !records.is_empty() && !format.extensions().contains(&"csv") {
                let name = format!("x.{}", format.extensions()[0]);
                prop_assert_eq!(Format::detect(&file, &name), Some(format));
            }
            if format == Format::Csv {
                prop_assert_eq!(Format::detect(&file, "x.csv"), Some(format));
                prop_assert!(understand(&file, true, &TableOptions::default()).is_ok());
            }
        }
    }

    /// A refusal appends nothing, and what was not refused is there.
    #[test]
    fn what_is_not_refused_can_be_read(
        raws in raws(),
        wild in any::<[u64; 3]>(),
        at in 0_usize..60,
    ) {
        for format in Format::ALL {
            let (sources, mut records) = hold(Format::Native).records(&raws);
            if let Some(record) = records.get_mut(at) {
                (record.offset, record.length) = (wild[0], wild[1]);
                record.at.0 = wild[2] >> 1;
            }
            let mut encoder = format.encoder(&Options::default()).unwrap();
            let (mut file, mut taken) = (Vec::new(), 0);
            for record in &records {
                let before = file.len();
                match encoder.encode(&sources, record, &mut file) {
                    Ok(()) => taken += 1,
                    Err(reason) => {
                        prop_assert!(!reason.is_empty());
                        prop_assert_eq!(file.len(), before);
                    }
                }
            }
            encoder.finish(&mut file);
            let outcome = decode(format, &file, &[usize::MAX]);
            prop_assert_eq!(&outcome.defects[..], &[][..], "{:?}", format);
            prop_assert_eq!(outcome.records.len(), taken, "{:?}", format);
        }
    }
}

#[test]
fn a_file_without_records_is_a_file() {
    for format in Format::ALL {
        let file = encode(format, &evenkeel_trace::Sources::default(), &[]);
        let outcome = decode(format, &file, &[1]);
        assert_eq!((outcome.records.len(), outcome.defects.len()), (0, 0), "{format:?}");
    }
}

#[test]
fn flushing_after_every_record_changes_no_record() {
    let raw = Raw { gap_ns: 7, source: 1, kind: 1, offset: 512, length: 99, response_ns: Some(5) };
    let raws = [raw, Raw { source: 2, ..raw }, raw, Raw { gap_ns: 0, kind: 2, ..raw }];
    for format in Format::ALL {
        let (sources, records) = hold(format).records(&raws);
        let mut encoder = format.encoder(&Options::default()).unwrap();
        let mut file = Vec::new();
        for record in &records {
            encoder.encode(&sources, record, &mut file).unwrap();
            encoder.flush(&mut file);
        }
        encoder.finish(&mut file);
        let outcome = decode(format, &file, &[usize::MAX]);
        assert_eq!(outcome.defects, []);
        let expected = hold(format).expected(&records);
        assert_eq!(by_name(&outcome.records, &outcome.names), by_name(&expected, sources.names()));
    }
}
