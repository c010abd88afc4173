//! `evenkeel trace sort`: the requests of a trace in the order of time, in bounded memory.
//!
//! ```text
//! IN -> 524,288 requests -> sorted -> a run on disk --64 of a level--> one of the next level
//!                                                   --at the end-----> merged -> OUT
//! ```
//!
//! Requests of one instant keep their order. A trace that fits in one run needs no disk. Runs are
//! files without a name: however the command ends, the system takes them away.

mod merge;
mod runs;

use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_core::time::Nanos;
use evenkeel_trace::Record;
use evenkeel_trace::format::Format;

use super::convert::Unchanged;
use super::files::{InputArgs, OutputArgs, Summary, read_all};
use super::input::ReadProgress;
use super::output::STDOUT;
use super::policies::PolicyCopy;
use super::progress::Bar;
use runs::{RECORD_BYTES, Sorter};

/// Arguments of `evenkeel trace sort`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Takes less than 64 MiB of memory. A trace of more than half a million requests is sorted on disk, in
the folder of the output or in that which TMPDIR names; it takes 38 bytes a request there, and twice
as much beyond 33 million requests. Requests of the same instant keep their order.

Examples:
  evenkeel trace sort log.csv sorted.ektrace
  evenkeel trace sort phone.csv.gz phone.ektrace.zst --column op=rw_flag:0=write,1=read
  TMPDIR=/scratch evenkeel trace sort week.csv.zst week.csv.zst")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// A trace that cannot be read or written, no room for what is sorted.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.output.check()?;
    let mut reader = args.input.open_as_given()?;
    let mut sorter = Sorter::new(folder(args.output.output()));
    let read = read_all(&mut reader, |_, record| sorter.push(*record))?;
    let mut in_order = sorter.finish()?.peekable();
    // Where instants are those of some clock, the first becomes zero.
    let is_clock = reader.format() != Format::Native && reader.origin_ns().is_some();
    let first = match in_order.peek() {
        Some(Ok(first)) if is_clock => Some(first.at),
        _ => None,
    };
    let origin_ns = first.map(|first| first.0).or_else(|| reader.origin_ns());
    let mut writer = args.output.create(origin_ns)?;
    let mut unwritable = args.input.reading().defects();
    let mut policies = PolicyCopy::default();
    let progress = ReadProgress::of_bytes(read * RECORD_BYTES);
    let mut bar = Bar::new(vec![progress.clone()]);
    for (number, record) in (1_u64..).zip(in_order) {
        let record = since(record?, first);
        policies.write_up_to(record.at, reader.policies(), &Unchanged, &mut writer)?;
        if let Err(why) = writer.write(reader.sources(), &record)? {
            unwritable.note_unwritable(writer.name(), number, &why)?;
        }
        progress.advance(RECORD_BYTES);
        if number % 4096 == 0 {
            bar.tell(number);
        }
    }
    policies.write_up_to(Nanos(u64::MAX), reader.policies(), &Unchanged, &mut writer)?;
    bar.finish();
    policies.tell();
    let (output, format) = (writer.name().to_owned(), writer.format());
    let summary = Summary { read, written: writer.finish()?, output, format };
    args.output.writing().tell(&summary, &[reader.defects(), &unwritable])
}

/// The record, with its instant counted from the first one.
fn since(record: Record, first: Option<Nanos>) -> Record {
    let at = first.map_or(record.at, |first| Nanos(record.at.since(first).0));
    Record { at, ..record }
}

/// Where runs are kept: where the variable says, or else beside the output.
fn folder(output: &Path) -> PathBuf {
    if let Some(named) = std::env::var_os("TMPDIR").filter(|named| !named.is_empty()) {
        return PathBuf::from(named);
    }
    let is_special =
        output == Path::new(STDOUT) || fs::metadata(output).is_ok_and(|about| !about.is_file());
    match output.parent() {
        _ if is_special => std::env::temp_dir(),
        Some(parent) if parent != Path::new("") => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}
