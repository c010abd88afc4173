//! `evenkeel store`: stores made, looked at, checked, scrubbed and mended while no gate has them
//! open.
//!
//! Drives are files or block devices, given by their paths in any order. What the structures mean
//! and how they are kept is decided in `evenkeel-store`; here are the paths, the questions that
//! have to be answered before anything is destroyed, and the tables.

pub(crate) mod bar;
mod cache;
mod check;
mod create;
mod drives;
mod dump;
pub(crate) mod findings;
mod replace;
mod rescue;
mod scrub;
mod signature;
mod status;
mod volumes;

use clap::Subcommand;

use crate::exit::Exit;
use crate::volumes::args::{Snapshots, Volumes};
use volumes::OnDrives;

/// Arguments of `evenkeel store`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel store create a.img b.img c.img --size '10 GiB' --volume '2 GiB'
  evenkeel store status a.img b.img c.img
  evenkeel store check a.img b.img c.img
  evenkeel store scrub a.img b.img c.img --rate '50 MiB/s'
  evenkeel store replace-drive a.img c.img --by new.img --size '10 GiB'
  evenkeel store volume create a.img b.img c.img --size '5 GiB'
  evenkeel store snapshot create a.img b.img c.img --volume 0

docs/store-care.md is the manual. A store that a gate has open is locked: stop the gate first, or
ask it about volumes and snapshots with `evenkeel ctl volume` and `evenkeel ctl snapshot`.
Ends with 3 if the drives are no store, or not of one; with 5 if one of them cannot be used.")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make drives into a store.
    Create(create::Args),
    /// Say what a store is and how it is doing. Nothing is written.
    Status(status::Args),
    /// Find everything that is wrong with a store. Nothing is written.
    Check(check::Args),
    /// Read everything, and write anew what is bad on one of its copies.
    Scrub(scrub::Args),
    /// Say what of a damaged log is lost, and give it up if told to.
    Rescue(rescue::Args),
    /// Put a new drive in the place of one that failed or is missing.
    ReplaceDrive(replace::Args),
    /// Make, resize, delete and list volumes.
    #[command(subcommand)]
    Volume(Volumes<OnDrives>),
    /// Make, list, delete, clone and roll back to snapshots.
    #[command(subcommand)]
    Snapshot(Snapshots<OnDrives>),
    /// Make a drive the cache drive of a store.
    FormatCache(cache::Args),
    /// Show the structures on drives, for support.
    Dump(dump::Args),
}

/// Runs the subcommand.
///
/// # Errors
/// See the subcommands.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    evenkeel_io::store::block_on(async {
        match &args.action {
            Action::Create(args) => create::run(args).await,
            Action::Status(args) => status::run(args).await,
            Action::Check(args) => check::run(args).await,
            Action::Scrub(args) => scrub::run(args).await,
            Action::Rescue(args) => rescue::run(args).await,
            Action::ReplaceDrive(args) => replace::run(args).await,
            Action::Volume(volumes) => volumes::run(volumes.place(), volumes.wish()?).await,
            Action::Snapshot(snapshots) => volumes::run(snapshots.place(), snapshots.wish()?).await,
            Action::FormatCache(args) => cache::run(args).await,
            Action::Dump(args) => dump::run(args).await,
        }
    })?
}
