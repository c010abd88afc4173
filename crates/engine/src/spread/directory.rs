//! Which notes the servers have, by what their directories say.
//!
//! | copies of a block of a directory | what it lists | what it does not list |
//! |---|---|---|
//! | the newest is whole | is there | was never in force |
//! | a bad one may have been newer | is there | is there if it can be read, and is no older |
//! | none is whole, tables | | is there: slots may hold something |
//! | none is whole, pages | | is there if other keepers say so, or if none can |
//!
//! A directory is written after the notes that it lists, so what it was about to list may be found
//! and counts as well: nobody was told of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::format::directory::{BITS_BYTES, DirectoryPart};
use super::layout::{COPIES, Layout, Note};
use super::reading::{Found, may_be_newer};
use super::volume::{Latest, Volume};
use crate::notes::block::{BLOCK_BYTES, Block, BlockKind, Label};

/// Notes that are read though they are not listed, if that saves a read.
const GAP_MAX: u32 = 32;

/// What was read of the directories, by server and block.
#[derive(Debug, Default)]
pub(super) struct Directories {
    /// The newest copy that is whole.
    found: BTreeMap<(usize, u32), (Found, DirectoryPart)>,
    bad: Vec<BadCopy>,
    /// Blocks of which a bad copy may have been newer than what is used.
    doubtful: BTreeSet<(usize, u32)>,
}

/// A copy that is damaged or cannot be read.
#[derive(Debug)]
struct BadCopy {
    /// Its server and number.
    block: (usize, u32),
    offset: u64,
    /// What is left of it, if it can be read.
    bytes: Option<Box<Block>>,
}

/// What is known of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// It was never in force.
    No,
    /// It counts if it can be read.
    Perhaps,
    /// It is there, or was lost.
    Yes,
}

impl Directories {
    /// Takes a copy of a block that was read at this offset of a server.
    pub(super) fn take(&mut self, volume: &Volume, server: usize, offset: u64, block: &Block) {
        let (Note::Directory(index), copy) = volume.layout.note_at(server, offset) else {
            unreachable!("directories are read alone")
        };
        let part = DirectoryPart::decode(volume.id(), offset, block);
        let Some(part) = part.filter(|part| part.index == index) else {
            if block.iter().any(|byte| *byte != 0) {
                let bytes = Some(Box::new(*block));
                self.bad.push(BadCopy { block: (server, index), offset, bytes });
            }
            return;
        };
        let latest = Latest { number: part.number, copy };
        let found = Found { latest, generation: part.generation };
        let known = self.found.get(&(server, index));
        if known.is_none_or(|(known, _)| known.age() < found.age()) {
            self.found.insert((server, index), (found, part));
        }
    }

    /// The copy at this offset of a server cannot be read.
    pub(super) fn fail(&mut self, layout: &Layout, server: usize, offset: u64) {
        if let (Note::Directory(index), _) = layout.note_at(server, offset) {
            self.bad.push(BadCopy { block: (server, index), offset, bytes: None });
        }
    }

    /// All copies were taken.
    ///
    /// # Errors
    /// A server and an offset: of a block there no copy is whole, and this one may be read later.
    pub(super) fn finish(&mut self, volume: &Volume) -> Result<(), (usize, u64)> {
        for BadCopy { block, offset, bytes } in &self.bad {
            let is_doubtful = match (self.found.get(block), bytes) {
                (None, None) => return Err((block.0, *offset)),
                (None, Some(_)) => false,
                (Some(_), None) => true,
                (Some((found, _)), Some(bytes)) => {
                    let (volume, number) = (volume.id(), found.latest.number);
                    let used = Label { volume, number, offset: *offset };
                    may_be_newer(BlockKind::Directory, (&used, found.generation), bytes)
                }
            };
            if is_doubtful {
                self.doubtful.insert(*block);
            }
        }
        Ok(())
    }

