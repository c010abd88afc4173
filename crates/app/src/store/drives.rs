//! The drives of a store by their paths: opened, and named where something is wrong with one.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use evenkeel_io::store::{FileDrive, OpenDrive, OpenDriveError, known_position, open_drives};
use evenkeel_store::{
    Drive, FormatError, OpenError, Position, ReplacementError, StoreError, read_superblock,
};

use crate::exit::Exit;
use crate::units::print_size;

/// The drives of a store.
#[derive(Debug, clap::Args)]
pub(super) struct DriveArgs {
    /// The drives of the store, files or block devices, in any order.
    #[arg(required = true, value_name = "DRIVE")]
    pub(super) drives: Vec<PathBuf>,
}

/// What a gate remembers of the store.
#[derive(Debug, clap::Args)]
pub(super) struct RememberedArgs {
    /// The state folder of the gate that serves the store, which knows how far it was.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl RememberedArgs {
    /// How far the store of these drives was, if that is known.
    pub(super) async fn of(&self, drives: &[Rc<FileDrive>]) -> anyhow::Result<Option<Position>> {
        let Some(folder) = &self.data else { return Ok(None) };
        known_position(folder, drives).await.map_err(|error| Exit::Runtime.because(error))
    }
}

/// Drives, and what they are called.
pub(super) struct Opened {
    pub(super) paths: Vec<PathBuf>,
    pub(super) drives: Vec<Rc<FileDrive>>,
}

impl Opened {
    /// To be read and nothing else.
    pub(super) async fn to_read(paths: &[PathBuf]) -> anyhow::Result<Self> {
        Self::open(paths, &OpenDrive { read_only: true, ..OpenDrive::default() }).await
    }

    /// To be written as well.
    pub(super) async fn to_write(paths: &[PathBuf]) -> anyhow::Result<Self> {
        Self::open(paths, &OpenDrive::default()).await
    }

    pub(super) async fn open(paths: &[PathBuf], how: &OpenDrive) -> anyhow::Result<Self> {
        let drives = open_drives(paths, how).await.map_err(unusable)?;
        Ok(Self { paths: paths.to_vec(), drives: drives.into_iter().map(Rc::new).collect() })
    }

    /// As [`Self::open`]; if they are locked, tells what to ask the gate that has them, in the
    /// words of `evenkeel ctl`.
    pub(super) async fn open_or_ask(
        paths: &[PathBuf],
        how: &OpenDrive,
        words: &str,
    ) -> anyhow::Result<Self> {
        let opened = open_drives(paths, how).await.map_err(|error| match error {
            OpenDriveError::InUse(path) => Exit::Runtime.because(format!(
                "{}: another program is using it; if that is a gate, ask the gate: `evenkeel ctl \
                 {words}`",
                path.display()
            )),
            error => unusable(error),
        });
        Ok(Self { paths: paths.to_vec(), drives: opened?.into_iter().map(Rc::new).collect() })
    }

    /// An error of opening the store, with the paths of the drives that it is about.
    pub(super) fn explain(&self, error: &OpenError) -> anyhow::Error {
        let exit = match error {
            OpenError::Drive(..) | OpenError::Unreadable { .. } => Exit::Runtime,
            OpenError::Replacement(ReplacementError::InUse { .. }) => Exit::Invalid,
            OpenError::Duplicate { .. } | OpenError::Replacement(_) => Exit::Usage,
            _ => Exit::Invalid,
        };
        if let OpenError::Missing(_) = error {
            let remedies = "replace it (`evenkeel store replace-drive`), or give --without-missing";
            return exit.because(format!("{error}, {remedies}"));
        }
        match error.position().and_then(|position| self.paths.get(position)) {
            Some(path) => exit.because(format!("{}: {error}", path.display())),
            None => exit.because(error),
        }
    }

    /// An error of making a store of them, with the path of the drive that it is about.
    pub(super) fn unmakeable(&self, error: &FormatError) -> anyhow::Error {
        let exit =
            if matches!(error, FormatError::Drive(..)) { Exit::Runtime } else { Exit::Usage };
        let (FormatError::Drive(drive, _) | FormatError::Zones(drive, _)) = error else {
            return exit.because(error);
        };
        match self.paths.get(drive.index()) {
            Some(path) => exit.because(format!("{}: {error}", path.display())),
            None => exit.because(error),
        }
    }

    /// The path of each drive of the store, by its place in the store's table.
    pub(super) async fn by_place(&self, count: usize) -> Vec<Option<&Path>> {
        let places = self.places(count).await;
        let path = |index: usize| self.paths[index].as_path();
        places.into_iter().map(|index| index.map(path)).collect()
    }

    /// Which drives of the store are files that stand for drives with zones, by their places.
    pub(super) async fn emulated_zones(&self, count: usize) -> Vec<bool> {
        let places = self.places(count).await;
        let is_emulated = |index: usize| self.drives[index].has_emulated_zones();
        places.into_iter().map(|index| index.is_some_and(is_emulated)).collect()
    }

    /// Which of the drives given is in each place of the store's table.
    async fn places(&self, count: usize) -> Vec<Option<usize>> {
        let mut places = vec![None; count];
        for (index, drive) in self.drives.iter().enumerate() {
            if let Ok(Ok(own)) = read_superblock(drive).await
                && let Some(place) = places.get_mut(own.drive.index())
            {
                *place = Some(index);
            }
        }
        places
    }
}

/// The zones of a drive, if it has any, in words.
pub(super) fn zones_of(drive: &FileDrive) -> Option<String> {
    let zoning = drive.zoning()?;
    let emulated = if drive.has_emulated_zones() { ", emulated" } else { "" };
    Some(format!(
        "zones of {}, {} of them conventional{emulated}",
        print_size(zoning.zone_bytes),
        zoning.conventional_zones
    ))
}

fn unusable(error: OpenDriveError) -> anyhow::Error {
    let exit = match error {
        OpenDriveError::Twice(_) => Exit::Usage,
        OpenDriveError::NotADrive(_) => Exit::Invalid,
        OpenDriveError::Io { .. } | OpenDriveError::InUse(_) | OpenDriveError::ReadOnly(_) => {
            Exit::Runtime
        }
    };
    exit.because(error)
}

/// An error of a store that was open.
pub(super) fn stopped(error: StoreError) -> anyhow::Error {
    Exit::Runtime.because(error)
}
