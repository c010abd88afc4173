//! Volumes and snapshots of a store as people name them: on the command line, in the bodies of the
//! control plane, in tables.
//!
//! ```text
//! evenkeel store volume ..  --\                     /--> the store, opened from its drives
//!                              args --> VolumeSpec <
//! evenkeel ctl volume ..    --/                     \--> POST /v1/volumes --> a gate that has it
//! ```
//!
//! So the same words mean the same wherever the store is.

pub mod args;

use evenkeel_io::store::{VolumeError, VolumeOrder};
use evenkeel_store::{Provision, Shrink, StoreError, Volume, VolumeId, VolumeKind};
use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::units::{UnitError, parse_size, print_size};
use crate::{human, terminal};

/// What is to become of the volumes of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum VolumeSpec {
    /// Make an empty volume.
    Create {
        /// Its size, such as `10 GiB`.
        size: String,
        /// Whether it is promised nothing.
        #[serde(default)]
        thin: bool,
    },
    /// Make a volume larger or smaller.
    Resize {
        /// Its number.
        volume: u32,
        /// Its new size.
        size: String,
        /// Whether what lies beyond may be lost.
        #[serde(default)]
        discard: bool,
    },
    /// Delete a volume.
    DeleteVolume {
        /// Its number.
        volume: u32,
    },
    /// Keep what a volume holds now.
    Snapshot {
        /// Its number.
        volume: u32,
    },
    /// Make a volume that holds what a snapshot holds.
    Clone {
        /// The snapshot's number.
        snapshot: u32,
        /// Whether all of it is promised room; else it is thin.
        #[serde(default)]
        provisioned: bool,
    },
    /// Give a volume the content of a snapshot.
    RollBack {
        /// The volume's number.
        volume: u32,
        /// The snapshot's.
        to: u32,
    },
    /// Delete a snapshot.
    DeleteSnapshot {
        /// Its number.
        snapshot: u32,
    },
}

/// A volume or snapshot in JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeDocument {
    /// Its number.
    pub volume: u32,
    /// `provisioned`, `thin` or `snapshot`.
    pub kind: String,
    /// The volume or snapshot that it was made from.
    pub of: Option<u32>,
    /// The record that made it, or last replaced all of its content.
    pub since_lsn: u64,
    /// Its size.
    pub size_bytes: u64,
    /// What it holds.
    pub used_bytes: u64,
    /// What deleting it gives back.
    pub own_bytes: u64,
}

impl VolumeSpec {
    /// What it means to a store.
    ///
    /// # Errors
    /// A size that cannot be read.
    pub fn order(&self) -> Result<VolumeOrder, UnitError> {
        let provision = |is_full| if is_full { Provision::Full } else { Provision::Thin };
        Ok(match *self {
            Self::Create { ref size, thin } => {
                VolumeOrder::Create { size_bytes: parse_size(size)?, provision: provision(!thin) }
            }
            Self::Resize { volume, ref size, discard } => VolumeOrder::Resize {
                volume: VolumeId(volume),
                size_bytes: parse_size(size)?,
                shrink: if discard { Shrink::Discard } else { Shrink::Refuse },
            },
            Self::DeleteVolume { volume } => VolumeOrder::DeleteVolume { volume: VolumeId(volume) },
            Self::Snapshot { volume } => VolumeOrder::Snapshot { of: VolumeId(volume) },
            Self::Clone { snapshot, provisioned } => {
                VolumeOrder::Clone { of: VolumeId(snapshot), provision: provision(provisioned) }
            }
            Self::RollBack { volume, to } => {
                VolumeOrder::RollBack { volume: VolumeId(volume), to: VolumeId(to) }
            }
            Self::DeleteSnapshot { snapshot } => {
                VolumeOrder::DeleteSnapshot { snapshot: VolumeId(snapshot) }
            }
        })
    }

    /// One line about the volume that it was carried out on.
    pub fn told(&self, volume: &VolumeDocument) -> String {
        let VolumeDocument { volume: number, kind, .. } = volume;
        let size = print_size(volume.size_bytes);
        let own = human::size(volume.own_bytes as f64);
        match self {
            Self::Create { .. } => format!("volume {number}: {size}, {kind}"),
            Self::Resize { .. } => format!("volume {number} has {size} now"),
            Self::DeleteVolume { .. } => format!("volume {number} is deleted; {own} come back"),
            Self::Snapshot { volume } => format!("snapshot {number} of volume {volume}: {size}"),
            Self::Clone { snapshot, .. } => {
                format!("volume {number}: a clone of snapshot {snapshot}, {size}, {kind}")
            }
            Self::RollBack { to, .. } => {
                format!("volume {number} holds what snapshot {to} holds: {size}")
            }
            Self::DeleteSnapshot { .. } => {
                format!("snapshot {number} is deleted; {own} come back")
            }
        }
    }
}

