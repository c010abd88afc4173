//! A part of a volume that is copied to another place while clients go on writing to it.
//!
//! ```text
//! clients write: what they wrote is copied again       clients' writes are held
//! |---------------------------------------------|------------------------------------|
//! read, write, read, write, ..    little is left: drain, read, write the rest: both alike
//! ```
//!
//! It is copied in up to 64 parts, of which a bit each says whether it is still to be copied.

use evenkeel_core::time::Nanos;

use super::STEP_BYTES_MAX;

/// How many times over something may be copied before that is given up.
pub const PASSES_MAX: u64 = 4;
/// Most parts whose copying is kept apart, and the least bytes of one.
const PARTS_MAX: u64 = 64;
const PART_BYTES_MIN: u64 = 4096;

/// Bytes that are copied in one go, from the start of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// What is copied, and how far.
#[derive(Debug)]
pub(crate) struct Copying {
    bytes: u64,
    /// Bytes of a part.
    part_bytes: u64,
    /// Bytes that are copied in one go, at most.
    step_bytes: u64,
    /// A bit for each part that is not yet copied as it is.
    dirty: u64,
    copied_bytes: u64,
    /// Since when writes are held.
    held_since: Option<Nanos>,
    /// Writes under way, counted once they are held.
    writers: u32,
}

impl Copying {
    /// So many bytes, of which nothing is copied; a power of two, 64 KiB at least.
    pub(crate) fn new(bytes: u64) -> Self {
        let part_bytes = (bytes / PARTS_MAX).max(PART_BYTES_MIN);
        let dirty = u64::MAX >> (PARTS_MAX - bytes / part_bytes);
        Self {
            bytes,
            part_bytes,
            step_bytes: STEP_BYTES_MAX,
            dirty,
            copied_bytes: 0,
            held_since: None,
            writers: 0,
        }
    }

    /// The same, with so many bytes in one go at most, but a part at least.
    pub(crate) fn in_steps_of(self, step_bytes: u64) -> Self {
        Self { step_bytes: step_bytes.clamp(self.part_bytes, STEP_BYTES_MAX), ..self }
    }

    /// Bytes that were copied, again and again included.
    pub(crate) fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }

    /// Since when writes are held, if they are.
    pub(crate) fn held_since(&self) -> Option<Nanos> {
        self.held_since
    }

    /// From now on writes are held.
    pub(crate) fn hold(&mut self, now: Nanos) {
        self.held_since = Some(now);
    }

    /// So many writes were under way when writes began to be held.
    pub(crate) fn drain(&mut self, writers: u32) {
        self.writers = writers;
    }

    /// Whether none of them is left.
    pub(crate) fn is_drained(&self) -> bool {
        self.writers == 0
    }

    /// A write is over, well or not: what it touched has to be copied again. `offset` counts from
    /// the start of the whole. True if it was the last to wait for.
    pub(crate) fn write_ended(&mut self, offset: u64, length: u64, is_to_copy: bool) -> bool {
        if is_to_copy && length > 0 {
            self.mark(offset, length);
        }
        self.held_since.is_some() && self.writers > 0 && {
            self.writers -= 1;
            self.writers == 0
        }
    }

    /// Whether all was copied once.
    pub(crate) fn has_passed(&self) -> bool {
        self.dirty == 0 || self.copied_bytes >= self.bytes
    }

    /// Whether so little is left that writes may be held for it: an eighth, after all was copied
    /// once.
    pub(crate) fn is_nearly_copied(&self) -> bool {
        let little = (self.bytes / self.part_bytes / 8).max(1);
        let left = u64::from(self.dirty.count_ones());
        left == 0 || self.copied_bytes >= self.bytes && left <= little
    }

    /// Whether it was copied so often that clients write faster than that.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.copied_bytes >= PASSES_MAX * self.bytes
    }

    /// These bytes have to be copied again.
    fn mark(&mut self, offset: u64, length: u64) {
        let first = offset / self.part_bytes;
        let last = (offset + length - 1) / self.part_bytes;
        self.dirty |= u64::MAX >> (PARTS_MAX - 1 - (last - first)) << first;
    }

    /// The next parts to copy, which count as copied from now on.
    pub(crate) fn take_run(&mut self) -> Option<Run> {
        if self.dirty == 0 {
            return None;
        }
        let first = self.dirty.trailing_zeros();
        let following = u64::from((self.dirty >> first).trailing_ones());
        let parts = following.min(self.step_bytes / self.part_bytes);
        self.dirty &= !(u64::MAX >> (PARTS_MAX - parts) << first);
        let offset = u64::from(first) * self.part_bytes;
        Some(Run { offset, length: parts * self.part_bytes })
    }

    /// Nobody knows what became of what was copied: all of it is copied again.
    pub(crate) fn begin_anew(&mut self) {
        self.dirty = u64::MAX >> (PARTS_MAX - self.bytes / self.part_bytes);
    }

    /// A run was copied.
    pub(crate) fn copied(&mut self, run: Run) {
        self.copied_bytes += run.length;
    }
}
