//! `evenkeel trace scale`: slower or faster, for a smaller or a larger disk.

use evenkeel_core::time::Nanos;
use evenkeel_trace::transform::cut::Verdict;
use evenkeel_trace::transform::ratio::Ratio;
use evenkeel_trace::transform::scale::{Scale, ScaleOptions, Space};
use evenkeel_trace::{Record, Sources};

use super::files::{InputArgs, OutputArgs, Transform, pipe};
use crate::exit::Exit;
use crate::units::parse_size;

/// Arguments of `evenkeel trace scale`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel trace scale day.ektrace busy.ektrace --rate 2
  evenkeel trace scale day.ektrace slow.ektrace --time 3/2
  evenkeel trace scale old.csv new.csv --wrap '100 GiB' --align '4 KiB'
  evenkeel trace scale old.csv new.csv --stretch '500 GB' --stretch-from '146 GB'")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Multiply every arrival time, as in 2, 0.5 or 1/3.
    #[arg(long, value_name = "FACTOR", conflicts_with = "rate")]
    time: Option<Ratio>,
    /// Multiply the rate of requests: the inverse of --time.
    #[arg(long, value_name = "FACTOR")]
    rate: Option<Ratio>,
    /// Put every offset at its remainder by this size.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "stretch")]
    wrap: Option<u64>,
    /// Move every offset in proportion, so that the trace spans this size.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    stretch: Option<u64>,
    /// The size that the trace spans now [default: found by reading it first].
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "stretch")]
    stretch_from: Option<u64>,
    /// Make every offset and length a multiple of this power of two.
    #[arg(long, default_value = "1 B", value_name = "SIZE", value_parser = parse_size)]
    align: u64,
}

/// Runs the subcommand.
///
/// # Errors
/// A size that makes no sense, a trace that cannot be read or written.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let time = args.time.or_else(|| args.rate.map(Ratio::inverse)).unwrap_or(Ratio::ONE);
    let space = match (args.wrap, args.stretch) {
        (Some(size_bytes), _) => Space::Wrap { size_bytes },
        (None, None) => Space::Keep,
        (None, Some(to_bytes)) => Space::Stretch {
            from_bytes: match args.stretch_from {
                Some(bytes) => bytes,
                None => args.input.extent_bytes("--stretch-from")?,
            },
            to_bytes,
        },
    };
    let options = ScaleOptions { time, space, alignment_bytes: args.align };
    let mut scale = Scale::new(options).map_err(|error| Exit::Usage.because(error))?;
    pipe(&args.input, &args.output, &mut scale)
}

impl Transform for Scale {
    fn apply(&mut self, _: &Sources, record: &Record) -> anyhow::Result<Verdict> {
        Ok(Verdict::Keep(Self::apply(self, record)))
    }

    fn instant(&self, at: Nanos) -> Option<Nanos> {
        Some(Self::instant(self, at))
    }
}
