//! The time series of each tenant as a file: one row per tenant and interval.
//!
//! | column | meaning |
//! |---|---|
//! | `tenant` | its name |
//! | `start_ns`, `length_ns` | the interval, from the start of the measured time; then the drain |
//! | `requests`, `reads`, `writes`, `errors` | that ended in it |
//! | `read_bytes`, `write_bytes` | delivered in it |
//! | `latency_mean_ns`, `latency_p50_ns`, `latency_p99_ns`, `latency_max_ns` | of those requests |

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use evenkeel_sim::result::{IntervalSummary, Summary};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::exit::Exit;

/// How a file of series is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Csv,
    Parquet,
}

/// A column of numbers.
type Column = (&'static str, fn(&IntervalSummary) -> u64);

const COLUMNS: [Column; 12] = [
    ("start_ns", |entry| entry.start.0),
    ("length_ns", |entry| entry.length.0),
    ("requests", |entry| entry.requests),
    ("reads", |entry| entry.reads),
    ("writes", |entry| entry.writes),
    ("errors", |entry| entry.errors),
    ("read_bytes", |entry| entry.read_bytes),
    ("write_bytes", |entry| entry.write_bytes),
    ("latency_mean_ns", |entry| entry.latency_mean.0),
    ("latency_p50_ns", |entry| entry.latency_p50.0),
    ("latency_p99_ns", |entry| entry.latency_p99.0),
    ("latency_max_ns", |entry| entry.latency_max.0),
];

impl Form {
    /// The form that a file's name asks for.
    pub(super) fn of(path: &Path) -> anyhow::Result<Self> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("csv") => Ok(Self::Csv),
            Some("parquet") => Ok(Self::Parquet),
            _ => Err(Exit::Usage.because(format!(
                "--series {}: the ending does not say how to write it; use .csv or .parquet",
                path.display()
            ))),
        }
    }

    /// Writes the series of every tenant.
    pub(super) fn write(self, path: &Path, summary: &Summary) -> anyhow::Result<()> {
        let cannot = || format!("cannot write {}", path.display());
        let file = File::create(path).with_context(cannot)?;
        match self {
            Self::Csv => write_csv(&mut BufWriter::new(file), summary).with_context(cannot),
            Self::Parquet => write_parquet(file, summary).with_context(cannot),
        }
    }
}

fn rows(summary: &Summary) -> impl Iterator<Item = (&str, &IntervalSummary)> {
    summary.tenants.iter().flat_map(|tenant| {
        let entries = tenant.traffic.series.iter().chain(&tenant.traffic.drain_series);
        entries.map(|entry| (&*tenant.name, entry))
    })
}

fn write_csv(out: &mut impl Write, summary: &Summary) -> anyhow::Result<()> {
    let names = COLUMNS.map(|(name, _)| name).join(",");
    writeln!(out, "tenant,{names}")?;
    for (tenant, entry) in rows(summary) {
        let values = COLUMNS.map(|(_, value)| value(entry).to_string()).join(",");
        writeln!(out, "{},{values}", quoted(tenant))?;
    }
    Ok(out.flush()?)
}

/// A text as RFC 4180 wants it.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn write_parquet(file: impl Write + Send, summary: &Summary) -> anyhow::Result<()> {
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema()?), properties)?;
    let mut group = writer.next_row_group()?;
    let names: Vec<ByteArray> =
        rows(summary).map(|(tenant, _)| ByteArray::from(tenant.as_bytes().to_vec())).collect();
    if let Some(mut column) = group.next_column()? {
        column.typed::<ByteArrayType>().write_batch(&names, None, None)?;
        column.close()?;
    }
    for (_, value) in COLUMNS {
        let number = |entry| i64::try_from(value(entry)).unwrap_or(i64::MAX);
        let numbers: Vec<i64> = rows(summary).map(|(_, entry)| number(entry)).collect();
        if let Some(mut column) = group.next_column()? {
            column.typed::<Int64Type>().write_batch(&numbers, None, None)?;
            column.close()?;
        }
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

fn schema() -> anyhow::Result<Type> {
    let required = |name, physical| {
        Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED)
    };
    let tenant = required("tenant", Physical::BYTE_ARRAY);
    let mut fields = vec![Arc::new(tenant.with_logical_type(Some(LogicalType::String)).build()?)];
    for (name, _) in COLUMNS {
        fields.push(Arc::new(required(name, Physical::INT64).build()?));
    }
    Ok(Type::group_type_builder("series").with_fields(fields).build()?)
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Span;
    use evenkeel_sim::result::{TenantSummary, Traffic};
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    fn summary() -> Summary {
        let entry = |second| IntervalSummary {
            start: Span::from_secs(second),
            length: Span::from_secs(1),
            requests: 7 + second,
            ..IntervalSummary::default()
        };
        let traffic = Traffic { series: vec![entry(0), entry(1)], ..Traffic::default() };
        let names = ["db", "a, \"b\""];
        let tenants = names.map(|name| TenantSummary {
            name: name.to_owned(),
            traffic: traffic.clone(),
            ..TenantSummary::default()
        });
        Summary { tenants: tenants.into(), ..Summary::default() }
    }

    #[test]
    fn the_table_has_a_row_for_each_tenant_and_interval() {
        let mut out = Vec::new();
        write_csv(&mut out, &summary()).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[0].starts_with("tenant,start_ns,length_ns,requests,"), "{text}");
        assert_eq!(lines[2], "db,1000000000,1000000000,8,0,0,0,0,0,0,0,0,0");
        assert!(lines[3].starts_with("\"a, \"\"b\"\"\",0,"), "{text}");
    }

    #[test]
    fn parquet_reads_back_what_was_written() {
        let mut out = Vec::new();
        write_parquet(&mut out, &summary()).unwrap();
        let reader = SerializedFileReader::new(bytes_of(out)).unwrap();
        let rows = reader.get_row_iter(None).unwrap();
        let rows: Vec<String> = rows.map(|row| row.unwrap().to_string()).collect();
        assert_eq!(rows.len(), 4);
        assert!(rows[1].contains("tenant: \"db\"") && rows[1].contains("requests: 8"), "{rows:?}");
    }

    fn bytes_of(bytes: Vec<u8>) -> axum::body::Bytes {
        bytes.into()
    }

    #[test]
    fn an_ending_that_says_nothing_is_refused() {
        assert_eq!(Form::of(Path::new("a.parquet")).unwrap(), Form::Parquet);
        let error = Form::of(Path::new("a.txt")).unwrap_err();
        assert_eq!(Exit::of(&error), Exit::Usage);
    }
}
