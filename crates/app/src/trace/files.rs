//! Arguments that name traces, and the way from one trace to another.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use evenkeel_core::time::Nanos;
use evenkeel_trace::format::{Format, Order};
use evenkeel_trace::transform::cut::Verdict;
use evenkeel_trace::{Record, Sources};
use serde_json::json;

use super::defects::{Defects, OnDefect};
use super::input::{ReadOptions, TraceReader};
use super::output::{STDOUT, TraceWriter, output_format};
use super::policies::PolicyCopy;
use super::progress::Bar;
use super::table::TableArgs;
use crate::exit::Exit;
use crate::terminal;

/// How to read traces.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReadingArgs {
    /// Format of what is read [default: told from its first bytes, or else from its name].
    #[arg(long, value_name = "FORMAT", value_parser = format_parser())]
    format: Option<Format>,
    /// Leave out entries that cannot be read, and count them, instead of stopping at the first.
    #[arg(long)]
    skip_bad: bool,
    /// What to call the source in formats that tell none [default: the name of the file].
    #[arg(long, value_name = "NAME")]
    source_name: Option<String>,
    #[command(flatten)]
    table: TableArgs,
}

/// One trace to read.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InputArgs {
    /// The trace: a file, plain or packed with gzip or zstd; - for stdin.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    #[command(flatten)]
    reading: ReadingArgs,
}

/// The trace to write.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct OutputArgs {
    /// The trace to write; its name tells the format, and .gz or .zst packs it; - for stdout.
    #[arg(value_name = "OUTPUT")]
    output: PathBuf,
    #[command(flatten)]
    writing: WritingArgs,
}

/// How to write a trace.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WritingArgs {
    /// Format of what is written [default: told from the name; native on stdout].
    #[arg(long, value_name = "FORMAT", value_parser = format_parser())]
    to: Option<Format>,
    /// Print a summary as JSON.
    #[arg(long)]
    json: bool,
}

/// Reads the name of a format; `--help` lists them all.
fn format_parser() -> impl TypedValueParser<Value = Format> {
    let names: Vec<&str> = Format::ALL.into_iter().map(Format::name).collect();
    PossibleValuesParser::new(names)
        .map(|name| Format::from_name(&name).expect("only known names pass"))
}

impl ReadingArgs {
    /// Opens a trace, and says how it is read where that is not plain.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub(crate) fn open(&self, path: &Path) -> anyhow::Result<TraceReader> {
        let reader = TraceReader::open(path, &self.options()?)?;
        reader.tell_understood();
        Ok(reader)
    }

    /// What the command line says about reading.
    ///
    /// # Errors
    /// As [`TableArgs::options`].
    pub(crate) fn options(&self) -> anyhow::Result<ReadOptions> {
        Ok(ReadOptions {
            format: self.format,
            on_defect: if self.skip_bad { OnDefect::Skip } else { OnDefect::Refuse },
            source: self.source_name.clone(),
            table: self.table.options()?,
            ..ReadOptions::default()
        })
    }

    /// What becomes of entries that cannot be read, or not be written.
    pub(crate) fn defects(&self) -> Defects {
        Defects::new(if self.skip_bad { OnDefect::Skip } else { OnDefect::Refuse })
    }
}

impl InputArgs {
    /// Opens the trace.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub(crate) fn open(&self) -> anyhow::Result<TraceReader> {
        self.reading.open(&self.trace)
    }

    /// Opens the trace to have its requests as they stand, and says how it is read.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub(crate) fn open_as_given(&self) -> anyhow::Result<TraceReader> {
        let options = ReadOptions { order: Order::AsGiven, ..self.reading.options()? };
        let reader = TraceReader::open(&self.trace, &options)?;
        reader.tell_understood();
        Ok(reader)
    }

    /// Opens the trace for a first look: whoever reads it then says how it is read.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub(crate) fn open_to_look(&self) -> anyhow::Result<TraceReader> {
        TraceReader::open(&self.trace, &self.reading.options()?)
    }

    /// How it is read.
    pub(crate) fn reading(&self) -> &ReadingArgs {
        &self.reading
    }

    /// Where it is.
    pub(crate) fn trace(&self) -> &Path {
        &self.trace
    }

    /// One more than the last byte that any request touches. Reads the whole trace.
    ///
    /// # Errors
    /// [`Exit::Usage`] if the trace comes from stdin and could not be read again; `option` is what
    /// would tell the size instead. Otherwise as [`TraceReader::next_batch`].
    pub(crate) fn extent_bytes(&self, option: &str) -> anyhow::Result<u64> {
        if self.trace == Path::new(super::input::STDIN) {
            let message =
                format!("stdin cannot be read twice; say how large its disks are by {option}");
            return Err(Exit::Usage.because(message));
        }
        let mut extent_bytes = 0;
        let mut reader = self.open_to_look()?;
        let mut bar = Bar::new(vec![reader.progress()]);
        let (mut batch, mut read) = (Vec::new(), 0);
        while reader.next_batch(&mut batch)? {
            let ends = batch.iter().map(|record| record.offset.saturating_add(record.length));
            extent_bytes = ends.max().unwrap_or(0).max(extent_bytes);
            read += batch.len() as u64;
            bar.tell(read);
        }
        bar.finish();
        Ok(extent_bytes)
    }
}

impl OutputArgs {
    /// Where it goes.
    pub(crate) fn output(&self) -> &Path {
        &self.output
    }

    /// How it is written.
    pub(crate) fn writing(&self) -> &WritingArgs {
        &self.writing
    }

