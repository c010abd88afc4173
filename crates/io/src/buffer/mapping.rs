//! Memory that grows in place, for bodies whose bytes are slow to come.
//!
//! A client may announce 32 MiB and send a byte a second. An allocator would fill that buffer with
//! zeroes at once, so that 1,000 such clients took 32 GiB that nobody had granted. A mapping is as
//! large as what was granted so far. `mremap` moves its page table entries and not its bytes, and
//! the kernel zeroes what is added as it is touched.

use std::ptr::NonNull;

use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap, munmap};

use super::PAGE_BYTES;

/// Pages of its own, zeroed at first.
pub(super) struct Mapping {
    start: NonNull<u8>,
    size_bytes: usize,
}

impl Mapping {
    /// Maps so many bytes at least.
    ///
    /// # Panics
    ///
    /// If the kernel has no memory left, or no bytes are asked for.
    pub(super) fn new(size_bytes: usize) -> Self {
        let size_bytes = size_bytes.next_multiple_of(PAGE_BYTES);
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the kernel chooses an address where nothing is mapped yet.
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), size_bytes, access, flags) };
        let start = mapped.expect("memory for a request");
        Self { start: NonNull::new(start.cast()).expect("never mapped at zero"), size_bytes }
    }

    /// Adds zeroed pages until it has so many bytes at least. The old ones keep their content.
    ///
    /// # Panics
    ///
    /// If the kernel has no memory left.
    pub(super) fn grow(&mut self, size_bytes: usize) {
        let size_bytes = size_bytes.next_multiple_of(PAGE_BYTES);
        if size_bytes <= self.size_bytes {
            return;
        }
        let start = self.start.as_ptr().cast();
        // SAFETY: the old range is this mapping, which nobody else can point into: `self` is
        // borrowed exclusively, and it never lends a pointer that outlives a borrow.
        let moved = unsafe { mremap(start, self.size_bytes, size_bytes, MremapFlags::MAYMOVE) };
        let start = moved.expect("memory for a request");
        self.start = NonNull::new(start.cast()).expect("never mapped at zero");
        self.size_bytes = size_bytes;
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, and nothing borrows from it any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.size_bytes) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

// SAFETY: it owns its pages as a box does; none of them is tied to a thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for Mapping {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_keeps_its_bytes_as_it_grows_and_adds_zeroes() {
        let mut mapping = Mapping::new(1);
        assert_eq!(mapping.size_bytes(), PAGE_BYTES);
        // SAFETY: a page is mapped.
        unsafe { mapping.as_mut_ptr().write_bytes(7, PAGE_BYTES) };
        for size_bytes in [2, 5 * PAGE_BYTES - 1, 32 << 20] {
            mapping.grow(size_bytes);
            assert!(mapping.size_bytes() >= size_bytes);
        }
        let size_bytes = mapping.size_bytes();
        // SAFETY: so many bytes are mapped, and nobody writes to them now.
        let bytes = unsafe { std::slice::from_raw_parts(mapping.as_ptr(), size_bytes) };
        assert!(bytes[..PAGE_BYTES].iter().all(|byte| *byte == 7));
        assert!(bytes[PAGE_BYTES..].iter().all(|byte| *byte == 0));
    }
}
