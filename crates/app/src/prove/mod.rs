//! `evenkeel prove`: holds what the policy promises against what the gate has delivered meanwhile.
//!
//! The gate is asked once a second. What comes out of that is judged by `judge`, promise by
//! promise: kept, not kept, or nothing to see, where nobody asked for as much as would show it.
//! With `--load`, tenants of its own ask for so much.

mod judge;
mod load;

use std::thread;
use std::time::Duration;

use anyhow::Context;
use evenkeel_engine::policy::Policy;
use serde::Serialize;

use crate::config;
use crate::control::client::{Client, ControlArgs};
use crate::ctl::block_on;
use crate::exit::Exit;
use crate::status::Status;
use crate::{terminal, units};
use judge::{Row, Verdict};

/// What times are judged by, at the begin and at the end.
const WITH_BUCKETS: &str = "/v1/status?detail=buckets";

/// Between two questions.
const INTERVAL: Duration = Duration::from_secs(1);

/// Arguments of `evenkeel prove`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel prove                         the next half minute of production
  evenkeel prove --watch '5 min'
  evenkeel prove --load                  put the shares to the test, with 5 % of each backend
  evenkeel prove --load --load-share 10% --backend array
  evenkeel prove --json | jq '.promises[] | select(.verdict == \"not_kept\")'

Without --load it puts no load on anything: a share shows where tenants have requests waiting, a
limit where somebody reaches it, a floor where as much is asked for. For promises that nobody put to
the test it says so.

With --load two tenants of its own read from one backend after the other for 10 s, and write
nothing. They may have so much of it beside those who wait, and three to one of that. It ends at
once when the latency goal of another tenant is late, and on Ctrl-C; then, and if it is killed, the
policy is as before.

Ends with 1 if a promise was not kept, if it was interrupted, or if the mode holds nobody to any.")]
pub struct Args {
    #[command(flatten)]
    control: ControlArgs,
    /// How long to watch.
    #[arg(long, default_value = "30 s", value_name = "TIME", value_parser = parse_watch)]
    watch: Duration,
    /// Put the shares to the test with two tenants that read, for 10 s on each backend.
    #[arg(long, conflicts_with = "watch")]
    load: bool,
    /// The part of a backend that these two may have beside others, together.
    #[arg(
        long, default_value = "5%", value_name = "PERCENT", requires = "load",
        value_parser = parse_share
    )]
    load_share: f64,
    /// The only backend that they read from.
    #[arg(long, value_name = "NAME", requires = "load")]
    backend: Option<String>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

fn parse_watch(text: &str) -> Result<Duration, String> {
    let span = units::parse_duration(text)
        .map_err(|error| format!("{error}; write it like {}", error.examples))?;
    let watch = Duration::from_nanos(span.0);
    let bounds = Duration::from_secs(5)..=Duration::from_mins(10);
    if bounds.contains(&watch) { Ok(watch) } else { Err("choose from 5 s to 10 min".to_owned()) }
}

fn parse_share(text: &str) -> Result<f64, String> {
    let percent = text.trim_end_matches('%').trim_end().parse::<f64>();
    match percent {
        Ok(percent) if (0.1..=50.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("choose from 0.1% to 50%".to_owned()),
    }
}

/// What is printed for programs.
#[derive(Serialize)]
struct Document<'a> {
    mode: &'a str,
    watched_seconds: f64,
    promises: &'a [Row],
    /// What was put under load, or could not be; absent without `--load`.
    #[serde(skip_serializing_if = "Option::is_none")]
    loads: Option<&'a [load::Loaded]>,
}

/// Runs the subcommand.
///
/// # Errors
/// A gate that does not answer, or that was restarted meanwhile.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let client = args.control.client();
    if args.load {
        let wish = load::Wish { share: args.load_share, backend: args.backend.clone() };
        return with_load(&client, &wish, args.json);
    }
    let (policy, documents) = watch(&client, args.watch)?;
    let last = documents.last().expect("there are two at least");
    let rows = judge::all(&policy, &documents);
    let is_in_force = last.mode == "enforce";
    if args.json {
        let watched_seconds = last.uptime_seconds - documents[0].uptime_seconds;
        let document = Document { mode: &last.mode, watched_seconds, promises: &rows, loads: None };
        terminal::json(&document)?;
    } else {
        terminal::data(&table(&rows))?;
    }
    if !is_in_force {
        terminal::say(&format!(
            "mode {} holds nobody to anything: `evenkeel ctl mode enforce` does",
            last.mode
        ));
    }
    let is_broken = rows.iter().any(|row| row.verdict == Verdict::NotKept);
    Ok(if is_broken || !is_in_force { Exit::Failed } else { Exit::Success })
}

fn with_load(client: &Client, wish: &load::Wish, json: bool) -> anyhow::Result<Exit> {
    let load::Proof { rows, loads, watched_seconds, is_interrupted } = load::prove(client, wish)?;
    if json {
        let loads = Some(loads.as_slice());
        terminal::json(&Document { mode: "enforce", watched_seconds, promises: &rows, loads })?;
    } else if !rows.is_empty() {
        terminal::data(&table(&rows))?;
    }
    if is_interrupted {
        terminal::say("interrupted: not everything was put to the test");
    }
    let is_broken = rows.iter().any(|row| row.verdict == Verdict::NotKept);
    Ok(if is_broken || is_interrupted { Exit::Failed } else { Exit::Success })
}

fn watch(client: &Client, length: Duration) -> anyhow::Result<(Policy, Vec<Status>)> {
    let policy = policy(client)?;
    let mut documents: Vec<Status> = vec![block_on(client.get(WITH_BUCKETS))?];
    let count = length.as_secs();
    for number in 1..=count {
        thread::sleep(INTERVAL);
        let path = if number == count { WITH_BUCKETS } else { "/v1/status" };
        documents.push(block_on(client.get(path))?);
    }
    let is_one_run =
        documents.windows(2).all(|pair| pair[0].uptime_seconds < pair[1].uptime_seconds);
    if !is_one_run {
        return Err(anyhow::anyhow!("the gate was restarted")).context("nothing is judged");
    }
    if self::policy(client)? != policy {
        return Err(anyhow::anyhow!("the policy was changed meanwhile"))
            .context("nothing is judged");
    }
    Ok((policy, documents))
}

fn policy(client: &Client) -> anyhow::Result<Policy> {
    let text = block_on(client.text("/v1/policy"))?;
    config::parse(&text, "the gate's policy").map_err(|found| Exit::Runtime.because(found))
}

fn table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "nobody is promised anything\n".to_owned();
    }
    let cells = rows.iter().map(|row| {
        let Row { domain, tenant, promise, verdict, figure } = row;
        let verdict = match verdict {
            Verdict::Kept => "kept",
            Verdict::NotKept => "NOT KEPT",
            Verdict::NothingToSee => "nothing to see",
        };
        [domain, tenant, promise, verdict, figure].map(ToString::to_string).to_vec()
    });
    terminal::table(&["DOMAIN", "TENANT", "PROMISE", "", ""], &cells.collect::<Vec<_>>())
}
