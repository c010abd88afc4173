//! Payload memory: aligned for direct I/O, shared without copying.
//!
//! A [`BufferMut`] has one owner, who fills it; [`BufferMut::freeze`] makes it a [`Buffer`], which
//! nobody changes any more and which any number of holders share: the client's write, the record
//! that carries it to two drives, a cache. A slice of a buffer is a buffer.
//!
//! ```text
//! one allocation  |  4 KiB  |  4 KiB  |  4 KiB  |
//! whole           <----------------------------->
//! slice(4096..)             <------------------->
//! ```
//!
//! Memory that is already aligned elsewhere (the page pool of a network driver) becomes a buffer by
//! [`Buffer::adopt`], again without a copy.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

/// Alignment in memory of every buffer made here: what direct I/O asks for at most.
pub const ALIGN_BYTES: usize = 4096;

/// Bytes with one owner, aligned to [`ALIGN_BYTES`].
pub struct BufferMut {
    /// Longer than needed, so that an aligned start lies within. It is never made longer, so that
    /// it never moves.
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

/// Bytes that nobody changes any more, shared by their holders. See the [module](self).
#[derive(Clone)]
pub struct Buffer {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    start: usize,
    length: usize,
}

impl BufferMut {
    /// `length` zeroes.
    pub fn zeroed(length: usize) -> Self {
        let memory = vec![0; length + ALIGN_BYTES - 1];
        let start = padding(&memory);
        Self { memory, start, length }
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let length = bytes.len();
        let mut memory = Vec::with_capacity(length + ALIGN_BYTES - 1);
        let start = padding(&memory);
        memory.resize(start, 0);
        memory.extend_from_slice(bytes);
        Self { memory, start, length }
    }

    /// Ends the time of changes.
    pub fn freeze(self) -> Buffer {
        Buffer { length: self.length, start: 0, owner: Arc::new(self) }
    }
}

/// Bytes up to the first aligned one.
fn padding(memory: &[u8]) -> usize {
    memory.as_ptr().addr().wrapping_neg() % ALIGN_BYTES
}

impl Buffer {
    /// A copy of `bytes` in aligned memory.
    pub fn copy_of(bytes: &[u8]) -> Self {
        BufferMut::copy_of(bytes).freeze()
    }

    /// `length` zeroes.
    pub fn zeroed(length: usize) -> Self {
        BufferMut::zeroed(length).freeze()
    }

    /// Shares memory that belongs to somebody else; it is returned by dropping `owner` with the
    /// last buffer. The owner must give the same slice, with the same content, at every call.
    pub fn adopt(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        let length = (*owner).as_ref().len();
        Self { owner, start: 0, length }
    }

    /// A part of this buffer, sharing its memory. The range lies within the buffer.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.length, "a slice lies within");
        Self {
            owner: Arc::clone(&self.owner),
            start: self.start + range.start,
            length: range.len(),
        }
    }

    /// Whether direct I/O can take it: the memory starts on a multiple of [`ALIGN_BYTES`].
    pub fn is_aligned(&self) -> bool {
        self.as_ptr().addr().is_multiple_of(ALIGN_BYTES)
    }

    /// This buffer if it is aligned, else an aligned copy.
    #[must_use]
    pub fn into_aligned(self) -> Self {
        if self.is_aligned() { self } else { Self::copy_of(&self) }
    }
}

impl Deref for BufferMut {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }
}

impl DerefMut for BufferMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

impl AsRef<[u8]> for BufferMut {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.start..self.start + self.length]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Buffer {
    /// By content.
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Buffer {}

impl fmt::Debug for BufferMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufferMut({} bytes)", self.length)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_as_long_as_asked() {
        for length in [0, 1, 512, 4096, 4097, 1 << 20] {
            let (buffer, copy) = (Buffer::zeroed(length), Buffer::copy_of(&vec![7; length]));
            assert!(buffer.is_aligned() && copy.is_aligned());
            assert_eq!((&*buffer, &*copy), (&*vec![0; length], &*vec![7; length]));
        }
    }

    #[test]
    fn a_slice_shares_the_memory() {
        let bytes: Vec<u8> = (0..=255).cycle().take(8192).collect();
        let whole = Buffer::copy_of(&bytes);
        let tail = whole.slice(4096..8192);
        assert_eq!(tail.as_ptr(), whole[4096..].as_ptr());
        let inner = tail.slice(1..3);
        drop((whole, tail));
        assert_eq!(*inner, [1, 2]);
        assert!(!inner.is_aligned());
        assert!(inner.into_aligned().is_aligned());
    }

    #[test]
    fn foreign_memory_is_adopted_in_place() {
        let owner: Arc<Vec<u8>> = Arc::new(vec![7; 10]);
        let address = owner.as_ptr();
        let buffer = Buffer::adopt(Arc::clone(&owner) as Arc<dyn AsRef<[u8]> + Send + Sync>);
        assert_eq!((buffer.as_ptr(), buffer.len()), (address, 10));
        drop(buffer);
        assert_eq!(Arc::strong_count(&owner), 1);
    }
}
