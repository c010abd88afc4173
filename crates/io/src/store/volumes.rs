//! Volumes as a whole: made, resized, copied and deleted, by a command that has a store open and by
//! a gate alike.
//!
//! What was ordered is there for good when [`carry_out`] has returned: the change is a record of
//! the log, and a flush is behind it.

use evenkeel_store::{Drive, Provision, Shrink, Store, StoreError, Volume, VolumeId, VolumeKind};

/// What is to become of the volumes of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeOrder {
    /// Make an empty volume.
    Create {
        /// Its size in bytes.
        size_bytes: u64,
        /// What it is promised.
        provision: Provision,
    },
    /// Make a volume larger or smaller.
    Resize {
        /// The volume.
        volume: VolumeId,
        /// Its new size in bytes.
        size_bytes: u64,
        /// Whether it may lose data.
        shrink: Shrink,
    },
    /// Delete a volume; snapshots of it stay.
    DeleteVolume {
        /// The volume, no snapshot.
        volume: VolumeId,
    },
    /// Keep what a volume holds now.
    Snapshot {
        /// The volume.
        of: VolumeId,
    },
    /// Make a volume that holds what a snapshot holds.
    Clone {
        /// The snapshot.
        of: VolumeId,
        /// What the new volume is promised.
        provision: Provision,
    },
    /// Give a volume the content of a snapshot.
    RollBack {
        /// The volume.
        volume: VolumeId,
        /// The snapshot.
        to: VolumeId,
    },
    /// Delete a snapshot; volumes and clones keep what they share with it.
    DeleteSnapshot {
        /// The snapshot.
        snapshot: VolumeId,
    },
}

/// Why it cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    /// What the store says.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A volume was meant, and this is a snapshot.
    #[error("{} is a snapshot, not a volume; name a volume", .0.0)]
    IsSnapshot(VolumeId),
    /// A snapshot was meant, and this is a volume.
    #[error("{} is a volume, not a snapshot; name a snapshot", .0.0)]
    IsVolume(VolumeId),
    /// Somebody would lose it or find it changed.
    #[error("volume {} is in use: {by}", .volume.0)]
    InUse {
        /// The volume or snapshot.
        volume: VolumeId,
        /// By whom, and what to do about it.
        by: String,
    },
    /// The gate has no such store.
    #[error("there is no store `{0}` in the policy; name a backend that is a store")]
    UnknownStore(String),
    /// The gate has it, but it is not open.
    #[error("the store is not open: {0}")]
    NotOpen(String),
}

impl VolumeOrder {
    /// The volume that is no more behind it, or not what it was; none if nobody loses anything.
    /// `size_of` tells what a volume has now, in bytes.
    pub(crate) fn takes_from(&self, size_of: impl Fn(VolumeId) -> Option<u64>) -> Option<VolumeId> {
        match *self {
            Self::DeleteVolume { volume }
            | Self::DeleteSnapshot { snapshot: volume }
            | Self::RollBack { volume, .. } => Some(volume),
            Self::Resize { volume, size_bytes, .. } => {
                size_of(volume).is_some_and(|now| size_bytes < now).then_some(volume)
            }
            Self::Create { .. } | Self::Snapshot { .. } | Self::Clone { .. } => None,
        }
    }

    /// Whether the volume is no more behind it.
    pub(crate) fn is_deletion(&self) -> bool {
        matches!(self, Self::DeleteVolume { .. } | Self::DeleteSnapshot { .. })
    }
}

/// Carries an order out and makes it durable. Gives the volume or snapshot that it was about, as it
/// is then; one that was deleted as it was.
///
/// # Errors
/// [`VolumeError`]. If the store stops meanwhile, nobody knows whether it was done.
pub async fn carry_out<D: Drive>(
    store: &Store<D>,
    order: VolumeOrder,
) -> Result<Volume, VolumeError> {
    let id = match order {
        VolumeOrder::Create { size_bytes, provision } => {
            store.create_volume(size_bytes, provision).await?
        }
        VolumeOrder::Resize { volume, size_bytes, shrink } => {
            store.resize_volume(volume, size_bytes, shrink).await?;
            volume
        }
        VolumeOrder::Snapshot { of } => store.snapshot(of).await?,
        VolumeOrder::Clone { of, provision } => store.clone_volume(of, provision).await?,
        VolumeOrder::RollBack { volume, to } => {
            store.roll_back(volume, to).await?;
            volume
        }
        VolumeOrder::DeleteVolume { volume } => {
            let known = find(store, volume)?;
            if known.kind == VolumeKind::Snapshot {
                return Err(VolumeError::IsSnapshot(volume));
            }
            return delete(store, known).await;
        }
        VolumeOrder::DeleteSnapshot { snapshot } => {
            let known = find(store, snapshot)?;
            if known.kind != VolumeKind::Snapshot {
                return Err(VolumeError::IsVolume(snapshot));
            }
            return delete(store, known).await;
        }
    };
    store.flush().await?;
    find(store, id)
}

async fn delete<D: Drive>(store: &Store<D>, known: Volume) -> Result<Volume, VolumeError> {
    store.delete_volume(known.id).await?;
    store.flush().await?;
    Ok(known)
}

fn find<D: Drive>(store: &Store<D>, id: VolumeId) -> Result<Volume, VolumeError> {
    let volumes = store.volumes();
    let found = volumes.into_iter().find(|volume| volume.id == id);
    found.ok_or(VolumeError::Store(StoreError::UnknownVolume(id)))
}
