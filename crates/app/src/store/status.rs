//! `evenkeel store status`: what a store is and how it is doing, read from its drives.

use std::path::{Path, PathBuf};

use evenkeel_store::Uuid;
use evenkeel_store::check::{Survey, survey};
use evenkeel_store::format::superblock::{DriveRow, DriveState};
use evenkeel_store::units::BLOCK_BYTES_U64;
use serde_json::{Value, json};

use super::cache;
use super::drives::{DriveArgs, Opened};
use crate::exit::Exit;
use crate::units::print_size;
use crate::volumes::{self, VolumeDocument};
use crate::{human, terminal};

/// Arguments of `evenkeel store status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel store status a.img b.img c.img
  evenkeel store status /dev/sdb /dev/sdc --json
  evenkeel store status /dev/sdb /dev/sdc --cache /dev/nvme0n1

What a gate that has the store open knows, `evenkeel ctl status` tells. Ends with 1 if a drive is
missing or some segments lack a copy.")]
pub(super) struct Args {
    #[command(flatten)]
    drives: DriveArgs,
    /// Its cache drive, to tell how much was written to that.
    #[arg(long, value_name = "DRIVE")]
    cache: Option<PathBuf>,
    /// Print it as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(super) async fn run(args: &Args) -> anyhow::Result<Exit> {
    let opened = Opened::to_read(&args.drives.drives).await?;
    let found = survey(opened.drives.clone()).await.map_err(|error| opened.explain(&error))?;
    let cache = match &args.cache {
        Some(path) => Some((path, wear(path, found.superblock.store).await?)),
        None => None,
    };
    if args.json {
        let mut document = document(&found, &opened).await;
        if let Some((path, written_bytes)) = cache {
            document["cache"] = json!({ "path": path, "written_in_life_bytes": written_bytes });
        }
        terminal::json(&document)?;
    } else {
        let cache = cache.map(|(path, bytes)| {
            let (path, written) = (path.display(), human::size(bytes as f64));
            format!("cache drive {path}: {written} written in its life as a cache\n")
        });
        terminal::data(&(text(&found, &opened).await + &cache.unwrap_or_default()))?;
    }
    let is_whole = found.wanting().is_empty() && found.status.thin_segments == 0;
    Ok(if is_whole { Exit::Success } else { Exit::Failed })
}

/// Bytes that were written to the cache drive of this store, at most.
async fn wear(path: &Path, store: Uuid) -> anyhow::Result<u64> {
    let opened = Opened::to_read(&[path.to_owned()]).await?;
    let label = cache::label(&opened.drives[0]).await?;
    let label = label.filter(|label| label.store == store).ok_or_else(|| {
        let path = path.display();
        Exit::Invalid.because(format!(
            "{path} is no cache drive of this store; `evenkeel store format-cache` makes it one"
        ))
    })?;
    Ok(label.written_bytes_max)
}

/// The state of each drive, in words.
fn states(found: &Survey) -> Vec<String> {
    let rows = found.superblock.drives.iter().zip(&found.is_present);
    rows.map(|(row, is_present)| match (is_present, row.state) {
        (true, DriveState::InSync) => "in sync".to_owned(),
        (true, DriveState::Stale { since }) => format!("away since record {since}, back now"),
        (false, DriveState::InSync) => "missing".to_owned(),
        (false, DriveState::Stale { since }) => format!("missing since record {since}"),
    })
    .collect()
}

/// The zones of a drive, in words.
fn zones(row: &DriveRow, is_emulated: bool) -> String {
    let Some(zones) = row.zones else { return "-".to_owned() };
    let zone_bytes = u64::from(zones.zone_blocks) * BLOCK_BYTES_U64;
    let emulated = if is_emulated { ", emulated" } else { "" };
    format!("{}{emulated}", print_size(zone_bytes))
}

