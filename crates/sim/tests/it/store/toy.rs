//! A toy of a store, right or with one mistake of choice: the crash tests prove themselves on it.
//!
//! ```text
//!   | head A | image A | head B | image B | journal: (record head, its block)* |
//! ```
//!
//! A head names a generation; the whole one with the higher generation counts, with the records of
//! its generation behind it, as far as they are whole and without a gap. A new generation begins at
//! each start and whenever the journal is full. One volume, whole blocks of 4 KiB.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_core::crc32c::crc32c;
use evenkeel_sim::disk::{CrashDisk, SimDrive};
use evenkeel_sim::executor::Clock;
use evenkeel_store::{Buffer, Drive, DriveError, Durability};

use super::history::World;
use super::stamp::{CELL_BYTES, authors, paint};
use super::subject::{Act, Answer, Subject};

const BLOCK: usize = 4096;
const BLOCKS: usize = 4;
const IMAGE: usize = BLOCKS * BLOCK;
const AREA: u64 = (BLOCK + IMAGE) as u64;
const JOURNAL: u64 = 2 * AREA;
const RECORDS: u64 = 6;
const RECORD: u64 = 2 * BLOCK as u64;

/// What a toy may do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    None,
    FlushNothing,
    TrustRecords,
    SkipGaps,
    ForgetGenerations,
    NoBarrier,
    OverwriteNewest,
}

impl Mistake {
    pub(crate) const ALL: [Self; 6] = [
        Self::FlushNothing,
        Self::TrustRecords,
        Self::SkipGaps,
        Self::ForgetGenerations,
        Self::NoBarrier,
        Self::OverwriteNewest,
    ];
}

pub(crate) struct Toy {
    drive: SimDrive,
    mistake: Mistake,
    image: RefCell<Vec<u8>>,
    generation: Cell<u64>,
    records: Cell<u64>,
}

/// A block of numbers, sealed.
fn head(numbers: [u64; 4]) -> Vec<u8> {
    let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    bytes.extend(crc32c(&bytes).to_le_bytes());
    bytes.resize(BLOCK, 0);
    bytes
}

fn read_head(bytes: &[u8]) -> Option<[u64; 4]> {
    let sealed = crc32c(&bytes[..32]).to_le_bytes() == bytes[32..36];
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    sealed.then(|| [number(0), number(8), number(16), number(24)])
}

fn text(error: DriveError) -> String {
    error.to_string()
}

impl Toy {
    async fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let data = vec![Buffer::copy_of(bytes)];
        self.drive.write(offset, data, Durability::Volatile).await.map_err(text)
    }

    async fn barrier(&self) -> Result<(), String> {
        self.drive.flush().await.map_err(text)
    }

    /// Writes the image anew and begins an empty journal.
    async fn begin(&self) -> Result<(), String> {
        let next = self.generation.get() + 1;
        let image = self.image.borrow().clone();
        let side = if self.mistake == Mistake::OverwriteNewest { 0 } else { next % 2 * AREA };
        self.write(side + BLOCK as u64, &image).await?;
        if self.mistake != Mistake::NoBarrier {
            self.barrier().await?;
        }
        let crc = u64::from(crc32c(&image));
        let crc = if self.mistake == Mistake::NoBarrier { 0 } else { crc };
        self.write(side, &head([next, crc, 0, 0])).await?;
        self.barrier().await?;
        self.generation.set(next);
        self.records.set(0);
        Ok(())
    }

    async fn load(&self) -> Result<(), String> {
        for side in [0, AREA] {
            let Ok(bytes) = self.drive.read(side, BLOCK + IMAGE).await else {
                continue;
            };
            let (first, image) = bytes.split_at(BLOCK);
            if let Some([generation, crc, ..]) = read_head(first)
                && (crc == u64::from(crc32c(image)) || crc == 0)
                && generation > self.generation.get()
            {
                self.generation.set(generation);
                *self.image.borrow_mut() = image.to_vec();
            }
        }
        if self.generation.get() == 0 { Err("there is no image".into()) } else { Ok(()) }
    }

    async fn replay(&self) {
        for index in 0..RECORDS {
            let place = JOURNAL + index * RECORD;
            // What the power cut left unreadable was never flushed.
            let Ok(bytes) = self.drive.read(place, 2 * BLOCK).await else {
                return;
            };
            let (first, data) = bytes.split_at(BLOCK);
            let is_ours = |[generation, number, _, crc]: &[u64; 4]| {
                let of_now = *generation == self.generation.get();
                let is_whole = *crc == u64::from(crc32c(data));
                (of_now || self.mistake == Mistake::ForgetGenerations)
                    && *number == index
                    && (is_whole || self.mistake == Mistake::TrustRecords)
            };
            match read_head(first).filter(is_ours) {
                Some([_, _, block, _]) => self.apply(block, data),
                None if self.mistake == Mistake::SkipGaps => {}
                None => return,
            }
        }
    }

    fn apply(&self, block: u64, data: &[u8]) {
        let at = usize::try_from(block).expect("a small image") * BLOCK;
        self.image.borrow_mut()[at..at + BLOCK].copy_from_slice(data);
    }

    async fn append(&self, block: u64, data: &[u8]) -> Result<(), String> {
        if self.records.get() == RECORDS {
            self.begin().await?;
        }
        let index = self.records.replace(self.records.get() + 1);
        let first = head([self.generation.get(), index, block, u64::from(crc32c(data))]);
        self.write(JOURNAL + index * RECORD, &[&first, data].concat()).await?;
        self.apply(block, data);
        Ok(())
    }
}

