//! `evenkeel advise`: what enforcing would bring, from what a gate has seen while it only looked.
//!
//! ```text
//! the last minutes of a running gate, or a recording
//!    --> which clients wait, and which storage explains what was seen
//!    --> a proposed policy, and what each tenant would get under it, beside what it got
//!    --> in force on trial, if wanted
//! ```
//!
//! The forecast is [`evenkeel_sim::forecast`]. What it does not understand it says, instead of a
//! figure.

pub(crate) mod observed;
mod proposal;
mod report;
pub(crate) mod storage;
mod upstream;

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use evenkeel_core::time::Span;
use evenkeel_engine::policy::{DEFAULT_TENANT, Mode, Policy};
use evenkeel_sim::forecast::{self, Forecast, ForecastError, Recorded, Under};
use evenkeel_sim::scenario::Route;
use evenkeel_wire::nbd::uri::NbdUri;
use hyper::Method;
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde_json::Value;

use crate::config;
use crate::control::client::{Client, ControlArgs};
use crate::control::trial::TrialSpec;
use crate::ctl::block_on;
use crate::exit::Exit;
use crate::plan::route::Routes;
use crate::simulate::file::load_policy;
use crate::simulate::run::refuse;
use crate::trace::defects::OnDefect;
use crate::trace::input::{ReadOptions, TraceFile};
use crate::{human, terminal, units};
use observed::Observed;
use proposal::Proposal;
use report::Report;

/// Steps of the progress bar.
const BAR_STEPS: u64 = 1000;

/// Work that ends sooner shows no bar.
const QUIET: Duration = Duration::from_secs(1);

/// What a glance at the last minute looks at: it answers in seconds.
const SHORT_LENGTH: Span = Span::from_secs(60);
const SHORT_REQUESTS: usize = 50_000;

/// Arguments of `evenkeel advise`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel advise                            the gate's last minutes; what would enforcing bring?
  evenkeel advise --watch '4 min'            wait until it has seen so much
  evenkeel advise --policy new.toml          of another policy
  evenkeel advise --apply                    put it in force for a minute, to be confirmed
  evenkeel advise --trace day.ektrace.zst --skip-bad
  evenkeel advise --upstream nbd://10.0.0.5 --write policy.toml     no gate yet: one to look with
  evenkeel advise --json | jq '.tenants[] | {name, now, forecast}'

The gate must not enforce while it is observed: in mode observe or shadow it sees what clients and
storage do by themselves. No figure of the storage is needed.

Ends with 1 if there is no forecast for some tenant: the load on its storage was always the same, or
no model of the storage explains what was seen.")]
pub struct Args {
    #[command(flatten)]
    control: ControlArgs,
    /// Forecast this policy, instead of the one in force with `mode = \"enforce\"`.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// A recording, instead of a running gate: what `evenkeel serve --record` wrote, of one policy.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["watch", "apply", "control"])]
    trace: Option<PathBuf>,
    /// A server without a gate: proposes the policy of a gate in front of it that only looks.
    #[arg(
        long, value_name = "ADDRESS",
        conflicts_with_all = ["policy", "trace", "watch", "apply", "control"]
    )]
    upstream: Option<NbdUri>,
    /// Leave out entries of the trace that cannot be read, and count them.
    #[arg(long, requires = "trace")]
    skip_bad: bool,
    /// How long the gate must have been observed; what it has seen already counts.
    #[arg(long, default_value = "1 min", value_name = "TIME", value_parser = parse_watch)]
    watch: Span,
    /// Write the proposed policy to a new file.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Put the proposed policy in force; unless `evenkeel ctl confirm` keeps it, the present one
    /// returns.
    #[arg(long)]
    apply: bool,
    /// How long it waits to be confirmed.
    #[arg(
        long, default_value = "1 min", value_name = "TIME", requires = "apply",
        value_parser = parse_trial
    )]
    confirm_within: Span,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// A gate that does not answer, a policy or recording with mistakes, a gate that enforces already,