    /// The copy of a block that was written last, if one is whole.
    pub(super) fn latest(&self, server: usize, block: u32) -> Option<Latest> {
        self.found.get(&(server, block)).map(|(found, _)| found.latest)
    }

    /// The generation that wrote the copy in use of the block that tells of a note; 0 if there is
    /// none.
    pub(super) fn generation(&self, layout: &Layout, server: usize, note: Note) -> u64 {
        let block = layout.listed_in(server, note).0;
        self.found.get(&(server, block)).map_or(0, |(found, _)| found.generation)
    }

    /// What a server's own directory says of a note.
    pub(super) fn listed(&self, layout: &Layout, server: usize, note: Note) -> Listed {
        let (block, bit) = layout.listed_in(server, note);
        match (self.found.get(&(server, block)), note) {
            (Some((_, part)), _) if part.has(bit) => Listed::Yes,
            (Some(_), _) if self.doubtful.contains(&(server, block)) => Listed::Perhaps,
            (Some(_), _) => Listed::No,
            (None, Note::Page(_)) => Listed::Perhaps,
            (None, _) => Listed::Yes,
        }
    }

    /// Whether any of these keepers lists a page, or none of them can say.
    pub(super) fn has_page(&self, layout: &Layout, keepers: &[usize], page: u32) -> bool {
        let mut can_say = false;
        for &keeper in keepers {
            let (block, bit) = layout.listed_in(keeper, Note::Page(page));
            if let Some((_, part)) = self.found.get(&(keeper, block)) {
                if part.has(bit) {
                    return true;
                }
                can_say = true;
            }
        }
        !can_say
    }

    /// The notes of a server that are there, or may be, in order.
    pub(super) fn notes<'a>(
        &'a self,
        layout: &'a Layout,
        server: usize,
    ) -> impl Iterator<Item = Note> + use<'a> {
        let is_kept = layout.is_keeper(server);
        let notes = (0..layout.directory_blocks(server)).flat_map(move |block| {
            let part = self.found.get(&(server, block)).map(|(_, part)| part);
            let part = part.filter(|_| !self.doubtful.contains(&(server, block)));
            // Most bytes are zero where a volume is far larger than what is written in it.
            let bytes =
                (0..BITS_BYTES).filter(move |byte| part.is_none_or(|part| part.bits[*byte] != 0));
            let bits = bytes.flat_map(|byte| 8 * byte..8 * byte + 8);
            let bits = bits.filter_map(|bit| u32::try_from(bit).ok());
            let there = bits.filter(move |bit| part.is_none_or(|part| part.has(*bit)));
            there.map_while(move |bit| layout.note_of(server, block, bit))
        });
        notes.filter(move |note| is_kept || !matches!(note, Note::Page(_)))
    }

    /// The bytes of a server in which notes may stand, all copies of them.
    pub(super) fn ranges(&self, layout: &Layout, server: usize) -> Vec<Range<u64>> {
        let mut runs: Vec<(Note, u32)> = Vec::new();
        for note in self.notes(layout, server) {
            let last = runs.last_mut();
            let last = last.and_then(|(first, count)| Some((gap(*first, note)?, count)));
            match last {
                Some((at, count)) if at <= *count + GAP_MAX => *count = at + 1,
                _ => runs.push((note, 1)),
            }
        }
        let range = |(first, count): (Note, u32), copy| {
            let start = layout.note_offset(server, first, copy);
            start..start + u64::from(count) * BLOCK_BYTES
        };
        runs.into_iter().flat_map(|run| (0..COPIES).map(move |copy| range(run, copy))).collect()
    }
}

/// How far one note lies behind another of its kind.
fn gap(first: Note, note: Note) -> Option<u32> {
    match (first, note) {
        (Note::Table(first), Note::Table(block)) => block.checked_sub(first),
        (Note::Page(first), Note::Page(page)) => page.checked_sub(first),
        _ => None,
    }
}
