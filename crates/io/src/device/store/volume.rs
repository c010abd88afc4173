//! Volumes of a store as devices.

use std::rc::Rc;

use evenkeel_store::{Buffer, Drive, Durability, Store, StoreError, VolumeId, VolumeKind};
use evenkeel_wire::nbd::proto::{Errno, Extent, TransmissionFlags};

use super::StoreHost;
use crate::device::Features;

/// Extents in one answer about allocation.
const EXTENTS_MAX: usize = 4096;

/// Bytes that one answer about allocation covers at most: it must not keep others waiting.
const EXTENTS_BYTES_MAX: u64 = 256 << 20;

/// One volume of a store.
#[derive(Debug)]
pub(crate) struct StoreVolume {
    host: Rc<StoreHost>,
    volume: VolumeId,
}

/// What is asked of a volume.
#[derive(Debug)]
pub(crate) enum Request {
    Read { length_bytes: usize },
    Write { data: Buffer, durability: Durability },
    WriteZeroes { length_bytes: u64, durability: Durability },
    Trim { length_bytes: u64, durability: Durability },
    Flush,
}

impl StoreVolume {
    /// The volume of this number, whether or not there is one.
    pub(crate) fn new(host: Rc<StoreHost>, number: u32) -> Rc<Self> {
        Rc::new(Self { host, volume: VolumeId(number) })
    }

    pub(crate) fn host(&self) -> &StoreHost {
        &self.host
    }

    /// Whether it is this volume of this store.
    pub(crate) fn is_volume(&self, host: &Rc<StoreHost>, volume: VolumeId) -> bool {
        Rc::ptr_eq(&self.host, host) && self.volume == volume
    }

    /// Whether a read would be answered by the cache alone.
    pub(crate) fn is_cached(&self, offset_bytes: u64, length_bytes: u64) -> bool {
        let store = self.host.store();
        store.is_some_and(|store| store.is_cached(self.volume, offset_bytes, length_bytes))
    }

    /// What it can do; none if the store is not open, or has no such volume.
    pub(crate) fn features(&self) -> Option<Features> {
        let volumes = self.host.store()?.volumes();
        let volume = volumes.into_iter().find(|volume| volume.id == self.volume)?;
        let mut features = Features::local(volume.size_bytes);
        features.flags = features.flags | TransmissionFlags::SEND_FAST_ZERO;
        if volume.kind == VolumeKind::Snapshot {
            features.flags = features.flags | TransmissionFlags::READ_ONLY;
        }
        Some(features)
    }

    /// What to say to who asks for a volume that is not there.
    pub(crate) fn missing(&self) -> String {
        let volumes = self.host.store().map_or_else(Vec::new, |store| store.volumes());
        let numbers: Vec<_> = volumes.iter().map(|volume| volume.id.0.to_string()).collect();
        format!("the store has no volume {}, but {}", self.volume.0, numbers.join(", "))
    }

    /// Does what is asked; a read brings its data.
    pub(crate) async fn perform(
        &self,
        offset_bytes: u64,
        request: Request,
    ) -> Result<Option<Buffer>, Errno> {
        let store = self.host.store().ok_or(Errno::Io)?;
        let volume = self.volume;
        let outcome = match request {
            Request::Read { length_bytes } => {
                store.read(volume, offset_bytes, length_bytes).await.map(Some)
            }
            Request::Write { data, durability } => {
                store.write(volume, offset_bytes, data, durability).await.map(|()| None)
            }
            Request::WriteZeroes { length_bytes, durability } => {
                let done = store.write_zeroes(volume, offset_bytes, length_bytes, durability);
                done.await.map(|()| None)
            }
            Request::Trim { length_bytes, durability } => {
                let done = trim(&store, volume, (offset_bytes, length_bytes), durability);
                done.await.map(|()| None)
            }
            Request::Flush => store.flush().await.map(|()| None),
        };
        outcome.map_err(|error| errno_of(&self.host.name, error))
    }

    /// Which parts of a range are mapped; it may stop short of the end.
    pub(crate) fn extents(&self, offset: u64, length: u64) -> Result<Vec<Extent>, Errno> {
        let store = self.host.store().ok_or(Errno::Io)?;
        let length = length.min(EXTENTS_BYTES_MAX);
        let runs = store.extents(self.volume, offset, length, EXTENTS_MAX);
        let runs = runs.map_err(|error| errno_of(&self.host.name, error))?;
        let extent = |(length, is_mapped)| {
            let flags = if is_mapped { 0 } else { Extent::HOLE | Extent::ZERO };
            Extent { length, flags }
        };
        Ok(runs.into_iter().map(extent).collect())
    }
}

/// Gives whole blocks back. A trim is advice: what it covers of other blocks stays, and so does
/// what a full store has no room to forget, since a snapshot has it as well.
async fn trim<D: Drive>(
    store: &Store<D>,
    volume: VolumeId,
    (offset_bytes, length_bytes): (u64, u64),
    durability: Durability,
) -> Result<(), StoreError> {
    let block_bytes = evenkeel_store::BLOCK_BYTES as u64;
    let start = offset_bytes.next_multiple_of(block_bytes);
    let end = offset_bytes + length_bytes;
    let end = end - end % block_bytes;
    if start < end {
        match store.write_zeroes(volume, start, end - start, durability).await {
            Err(StoreError::NoRoom { .. } | StoreError::MapFull) => {}
            outcome => return outcome,
        }
    }
    match durability {
        Durability::Volatile => Ok(()),
        Durability::Durable => store.flush().await,
    }
}

fn errno_of(store: &str, error: StoreError) -> Errno {
    match error {
        StoreError::OutOfRange { .. } => Errno::Invalid,
        StoreError::ReadOnly(_) => Errno::NotPermitted,
        // Only a thin volume meets these, with every write until there is room again.
        StoreError::NoRoom { .. } | StoreError::MapFull => Errno::NoSpace,
        // Why it has stopped is told once, when it does.
        StoreError::Halted(_) => Errno::Io,
        StoreError::Unreadable { .. } | StoreError::UnknownVolume(_) => {
            tracing::warn!(store, %error, "request failed");
            Errno::Io
        }
        StoreError::NotASnapshot(_)
        | StoreError::VolumeSize
        | StoreError::WouldShrink { .. }
        | StoreError::TooManyVolumes => unreachable!("clients do not change volumes as a whole"),
    }
}
