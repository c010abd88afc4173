//! A disk in memory: sparse, gone when the gate stops.
//!
//! Two levels: a vector of regions, each a table of chunks made when first written. Untouched and
//! trimmed chunks read as zeroes and cost nothing. Chunks are shared with answers that are being
//! sent: reading copies nothing, a write of a whole chunk puts its payload in the chunk's place,
//! and any other write to a chunk that is being sent copies it first.

use std::ops::Range;
use std::sync::Arc;

use crate::buffer::Buf;

/// Bytes per chunk: the grain of allocation and of holes.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks per region.
const REGION_CHUNKS: usize = 512;

/// Chunks that one answer about allocation looks at: 4 GiB.
const STATUS_CHUNKS_MAX: usize = 65_536;

type Chunk = Arc<Buf>;
type Region = Vec<Option<Chunk>>;

/// A sparse disk in memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryDisk {
    regions: Vec<Option<Region>>,
    size_bytes: u64,
}

/// A part of a range that lies in one chunk.
struct Piece {
    chunk: usize,
    start: usize,
    len: usize,
}

/// Cuts `offset..offset + length` at chunk boundaries.
fn pieces(offset: u64, length: u64) -> impl Iterator<Item = Piece> {
    let end = offset + length;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let start = usize::try_from(at % CHUNK_BYTES as u64).expect("less than a chunk");
        let left = usize::try_from(end - at).unwrap_or(usize::MAX);
        let len = left.min(CHUNK_BYTES - start);
        let chunk = usize::try_from(at / CHUNK_BYTES as u64).expect("chunks fit the address space");
        at += len as u64;
        Some(Piece { chunk, start, len })
    })
}

/// Whether a range lies in one chunk, so that reading it yields one piece.
pub(crate) fn is_contiguous(offset: u64, length: u64) -> bool {
    length > 0 && offset / CHUNK_BYTES as u64 == (offset + length - 1) / CHUNK_BYTES as u64
}

impl MemoryDisk {
    /// A disk of `size_bytes`, all zeroes.
    pub(crate) fn new(size_bytes: u64) -> Self {
        let regions = size_bytes.div_ceil((CHUNK_BYTES * REGION_CHUNKS) as u64);
        let regions = usize::try_from(regions).expect("the table fits the address space");
        Self { regions: vec![None; regions], size_bytes }
    }

    /// Its size.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Hands out the content of a range, piece by piece; `None` stands for that many zeroes.
    pub(crate) fn read(
        &self,
        offset: u64,
        length: u64,
        mut take: impl FnMut(Option<&Arc<Buf>>, Range<usize>),
    ) {
        for piece in pieces(offset, length) {
            take(self.chunk(piece.chunk), piece.start..piece.start + piece.len);
        }
    }

    /// Replaces the content at `offset` by a part of a payload.
    pub(crate) fn write(&mut self, offset: u64, payload: &Arc<Buf>, range: Range<usize>) {
        let mut from = range.start;
        for piece in pieces(offset, range.len() as u64) {
            let slot = self.slot_mut(piece.chunk);
            if piece.len == CHUNK_BYTES && payload.len() == CHUNK_BYTES {
                *slot = Some(Arc::clone(payload));
            } else {
                let data = &payload[from..from + piece.len];
                own(slot)[piece.start..piece.start + piece.len].copy_from_slice(data);
            }
            from += piece.len;
        }
    }

    /// Makes a range read as zeroes; chunks inside it are given back.
    pub(crate) fn zero(&mut self, offset: u64, length: u64) {
        for piece in pieces(offset, length) {
            let Some(slot) = self.slot(piece.chunk) else { continue };
            if piece.len == CHUNK_BYTES {
                *slot = None;
            } else if slot.is_some() {
                own(slot)[piece.start..piece.start + piece.len].fill(0);
            }
        }
    }

