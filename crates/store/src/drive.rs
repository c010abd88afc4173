//! What the store asks of a drive, and what it must not take for granted.
//!
//! A [`Drive`] is a range of bytes that survives a power cut as far as this contract says. Files
//! and block devices stand behind it in the real world, a model with faults in the simulator, and
//! plain memory ([`memory::MemoryDrive`]) in examples and tests.
//!
//! # Contract
//!
//! **Addresses.** Offsets and lengths are bytes, multiples of [`Geometry::block_bytes`], within
//! [`Geometry::size_bytes`], and not empty. Anything else is [`DriveError::Misuse`], which is a bug
//! of the store and touches nothing.
//!
//! **Concurrency.** Any number of operations may be under way; the drive may take them in any
//! order. The store never lets a write or a discard be under way together with another operation
//! that overlaps it. An operation starts when its future is first polled; one whose future is
//! dropped may still happen, wholly, partly or not at all, and at any later time before the next
//! completed [`Drive::flush`] at the latest.
//!
//! **Reading** gives the bytes last written, flushed or not, as long as power stays on. What was
//! never written or was discarded reads as anything at all. The drive does not promise to notice
//! its own damage: bytes may be rotten, stale or another address's, and the store checks them.
//!
//! **Durability.** A write that completed may still vanish in a power cut. Of the writes since the
//! last flush, any subset may survive, in any order, each of them torn between pieces of
//! [`Geometry::atomic_bytes`]. Two things make it stay:
//! - [`Drive::flush`]: all writes that *completed* before the flush was started are durable when it
//!   completes. Nothing is promised about writes that were under way meanwhile.
//! - [`Durability::Durable`] (FUA): this one write is durable when it completes; nothing is said
//!   about earlier ones.
//!
//! **Failed writes.** After a write failed, its range holds old bytes, new ones, or a mixture.
//! **Failed flushes.** After a flush failed, any write since the last good flush may be lost, and a
//! later flush that succeeds does not mean that they are safe: the store must not retry and go on.
//!
//! **Zones.** A drive with [`Drive::zoning`] has zones that are written from front to back alone;
//! see [`zone`]. A write anywhere but at the write pointer of such a zone is
//! [`DriveError::Misuse`].
//!
//! **Time.** A drive answers every operation in bounded time; one that would not is its driver's to
//! give up on, with [`DriveError::Gone`]. After that every operation fails alike: a drive that
//! returns is opened anew, and the store resynchronises it.

use std::fmt;

use crate::buffer::Buffer;

pub mod memory;
pub mod motor;
pub mod zone;

use zone::{ZoneState, Zoning};

/// The measures of a drive; constant while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes in all, a multiple of `block_bytes`.
    pub size_bytes: u64,
    /// Unit of addressing: 512 or 4096. Every offset and length is a multiple of it.
    pub block_bytes: u32,
    /// The largest aligned piece that a power cut leaves either old or new as a whole: 512 or 4096,
    /// at least `block_bytes`.
    pub atomic_bytes: u32,
}

