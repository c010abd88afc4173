//! `evenkeel store replace-drive`: a new drive in the place of one that failed or is missing.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use evenkeel_io::store::{FileDrive, OpenDrive, beside, fresh_nonce, fresh_uuid};
use evenkeel_store::check::survey;
use evenkeel_store::{DriveIndex, OpenOptions, Replacement, Store, read_superblock};
use serde_json::json;

use super::bar::{Bar, Unit};
use super::create::refuse_data;
use super::drives::{DriveArgs, Opened, stopped};
use crate::exit::Exit;
use crate::terminal;
use crate::units::parse_size;

/// Checkpoints without a segment copied after which the copying counts as stuck.
const IDLE_CHECKPOINTS_MAX: u32 = 10;

/// Arguments of `evenkeel store replace-drive`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel store replace-drive a.img c.img --by new.img --size '10 GiB'
  evenkeel store replace-drive /dev/sdb /dev/sdd --drive 1 --by /dev/sde --yes
  evenkeel store replace-drive a.img --discard b.img

Name the drives that are left, without the one that failed. Then everything that lacks a copy is
copied; a kill or a power cut meanwhile does no harm, and the command, or the next gate, goes on.
If there is anything on the new drive, the command says what, and does nothing without --yes.
Drives that went on without each other are refused together: name those to keep, and the other
with --discard.
Ends with 1 if something still lacks a copy.")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(super) struct Args {
    #[command(flatten)]
    drives: DriveArgs,
    /// The new drive.
    #[arg(long, value_name = "DRIVE", required_unless_present = "discard")]
    by: Option<PathBuf>,
    /// A drive of the store that becomes a new one in its own place. What it alone has is lost.
    #[arg(long, value_name = "DRIVE", conflicts_with_all = ["by", "drive", "size"])]
    discard: Option<PathBuf>,
    /// Which drive it replaces, as `store status` counts them [default: the one that is missing].
    #[arg(long, value_name = "N")]
    drive: Option<u8>,
    /// Make the new drive as a sparse file of this size, if nothing is there.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: Option<u64>,
    /// Go on without other drives that are missing as well.
    #[arg(long)]
    without_missing: bool,
    /// Leave the copying to the gate that opens the store next.
    #[arg(long)]
    no_wait: bool,
    /// Destroy what is on the new drive.
    #[arg(long)]
    yes: bool,
    /// Print the outcome as one JSON document.
    #[arg(long)]
    json: bool,
}

impl Args {
    /// The drive that is to be part of the store.
    fn new_drive(&self) -> &Path {
        let path = self.by.as_ref().or(self.discard.as_ref());
        path.expect("one of them has to be given")
    }
}

/// Runs the subcommand.
pub(super) async fn run(args: &Args) -> anyhow::Result<Exit> {
    let is_new = args.size.is_some() && !args.new_drive().exists();
    let replaced = replace(args).await;
    let (store, lost) = match replaced {
        Ok(replaced) => replaced,
        Err(error) => {
            if is_new {
                // A file that took nobody's place is of no use.
                drop(std::fs::remove_file(args.new_drive()));
            }
            return Err(error);
        }
    };
    let left = beside(&store, async {
        let left = if args.no_wait { store.status().thin_segments } else { copy(&store).await? };
        store.close().await.map_err(stopped)?;
        Ok::<_, anyhow::Error>(left)
    })
    .await?;
    tell(args, &store, lost, left)?;
    Ok(if left == 0 || args.no_wait { Exit::Success } else { Exit::Failed })
}