    /// Runs of present or absent data in a range, as `(length, is_hole)`.
    pub(crate) fn extents(&self, offset: u64, length: u64) -> Vec<(u64, bool)> {
        let mut runs: Vec<(u64, bool)> = Vec::new();
        // An answer may stop short of the range; a long one must not keep others waiting.
        for piece in pieces(offset, length).take(STATUS_CHUNKS_MAX) {
            let hole = self.chunk(piece.chunk).is_none();
            match runs.last_mut() {
                Some((len, same)) if *same == hole => *len += piece.len as u64,
                _ => runs.push((piece.len as u64, hole)),
            }
        }
        runs
    }

    fn chunk(&self, index: usize) -> Option<&Chunk> {
        self.regions[index / REGION_CHUNKS].as_ref()?[index % REGION_CHUNKS].as_ref()
    }

    fn slot(&mut self, index: usize) -> Option<&mut Option<Chunk>> {
        Some(&mut self.regions[index / REGION_CHUNKS].as_mut()?[index % REGION_CHUNKS])
    }

    fn slot_mut(&mut self, index: usize) -> &mut Option<Chunk> {
        let region =
            self.regions[index / REGION_CHUNKS].get_or_insert_with(|| vec![None; REGION_CHUNKS]);
        &mut region[index % REGION_CHUNKS]
    }
}

/// A chunk to write to: made if there is none, copied if it is being sent.
fn own(slot: &mut Option<Chunk>) -> &mut Buf {
    let chunk = slot.get_or_insert_with(|| {
        let mut fresh = Buf::take(CHUNK_BYTES);
        fresh.fill(0);
        Arc::new(fresh)
    });
    if Arc::get_mut(chunk).is_none() {
        *chunk = Arc::new(Buf::copy_of(chunk));
    }
    Arc::get_mut(chunk).expect("nobody else has a fresh copy")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(disk: &MemoryDisk, offset: u64, length: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        disk.read(offset, length, |chunk, range| match chunk {
            Some(chunk) => bytes.extend_from_slice(&chunk[range]),
            None => bytes.resize(bytes.len() + range.len(), 0),
        });
        bytes
    }

    fn write(disk: &mut MemoryDisk, offset: u64, data: &[u8]) {
        disk.write(offset, &Arc::new(Buf::copy_of(data)), 0..data.len());
    }

    #[test]
    fn what_is_being_sent_does_not_change() {
        let mut disk = MemoryDisk::new(1 << 20);
        write(&mut disk, 0, &vec![1; CHUNK_BYTES]);
        let mut sending = None;
        disk.read(0, 4096, |chunk, _| sending = chunk.cloned());
        write(&mut disk, 0, &[2; 4096]);
        write(&mut disk, 0, &vec![3; CHUNK_BYTES]);
        assert_eq!(sending.expect("data")[0], 1);
        assert_eq!(content(&disk, 4095, 2), [3, 3]);
    }

    #[test]
    fn what_is_written_is_read_back_over_chunk_borders() {
        let mut disk = MemoryDisk::new(1 << 30);
        let data: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        write(&mut disk, 65_000, &data);
        assert_eq!(content(&disk, 65_000, 200_000), data);
        assert_eq!(content(&disk, 64_998, 3), [0, 0, 0]);
    }

    #[test]
    fn zeroed_chunks_are_given_back_and_seen_as_holes() {
        let mut disk = MemoryDisk::new(1 << 20);
        write(&mut disk, 0, &vec![1; 3 * CHUNK_BYTES]);
        disk.zero(100, 2 * CHUNK_BYTES as u64);
        let chunk = CHUNK_BYTES as u64;
        assert_eq!(
            disk.extents(0, 4 * chunk),
            [(chunk, false), (chunk, true), (chunk, false), (chunk, true)]
        );
        assert_eq!(content(&disk, 99, 2), [1, 0]);
        assert_eq!(content(&disk, 100 + 2 * chunk - 1, 2), [0, 1]);
    }
}
