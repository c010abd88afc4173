//! The notes of all servers as they are read: of each block the newest copy that is whole.

use std::collections::BTreeMap;

use evenkeel_core::place::choices::PAGE_BYTES;

use super::directory::{Directories, Listed};
use super::format::choices::{Page, Passed};
use super::format::table::TablePart;
use super::layout::{Layout, Note};
use super::rules::{Mutant, Rules};
use super::table::Entries;
use super::volume::{Latest, Volume};
use crate::lease::Half;
use crate::notes::block::{Block, BlockKind, Label, u64_at, was_older};

/// What was read so far.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) directories: Directories,
    /// By server and block of its table.
    pub(super) tables: Vec<BTreeMap<u32, FoundBlock>>,
    /// By server and page; of keepers.
    pub(super) pages: Vec<BTreeMap<u32, Found>>,
    /// By page: its newest version that counts.
    pub(super) newest: BTreeMap<u32, Newest>,
    /// Blocks that cannot be read, by server and offset in bytes.
    pub(super) unreadable: Vec<(usize, u64)>,
    /// Blocks of tables that are damaged, likewise.
    pub(super) damaged: Vec<(usize, u64, Box<Block>)>,
    /// A server that was away: of its table counts what choices name, of its choices nothing.
    pub(super) returning: Option<usize>,
    pub(super) rules: Rules,
}

/// A block of a table that is whole, with its entries until they are taken.
pub(super) type FoundBlock = (Found, Option<Box<Entries>>);

/// The newest version of a page.
#[derive(Debug)]
pub(super) struct Newest {
    /// See [`Found::age`].
    pub(super) age: (u64, u64),
    pub(super) passed: Passed,
    /// None where nothing is chosen.
    pub(super) bits: Option<Box<[u8; PAGE_BYTES]>>,
}

impl Newest {
    fn of(page: &Page) -> Self {
        let is_blank = page.bits.iter().all(|byte| *byte == 0);
        let bits = (!is_blank).then(|| Box::new(page.bits));
        Self { age: (page.generation, page.number), passed: page.passed, bits }
    }
}

/// A block that is whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) latest: Latest,
    /// The generation that wrote it.
    pub(super) generation: u64,
}

impl Found {
    /// By this the newest one is known: whatever an owner writes that has been displaced is older.
    pub(super) fn age(&self) -> (u64, u64) {
        (self.generation, self.latest.number)
    }

    /// Whether it may not be durable, or an earlier owner may still write over it.
    pub(super) fn is_unsure(&self, settled: u64, half: Half) -> bool {
        self.generation >= settled || Half::of_copy(self.latest.copy) != half
    }
}

impl Reading {
    /// Nothing was read of so many servers but their directories.
    pub(super) fn new(
        directories: Directories,
        servers: usize,
        returning: Option<usize>,
        rules: Rules,
    ) -> Self {
        Self {
            directories,
            tables: (0..servers).map(|_| BTreeMap::new()).collect(),
            pages: vec![BTreeMap::new(); servers],
            newest: BTreeMap::new(),
            unreadable: Vec::new(),
            damaged: Vec::new(),
            returning,
            rules,
        }
    }

    /// What the directory of its server says of a note.
    pub(super) fn listed(&self, layout: &Layout, server: usize, note: Note) -> Listed {
        self.directories.listed(layout, server, note)
    }

    /// Takes a block that was read at this offset of a server; damage is passed over, and so is
    /// what was never in force.
    pub(super) fn take(&mut self, volume: &Volume, server: usize, offset: u64, block: &Block) {
        let (note, copy) = volume.layout.note_at(server, offset);
        let listed = self.listed(&volume.layout, server, note);
        if listed == Listed::No {
            return;
        }
        // What was not listed when the directory in use was written was not in force then.
        let since = match listed {
            Listed::Perhaps => self.directories.generation(&volume.layout, server, note),
            _ => 0,
        };
        match note {
            Note::Directory(_) => unreachable!("directories were read before"),
            Note::Table(position) => {
                let part = TablePart::decode(volume.id(), offset, block);
                if let Some(part) = part.filter(|part| part.index == position) {
                    if part.generation >= since {
                        self.take_table(server, part, copy);
                    }
                } else if block.iter().any(|byte| *byte != 0) {
                    self.damaged.push((server, offset, Box::new(*block)));
                }
            }
            Note::Page(position) => {
                let page = Page::decode(volume.id(), offset, block);
                let page = page.filter(|page| page.index == position && page.generation >= since);
                if let Some(page) = page {
                    self.take_page(server, &page, copy);
                }
            }
        }
    }

    /// The block at this offset of a server cannot be read.
    pub(super) fn fail(&mut self, layout: &Layout, server: usize, offset: u64) {
        let (note, _) = layout.note_at(server, offset);
        if self.listed(layout, server, note) != Listed::No {
            self.unreadable.push((server, offset));
        }
    }

    fn take_table(&mut self, server: usize, part: TablePart, copy: u64) {
        let known = self.tables[server].get(&part.index);
        let found =
            Found { latest: Latest { number: part.number, copy }, generation: part.generation };
        if known.is_none_or(|(known, _)| known.age() < found.age()) {
            self.tables[server].insert(part.index, (found, Some(part.entries)));
        }
    }

    fn take_page(&mut self, keeper: usize, page: &Page, copy: u64) {
        let known = self.pages[keeper].get(&page.index);
        let found =
            Found { latest: Latest { number: page.number, copy }, generation: page.generation };
        if known.is_none_or(|known| known.age() < found.age()) {
            self.pages[keeper].insert(page.index, found);
        }
        if self.returning == Some(keeper) && !self.rules.is_broken(Mutant::TrustReturned) {
            return;
        }
        let newest = self.newest.get(&page.index);
        if newest.is_none_or(|known| known.age < found.age()) {
            self.newest.insert(page.index, Newest::of(page));
        }
    }
}

/// Whether a damaged copy of a note may have been newer than the one that is used, which has this
/// label and generation: by what is left of it, and unless just that is what is damaged.
pub(super) fn may_be_newer(
    kind: BlockKind,
    (used, generation): (&Label, u64),
    damaged: &Block,
) -> bool {
    !was_older(kind, used, damaged) || u64_at(damaged, 48) > generation
}
