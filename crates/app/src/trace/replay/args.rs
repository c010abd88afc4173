//! The command line of `evenkeel trace replay`.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use evenkeel_core::time::Span;
use evenkeel_io::load::replay::{Fit, ReplayPace, ReplayPlan, ReplayTarget, Think, Writes};
use evenkeel_trace::transform::ratio::Ratio;
use evenkeel_wire::nbd::uri::NbdUri;

use super::route::{Fallback, Router, Rule};
use super::survey;
use crate::exit::Exit;
use crate::trace::files::InputArgs;
use crate::trace::input::STDIN;
use crate::units::{parse_duration, parse_size};

/// Arguments of `evenkeel trace replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nothing is written unless --write says so: requests that write are left out, and counted.

Examples:
  evenkeel trace replay day.ektrace nbd://127.0.0.1/copy
  evenkeel trace replay day.ektrace nbd://127.0.0.1/copy --speed 2 --write --latency-log day
  evenkeel trace replay gate.ektrace.zst nbd://127.0.0.1 --by-source --json
  evenkeel trace replay web.csv.gz nbd://array/lun7 --map web_0=lun8 --fit scale
  evenkeel trace replay web.csv.gz nbd://array/lun7 --closed 16 --no-think")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) input: InputArgs,
    /// The server and the export that requests go to, as an NBD URI.
    #[arg(value_name = "ADDRESS")]
    address: NbdUri,
    /// Requests of this source go to another export of the server.
    #[arg(long, value_name = "SOURCE=EXPORT", value_parser = rule)]
    map: Vec<Rule>,
    /// Requests of every source go to the export of its name, or of what follows its last slash.
    #[arg(long)]
    by_source: bool,
    /// Recorded time passes so many times as fast, as in 2, 0.5 or 1/3.
    #[arg(long, default_value = "1", value_name = "FACTOR", conflicts_with = "closed")]
    speed: Ratio,
    /// Requests that one export may have under way before further ones start late.
    #[arg(long, default_value_t = 1024, value_name = "N")]
    depth: u32,
    /// Closed loop: keep so many requests under way at every export, instead of recorded times.
    #[arg(long, value_name = "DEPTH")]
    closed: Option<u32>,
    /// Closed loop without the recorded clients' think times.
    #[arg(long, requires = "closed")]
    no_think: bool,
    /// What to do with requests that an export has no room for.
    #[arg(long, value_enum, default_value_t = FitName::Wrap)]
    fit: FitName,
    /// What the trace's disks hold, for --fit scale [default: found by reading the trace first].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    span: Option<u64>,
    /// Carry out writes, trims and zeroes. The data of the export is lost.
    #[arg(long)]
    write: bool,
    /// Read where the trace writes.
    #[arg(long, conflicts_with = "write")]
    writes_as_reads: bool,
    /// End after so many requests.
    #[arg(long, value_name = "N")]
    pub(super) count: Option<u64>,
    /// Write latencies in fio's log format to `PREFIX_lat.1.log`, `PREFIX_clat.1.log` and
    /// `PREFIX_slat.1.log`, and rates to `PREFIX_bw.1.log` and `PREFIX_iops.1.log`; a number for
    /// each export.
    #[arg(long, value_name = "PREFIX")]
    pub(super) latency_log: Option<PathBuf>,
    /// Width of one entry of the time series.
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = parse_duration)]
    interval: Span,
    /// Determines what writes carry.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON with the structure of fio's.
    #[arg(long)]
    pub(super) json: bool,
}

/// What to do with requests that an export has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FitName {
    /// They go to their offset modulo the export's size.
    Wrap,
    /// All offsets are scaled so that the trace spans the export.
    Scale,
    /// They are left out.
    Exact,
}

impl Args {
    /// What is asked for, as a plan, and which source goes where.
    pub(super) fn plan(&self) -> anyhow::Result<(ReplayPlan, Router)> {
        let wants_extent = self.fit == FitName::Scale && self.span.is_none();
        let is_stdin = self.input.trace() == Path::new(STDIN);
        // Whether all sources are mapped decides whether the address's own export is needed.
        let is_known = wants_extent || self.by_source || !(self.map.is_empty() || is_stdin);
        let survey = if is_known { Some(self.survey()?) } else { None };
        let extent_bytes = survey.as_ref().map_or(0, |(_, extent_bytes)| *extent_bytes);
        let sources = survey.as_ref().map(|(sources, _)| &sources[..]);
        let fallback = if self.by_source { Fallback::OwnName } else { Fallback::Address };
        let (router, exports) = Router::new(&self.address.export, &self.map, (fallback, sources))?;
        let target = |export: String| ReplayTarget {
            name: if export.is_empty() { "default".to_owned() } else { export.clone() },
            uri: NbdUri { export, ..self.address.clone() },
        };
        let plan = ReplayPlan {
            targets: exports.into_iter().map(target).collect(),
            pace: self.pace(),
            fit: match self.fit {
                FitName::Wrap => Fit::Wrap,
                FitName::Exact => Fit::Exact,
                FitName::Scale => Fit::Scale { extent_bytes: self.span.unwrap_or(extent_bytes) },
            },
            writes: match (self.write, self.writes_as_reads) {
                (true, _) => Writes::Write,
                (false, true) => Writes::Read,
                (false, false) => Writes::LeaveOut,
            },
            interval: self.interval,
            seed: self.seed,
        };
        Ok((plan, router))
    }

    fn pace(&self) -> ReplayPace {
        let think = if self.no_think { Think::Dropped } else { Think::Kept };
        match self.closed {
            Some(depth) => ReplayPace::Closed { depth, think },
            None => ReplayPace::Recorded { speed: self.speed, depth: self.depth },
        }
    }

    fn survey(&self) -> anyhow::Result<(Vec<String>, u64)> {
        if self.input.trace() == Path::new(STDIN) {
            let message = "stdin cannot be read twice, as --by-source and --fit scale need; give \
                           --map and --span instead, or the trace as a file";
            return Err(Exit::Usage.because(message));
        }
        survey(&mut self.input.open_to_look()?)
    }
}

fn rule(text: &str) -> Result<Rule, String> {
    // Exports may have any name; sources seldom have an equals sign.
    let (source, export) = text.split_once('=').ok_or("write it as SOURCE=EXPORT")?;
    Ok(Rule { source: source.to_owned(), export: export.to_owned() })
}
