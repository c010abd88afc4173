//! A drive that is read and never written: what recovery wants to write is dropped, and remembered
//! by its place.
//!
//! So a check runs recovery itself, and not a second idea of it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::buffer::Buffer;
use crate::drive::zone::{ZoneState, Zoning};
use crate::drive::{Drive, DriveError, Durability, Geometry};

/// A drive behind glass. See the [module](self).
#[derive(Debug)]
pub(super) struct ReadOnly<D> {
    inner: D,
    /// Bytes of each write that was dropped, by its offset.
    dropped: RefCell<BTreeMap<u64, u64>>,
}

impl<D> ReadOnly<D> {
    pub(super) fn new(inner: D) -> Self {
        Self { inner, dropped: RefCell::default() }
    }

    /// Whether a write was dropped that would have covered this byte.
    pub(super) fn would_be_written(&self, offset_bytes: u64) -> bool {
        let dropped = self.dropped.borrow();
        let before = dropped.range(..=offset_bytes).next_back();
        before.is_some_and(|(start, length)| offset_bytes < start + length)
    }
}

impl<D: Drive> Drive for ReadOnly<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    async fn read(&self, offset_bytes: u64, length_bytes: usize) -> Result<Buffer, DriveError> {
        self.inner.read(offset_bytes, length_bytes).await
    }

    async fn write(
        &self,
        offset_bytes: u64,
        data: Vec<Buffer>,
        _durability: Durability,
    ) -> Result<(), DriveError> {
        self.geometry().check_write(offset_bytes, &data)?;
        let length_bytes = data.iter().map(|buffer| buffer.len() as u64).sum();
        self.dropped.borrow_mut().insert(offset_bytes, length_bytes);
        Ok(())
    }

    async fn flush(&self) -> Result<(), DriveError> {
        Ok(())
    }

    async fn discard(&self, _offset_bytes: u64, _length_bytes: u64) -> Result<(), DriveError> {
        Ok(())
    }

    fn zoning(&self) -> Option<Zoning> {
        self.inner.zoning()
    }

    async fn report_zones(&self) -> Result<Vec<ZoneState>, DriveError> {
        self.inner.report_zones().await
    }

    /// Nothing happens, and whoever asked is told so: what lies there is still to be looked at.
    async fn reset_zone(&self, _offset_bytes: u64) -> Result<(), DriveError> {
        Err(DriveError::Medium)
    }

    async fn finish_zone(&self, _offset_bytes: u64) -> Result<(), DriveError> {
        Ok(())
    }
}
