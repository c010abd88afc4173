//! A drive in memory: every operation completes at once and is durable at once.
//!
//! It models no failure. Tests that cut the power use a drive that has a volatile cache.

use std::cell::RefCell;

use super::{Drive, DriveError, Durability, Geometry};
use crate::buffer::Buffer;

/// A drive in memory. See the [module](self).
#[derive(Debug)]
pub struct MemoryDrive {
    geometry: Geometry,
    bytes: RefCell<Vec<u8>>,
}

impl MemoryDrive {
    /// A drive of zeroes.
    pub fn new(geometry: Geometry) -> Self {
        let size = usize::try_from(geometry.size_bytes).expect("a drive in memory fits memory");
        Self { geometry, bytes: RefCell::new(vec![0; size]) }
    }

    /// Changes the content behind the store's back, as bit rot or a confused operator would.
    pub fn tamper(&self, change: impl FnOnce(&mut [u8])) {
        change(&mut self.bytes.borrow_mut());
    }
}

fn index(offset_bytes: u64) -> usize {
    usize::try_from(offset_bytes).expect("the range was checked against a size that fits memory")
}

impl Drive for MemoryDrive {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, offset_bytes: u64, length_bytes: usize) -> Result<Buffer, DriveError> {
        self.geometry.check_range(offset_bytes, length_bytes as u64)?;
        Ok(Buffer::copy_of(&self.bytes.borrow()[index(offset_bytes)..][..length_bytes]))
    }

    async fn write(
        &self,
        offset_bytes: u64,
        data: Vec<Buffer>,
        _durability: Durability,
    ) -> Result<(), DriveError> {
        self.geometry.check_write(offset_bytes, &data)?;
        let mut at = index(offset_bytes);
        let mut bytes = self.bytes.borrow_mut();
        for buffer in data {
            bytes[at..at + buffer.len()].copy_from_slice(&buffer);
            at += buffer.len();
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), DriveError> {
        Ok(())
    }

    async fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DriveError> {
        self.geometry.check_range(offset_bytes, length_bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// The outcome of a future that never waits.
    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => panic!("memory never waits"),
        }
    }

    #[test]
    fn what_was_gathered_in_a_write_is_read_back() {
        let geometry = Geometry { size_bytes: 1 << 16, block_bytes: 512, atomic_bytes: 512 };
        let drive = MemoryDrive::new(geometry);
        let data = vec![Buffer::copy_of(&[1; 512]), Buffer::copy_of(&[2; 1024])];
        now(drive.write(1024, data, Durability::Volatile)).unwrap();
        now(drive.flush()).unwrap();
        let read = now(drive.read(512, 2048)).unwrap();
        let expected: Vec<u8> =
            [(0, 512), (1, 512), (2, 1024)].iter().flat_map(|&(b, n)| vec![b; n]).collect();
        assert_eq!(*read, *expected);
        assert!(now(drive.read(1 << 16, 512)).is_err());
        assert!(now(drive.discard(0, 512)).is_ok());
    }
}
