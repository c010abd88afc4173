//! A file that behaves like a drive with zones: for trials where there is none.
//!
//! It refuses what such a drive refuses: a write that is not at the write pointer or beyond the
//! zone, and a read above the pointer. The pointers lie behind the zones:
//!
//! ```text
//! | zone 0 | zone 1 | .. | zone n-1 | A | B | A | B | .. | description |
//!                                    <- 500 zones -> ..
//! ```
//!
//! Each block of pointers has two places, written in turn, so that a cut leaves one of them whole.
//! They are written with every flush, behind the data that they speak of. What a kill or a power
//! cut takes away is thus what it takes from a real drive: everything since the last flush.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use evenkeel_core::crc32c::crc32c;
use evenkeel_store::{BLOCK_BYTES, Buffer, ZoneState, Zoning};

use super::EmulatedZoning;
use crate::buffer::Buf;

const MAGIC: &[u8; 8] = b"evkzones";
const VERSION: u32 = 1;
const BLOCK: u64 = BLOCK_BYTES as u64;

/// Pointers of one block, behind 16 bytes of sequence and checksum.
const POINTERS: usize = 500;
const HEAD_BYTES: usize = 16;

/// Zones that can be partly written at a time: as many as the shingled disks of today allow.
const OPEN_ZONES_MAX: u32 = 128;

/// The pointers of a file. See the [module](self).
#[derive(Debug)]
pub(in crate::store) struct EmulatedZones {
    zoning: Zoning,
    zones: usize,
    pointers: RefCell<Vec<u64>>,
    /// Of each block of pointers: how often it was written, and whether it has changed since.
    blocks: RefCell<Vec<(u64, Cell<bool>)>>,
}

/// Bytes of a file that makes a drive of about so many bytes.
pub(in crate::store) fn file_bytes(size_bytes: u64, wish: &EmulatedZoning) -> u64 {
    let zones = size_bytes / wish.zone_bytes;
    zones * wish.zone_bytes + table_blocks(zones) * BLOCK
}

/// Blocks behind the zones.
fn table_blocks(zones: u64) -> u64 {
    2 * zones.div_ceil(POINTERS as u64) + 1
}

impl EmulatedZones {
    /// Makes a file of the right size a drive with empty zones.
    pub(in crate::store) fn make(
        file: &File,
        size_bytes: u64,
        wish: &EmulatedZoning,
    ) -> io::Result<()> {
        let zones = size_bytes / wish.zone_bytes;
        let mut description = [0; BLOCK_BYTES];
        description[..8].copy_from_slice(MAGIC);
        description[8..12].copy_from_slice(&VERSION.to_le_bytes());
        description[12..16].copy_from_slice(&wish.conventional_zones.to_le_bytes());
        description[16..24].copy_from_slice(&wish.zone_bytes.to_le_bytes());
        description[24..32].copy_from_slice(&zones.to_le_bytes());
        let sum = crc32c(&description[..32]);
        description[32..36].copy_from_slice(&sum.to_le_bytes());
        file.write_all_at(&Buf::copy_of(&description), file_bytes(size_bytes, wish) - BLOCK)
    }

    /// Reads the table of a file; nothing if it is none of these.
    pub(in crate::store) fn find(file: &File, size_bytes: u64) -> io::Result<Option<Self>> {
        if size_bytes < BLOCK || !size_bytes.is_multiple_of(BLOCK) {
            return Ok(None);
        }
        let description = read_block(file, size_bytes - BLOCK)?;
        let Some((zoning, zones)) = decode(&description) else { return Ok(None) };
        if zones.saturating_mul(zoning.zone_bytes) / BLOCK + table_blocks(zones)
            != size_bytes / BLOCK
        {
            return Ok(None);
        }
        let zones = usize::try_from(zones).map_err(io::Error::other)?;
        let mut found = Self {
            zoning,
            zones,
            pointers: RefCell::new(vec![0; zones]),
            blocks: RefCell::new(Vec::new()),
        };
        for block in 0..zones.div_ceil(POINTERS) {
            found.read_pointers(file, block)?;
        }
        Ok(Some(found))
    }

    fn read_pointers(&mut self, file: &File, block: usize) -> io::Result<()> {
        let mut newest = 0;
        for place in 0..2 {
            let bytes = read_block(file, self.place(block, place))?;
            let Some(sequence) = sequence_of(&bytes).filter(|&sequence| sequence > newest) else {
                continue;
            };
            newest = sequence;
            let pointers = self.pointers.get_mut().iter_mut().skip(block * POINTERS);
            for (pointer, bytes) in pointers.zip(bytes[HEAD_BYTES..].chunks_exact(8)).take(POINTERS)
            {
                let bytes = bytes.try_into().expect("chunks of eight bytes");
                *pointer = u64::from_le_bytes(bytes).min(self.zoning.capacity_bytes);
            }
        }
        self.blocks.get_mut().push((newest, Cell::new(false)));
        Ok(())
    }

    /// Where a block of pointers lies: in the first of its places, or the second.
    fn place(&self, block: usize, place: u64) -> u64 {
        self.drive_bytes() + (2 * block as u64 + place) * BLOCK
    }