impl Subject for Toy {
    type Setup = Mistake;

    async fn format(mistake: Mistake, mut drives: Vec<SimDrive>) -> Result<(), String> {
        let drive = drives.remove(0);
        let image = RefCell::new(vec![0; IMAGE]);
        let (generation, records) = (Cell::new(0), Cell::new(0));
        Self { drive, mistake, image, generation, records }.begin().await
    }

    async fn open(
        mistake: Mistake,
        mut drives: Vec<SimDrive>,
        _clock: Clock,
    ) -> Result<Rc<Self>, String> {
        let drive = drives.remove(0);
        let image = RefCell::new(vec![0; IMAGE]);
        let (generation, records) = (Cell::new(0), Cell::new(0));
        let toy = Self { drive, mistake, image, generation, records };
        toy.load().await?;
        toy.replay().await;
        toy.begin().await?;
        Ok(Rc::new(toy))
    }

    async fn perform(&self, act: &Act) -> Result<Answer, String> {
        match *act {
            Act::Paint { first, cells, author, is_forced, .. } => {
                let data = match author {
                    0 => vec![0; cells as usize * CELL_BYTES],
                    author => paint(author, first, cells),
                };
                self.append(u64::from(first / 8), &data).await?;
                if is_forced && self.mistake != Mistake::FlushNothing {
                    self.barrier().await?;
                }
            }
            Act::Flush if self.mistake == Mistake::FlushNothing => {}
            Act::Flush => self.barrier().await?,
            Act::Tidy => self.begin().await?,
            Act::Rest => {}
            Act::Discard { .. }
            | Act::Copy(_)
            | Act::RollBack { .. }
            | Act::Delete(_)
            | Act::Create { .. }
            | Act::Resize { .. } => {
                return Err("a toy can paint and no more".into());
            }
        }
        Ok(Answer::Done)
    }

    async fn contents(&self) -> Result<World, String> {
        let authors = authors(0, &self.image.borrow())?;
        Ok(World { spaces: [(0, Rc::new(authors))].into(), ..World::default() })
    }

    fn blank(_: &Mistake) -> World {
        World::of(&[(0, u32::try_from(IMAGE / CELL_BYTES).expect("a small image"))])
    }

    fn atomic_cells(_: &Mistake) -> u32 {
        8
    }

    fn drives(_: &Mistake) -> Vec<CrashDisk> {
        vec![CrashDisk::new(JOURNAL + RECORDS * RECORD)]
    }
}
