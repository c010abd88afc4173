//! `evenkeel ctl record`: what was asked of a gate, as a trace.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use evenkeel_core::time::{Nanos, Span};
use hyper::Method;
use serde_json::json;

use super::report;
use crate::control::change::RecordingSpec;
use crate::control::client::Client;
use crate::human;
use crate::trace::input::{ReadOptions, TraceReader};
use crate::trace::record;

const PATH: &str = "/v1/recording";

#[derive(Debug, Subcommand)]
pub(super) enum RecordAction {
    /// Record from now on, in the native format.
    Start {
        /// The file, on the gate's machine; .gz or .zst packs it.
        file: PathBuf,
    },
    /// Complete the recording.
    Stop,
    /// Write the requests of the last minutes to a new file; the gate always keeps those.
    #[command(after_help = LAST_HELP)]
    Last {
        /// The file, here; .gz or .zst packs it.
        file: PathBuf,
    },
}

const LAST_HELP: &str = "\
Examples:
  evenkeel ctl record last now.ektrace.zst
  evenkeel trace stat now.ektrace.zst

Those of five minutes at most, or as many as take 16 MiB: more than a million. The last second may
be missing, and up to ten seconds behind a request that has not ended.";

/// Carries one out.
///
/// # Errors
/// A gate that does not answer, or refuses; a file that cannot be written.
pub(super) async fn run(client: &Client, action: &RecordAction, json: bool) -> anyhow::Result<()> {
    match action {
        RecordAction::Start { file } => {
            // The gate may run in another folder.
            let spec = RecordingSpec { file: std::path::absolute(file)? };
            let body = serde_json::to_value(spec)?;
            report(&client.ask(Method::PUT, PATH, Some(&body)).await?, json)
        }
        RecordAction::Stop => report(&client.ask(Method::DELETE, PATH, None).await?, json),
        RecordAction::Last { file } => {
            record::save(file, &client.recording().await?)?;
            let (requests, over) = extent(file)?;
            let (name, seconds) = (file.display().to_string(), over.as_secs_f64());
            let summary =
                format!("{requests} requests over {} are in {name}", human::duration(over));
            let answer = json!({
                "done": true, "file": name, "requests": requests, "seconds": seconds,
                "summary": summary,
            });
            report(&answer, json)
        }
    }
}

/// How many requests a trace has, and the time from the first to the last.
fn extent(path: &Path) -> anyhow::Result<(u64, Span)> {
    let mut reader = TraceReader::open(path, &ReadOptions::default())?;
    let (mut requests, mut last, mut batch) = (0, Nanos::ZERO, Vec::new());
    while reader.next_batch(&mut batch)? {
        requests += batch.len() as u64;
        last = batch.last().map_or(last, |record| record.at);
    }
    Ok((requests, last.since(Nanos::ZERO)))
}