async fn replace(args: &Args) -> anyhow::Result<(Store<Rc<FileDrive>>, DriveIndex)> {
    let mut paths = args.drives.drives.clone();
    let how = OpenDrive { create_bytes: args.size, ..OpenDrive::default() };
    // Together, so that the new one cannot be one of the others by another name.
    paths.push(args.new_drive().to_owned());
    refuse_new(&args.drives.drives)?;
    let mut opened = Opened::open(&paths, &how).await?;
    let drive = opened.drives.pop().expect("it was pushed above");
    let lost = match (args.drive, &args.discard) {
        (Some(place), _) => DriveIndex(place),
        (None, Some(_)) => place_of(&opened, &drive, args.new_drive()).await?,
        (None, None) => the_missing(&opened).await?,
    };
    refuse_data(&[(args.new_drive(), &*drive)], args.yes || args.discard.is_some()).await?;
    let usual = OpenOptions::new(fresh_nonce()?);
    let options = OpenOptions { allow_missing: args.without_missing, ..usual };
    let replacement = Replacement { lost, drive, name: fresh_uuid()? };
    let store = Store::open_replacing(opened.drives.clone(), replacement, options).await;
    Ok((store.map_err(|error| opened.explain(&error))?, lost))
}

/// The place of a drive in the store that the others are of.
async fn place_of(opened: &Opened, drive: &FileDrive, path: &Path) -> anyhow::Result<DriveIndex> {
    let found = survey(opened.drives.clone()).await.map_err(|error| opened.explain(&error))?;
    match read_superblock(drive).await {
        Ok(Ok(own)) if own.store == found.superblock.store => Ok(own.drive),
        _ => {
            let path = path.display();
            let message = format!(
                "{path}: no drive of this store, and so there is nothing to discard; a new drive \
                 is given with --by"
            );
            Err(Exit::Invalid.because(message))
        }
    }
}

/// Drives that should be there are not made by the way.
fn refuse_new(paths: &[PathBuf]) -> anyhow::Result<()> {
    match paths.iter().find(|path| !path.exists()) {
        None => Ok(()),
        Some(path) => {
            let path = path.display();
            let message = format!("{path}: no such drive; name the drives that are left");
            Err(Exit::Runtime.because(message))
        }
    }
}

/// The one drive that is not here.
async fn the_missing(opened: &Opened) -> anyhow::Result<DriveIndex> {
    let found = survey(opened.drives.clone()).await.map_err(|error| opened.explain(&error))?;
    let missing: Vec<DriveIndex> = (0..)
        .map(DriveIndex)
        .zip(&found.is_present)
        .filter(|(_, is_present)| !**is_present)
        .map(|(drive, _)| drive)
        .collect();
    match missing[..] {
        [drive] => Ok(drive),
        [] => Err(Exit::Usage
            .because("all drives of the store are here; leave out the one that is to be replaced")),
        _ => {
            let list: Vec<String> = missing.iter().map(ToString::to_string).collect();
            let list = list.join(", ");
            Err(Exit::Usage.because(format!("drives {list} are missing; say which with --drive")))
        }
    }
}

/// Copies what lacks a copy; gives how many segments still do.
async fn copy(store: &Store<Rc<FileDrive>>) -> anyhow::Result<usize> {
    let total = store.status().thin_segments;
    let (mut bar, mut least, mut idle) = (Bar::new(Unit::Segments), total, 0);
    loop {
        let left = store.status().thin_segments;
        bar.tell(total.saturating_sub(left) as u64, total as u64);
        if left == 0 || idle >= IDLE_CHECKPOINTS_MAX {
            bar.finish();
            return Ok(left);
        }
        idle = if left < least { 0 } else { idle + 1 };
        least = least.min(left);
        store.checkpoint().await.map_err(stopped)?;
    }
}

fn tell(
    args: &Args,
    store: &Store<Rc<FileDrive>>,
    lost: DriveIndex,
    left: usize,
) -> anyhow::Result<()> {
    let moved_blocks = store.status().counters.moved_blocks;
    let by = args.new_drive();
    if args.json {
        return terminal::json(&json!({
            "drive": lost.0,
            "path": by,
            "moved_blocks": moved_blocks,
            "thin_segments": left,
        }));
    }
    let rest = match (left, args.no_wait) {
        (0, _) => format!("everything has its copies again ({moved_blocks} blocks copied)"),
        (_, true) => format!("{left} segments lack a copy, which the next gate makes"),
        (_, false) => format!("{left} segments still lack a copy: are other drives missing?"),
    };
    Ok(terminal::data(&format!("{} is drive {lost} of the store now; {rest}\n", by.display()))?)
}