    /// Finds out whether it can be started, before much is read for it.
    ///
    /// # Errors
    /// [`Exit::Usage`], as [`Self::create`].
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.writing.check(&self.output)
    }

    /// Starts the trace.
    ///
    /// # Errors
    /// As [`TraceWriter::create`].
    pub(crate) fn create(&self, origin_ns: Option<u64>) -> anyhow::Result<TraceWriter> {
        self.writing.create(&self.output, origin_ns)
    }
}

impl WritingArgs {
    /// Whether the summary is to be JSON.
    pub(crate) fn wants_json(&self) -> bool {
        self.json
    }

    /// Starts the trace at `path`.
    ///
    /// # Errors
    /// As [`TraceWriter::create`], and [`Exit::Usage`] if stdout is to take two things.
    pub(crate) fn create(
        &self,
        path: &Path,
        origin_ns: Option<u64>,
    ) -> anyhow::Result<TraceWriter> {
        self.check(path)?;
        TraceWriter::create(path, self.to, origin_ns)
    }

    fn check(&self, path: &Path) -> anyhow::Result<()> {
        if self.json && path == Path::new(STDOUT) {
            let message = "stdout takes either the trace or the JSON; name a file for the trace";
            return Err(Exit::Usage.because(message));
        }
        output_format(path, self.to).map(drop)
    }

    /// Says what was done: as JSON on stdout, or as a line on stderr.
    ///
    /// # Errors
    /// If stdout cannot be written.
    pub(crate) fn tell(&self, summary: &Summary, defects: &[&Defects]) -> anyhow::Result<()> {
        if self.json {
            let bad: Vec<_> = defects.iter().map(|defects| defects.to_json()).collect();
            return terminal::json(&json!({
                "read": summary.read,
                "written": summary.written,
                "output": summary.output,
                "format": summary.format.name(),
                "bad": bad,
            }));
        }
        for defects in defects {
            defects.tell();
        }
        let of = if summary.read == summary.written {
            String::new()
        } else {
            format!(" of {}", summary.read)
        };
        let Summary { written, output, .. } = summary;
        terminal::say(&format!("{written}{of} requests are in {output}"));
        Ok(())
    }
}

/// What was done.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    /// Requests read.
    pub(crate) read: u64,
    /// Requests written.
    pub(crate) written: u64,
    /// Where they were written.
    pub(crate) output: String,
    /// In which format.
    pub(crate) format: Format,
}

/// Something that decides about each record in turn.
pub(crate) trait Transform {
    /// What becomes of a record.
    ///
    /// # Errors
    /// If it has no place in the result.
    fn apply(&mut self, sources: &Sources, record: &Record) -> anyhow::Result<Verdict>;

    /// The sources of what it gives, if they are not those of what it was given.
    fn sources(&self) -> Option<&Sources> {
        None
    }

    /// When in the result a policy begins that came into force at `at`; `None` if behind its end.
    fn instant(&self, at: Nanos) -> Option<Nanos> {
        Some(at)
    }

    /// Why the result tells no policies, if so.
    fn leaves_out_policies(&self) -> Option<&str> {
        None
    }
}

/// Reads one trace, sends every record through `transform`, and writes another.
///
/// # Errors
/// As [`TraceReader::next_batch`], [`TraceWriter::write`] and [`Transform::apply`].
pub(crate) fn pipe(
    input: &InputArgs,
    output: &OutputArgs,
    transform: &mut dyn Transform,
) -> anyhow::Result<()> {
    let mut reader = input.open()?;
    let (mut read, mut batch) = (0, Vec::new());
    // Only with its first record a trace tells when it began.
    let mut has_more = reader.next_batch(&mut batch)?;
    let mut writer = output.create(reader.origin_ns())?;
    let mut unwritable = input.reading.defects();
    let (mut policies, mut is_cut) = (PolicyCopy::default(), false);
    let mut bar = Bar::new(vec![reader.progress()]);
    'trace: while has_more {
        for record in &batch {
            read += 1;
            let kept = match transform.apply(reader.sources(), record)? {
                Verdict::Keep(record) => record,
                Verdict::Drop => continue,
                Verdict::End => {
                    // It was only looked at to know that there is more.
                    read -= 1;
                    is_cut = true;
                    break 'trace;
                }
            };
            policies.write_up_to(record.at, reader.policies(), transform, &mut writer)?;
            let sources = transform.sources().unwrap_or_else(|| reader.sources());
            if let Err(why) = writer.write(sources, &kept)? {
                unwritable.note_unwritable(writer.name(), read, &why)?;
            }
        }
        bar.tell(read);
        has_more = reader.next_batch(&mut batch)?;
    }
    if !is_cut {
        policies.write_up_to(Nanos(u64::MAX), reader.policies(), transform, &mut writer)?;
    }
    bar.finish();
    policies.tell();
    let (output_name, format) = (writer.name().to_owned(), writer.format());
    let summary = Summary { read, written: writer.finish()?, output: output_name, format };
    output.writing.tell(&summary, &[reader.defects(), &unwritable])
}

/// Reads a trace to its end and shows a bar meanwhile.
///
/// # Errors
/// As [`TraceReader::next_batch`], and those of `take`.
pub(crate) fn read_all(
    reader: &mut TraceReader,
    mut take: impl FnMut(&Sources, &Record) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let mut bar = Bar::new(vec![reader.progress()]);
    let mut read = 0;
    reader.each(|sources, record| {
        take(sources, record)?;
        read += 1;
        if read % 4096 == 0 {
            bar.tell(read);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    bar.finish();
    Ok(read)
}