/// or volumes over several backends. Storage that is not understood is [`Exit::Failed`] instead.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    if let Some(server) = &args.upstream {
        return upstream::advise(server, args.write.as_deref(), args.json);
    }
    let client = args.control.client();
    let observed = match &args.trace {
        Some(path) => Observed::read(&file(path.clone(), args.skip_bad))?,
        None => watched(&client, args.watch)?,
    };
    observed.refuse_what_tells_nothing()?;
    let proposal = match &args.policy {
        Some(path) => Proposal::given(load_policy(path)?),
        None => Proposal::new(&observed),
    };
    if let Some(warning) = config::taken_alone(&proposal.policy) {
        terminal::say(&warning);
    }
    let forecast = forecast(&observed, &proposal.policy)?;
    let report = Report::new(&observed, &proposal, &forecast);
    if !args.json {
        terminal::data(&report.render())?;
    }
    if let Some(path) = &args.write {
        write(path, &config::print(&proposed(&client, args, &proposal)?))?;
    }
    if args.apply {
        apply(&client, args.confirm_within, &proposed(&client, args, &proposal)?)?;
    } else if !args.json {
        terminal::say(&next_step(args, &forecast));
    }
    if args.json {
        // Last: if anything fails, the error is the one document.
        terminal::json(&report)?;
    }
    Ok(if forecast.is_explained() { Exit::Success } else { Exit::Failed })
}

fn parse_watch(text: &str) -> Result<Span, String> {
    within(text, Span::from_secs(10)..=Span::from_secs(290), "10 s to 290 s")
}

fn parse_trial(text: &str) -> Result<Span, String> {
    within(text, Span::from_secs(1)..=Span::from_secs(3600), "1 s to 1 h")
}

fn within(text: &str, bounds: std::ops::RangeInclusive<Span>, words: &str) -> Result<Span, String> {
    let span = units::parse_duration(text)
        .map_err(|error| format!("{error}; write it like {}", error.examples))?;
    if bounds.contains(&span) { Ok(span) } else { Err(format!("choose from {words}")) }
}

fn file(path: PathBuf, skip_bad: bool) -> TraceFile {
    let on_defect = if skip_bad { OnDefect::Skip } else { OnDefect::Refuse };
    TraceFile { path, options: ReadOptions { on_defect, ..ReadOptions::default() } }
}

/// What enforcing would bring by the last minute of a gate, as a table; of one tenant if only that
/// is wanted.
///
/// # Errors
/// As of [`run`].
pub(crate) fn in_short(client: &Client, only: Option<&str>) -> anyhow::Result<String> {
    let mut observed = Observed::of_gate(client)?;
    observed.keep_last(SHORT_LENGTH, SHORT_REQUESTS);
    observed.refuse_what_tells_nothing()?;
    let proposal = Proposal::new(&observed);
    let forecast = forecast(&observed, &proposal.policy)?;
    Ok(Report::new(&observed, &proposal, &forecast).in_short(only))
}

/// What the gate has seen under its present policy, once that is long enough.
fn watched(client: &Client, watch: Span) -> anyhow::Result<Observed> {
    let mut observed = Observed::of_gate(client)?;
    observed.refuse_enforcing()?;
    let missing = watch.0.saturating_sub(observed.length.0);
    if missing > 0 {
        wait(Duration::from_nanos(missing));
        observed = Observed::of_gate(client)?;
        observed.refuse_enforcing()?;
        if observed.length.0 < watch.0 / 10 * 9 {
            terminal::say(&format!(
                "the gate remembers {} at this rate: for more, `evenkeel ctl record start FILE`, \
                 and later `evenkeel advise --trace FILE`",
                human::duration(observed.length)
            ));
        }
    }
    Ok(observed)
}

/// Waits with a bar.
fn wait(length: Duration) {
    let bar = ProgressBar::new(BAR_STEPS);
    bar.set_style(terminal::bar_style("{msg}"));
    bar.set_message("observing the gate");
    let begun = Instant::now();
    while begun.elapsed() < length {
        let part = begun.elapsed().as_secs_f64() / length.as_secs_f64();
        show(&bar, part);
        std::thread::sleep(Duration::from_millis(200).min(length.saturating_sub(begun.elapsed())));
    }
    bar.finish_and_clear();
}

fn show(bar: &ProgressBar, part: f64) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1000")]
    bar.set_position((part * BAR_STEPS as f64) as u64);
}

fn forecast(observed: &Observed, proposed: &Policy) -> anyhow::Result<Forecast> {
    let recorded = Recorded {
        sources: &observed.sources,
        records: &observed.records,
        length: observed.length,
    };
    let [now, then] = [&observed.policy, proposed].map(|policy| routes(observed, policy));
    let (now, then) = (now?, then?);
    let present = Under { policy: &observed.policy, routes: &now };
    let proposed = Under { policy: proposed, routes: &then };
    let outcome = playing(|observe| forecast::forecast(&recorded, present, proposed, observe));
    outcome.map_err(|error| match error {
        ForecastError::Run(error) => refuse(error),
        other => Exit::Invalid.because(other),
    })
}