async fn text(found: &Survey, opened: &Opened) -> String {
    let paths = opened.by_place(found.superblock.drives.len()).await;
    let emulated = opened.emulated_zones(found.superblock.drives.len()).await;
    let (superblock, status) = (&found.superblock, &found.status);
    let segment_bytes = u64::from(superblock.segment_blocks) * BLOCK_BYTES_U64;
    let size = |bytes: u64| human::size(bytes as f64);
    let mut text = format!(
        "store {}\n{} of everything, segments of {}, mounted {} times, last record {}\n\n",
        superblock.store,
        if superblock.copies == 1 { "1 copy" } else { "2 copies" },
        print_size(segment_bytes),
        superblock.mount.epoch,
        status.lsn,
    );
    let drives = superblock.drives.iter().zip(states(found)).zip(paths).enumerate();
    let is_zoned = superblock.is_zoned();
    let rows: Vec<Vec<String>> = drives
        .map(|(place, ((row, state), path))| {
            let path = path.map_or_else(|| "-".to_owned(), |path| path.display().to_string());
            let room = size(u64::from(row.slots) * segment_bytes);
            let zones = is_zoned.then(|| zones(row, emulated[place]));
            let cells = [place.to_string(), path, room, row.uuid.to_string(), state];
            cells.into_iter().chain(zones).collect()
        })
        .collect();
    let heads = ["DRIVE", "<PATH", "ROOM", "<UUID", "<STATE", "<ZONES"];
    text += &terminal::table(&heads[..if is_zoned { 6 } else { 5 }], &rows);
    let documents: Vec<_> = found.volumes.iter().map(VolumeDocument::from).collect();
    text += &format!("\n{}", volumes::table(&documents));
    let telemetry = &status.telemetry;
    text += &format!(
        "\n{} in use of {} provisioned; {} can be written before anything is cleaned\n",
        size(telemetry.live_bytes),
        size(telemetry.provisioned_bytes),
        size(telemetry.until_cleaning_bytes),
    );
    if status.thin_segments > 0 {
        text += &format!(
            "{} segments have fewer copies than they should; a store that is open copies them\n",
            status.thin_segments
        );
    }
    text
}

/// A survey as JSON; used by `check` as well.
pub(super) async fn document(found: &Survey, opened: &Opened) -> Value {
    let paths = opened.by_place(found.superblock.drives.len()).await;
    let emulated = opened.emulated_zones(found.superblock.drives.len()).await;
    let (superblock, status) = (&found.superblock, &found.status);
    let telemetry = &status.telemetry;
    let drives = superblock.drives.iter().zip(&found.is_present).zip(states(found));
    let drives: Vec<Value> = drives
        .zip(paths.into_iter().zip(emulated))
        .map(|(((row, is_present), state), (path, is_emulated))| {
            json!({
                "path": path,
                "uuid": row.uuid.to_string(),
                "slots": row.slots,
                "zone_bytes": row.zones
                    .map(|zones| u64::from(zones.zone_blocks) * BLOCK_BYTES_U64),
                "zones_emulated": is_emulated,
                "present": is_present,
                "in_sync": row.state == DriveState::InSync,
                "state": state,
            })
        })
        .collect();
    json!({
        "store": superblock.store.to_string(),
        "copies": superblock.copies,
        "segment_bytes": u64::from(superblock.segment_blocks) * BLOCK_BYTES_U64,
        "epoch": superblock.mount.epoch,
        "checkpoint": superblock.checkpoint.number,
        "lsn": status.lsn.0,
        "drives": drives,
        "volumes": found.volumes.iter().map(VolumeDocument::from).collect::<Vec<_>>(),
        "free_segments": status.free_segments,
        "thin_segments": status.thin_segments,
        "map_bytes": status.map_bytes,
        "live_bytes": telemetry.live_bytes,
        "provisioned_bytes": telemetry.provisioned_bytes,
        "until_full_bytes": telemetry.until_full_bytes,
        "until_cleaning_bytes": telemetry.until_cleaning_bytes,
        "cleaner_debt_blocks": telemetry.cleaner_debt_blocks,
    })
}
