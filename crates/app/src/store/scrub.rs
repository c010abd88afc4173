//! `evenkeel store scrub`: reads everything, and writes anew what is bad on one of its copies.

use std::rc::Rc;
use std::time::Duration;

use evenkeel_io::store::{FileDrive, beside, fresh_nonce};
use evenkeel_store::{Flaw, FlawKind, OpenOptions, ScrubReport, Store};
use serde_json::json;
use tokio::time::Instant;

use super::bar::{Bar, Unit};
use super::drives::{DriveArgs, Opened, stopped};
use super::findings::Findings;
use crate::exit::Exit;
use crate::units::{Amount, parse_rate};
use crate::{human, terminal};

/// Lost blocks that are named at most.
const NAMED_MAX: usize = 100;

/// Checkpoints without a block moved after which mending counts as stuck.
const IDLE_CHECKPOINTS_MAX: u32 = 3;

/// Arguments of `evenkeel store scrub`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel store scrub a.img b.img c.img
  evenkeel store scrub /dev/sdb /dev/sdc --rate '50 MiB/s' --json

Ends with 0 if every block has a good copy (bad ones were written anew), with 1 if something is
lost on all copies or a drive did not answer.")]
pub(super) struct Args {
    #[command(flatten)]
    drives: DriveArgs,
    /// Read no more than this from the drives together.
    #[arg(long, value_name = "RATE", value_parser = byte_rate)]
    rate: Option<u64>,
    /// Go on without drives that are missing.
    #[arg(long)]
    without_missing: bool,
    /// Print the outcome as one JSON document.
    #[arg(long)]
    json: bool,
}

/// What a scrub came to.
struct Outcome {
    report: ScrubReport,
    /// Volume and block of what is lost.
    lost: Vec<(u32, u64)>,
    moved_blocks: u64,
    is_mended: bool,
}

fn byte_rate(text: &str) -> Result<u64, String> {
    match parse_rate(text).map_err(|error| error.to_string())? {
        Amount::Bytes(bytes) if bytes > 0 => Ok(bytes),
        _ => Err("write it in bytes, as in 50MiB/s".to_owned()),
    }
}

/// Runs the subcommand.
pub(super) async fn run(args: &Args) -> anyhow::Result<Exit> {
    let opened = Opened::to_write(&args.drives.drives).await?;
    let usual = OpenOptions::new(fresh_nonce()?);
    let options = OpenOptions { allow_missing: args.without_missing, ..usual };
    let store = Store::open(opened.drives.clone(), options).await;
    let store = store.map_err(|error| opened.explain(&error))?;
    let outcome = beside(&store, async {
        let outcome = scrub(&store, args.rate).await?;
        store.close().await.map_err(stopped)?;
        Ok::<_, anyhow::Error>(outcome)
    })
    .await?;
    tell(args, &outcome)?;
    let Outcome { report, is_mended, .. } = &outcome;
    let is_whole = report.lost_blocks == 0 && report.unnoted_blocks == 0;
    let is_well = is_whole && report.gone.is_empty() && *is_mended;
    Ok(if is_well { Exit::Success } else { Exit::Failed })
}

async fn scrub(store: &Store<Rc<FileDrive>>, rate: Option<u64>) -> anyhow::Result<Outcome> {
    let mut bar = Bar::new(Unit::Bytes);
    let (mut lost, mut read_bytes, started) = (Vec::new(), 0, Instant::now());
    let mut scrub = store.scrub();
    while let Some(step) = scrub.step().await.map_err(stopped)? {
        lost.extend(step.flaws.iter().filter_map(lost_block));
        lost.truncate(NAMED_MAX);
        bar.tell(scrub.report().done_bytes, scrub.report().total_bytes);
        read_bytes += step.read_bytes;
        if let Some(rate) = rate {
            let due = Duration::from_secs_f64(read_bytes as f64 / rate as f64);
            tokio::time::sleep_until(started + due).await;
        }
    }
    bar.finish();
    let report = scrub.report().clone();
    let is_mended = mend(store).await?;
    let moved_blocks = store.status().counters.moved_blocks;
    Ok(Outcome { report, lost, moved_blocks, is_mended })
}

fn lost_block(flaw: &Flaw) -> Option<(u32, u64)> {
    match flaw.kind {
        FlawKind::Lost { volume, block } => Some((volume.0, block)),
        FlawKind::Header | FlawKind::Data { .. } => None,
    }
}

/// Waits until what is noted is written anew; whether it is.
async fn mend(store: &Store<Rc<FileDrive>>) -> anyhow::Result<bool> {
    let (mut moved, mut idle) = (store.status().counters.moved_blocks, 0);
    while store.status().is_mending && idle < IDLE_CHECKPOINTS_MAX {
        store.checkpoint().await.map_err(stopped)?;
        let now = store.status().counters.moved_blocks;
        idle = if now > moved { 0 } else { idle + 1 };
        moved = now;
    }
    Ok(!store.status().is_mending)
}

fn tell(args: &Args, outcome: &Outcome) -> anyhow::Result<()> {
    let Outcome { report, lost, moved_blocks, is_mended } = outcome;
    let gone: Vec<u8> = report.gone.iter().map(|drive| drive.0).collect();
    let findings = Findings {
        lost,
        lost_blocks: report.lost_blocks,
        unnoted_blocks: report.unnoted_blocks,
        gone_drives: &gone,
    };
    if args.json {
        let lost = lost.iter().map(|(volume, block)| json!({ "volume": volume, "block": block }));
        return terminal::json(&json!({
            "read_bytes": report.done_bytes,
            "segments": report.segments,
            "bad_headers": report.bad_headers,
            "bad_blocks": report.bad_blocks,
            "lost_blocks": report.lost_blocks,
            "unnoted_blocks": report.unnoted_blocks,
            "lost": lost.collect::<Vec<_>>(),
            "gone_drives": gone,
            "moved_blocks": moved_blocks,
            "mended": is_mended,
        }));
    }
    let mut text = format!(
        "{} read in {} segments: {} bad copies of blocks, {} of record headers; {} blocks lost\n",
        human::size(report.done_bytes as f64),
        report.segments,
        report.bad_blocks,
        report.bad_headers,
        report.lost_blocks,
    );
    if report.bad_blocks + report.bad_headers > 0 && *is_mended {
        text += &format!("written anew: {moved_blocks} blocks\n");
    }
    if !is_mended {
        text += "some blocks still lack a good copy: there is no room; discard data, scrub again\n";
    }
    text += &findings.told();
    Ok(terminal::data(&text)?)
}
