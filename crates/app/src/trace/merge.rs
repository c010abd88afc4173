//! `evenkeel trace merge`: several traces as one, in the order of time.

use std::collections::VecDeque;
use std::path::PathBuf;

use evenkeel_core::time::Span;
use evenkeel_trace::Record;
use evenkeel_trace::transform::agreement::Agreement;
use evenkeel_trace::transform::merge::{Merge, Naming, Next, Part};

use super::compression::Compression;
use super::defects::Defects;
use super::files::{ReadingArgs, Summary, WritingArgs};
use super::input::TraceReader;
use super::policies::{PolicyCopy, since};
use super::progress::Bar;
use crate::exit::Exit;
use crate::terminal;
use crate::units::parse_duration;

/// Traces that are merged at once.
const TRACES_MAX: usize = 1024;

/// Arguments of `evenkeel trace merge`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel trace merge web.csv db.csv --output both.ektrace
  evenkeel trace merge part-*.ektrace.zst --output whole.ektrace.zst --shared-names
  evenkeel trace merge day1.csv day2.csv --output days.csv --delay 0s --delay 24h --shared-names")]
pub(crate) struct Args {
    /// The traces: files, plain or packed with gzip or zstd.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// The trace to write; its name tells the format, and .gz or .zst packs it; - for stdout.
    #[arg(long, short, value_name = "OUTPUT")]
    output: PathBuf,
    /// A source of the same name is the same source in every trace; otherwise sources are told
    /// apart by the name of their trace, as in web/disk.
    #[arg(long)]
    shared_names: bool,
    /// How much later a trace starts; once for every trace, in their order.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    delay: Vec<Span>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    writing: WritingArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// Names that do not tell traces apart, a trace that cannot be read or written.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let parts = args.parts()?;
    let mut agreement = Agreement::new(parts.iter().map(|part| part.delay));
    let (mut policies, mut agreed) = (PolicyCopy::default(), Vec::new());
    let mut merge = Merge::new(parts, args.naming())
        .map_err(|error| Exit::Usage.because(format!("{error}; or give --shared-names")))?;
    let mut inputs = Vec::new();
    for path in &args.traces {
        let reader = args.reading.open(path)?;
        inputs.push(Input { reader, batch: Vec::new(), waiting: VecDeque::new() });
    }
    let mut writer = args.writing.create(&args.output, None)?;
    let mut unwritable = args.reading.defects();
    let mut bar = Bar::new(inputs.iter().map(|input| input.reader.progress()).collect());
    let mut read = 0;
    loop {
        match merge.poll() {
            Next::End => break,
            Next::Need(part) => match inputs[part].next()? {
                None => {
                    merge.close(part);
                    agreement.close(part);
                }
                Some(record) => {
                    let reader = &inputs[part].reader;
                    merge
                        .offer(part, reader.sources(), &record)
                        .map_err(|error| Exit::Invalid.because(error))?;
                    agreement.offer(part, record.at, reader.policies());
                }
            },
            Next::Record(record) => {
                read += 1;
                agreement.advance(record.at, &mut agreed);
                for policy in agreed.drain(..) {
                    policies.write(&policy, None, &mut writer)?;
                }
                if let Err(why) = writer.write(merge.sources(), &record)? {
                    unwritable.note_unwritable(writer.name(), read, &why)?;
                }
                if read % 4096 == 0 {
                    bar.tell(read);
                }
            }
        }
    }
    bar.finish();
    policies.tell();
    if let Some(at) = agreement.differs_at() {
        let at = since(at);
        terminal::say(&format!(
            "the traces were not recorded under the same policy all the time, first at {at}: the \
             result tells none where they differ"
        ));
    }
    let (output, format) = (writer.name().to_owned(), writer.format());
    let summary = Summary { read, written: writer.finish()?, output, format };
    let mut defects: Vec<&Defects> = inputs.iter().map(|input| input.reader.defects()).collect();
    defects.push(&unwritable);
    args.writing.tell(&summary, &defects)
}

impl Args {
    fn naming(&self) -> Naming {
        if self.shared_names { Naming::Shared } else { Naming::Apart }
    }

    fn parts(&self) -> anyhow::Result<Vec<Part>> {
        if self.traces.len() > TRACES_MAX {
            let message = format!("more than {TRACES_MAX} traces at once; merge in steps");
            return Err(Exit::Usage.because(message));
        }
        if !self.delay.is_empty() && self.delay.len() != self.traces.len() {
            let (delays, traces) = (self.delay.len(), self.traces.len());
            let message = format!("{delays} delays for {traces} traces; give one for each");
            return Err(Exit::Usage.because(message));
        }
        let delays = self.delay.iter().copied().chain(std::iter::repeat(Span::ZERO));
        let named = self.traces.iter().zip(delays).map(|(path, delay)| {
            let plain = Compression::plain_name(path);
            let name = plain.split('.').next().unwrap_or_default().to_owned();
            Part { name, delay }
        });
        Ok(named.collect())
    }
}

/// One of the traces, record by record.
struct Input {
    reader: TraceReader,
    batch: Vec<Record>,
    waiting: VecDeque<Record>,
}

impl Input {
    fn next(&mut self) -> anyhow::Result<Option<Record>> {
        if self.waiting.is_empty() && self.reader.next_batch(&mut self.batch)? {
            self.waiting.extend(self.batch.drain(..));
        }
        Ok(self.waiting.pop_front())
    }
}
