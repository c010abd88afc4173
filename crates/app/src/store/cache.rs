//! `evenkeel store format-cache`: makes a drive, an SSD as a rule, the cache drive of a store.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use evenkeel_io::store::{FileDrive, OpenDrive, beside, fresh_nonce};
use evenkeel_store::cache::{CacheError, read_label};
use evenkeel_store::check::survey;
use evenkeel_store::format::cache::CacheLabel;
use evenkeel_store::{Drive, OpenOptions, Store, Uuid};
use serde_json::json;

use super::create::refuse_data;
use super::drives::{DriveArgs, Opened, stopped};
use crate::exit::Exit;
use crate::units::parse_size;
use crate::{human, terminal};

/// Arguments of `evenkeel store format-cache`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel store format-cache a.img b.img c.img --drive ssd.img --size '4 GiB'
  evenkeel store format-cache /dev/sdb /dev/sdc --drive /dev/nvme0n1 --yes

Then name it in the policy, as in `cache = { memory = \"1 GiB\", drive = \"/dev/nvme0n1\" }`.
If there is anything on it, the command says what, and does nothing without --yes. The books of its
wear go on if it was a cache drive before.")]
pub(super) struct Args {
    #[command(flatten)]
    drives: DriveArgs,
    /// The cache drive.
    #[arg(long, value_name = "DRIVE")]
    drive: PathBuf,
    /// Make it as a sparse file of this size, if nothing is there.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: Option<u64>,
    /// Go on without drives of the store that are missing.
    #[arg(long)]
    without_missing: bool,
    /// Destroy what is on the cache drive.
    #[arg(long)]
    yes: bool,
    /// Print the outcome as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(super) async fn run(args: &Args) -> anyhow::Result<Exit> {
    let is_new = args.size.is_some() && !args.drive.exists();
    let formatted = format(args).await;
    if formatted.is_err() && is_new {
        // A file that caches nothing is of no use.
        drop(std::fs::remove_file(&args.drive));
    }
    let (store, size_bytes) = formatted?;
    if args.json {
        terminal::json(&json!({
            "store": store.to_string(),
            "path": args.drive,
            "size_bytes": size_bytes,
        }))?;
    } else {
        let (path, size) = (args.drive.display(), human::size(size_bytes as f64));
        let told = format!("{path} ({size}) is a cache drive of store {store} now\n");
        terminal::data(&told)?;
    }
    Ok(Exit::Success)
}

async fn format(args: &Args) -> anyhow::Result<(Uuid, u64)> {
    let mut paths = args.drives.drives.clone();
    // Together, so that it cannot be one of the others by another name.
    paths.push(args.drive.clone());
    if let Some(missing) = args.drives.drives.iter().find(|path| !path.exists()) {
        let message = format!("{}: no such drive; name all drives of the store", missing.display());
        return Err(Exit::Runtime.because(message));
    }
    let how = OpenDrive { create_bytes: args.size, ..OpenDrive::default() };
    let mut opened = Opened::open(&paths, &how).await?;
    let drive = opened.drives.pop().expect("it was pushed above");
    let found = survey(opened.drives.clone()).await.map_err(|error| opened.explain(&error))?;
    let id = found.superblock.store;
    let is_its_own = label(&drive).await?.is_some_and(|label| label.store == id);
    refuse_data(&[(args.drive.as_path(), &*drive)], args.yes || is_its_own).await?;
    let usual = OpenOptions::new(fresh_nonce()?);
    let options = OpenOptions { allow_missing: args.without_missing, ..usual };
    let store: Store<Rc<FileDrive>> = Store::open(opened.drives.clone(), options)
        .await
        .map_err(|error| opened.explain(&error))?;
    beside(&store, async {
        let formatted = store.format_cache_drive(&drive).await;
        store.close().await.map_err(stopped)?;
        formatted.map_err(|error| unusable(&args.drive, &error))
    })
    .await?;
    Ok((id, drive.geometry().size_bytes))
}

/// The label of a cache drive, if it is one.
pub(super) async fn label(drive: &Rc<FileDrive>) -> anyhow::Result<Option<CacheLabel>> {
    let label = read_label(drive).await;
    Ok(label.map_err(|error| unusable(drive.path(), &error))?.ok())
}

fn unusable(path: &Path, error: &CacheError) -> anyhow::Error {
    let exit = match error {
        CacheError::Drive(_) => Exit::Runtime,
        _ => Exit::Usage,
    };
    exit.because(format!("{}: {error}", path.display()))
}