impl From<&Volume> for VolumeDocument {
    fn from(volume: &Volume) -> Self {
        Self {
            volume: volume.id.0,
            kind: kind_name(volume.kind).to_owned(),
            of: volume.origin.map(|origin| origin.0),
            since_lsn: volume.since.0,
            size_bytes: volume.size_bytes,
            used_bytes: volume.mapped_bytes,
            own_bytes: volume.own_bytes,
        }
    }
}

/// The word for a kind of volume.
pub fn kind_name(kind: VolumeKind) -> &'static str {
    match kind {
        VolumeKind::Provisioned => "provisioned",
        VolumeKind::Thin => "thin",
        VolumeKind::Snapshot => "snapshot",
    }
}

/// Volumes as a table for people.
pub fn table(volumes: &[VolumeDocument]) -> String {
    let rows: Vec<Vec<String>> = volumes
        .iter()
        .map(|volume| {
            vec![
                volume.volume.to_string(),
                print_size(volume.size_bytes),
                human::size(volume.used_bytes as f64),
                human::size(volume.own_bytes as f64),
                volume.kind.clone(),
                volume.of.map_or_else(|| "-".to_owned(), |origin| origin.to_string()),
            ]
        })
        .collect();
    terminal::table(&["VOLUME", "SIZE", "USED", "OWN", "<KIND", "<OF"], &rows)
}

/// What went wrong, with the remedy in the words of the command line.
pub fn explain(error: &VolumeError) -> String {
    match error {
        VolumeError::Store(StoreError::WouldShrink { size_bytes }) => format!(
            "the volume has {}: what lies beyond the new size would be lost; --yes discards it",
            print_size(*size_bytes)
        ),
        VolumeError::Store(StoreError::NotASnapshot(volume)) => format!(
            "{} is no snapshot of this volume or of a relative; `snapshot list` shows which are",
            volume.0
        ),
        VolumeError::Store(StoreError::UnknownVolume(volume)) => format!(
            "the store has no volume or snapshot {}; `volume list` and `snapshot list` show what \
             it has",
            volume.0
        ),
        VolumeError::Store(StoreError::NoRoom { wanted_bytes, free_bytes }) => format!(
            "there is no room: it takes {}, and {} are not promised to others; delete snapshots or \
             volumes, discard data, or make it thin",
            human::size(*wanted_bytes as f64),
            human::size(*free_bytes as f64),
        ),
        _ => error.to_string(),
    }
}

/// How a command ends that met this error.
pub fn exit_of(error: &VolumeError) -> Exit {
    match error {
        VolumeError::Store(StoreError::WouldShrink { .. }) => Exit::Invalid,
        VolumeError::Store(
            StoreError::NoRoom { .. } | StoreError::MapFull | StoreError::TooManyVolumes,
        )
        | VolumeError::InUse { .. } => Exit::Failed,
        VolumeError::Store(StoreError::Halted(_) | StoreError::Unreadable { .. })
        | VolumeError::NotOpen(_) => Exit::Runtime,
        VolumeError::Store(_)
        | VolumeError::IsSnapshot(_)
        | VolumeError::IsVolume(_)
        | VolumeError::UnknownStore(_) => Exit::Usage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_says_one_thing_and_nothing_that_is_not_known() {
        let read = |text: &str| serde_json::from_str::<VolumeSpec>(text).ok();
        let create = VolumeSpec::Create { size: "1 GiB".to_owned(), thin: false };
        assert_eq!(read(r#"{"create": {"size": "1 GiB"}}"#), Some(create.clone()));
        assert_eq!(read(r#"{"create": {"size": "1 GiB", "thick": true}}"#), None);
        assert_eq!(read(r#"{"destroy": {"volume": 0}}"#), None);
        assert_eq!(read(&serde_json::to_string(&create).unwrap()), Some(create));
    }

    #[test]
    fn whatever_would_lose_data_says_so_to_the_store() {
        let resize = |discard| VolumeSpec::Resize { volume: 3, size: "4 KiB".to_owned(), discard };
        let shrink = |discard| match resize(discard).order() {
            Ok(VolumeOrder::Resize { shrink, .. }) => Some(shrink),
            _ => None,
        };
        assert_eq!((shrink(false), shrink(true)), (Some(Shrink::Refuse), Some(Shrink::Discard)));
        assert!(VolumeSpec::Create { size: "big".to_owned(), thin: true }.order().is_err());
    }
}