/// When a write counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the drive has taken it; it is durable after the next flush.
    #[default]
    Volatile,
    /// When it is durable (force unit access).
    Durable,
}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveError {
    /// This range cannot be read or written; the rest of the drive may be well.
    Medium,
    /// The drive does not answer, and will not until it is opened anew.
    Gone,
    /// The request broke the contract: a bug of the caller, which the text names.
    Misuse(&'static str),
}

/// A drive. See the [module](self) for the contract.
///
/// Futures are polled on one thread and need not be `Send`.
pub trait Drive {
    /// The measures of the drive.
    fn geometry(&self) -> Geometry;

    /// The bytes of a range.
    fn read(
        &self,
        offset_bytes: u64,
        length_bytes: usize,
    ) -> impl Future<Output = Result<Buffer, DriveError>>;

    /// Writes the buffers one behind the other from `offset_bytes` on. Each buffer is aligned in
    /// memory ([`Buffer::is_aligned`]) and as long as a multiple of the block.
    fn write(
        &self,
        offset_bytes: u64,
        data: Vec<Buffer>,
        durability: Durability,
    ) -> impl Future<Output = Result<(), DriveError>>;

    /// Makes durable what was completely written before.
    fn flush(&self) -> impl Future<Output = Result<(), DriveError>>;

    /// Says that a range is not needed any more. It reads as anything afterwards, old bytes
    /// included. A drive that cannot give space back does nothing and succeeds.
    fn discard(
        &self,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> impl Future<Output = Result<(), DriveError>>;

    /// Whether it has stopped its spindle, so that the next command waits until it turns again.
    fn is_asleep(&self) -> bool {
        false
    }

    /// How it is divided into zones, if it is.
    fn zoning(&self) -> Option<Zoning> {
        None
    }

    /// The state of every zone, in their order; none if there are no zones. Only the state of those
    /// counts that nothing is under way in.
    fn report_zones(&self) -> impl Future<Output = Result<Vec<ZoneState>, DriveError>> {
        async { Ok(Vec::new()) }
    }

    /// Empties the sequential zone that starts there.
    fn reset_zone(&self, _offset_bytes: u64) -> impl Future<Output = Result<(), DriveError>> {
        async { Err(DriveError::Misuse("the drive has no zones")) }
    }

    /// Counts the sequential zone that starts there as full.
    fn finish_zone(&self, _offset_bytes: u64) -> impl Future<Output = Result<(), DriveError>> {
        async { Err(DriveError::Misuse("the drive has no zones")) }
    }
}

impl<D: Drive> Drive for std::rc::Rc<D> {
    fn geometry(&self) -> Geometry {
        (**self).geometry()
    }

    async fn read(&self, offset_bytes: u64, length_bytes: usize) -> Result<Buffer, DriveError> {
        (**self).read(offset_bytes, length_bytes).await
    }

    async fn write(
        &self,
        offset_bytes: u64,
        data: Vec<Buffer>,
        durability: Durability,
    ) -> Result<(), DriveError> {
        (**self).write(offset_bytes, data, durability).await
    }

    async fn flush(&self) -> Result<(), DriveError> {
        (**self).flush().await
    }

    async fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DriveError> {
        (**self).discard(offset_bytes, length_bytes).await
    }

    fn is_asleep(&self) -> bool {
        (**self).is_asleep()
    }

    fn zoning(&self) -> Option<Zoning> {
        (**self).zoning()
    }

    async fn report_zones(&self) -> Result<Vec<ZoneState>, DriveError> {
        (**self).report_zones().await
    }

    async fn reset_zone(&self, offset_bytes: u64) -> Result<(), DriveError> {
        (**self).reset_zone(offset_bytes).await
    }

    async fn finish_zone(&self, offset_bytes: u64) -> Result<(), DriveError> {
        (**self).finish_zone(offset_bytes).await
    }
}

impl Geometry {
    /// Refuses what the contract calls misuse of a range.
    ///
    /// # Errors
    /// [`DriveError::Misuse`] if the range is empty, not of whole blocks, or not within the drive.
    pub fn check_range(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DriveError> {
        let block_bytes = u64::from(self.block_bytes);
        if length_bytes == 0 {
            return Err(DriveError::Misuse("the range is empty"));
        }
        if !offset_bytes.is_multiple_of(block_bytes) || !length_bytes.is_multiple_of(block_bytes) {
            return Err(DriveError::Misuse("the range is not of whole blocks"));
        }
        match offset_bytes.checked_add(length_bytes) {
            Some(end) if end <= self.size_bytes => Ok(()),
            _ => Err(DriveError::Misuse("the range does not lie within the drive")),
        }
    }

    /// Refuses what the contract calls misuse of a write.
    ///
    /// # Errors
    /// [`DriveError::Misuse`] for a bad range, a buffer that is not aligned in memory, and a buffer
    /// that is not of whole blocks.
    pub fn check_write(&self, offset_bytes: u64, data: &[Buffer]) -> Result<(), DriveError> {
        let length_bytes = data.iter().map(|buffer| buffer.len() as u64).sum();
        self.check_range(offset_bytes, length_bytes)?;
        if data.iter().any(|buffer| !buffer.len().is_multiple_of(self.block_bytes as usize)) {
            return Err(DriveError::Misuse("a buffer is not of whole blocks"));
        }
        if !data.iter().all(Buffer::is_aligned) {
            return Err(DriveError::Misuse("a buffer is not aligned in memory"));
        }
        Ok(())
    }
}

impl fmt::Display for DriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Medium => f.write_str("the drive reports an error of its medium"),
            Self::Gone => f.write_str("the drive does not answer"),
            Self::Misuse(what) => write!(f, "the store asked what no drive can do: {what}"),
        }
    }
}

impl std::error::Error for DriveError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_outside_the_contract_are_misuse() {
        let geometry = Geometry { size_bytes: 8192, block_bytes: 512, atomic_bytes: 4096 };
        assert_eq!(geometry.check_range(0, 8192), Ok(()));
        for (offset, length) in [(0, 0), (1, 512), (0, 511), (4096, 8192), (u64::MAX - 511, 512)] {
            let outcome = geometry.check_range(offset, length);
            assert!(matches!(outcome, Err(DriveError::Misuse(_))), "{offset} {length}");
        }
        let aligned = Buffer::zeroed(8192);
        assert!(
            geometry.check_write(4096, std::slice::from_ref(&aligned)).is_err(),
            "past the end"
        );
        assert_eq!(geometry.check_write(0, &[aligned.slice(0..512)]), Ok(()));
        assert!(geometry.check_write(0, &[aligned.slice(512..1024)]).is_err(), "unaligned memory");
        assert!(geometry.check_write(0, &[aligned.slice(0..100)]).is_err(), "no whole block");
    }
}