/// Calls `work` with a function that shows how far it is.
pub(crate) fn playing<T>(work: impl FnOnce(&mut dyn FnMut(f64)) -> T) -> T {
    let bar = ProgressBar::hidden();
    let begun = Instant::now();
    let outcome = work(&mut |part| {
        if bar.length().is_none() && begun.elapsed() > QUIET {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.set_length(BAR_STEPS);
            bar.set_style(terminal::bar_style("{msg}"));
            bar.set_message("playing it on what the storage may be");
        }
        show(&bar, part);
    });
    bar.finish_and_clear();
    outcome
}

/// Where the requests of each source go under a policy.
pub(crate) fn routes(observed: &Observed, policy: &Policy) -> anyhow::Result<Vec<Route>> {
    let routes = Routes::new(policy, &[])?;
    // What was nobody's may be somebody's under this policy.
    let whose = |name: &'_ str| match name.split_once('/') {
        Some((DEFAULT_TENANT, export)) => export.to_owned(),
        _ => name.to_owned(),
    };
    let route = |name: &String| {
        routes.of(&whose(name)).map_err(|_| {
            Exit::Invalid.because(format!(
                "the policy has no export, and no only backend, for the requests of {name}"
            ))
        })
    };
    observed.sources.names().iter().map(route).collect()
}

/// The proposed policy as it is to be put in force. What the gate has is changed as the proposal
/// changes what was recorded, which lacks the names and passwords of servers.
fn proposed(client: &Client, args: &Args, proposal: &Proposal) -> anyhow::Result<Policy> {
    if args.policy.is_some() {
        return Ok(proposal.policy.clone());
    }
    if args.trace.is_some() {
        terminal::say("names and passwords of servers are not in a recording: add them");
        return Ok(proposal.policy.clone());
    }
    let text = block_on(client.text("/v1/policy"))?;
    let mut policy =
        config::parse(&text, "the gate's policy").map_err(|found| Exit::Runtime.because(found))?;
    policy.mode = Mode::Enforce;
    // Somebody may have changed the policy meanwhile.
    if policy.tenants.is_empty() {
        policy.tenants.clone_from(&proposal.policy.tenants);
    }
    Ok(policy)
}

/// Writes a policy where nothing is yet, for its owner alone.
fn write(path: &Path, policy: &str) -> anyhow::Result<()> {
    let context = || format!("cannot write the proposed policy to {}", path.display());
    let mut options = fs::OpenOptions::new();
    let mut file =
        options.write(true).create_new(true).mode(0o600).open(path).with_context(context)?;
    if let Err(error) = file.write_all(policy.as_bytes()) {
        // Half a policy is worse than none; it is a new file, so that nothing else is lost.
        let _ = fs::remove_file(path);
        return Err(error).with_context(context);
    }
    terminal::say(&format!("the proposed policy is in {}", path.display()));
    Ok(())
}

/// Puts it in force on trial.
fn apply(client: &Client, confirm_within: Span, policy: &Policy) -> anyhow::Result<()> {
    let spec = TrialSpec {
        text: config::print(policy),
        name: "the proposed policy".to_owned(),
        confirm_within_seconds: confirm_within.as_secs_f64(),
        temporary: false,
    };
    let body = serde_json::to_value(spec)?;
    let answer: Value = block_on(client.ask(Method::PUT, "/v1/policy", Some(&body)))?;
    let status: Value = block_on(client.get("/v1/status"))?;
    let mode = config::mode_name(policy.mode);
    if status["mode"] != mode {
        return Err(Exit::Failed.because(format!(
            "the gate was started with `--mode`, which stands above the policy's mode {mode}: \
             start it without; `evenkeel ctl revert` brings back what was"
        )));
    }
    terminal::say(answer["summary"].as_str().unwrap_or("done"));
    Ok(())
}

fn next_step(args: &Args, forecast: &Forecast) -> String {
    if args.trace.is_some() {
        return "put it in force with `evenkeel serve`, or try it on a running gate with \
                `evenkeel ctl apply FILE --confirm-within '60 s'`"
            .to_owned();
    }
    let what = if forecast.is_explained() { "try it" } else { "what it brings only a trial tells" };
    format!(
        "{what}: `evenkeel advise --apply` puts it in force for a minute, and `evenkeel ctl \
         confirm` keeps it"
    )
}
