//! `evenkeel ctl scrub`: reads everything in a store that the gate has open, while clients use it.

use std::time::Duration;

use clap::Subcommand;
use hyper::Method;
use serde_json::Value;

use super::volumes::OfGate;
use crate::control::client::Client;
use crate::control::scrub::{ScrubRequest, ScrubWord};
use crate::exit::Exit;
use crate::status::{Scrub as Found, Status};
use crate::store::bar::{Bar, Unit};
use crate::store::findings::Findings;
use crate::{human, terminal};

/// Between two looks at a scrub that is waited for.
const LOOK: Duration = Duration::from_millis(250);

/// What to do about scrubs.
#[derive(Debug, Subcommand)]
pub(super) enum Scrub {
    /// Begin. The reading is on the account of the tenant `upkeep`.
    #[command(after_help = "\
Examples:
  evenkeel ctl scrub start
  evenkeel ctl scrub start --store log --wait

With --wait it ends with 0 if every block has a good copy (bad ones are being written anew), with 1
if something is lost on all copies, a drive did not answer, or the scrub was stopped.")]
    Start {
        #[command(flatten)]
        place: OfGate,
        /// Wait for the end, and tell what was found.
        #[arg(long)]
        wait: bool,
    },
    /// End the one under way. What it found is mended all the same.
    Stop {
        #[command(flatten)]
        place: OfGate,
    },
}

/// Runs one of the subcommands.
pub(super) async fn run(client: &Client, action: &Scrub, json: bool) -> anyhow::Result<Exit> {
    let (place, order, waits) = match action {
        Scrub::Start { place, wait } => (place, ScrubWord::Start, *wait),
        Scrub::Stop { place } => (place, ScrubWord::Stop, false),
    };
    let request = ScrubRequest { store: place.store.clone(), order };
    let body = serde_json::to_value(&request)?;
    let answer: Value = client.ask(Method::POST, "/v1/scrub", Some(&body)).await?;
    let store = answer["store"].as_str().unwrap_or_default();
    if waits {
        let found = follow(client, store).await?;
        return Ok(if tell(&found, json)? { Exit::Success } else { Exit::Failed });
    }
    if json {
        terminal::json(&answer)?;
    } else if order == ScrubWord::Start {
        terminal::say(&format!("{store} is being scrubbed; `evenkeel ctl status` tells how far"));
    } else {
        terminal::say("done");
    }
    Ok(Exit::Success)
}

/// Waits for the end of a scrub.
async fn follow(client: &Client, store: &str) -> anyhow::Result<Found> {
    let mut bar = Bar::new(Unit::Bytes);
    loop {
        let status: Status = client.get("/v1/status").await?;
        let backend = status.backends.into_iter().find(|backend| backend.name == store);
        let found = backend.and_then(|backend| backend.store).and_then(|store| store.scrub);
        let Some(found) = found else {
            let why =
                format!("the store `{store}` is not open any more; see `evenkeel ctl status`");
            return Err(Exit::Failed.because(why));
        };
        if found.state != "running" {
            bar.finish();
            return Ok(found);
        }
        bar.tell(found.done_bytes, found.total_bytes);
        tokio::time::sleep(LOOK).await;
    }
}

/// Tells what a scrub found; whether all is well.
fn tell(found: &Found, json: bool) -> anyhow::Result<bool> {
    let lost: Vec<(u32, u64)> = found.lost.iter().map(|lost| (lost.volume, lost.block)).collect();
    let findings = Findings {
        lost: &lost,
        lost_blocks: found.lost_blocks,
        unnoted_blocks: found.unnoted_blocks,
        gone_drives: &found.gone_drives,
    };
    if json {
        terminal::json(found)?;
    } else {
        let read = format!(
            "{}: {} of {} read, {} bad copies of blocks, {} of record headers; {} blocks lost\n",
            found.state,
            human::size(found.done_bytes as f64),
            human::size(found.total_bytes as f64),
            found.bad_blocks,
            found.bad_headers,
            found.lost_blocks,
        );
        terminal::data(&(read + &findings.told()))?;
    }
    Ok(found.state == "complete" && findings.are_none())
}
