//! `evenkeel store volume` and `evenkeel store snapshot`: volumes as a whole, while no gate has the
//! store open.

use std::rc::Rc;

use evenkeel_io::store::{FileDrive, OpenDrive, beside, carry_out, fresh_nonce};
use evenkeel_store::check::survey;
use evenkeel_store::{OpenOptions, Store};

use super::drives::{DriveArgs, Opened, stopped};
use crate::exit::Exit;
use crate::terminal;
use crate::volumes::args::{Listed, Place, Wish};
use crate::volumes::{self, VolumeDocument, VolumeSpec};

/// A store by its drives.
#[derive(Debug, clap::Args)]
pub(super) struct OnDrives {
    #[command(flatten)]
    drives: DriveArgs,
    /// Go on without drives that are missing.
    #[arg(long)]
    without_missing: bool,
    /// Print the outcome as one JSON document.
    #[arg(long)]
    json: bool,
}

impl Place for OnDrives {
    const COMMAND: &'static str = "evenkeel store";
    const EXAMPLE: &'static str = "a.img b.img c.img ";
}

/// Runs one of the subcommands.
pub(super) async fn run(place: &OnDrives, wish: Wish) -> anyhow::Result<Exit> {
    let words = wish.words();
    let how = OpenDrive { read_only: matches!(wish, Wish::List(_)), ..OpenDrive::default() };
    let opened = Opened::open_or_ask(&place.drives.drives, &how, &words).await?;
    match wish {
        Wish::List(listed) => list(place, &opened, listed).await,
        Wish::Change(spec) => change(place, &opened, &spec).await,
    }
}

async fn list(place: &OnDrives, opened: &Opened, listed: Listed) -> anyhow::Result<Exit> {
    let found = survey(opened.drives.clone()).await.map_err(|error| opened.explain(&error))?;
    let shown = listed.of(found.volumes.iter().map(VolumeDocument::from).collect());
    if place.json {
        terminal::json(&shown)?;
    } else {
        terminal::data(&volumes::table(&shown))?;
    }
    Ok(Exit::Success)
}

async fn change(place: &OnDrives, opened: &Opened, spec: &VolumeSpec) -> anyhow::Result<Exit> {
    let order = spec.order().map_err(|error| Exit::Usage.because(error))?;
    let usual = OpenOptions::new(fresh_nonce()?);
    let options = OpenOptions { allow_missing: place.without_missing, ..usual };
    let store: Store<Rc<FileDrive>> = Store::open(opened.drives.clone(), options)
        .await
        .map_err(|error| opened.explain(&error))?;
    let changed = beside(&store, async {
        let changed = carry_out(&store, order).await;
        store.close().await.map_err(stopped)?;
        changed.map_err(|error| volumes::exit_of(&error).because(volumes::explain(&error)))
    })
    .await?;
    let changed = VolumeDocument::from(&changed);
    if place.json {
        terminal::json(&changed)?;
    } else {
        terminal::data(&format!("{}\n", spec.told(&changed)))?;
    }
    Ok(Exit::Success)
}