    /// Bytes of all zones.
    pub(in crate::store) fn drive_bytes(&self) -> u64 {
        self.zones as u64 * self.zoning.zone_bytes
    }

    pub(in crate::store) fn zoning(&self) -> Zoning {
        self.zoning
    }

    pub(in crate::store) fn report(&self) -> Vec<ZoneState> {
        let conventional = self.zoning.conventional_zones as usize;
        let pointers = self.pointers.borrow();
        let states = pointers.iter().enumerate().map(|(zone, &written_bytes)| {
            if zone < conventional {
                ZoneState::Conventional
            } else {
                ZoneState::Sequential { written_bytes }
            }
        });
        states.collect()
    }

    /// Moves a pointer; the next flush makes it durable.
    pub(in crate::store) fn set(&self, start_bytes: u64, written_bytes: u64) {
        let (zone, _) = self.zoning.locate(start_bytes);
        self.pointers.borrow_mut()[zone] = written_bytes;
        self.blocks.borrow()[zone / POINTERS].1.set(true);
    }

    /// A write has come to an end.
    pub(in crate::store) fn wrote(&self, offset_bytes: u64, length_bytes: u64) {
        if self.pointer(offset_bytes).is_some() {
            let (_, start) = self.zoning.locate(offset_bytes);
            self.set(offset_bytes, start + length_bytes);
        }
    }

    /// The pointer of the sequential zone that a place lies in.
    fn pointer(&self, offset_bytes: u64) -> Option<u64> {
        let (zone, _) = self.zoning.locate(offset_bytes);
        let is_sequential = zone >= self.zoning.conventional_zones as usize;
        self.pointers.borrow().get(zone).copied().filter(|_| is_sequential)
    }

    /// Why such a drive does not take this write.
    pub(in crate::store) fn refuse_write(
        &self,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Option<&'static str> {
        let pointer = self.pointer(offset_bytes)?;
        let (_, start) = self.zoning.locate(offset_bytes);
        if start != pointer {
            Some("a write not at the write pointer of its zone")
        } else if start + length_bytes > self.zoning.capacity_bytes {
            Some("a write beyond its zone")
        } else {
            None
        }
    }

    /// Why such a drive does not serve this read.
    pub(in crate::store) fn refuse_read(
        &self,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Option<&'static str> {
        let pointer = self.pointer(offset_bytes)?;
        let (_, start) = self.zoning.locate(offset_bytes);
        (start + length_bytes > pointer).then_some("a read above the write pointer of its zone")
    }

    /// The blocks of pointers that have changed since this was asked before, and where each is to
    /// be written.
    pub(in crate::store) fn take_changed(&self) -> Vec<(u64, Buffer)> {
        let pointers = self.pointers.borrow();
        let mut changed = Vec::new();
        for (block, (sequence, is_changed)) in self.blocks.borrow_mut().iter_mut().enumerate() {
            if !is_changed.replace(false) {
                continue;
            }
            *sequence += 1;
            let some = pointers.chunks(POINTERS).nth(block).expect("a block of pointers");
            changed.push((self.place(block, *sequence % 2), encode(*sequence, some)));
        }
        changed
    }
}

fn read_block(file: &File, offset_bytes: u64) -> io::Result<Vec<u8>> {
    let mut block = Buf::take(BLOCK_BYTES);
    file.read_exact_at(&mut block, offset_bytes)?;
    Ok(block.to_vec())
}

fn decode(description: &[u8]) -> Option<(Zoning, u64)> {
    let u32_at = |at: usize| {
        u32::from_le_bytes(description[at..at + 4].try_into().expect("four bytes of a block"))
    };
    let u64_at = |at: usize| {
        u64::from_le_bytes(description[at..at + 8].try_into().expect("eight bytes of a block"))
    };
    let is_known = description[..8] == *MAGIC
        && u32_at(8) == VERSION
        && u32_at(32) == crc32c(&description[..32]);
    let (zone_bytes, zones) = (u64_at(16), u64_at(24));
    let zoning = Zoning {
        zone_bytes,
        capacity_bytes: zone_bytes,
        conventional_zones: u32_at(12),
        open_zones_max: Some(OPEN_ZONES_MAX),
    };
    (is_known && zone_bytes > 0).then_some((zoning, zones))
}

fn encode(sequence: u64, pointers: &[u64]) -> Buffer {
    let mut block = [0; BLOCK_BYTES];
    block[..8].copy_from_slice(&sequence.to_le_bytes());
    for (bytes, pointer) in block[HEAD_BYTES..].chunks_exact_mut(8).zip(pointers) {
        bytes.copy_from_slice(&pointer.to_le_bytes());
    }
    let sum = sum_of(&block);
    block[8..12].copy_from_slice(&sum.to_le_bytes());
    Buffer::copy_of(&block)
}

/// Of all but the checksum's own bytes.
fn sum_of(block: &[u8]) -> u32 {
    crc32c(&block[HEAD_BYTES..]) ^ crc32c(&block[..8])
}

/// Of a whole block of pointers.
fn sequence_of(block: &[u8]) -> Option<u64> {
    let sequence = u64::from_le_bytes(block[..8].try_into().expect("eight bytes of a block"));
    (block[8..12] == sum_of(block).to_le_bytes()).then_some(sequence)
}
