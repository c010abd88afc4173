//! `evenkeel plan`: what would each tenant get, were this policy in force on that storage?
//!
//! ```text
//! recorded trace --read once--> survey: who asked for what, how long it took, under which policy
//!                --replayed---> the policy to try, on a model of the storage -> forecast
//!                --replayed---> the present policy, on the same model        -> present
//! ```
//!
//! The code that plans is the code that enforces: the forecast is a run of the gate's own engine in
//! virtual time.

mod backend;
mod change;
mod figures;
mod floors;
mod present;
mod promise;
mod replay;
mod report;
pub(crate) mod route;
mod survey;

use std::path::PathBuf;

use tempfile::NamedTempFile;

use crate::advise::observed::last_minutes;
use crate::config;
use crate::control::client::ControlArgs;
use crate::exit::Exit;
use crate::simulate::file::load_policy;
use crate::trace::defects::OnDefect;
use crate::trace::input::{ReadOptions, STDIN, TraceFile};
use crate::trace::table::TableArgs;
use crate::{plot, terminal};
use backend::Models;
use present::{Past, Present};
use report::Report;
use route::Routes;

/// Arguments of `evenkeel plan`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
A MODEL is one of
  rate=100MB/s,fixed=1ms,servers=8   so many servers, each taking fixed + bytes / rate
  hdd:cheetah-9lp  ssd:nvme-tlc-256gib  a drive that is built in
  FILE                               what `evenkeel calibrate` wrote, a drive's figures, or a device
                                     as in a scenario (TOML)
and stands for every backend of the policy, or with NAME= before it for that one. Without one it is
the storage that explains the response times of the recording, if a gate made it that only looked.

Examples:
  evenkeel serve today.toml --record day.ektrace.zst
  evenkeel plan new.toml --trace day.ektrace.zst --backend rate=200MB/s,fixed=200us,servers=8
  evenkeel plan new.toml --trace day.ektrace.zst --backend hdd:cheetah-9lp --present today.toml
  evenkeel plan new.toml --live          what the running gate has seen in its last minutes
  evenkeel plan new.toml --trace web.csv.gz --backend new-array.toml --map web_0=web --json

Ends with 1 if a promise would break: a floor or latency goal is missed, the floors do not fit the
devices, or the storage cannot carry the load.")]
pub struct Args {
    /// The policy to try.
    #[arg(value_name = "POLICY")]
    policy: PathBuf,
    /// What was recorded: any format of `evenkeel trace`.
    #[arg(long, value_name = "FILE", required_unless_present = "live")]
    trace: Option<PathBuf>,
    /// What a running gate has seen in its last minutes, instead of a trace.
    #[arg(long, conflicts_with = "trace")]
    live: bool,
    #[command(flatten)]
    control: ControlArgs,
    /// What stands behind the backends; once for all, or once for each as NAME=MODEL.
    #[arg(long, value_name = "MODEL")]
    backend: Vec<String>,
    /// The policy in force now, to be simulated for comparison; what `serve --record` wrote has it
    /// within.
    #[arg(long, value_name = "POLICY")]
    present: Option<PathBuf>,
    /// Whose requests a source's are: SOURCE=TENANT or SOURCE=TENANT/EXPORT.
    #[arg(long, value_name = "SOURCE=TENANT")]
    map: Vec<String>,
    /// Replay so many times as fast as recorded.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = parse_speed)]
    speed: f64,
    /// Leave out entries of the trace that cannot be read, and count them, such as the end of a
    /// recording whose gate was killed.
    #[arg(long)]
    skip_bad: bool,
    #[command(flatten)]
    table: TableArgs,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Write figures into this folder, as SVG and PNG.
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

/// Runs the subcommand.
///
/// # Errors
/// [`Exit::Invalid`] for a policy, model or trace with mistakes, [`Exit::Usage`] for arguments that
/// do not fit them. A promise that would break is [`Exit::Failed`] instead.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let policy = load_policy(&args.policy)?;
    if let Some(warning) = config::taken_alone(&policy) {
        terminal::say(&warning);
    }
    let given = args.present.as_deref().map(Present::of_file).transpose()?;
    let routes = Routes::new(&policy, &args.map)?;
    let on_defect = if args.skip_bad { OnDefect::Skip } else { OnDefect::Refuse };
    let options = ReadOptions { on_defect, table: args.table.options()?, ..ReadOptions::default() };
    let live = args.live.then(|| last_minutes(&args.control.client())).transpose()?;
    let path = live.as_ref().map(NamedTempFile::path).or(args.trace.as_deref());
    let path = path.expect("the command line has one of them").to_path_buf();
    if path.as_os_str() == STDIN {
        return Err(Exit::Usage.because("a plan reads its trace more than once; name a file"));
    }
    let trace = TraceFile { path, options };
    let survey = survey::of(&trace, &routes, args.speed)?;
    let present = match given {
        Some(present) => Ok(present),
        None => Present::of_trace(&survey.policies, args.speed),
    };
    let known = present.as_ref().ok().map(|present| &present.policy);
    let policies: Vec<_> = [&policy].into_iter().chain(known).collect();
    let models = match &args.backend[..] {
        [] => Models::of_recording(&trace)?,
        written => Models::read(written, &policies)?,
    };
    let replay = replay::Replay { trace: &trace, survey: &survey, speed: args.speed };
    let forecast = replay.run((&policy, &[]), &models.devices(&policy)?, &routes)?;
    let past = match present {
        Ok(present) => present.run(&replay, &models, &args.map)?,
        Err(why) => Past::nothing(why),
    };
    let floors = floors::verdict(&policy, &survey, &forecast);
    let report = Report::new(&past, &policy, &survey, &forecast, floors);
    plot::draw(args.plot.as_deref(), || figures::of(&report))?;
    if args.json {
        terminal::json(&report)?;
    } else {
        terminal::data(&report.render(terminal::colour_on_stdout()))?;
    }
    Ok(if report.is_kept() { Exit::Success } else { Exit::Failed })
}

fn parse_speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    if (0.001..=1_000_000.0).contains(&speed) {
        return Ok(speed);
    }
    Err("it is not within 0.001 to 1000000".to_owned())
}
