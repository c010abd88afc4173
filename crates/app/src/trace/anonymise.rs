//! `evenkeel trace anonymise`: a trace to give away.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use evenkeel_trace::transform::anonymise::{Anonymise, AnonymiseOptions};
use evenkeel_trace::transform::cut::Verdict;
use evenkeel_trace::transform::siphash::Key;
use evenkeel_trace::{Record, Sources};

use super::files::{InputArgs, OutputArgs, Transform, pipe};
use crate::exit::Exit;
use crate::units::parse_size;

/// Bytes of a key.
const KEY_BYTES: usize = 16;

/// Arguments of `evenkeel trace anonymise`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Kept: times, kinds, lengths, response times, which requests touch the same bytes.
Hidden: names of sources, and where on the disk anything lies.
Left out: the policies, which name tenants, exports, files and machines.

Examples:
  evenkeel trace anonymise day.ektrace public.ektrace.zst
  head -c 16 /dev/urandom > key && evenkeel trace anonymise mon.ektrace a.ektrace --key key
  evenkeel trace anonymise day.csv public.csv --extent '1 MiB' --device '2 TiB'")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// A file that begins with 16 secret bytes: the same key gives the same names and places in
    /// every trace [default: a random key that nobody will know].
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Size of the extents that change places, a power of two.
    #[arg(long, default_value = "16 MiB", value_name = "SIZE", value_parser = parse_size)]
    extent: u64,
    /// Size of the disks [default: what the trace spans, found by reading it first].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    device: Option<u64>,
}

/// Runs the subcommand.
///
/// # Errors
/// A key that is too short, a request beyond the disk, a trace that cannot be read or written.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let key = key(args.key.as_deref().unwrap_or_else(|| Path::new("/dev/urandom")))?;
    let device_bytes = match args.device {
        Some(bytes) => bytes,
        None => args.input.extent_bytes("--device")?,
    };
    let options = AnonymiseOptions { key, extent_bytes: args.extent, device_bytes };
    let mut anonymise = Anonymise::new(options).map_err(|error| Exit::Usage.because(error))?;
    pipe(&args.input, &args.output, &mut anonymise)
}

fn key(path: &Path) -> anyhow::Result<Key> {
    let mut bytes = [0; KEY_BYTES];
    let mut file =
        File::open(path).with_context(|| format!("cannot read the key {}", path.display()))?;
    file.read_exact(&mut bytes).map_err(|error| {
        let message = format!(
            "the key {} holds no {KEY_BYTES} bytes ({error}); make one with \
             `head -c {KEY_BYTES} /dev/urandom`",
            path.display()
        );
        Exit::Invalid.because(message)
    })?;
    Ok(Key::new(bytes))
}

impl Transform for Anonymise {
    fn apply(&mut self, sources: &Sources, record: &Record) -> anyhow::Result<Verdict> {
        let record = Self::apply(self, sources, record);
        Ok(Verdict::Keep(record.map_err(|error| Exit::Usage.because(error))?))
    }

    fn sources(&self) -> Option<&Sources> {
        Some(Self::sources(self))
    }

    fn leaves_out_policies(&self) -> Option<&str> {
        Some("they name tenants, exports, files and machines")
    }
}
