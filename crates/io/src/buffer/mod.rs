//! Payload buffers: page-aligned, recycled per thread.
//!
//! Drives opened past the page cache want aligned memory, and a fresh allocation per request costs
//! more than the request. So a payload lives in a [`Buf`] from a free list of its size class; the
//! classes are powers of two from one page to the largest payload. The memory is initialised when
//! it is first made and may hold old bytes later: whoever takes one fills what it shows to others.
//!
//! A payload that is granted memory only as it comes [grows](Buf::grow) in a [mapping] of its own.

#![expect(unsafe_code, reason = "pages are viewed as bytes, and made of zeroes")]

mod mapping;

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use mapping::Mapping;

/// Alignment of every buffer: what direct I/O asks for at most.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Bytes that the free lists of one thread keep at most.
const POOL_BYTES_MAX: usize = 16 << 20;

/// Size classes: `PAGE_BYTES << class`, up to 32 MiB.
const CLASSES: usize = 14;

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

struct Pool {
    free: [Vec<Box<[Page]>>; CLASSES],
    bytes: usize,
}

thread_local! {
    static POOL: RefCell<Pool> =
        const { RefCell::new(Pool { free: [const { Vec::new() }; CLASSES], bytes: 0 }) };
}

/// Where the bytes of a buffer are.
enum Memory {
    /// Returns to its thread's pool when dropped.
    Pooled(Box<[Page]>),
    Mapped(Mapping),
}

impl Memory {
    fn size_bytes(&self) -> usize {
        match self {
            Self::Pooled(pages) => pages.len() * PAGE_BYTES,
            Self::Mapped(mapping) => mapping.size_bytes(),
        }
    }
}

/// A page-aligned buffer of a given length.
pub(crate) struct Buf {
    memory: Memory,
    /// At most what the memory has.
    len: usize,
}

impl Buf {
    /// A buffer of `len` bytes with unspecified content.
    pub(crate) fn take(len: usize) -> Self {
        let class = class_of(len);
        let recycled = POOL.with_borrow_mut(|pool| {
            let pages = pool.free.get_mut(class)?.pop()?;
            pool.bytes -= pages.len() * PAGE_BYTES;
            Some(pages)
        });
        let pages = recycled.unwrap_or_else(|| {
            let count = if class < CLASSES { 1 << class } else { len.div_ceil(PAGE_BYTES) };
            let pages = Box::new_zeroed_slice(count);
            // SAFETY: a page is an array of bytes, and zero is a byte.
            unsafe { pages.assume_init() }
        });
        Self { memory: Memory::Pooled(pages), len }
    }

    /// Makes it so long; what is added has unspecified content. Takes no more memory than that,
    /// rounded to pages, where what it has is too small.
    ///
    /// # Panics
    ///
    /// If the kernel has no memory left.
    pub(crate) fn grow(&mut self, len: usize) {
        debug_assert!(len >= self.len);
        if len > self.memory.size_bytes() {
            match &mut self.memory {
                Memory::Mapped(mapping) => mapping.grow(len),
                Memory::Pooled(_) => {
                    let mut grown = Self { memory: Memory::Mapped(Mapping::new(len)), len };
                    grown[..self.len].copy_from_slice(self);
                    *self = grown;
                }
            }
        }
        self.len = len;
    }

    /// A buffer that holds a copy of `bytes`.
    pub(crate) fn copy_of(bytes: &[u8]) -> Self {
        let mut buf = Self::take(bytes.len());
        buf.copy_from_slice(bytes);
        buf
    }
}

fn class_of(len: usize) -> usize {
    len.div_ceil(PAGE_BYTES).max(1).next_power_of_two().trailing_zeros() as usize
}

impl Drop for Buf {
    fn drop(&mut self) {
        let Memory::Pooled(pages) = &mut self.memory else { return };
        let pages = std::mem::take(pages);
        let bytes = pages.len() * PAGE_BYTES;
        let class = class_of(bytes);
        // A thread that is ending has no pool any more; the memory is then simply freed.
        let _ = POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            if class < CLASSES && pool.bytes + bytes <= POOL_BYTES_MAX {
                pool.bytes += bytes;
                pool.free[class].push(pages);
            }
        });
    }
}

impl Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let start = match &self.memory {
            Memory::Pooled(pages) => pages.as_ptr().cast(),
            Memory::Mapped(mapping) => mapping.as_ptr(),
        };
        // SAFETY: both kinds of memory are initialised bytes without padding, contiguous, and
        // `len` is at most their size by construction.
        unsafe { std::slice::from_raw_parts(start, self.len) }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        let start = match &mut self.memory {
            Memory::Pooled(pages) => pages.as_mut_ptr().cast(),
            Memory::Mapped(mapping) => mapping.as_mut_ptr(),
        };
        // SAFETY: as in `deref`; the exclusive borrow of `self` makes the slice exclusive.
        unsafe { std::slice::from_raw_parts_mut(start, self.len) }
    }
}

impl AsRef<[u8]> for Buf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_page_aligned_and_as_long_as_asked() {
        for len in [0, 1, 4096, 4097, 65_536, 3 << 20, 32 << 20] {
            let buf = Buf::take(len);
            assert_eq!(buf.len(), len);
            assert_eq!(buf.as_ptr() as usize % PAGE_BYTES, 0);
        }
    }

    #[test]
    fn a_dropped_buffer_serves_the_next_of_its_class() {
        let first = Buf::take(60_000);
        let address = first.as_ptr();
        drop(first);
        assert_eq!(Buf::take(65_536).as_ptr(), address);
    }

    #[test]
    fn a_buffer_keeps_its_bytes_as_it_grows() {
        let mut buf = Buf::take(5000);
        buf.fill(7);
        for len in [6000, 8192, 8193, 1 << 20, (1 << 20) + 1, 32 << 20] {
            buf.grow(len);
            assert_eq!(buf.len(), len);
            assert_eq!(buf.as_ptr() as usize % PAGE_BYTES, 0);
            assert!(buf[..5000].iter().all(|byte| *byte == 7));
            buf[len - 1] = 1;
        }
    }

    #[test]
    fn the_pool_is_bounded() {
        drop((0..100).map(|_| Buf::take(1 << 20)).collect::<Vec<_>>());
        assert!(POOL.with_borrow(|pool| pool.bytes) <= POOL_BYTES_MAX);
    }
}
