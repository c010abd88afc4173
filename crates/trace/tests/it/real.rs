//! Real traces are read whole, with the counts and shares of reads that were published with them.
//!
//! The folder that `EVENKEEL_TRACES` names holds them; they are not ours to pass on. Without it
//! the tests are skipped, aloud.

use std::path::Path;
use std::process::Command;

use evenkeel_core::ticket::Kind;
use evenkeel_trace::format::{Format, TableOptions, foreign, understand};

use crate::support::{Outcome, decode, tell_skip};

/// The file's bytes, uncompressed; `None`, and said so, where it is not.
pub(crate) fn read(name: &str) -> Option<Vec<u8>> {
    let Some(folder) = std::env::var_os("EVENKEEL_TRACES") else {
        tell_skip("EVENKEEL_TRACES names no folder of real traces");
        return None;
    };
    let path = Path::new(&folder).join(name);
    let is_gzip = path.extension().is_some_and(|extension| extension == "gz");
    let program = if is_gzip { "gzip" } else { "zstd" };
    let output = Command::new(program).arg("-dc").arg(&path).output();
    match output {
        Ok(output) if output.status.success() => Some(output.stdout),
        _ => {
            tell_skip(&format!("`{program}` cannot read {}", path.display()));
            None
        }
    }
}

/// Reads as a driver does, and checks the number of records and the share of reads in percent.
fn check(name: &str, format: Format, count: usize, reads: &str) -> Option<Outcome> {
    let outcome = decode(format, &read(name)?, &[100_000]);
    assert_eq!(outcome.defects, [], "{name}");
    assert_eq!(outcome.records.len(), count, "{name}");
    let read_count = outcome.records.iter().filter(|record| record.kind == Kind::Read).count();
    let decimals = reads.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    assert_eq!(format!("{:.decimals$}", 100.0 * read_count as f64 / count as f64), reads, "{name}");
    Some(outcome)
}

/// The same requests, with instants that the table rounds to a nanosecond of its microseconds.
fn check_same(raw: &Outcome, table: &Outcome, name: &str) {
    for (number, (raw, table)) in raw.records.iter().zip(&table.records).enumerate() {
        let same = (raw.kind, raw.offset, raw.length) == (table.kind, table.offset, table.length);
        let apart_ns = raw.at.0.abs_diff(table.at.0);
        assert!(same && apart_ns <= 1_000, "{name}, record {number}: {raw:?}, {table:?}");
    }
}

#[test]
fn published_files_are_read_whole() {
    for (name, format, count, reads, table) in [
        (
            "blkreplay-linux-mysql.load.gz",
            Format::Blkreplay,
            80_794,
            "8.9",
            "blkreplay-linux-mysql",
        ),
        (
            "blkreplay-windows-mssql.load.gz",
            Format::Blkreplay,
            42_976,
            "5.9",
            "blkreplay-windows-mssql",
        ),
        ("cloudPhysicsIO.vscsi.zst", Format::Vscsi, 113_872, "41.3", "cloudphysics-vscsi"),
        ("fin1-example.ascii.zst", Format::SsdSim, 10_000, "40.8", "umass-fin1-10k"),
        ("tpcc-small.mqsim.zst", Format::SsdSim, 6_999, "62.6", "tpcc-small"),
        (
            "msr-cut-most_thpt_rand_iops.1006.trace.zst",
            Format::Heimdall,
            10_000,
            "83.2",
            "msr-cut-randiops",
        ),
        ("msr-cut-rw_40_60.1370.trace.zst", Format::Heimdall, 10_000, "40.5", "msr-cut-rw40_60"),
    ] {
        let Some(raw) = check(name, format, count, reads) else { return };
        let table_name = format!("normalised/{table}.csv.zst");
        let Some(table) = check(&table_name, Format::Csv, count, reads) else { return };
        check_same(&raw, &table, name);
    }
}

#[test]
fn tables_of_other_traces_are_read_whole() {
    for (name, count, reads) in [
        ("ms-dtrs100m", 127_043, "89.0"),
        ("umass-fin1-50k", 50_000, "58.4"),
        ("umass-websearch1-50k", 50_000, "99.98"),
    ] {
        let name = format!("normalised/{name}.csv.zst");
        if check(&name, Format::Csv, count, reads).is_none() {
            return;
        }
        let understood =
            understand(&read(&name).expect("read above"), true, &TableOptions::default());
        assert!(understood.is_ok(), "{name}: {understood:?}");
    }
}

#[test]
fn real_files_tell_their_format() {
    for (name, format) in [
        ("blkreplay-linux-mysql.load.gz", Format::Blkreplay),
        ("cloudPhysicsIO.vscsi.zst", Format::Vscsi),
        ("normalised/tpcc-small.csv.zst", Format::Csv),
        ("tpcc-small.mqsim.zst", Format::SsdSim),
    ] {
        let Some(bytes) = read(name) else { return };
        let plain = name.trim_end_matches(".gz").trim_end_matches(".zst");
        assert_eq!(Format::detect(&bytes[..bytes.len().min(512)], plain), Some(format), "{name}");
    }
    for name in ["msr-cut-most_thpt_rand_iops.1006.trace.zst", "msr-cut-rw_40_60.1370.trace.zst"] {
        let Some(bytes) = read(name) else { return };
        let found = Format::detect(&bytes, name.trim_end_matches(".zst"));
        assert_eq!(found, Some(Format::Heimdall), "{name}");
    }
}

#[test]
fn real_files_that_are_no_traces_of_requests_are_named() {
    for (name, told) in [
        ("arc-OLTP.lis.zst", "ARC"),
        ("leokang-fin1.trace.zst", "five numbers"),
        ("cp_block.csv.zst", "titles of which none is known"),
    ] {
        let Some(bytes) = read(name) else { return };
        let head = &bytes[..bytes.len().min(256 << 10)];
        let plain = name.trim_end_matches(".zst");
        assert_eq!(Format::detect(head, plain), None, "{name}");
        let what = foreign(head).map_or("unknown", |foreign| foreign.what);
        assert!(what.contains(told), "{name}: {what}");
    }
}
