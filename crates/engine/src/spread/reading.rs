//! What the notes of all servers come to: where each object lies, what is lost, and what has to be
//! written again.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::place::choices::PAGE_BYTES;

use super::format::choices::{Page, Passed};
use super::format::table::{Entry, TablePart};
use super::layout::{ENTRIES_PER_BLOCK, Layout, Note};
use super::place::Place;
use super::rules::{Mutant, Rules};
use super::volume::{Latest, Volume};
use crate::lease::Half;
use crate::notes::block::{Block, BlockKind, Label, was_older};

/// What was read so far.
#[derive(Debug)]
pub(super) struct Reading {
    /// By server and block: the newest copy that is whole.
    tables: Vec<Vec<Option<Found>>>,
    entries: Vec<Vec<Option<Entry>>>,
    /// By server and page: likewise; of keepers.
    pages: Vec<Vec<Option<Found>>>,
    /// By page: its newest version that counts.
    newest: Vec<Option<Newest>>,
    /// Blocks that cannot be read, by server and offset in bytes.
    pub(super) unreadable: Vec<(usize, u64)>,
    /// Blocks of tables that are damaged, likewise.
    damaged: Vec<(usize, u64, Box<Block>)>,
    /// A server that was away: of its table counts what choices name, of its choices nothing.
    returning: Option<usize>,
    rules: Rules,
}

/// The newest version of a page.
#[derive(Debug)]
struct Newest {
    /// See [`Found::age`].
    age: (u64, u64),
    passed: Passed,
    /// None where nothing is chosen, as on most pages of a volume that is far larger than what is
    /// written in it.
    bits: Option<Box<[u8; PAGE_BYTES]>>,
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
struct Found {
    latest: Latest,
    /// The generation that wrote it.
    generation: u64,
}

impl Found {
    /// By this the newest one is known: whatever an owner writes that has been displaced is older.
    fn age(&self) -> (u64, u64) {
        (self.generation, self.latest.number)
    }

    /// Whether it may not be durable, or an earlier owner may still write over it.
    fn is_unsure(&self, settled: u64, half: Half) -> bool {
        self.generation >= settled || Half::of_copy(self.latest.copy) != half
    }
}

/// What has to be written again, by server, where the volume says.
pub(super) type Rewrites = BTreeSet<(usize, Note)>;

impl Reading {
    pub(super) fn new(layout: &Layout, returning: Option<usize>, rules: Rules) -> Self {
        let blocks = |server| layout.table_blocks(server) as usize;
        let servers = || 0..layout.servers.len();
        let pages = layout.pages as usize;
        let entries = |server| vec![None; blocks(server) * ENTRIES_PER_BLOCK as usize];
        Self {
            tables: servers().map(|server| vec![None; blocks(server)]).collect(),
            entries: servers().map(entries).collect(),
            pages: servers()
                .map(|server| vec![None; if layout.is_keeper(server) { pages } else { 0 }])
                .collect(),
            newest: (0..pages).map(|_| None).collect(),
            unreadable: Vec::new(),
            damaged: Vec::new(),
            returning,
            rules,
        }
    }

    /// Takes a block that was read at this offset of a server; damage is passed over.
    pub(super) fn take(&mut self, volume: &Volume, server: usize, offset: u64, block: &Block) {
        match volume.layout.note_at(server, offset) {
            (Note::Table(position), copy) => {
                let part = TablePart::decode(volume.id, offset, block);
                if let Some(part) = part.filter(|part| part.index == position) {
                    self.take_table(server, &part, copy);
                } else if block.iter().any(|byte| *byte != 0) {
                    self.damaged.push((server, offset, Box::new(*block)));
                }
            }
            (Note::Page(position), copy) => {
                let page = Page::decode(volume.id, offset, block);
                if let Some(page) = page.filter(|page| page.index == position) {
                    self.take_page(server, &page, copy);
                }
            }
        }
    }

    fn take_table(&mut self, server: usize, part: &TablePart, copy: u64) {
        let known = &mut self.tables[server][part.index as usize];
        let found =
            Found { latest: Latest { number: part.number, copy }, generation: part.generation };
        if known.is_none_or(|known| known.age() < found.age()) {
            *known = Some(found);
            let start = (part.index * ENTRIES_PER_BLOCK) as usize;
            self.entries[server][start..start + part.entries.len()].copy_from_slice(&part.entries);
        }
    }

    fn take_page(&mut self, keeper: usize, page: &Page, copy: u64) {
        let index = page.index as usize;
        let known = &mut self.pages[keeper][index];
        let found =
            Found { latest: Latest { number: page.number, copy }, generation: page.generation };
        if known.is_none_or(|known| known.age() < found.age()) {
            *known = Some(found);
        }
        if self.returning == Some(keeper) && !self.rules.is_broken(Mutant::TrustReturned) {
            return;
        }
        let newest = &mut self.newest[index];
        if newest.as_ref().is_none_or(|known| known.age < found.age()) {
            *newest = Some(Newest::of(page));
        }
    }

    /// Puts a volume together. Notes of the generation `settled`, by server, and later ones are to
    /// be written again. None if so much is damaged that what was lost cannot be told from what
    /// never was.
    pub(super) fn assemble(self, volume: &mut Volume, settled: &[u64]) -> Option<Rewrites> {
        let mut rewrites = Rewrites::default();
        self.load_pages(volume);
        let has_all_pages = volume.mended.rebuilt_pages == 0;
        let is_told = volume.away.or(self.returning).is_none();
        let is_known = is_told || self.rules.is_broken(Mutant::GuessWithout);
        if !has_all_pages && (volume.layout.members.may_be_changing() || !is_known) {
            return None;
        }
        let newest = self.load_tables(volume, settled, &mut rewrites);
        let doubtful = self.doubtful(volume);
        volume.mended.doubtful_blocks = u32::try_from(doubtful.len()).expect("few blocks");
        let is_damaged = volume.mended.damaged_blocks + volume.mended.doubtful_blocks > 0
            && !self.rules.is_broken(Mutant::GuessChoices);
        if is_damaged && !has_all_pages {
            return None;
        }
        let adopts = self.rules.is_broken(Mutant::AdoptReturned);
        let returning = self.returning.filter(|_| !adopts);
        let mut cleared = place_objects(volume, &newest, (returning, &doubtful));
        cleared.extend(doubtful);
        push_cleared(volume, cleared, &mut rewrites);
        self.push_pages(volume, settled, &mut rewrites);
        Some(rewrites)
    }

    /// The blocks of tables of which a copy is damaged that may have been newer than what is used.
    /// An object that was freed there, and nobody has a choice of, must not come back. Two notes of
    /// a block are one step apart, and no slot is taken in the step that clears it; so the other
    /// objects of the block are where it says, or known to be lost.
    fn doubtful(&self, volume: &Volume) -> BTreeSet<(usize, u32)> {
        let of = |server: usize, offset| match volume.layout.note_at(server, offset).0 {
            Note::Table(block) => Some((server, block)),
            Note::Page(_) => None,
        };
        let may_be_newer = |(server, offset, damaged): &(usize, u64, Box<Block>)| {
            let block = of(*server, *offset)?;
            let number = self.tables[*server][block.1 as usize]?.latest.number;
            let used = Label { volume: volume.id, number, offset: *offset };
            (!was_older(BlockKind::Table, &used, damaged)).then_some(block)
        };
        if self.rules.is_broken(Mutant::AdoptDoubtful) {
            return BTreeSet::new();
        }
        let has_another =
            |(server, block): &(usize, u32)| self.tables[*server][*block as usize].is_some();
        let unreadable = self.unreadable.iter().filter_map(|(server, offset)| of(*server, *offset));
        let unreadable = unreadable.filter(has_another);
        self.damaged.iter().filter_map(may_be_newer).chain(unreadable).collect()
    }

    fn load_pages(&self, volume: &mut Volume) {
        for (index, page) in (0..).zip(&self.newest) {
            let left = page.as_ref().and_then(|page| volume.left_by(page.passed));
            match (page, left) {
                (Some(page), Some(left)) => {
                    volume.versions[index as usize] = page.age.1;
                    volume.left[index as usize] = left;
                    if let Some(bits) = &page.bits {
                        volume.choices.load(index, bits);
                    }
                }
                _ => volume.mended.rebuilt_pages += 1,
            }
        }
    }

    /// Takes over the tables; returns the latest placing of every object on each server.
    fn load_tables(
        &self,
        volume: &mut Volume,
        settled: &[u64],
        rewrites: &mut Rewrites,
    ) -> BTreeMap<u32, Vec<(u64, Place)>> {
        let mut placings: BTreeMap<u32, Vec<(u64, Place)>> = BTreeMap::new();
        let is_old = |server: &usize| {
            let is_member = volume.layout.members.all() & volume.layout.bit(*server) != 0;
            is_member && volume.away != Some(*server)
        };
        // Whoever joins has noted nothing yet.
        for server in (0..self.tables.len()).filter(is_old).collect::<Vec<_>>() {
            let slots = volume.layout.servers[server].slots;
            let table = &mut volume.tables[server];
            table.free.clear();
            for (block, found) in (0..).zip(&self.tables[server]) {
                let Some(found) = *found else {
                    volume.mended.damaged_blocks += 1;
                    continue;
                };
                let start = block * ENTRIES_PER_BLOCK;
                for slot in start..(start + ENTRIES_PER_BLOCK).min(slots) {
                    let entry = self.entries[server][slot as usize];
                    let entry = entry.filter(|entry| entry.object < volume.layout.objects);
                    if let Some(Entry { object, sequence }) = entry {
                        volume.sequence = volume.sequence.max(sequence.get());
                        let place = (sequence.get(), Place::new(server, slot));
                        placings.entry(object).or_default().push(place);
                    } else {
                        table.free.insert(slot);
                    }
                    table.entries[slot as usize] = entry;
                }
                let is_unsure = found.is_unsure(settled[server], volume.office.half);
                let latest = &mut table.latest[block as usize];
                *latest =
                    if is_unsure { found.latest.next_in(volume.office.half) } else { found.latest };
                if is_unsure {
                    rewrites.insert((server, Note::Table(block)));
                }
            }
        }
        placings
    }

    /// Has every page written again that not all keepers have, that may not be durable, or that has
    /// just changed.
    fn push_pages(&self, volume: &mut Volume, settled: &[u64], rewrites: &mut Rewrites) {
        let mut changed = vec![false; volume.versions.len()];
        while let Some(page) = volume.choices.take_changed() {
            changed[page as usize] = true;
        }
        for (index, page) in (0..).zip(0..volume.versions.len()) {
            let newest = self.newest[page].as_ref().map(|page| page.age);
            let keepers: Vec<usize> = volume.keepers().collect();
            let is_sure = |keeper: &usize| {
                self.pages[*keeper][page].is_some_and(|found| {
                    Some(found.age()) == newest
                        && !found.is_unsure(settled[*keeper], volume.office.half)
                        && self.returning != Some(*keeper)
                })
            };
            let is_kept = !changed[page] && keepers.iter().all(is_sure);
            if !is_kept {
                volume.versions[page] += 1;
            }
            for keeper in keepers {
                let found = self.pages[keeper][page];
                let found =
                    found.map_or_else(|| Latest::none(volume.office.half), |found| found.latest);
                let number = volume.versions[page];
                volume.pages[keeper][page] = if is_kept {
                    found
                } else {
                    Latest { number, ..found.next_in(volume.office.half) }
                };
                if !is_kept {
                    rewrites.insert((keeper, Note::Page(index)));
                }
            }
        }
    }
}

/// Has the blocks written again whose entries do not count: should their objects be given up later,
/// nothing may be left to tell of them.
fn push_cleared(volume: &mut Volume, cleared: BTreeSet<(usize, u32)>, rewrites: &mut Rewrites) {
    for (server, block) in cleared {
        if rewrites.insert((server, Note::Table(block))) {
            let latest = volume.latest_mut(server, Note::Table(block));
            *latest = latest.next();
        }
    }
}

/// Finds where every object lies; returns the blocks of servers' tables with entries that do not
/// count.
fn place_objects(
    volume: &mut Volume,
    placings: &BTreeMap<u32, Vec<(u64, Place)>>,
    (returning, doubtful): (Option<usize>, &BTreeSet<(usize, u32)>),
) -> BTreeSet<(usize, u32)> {
    let mut cleared = BTreeSet::new();
    let nothing = Vec::new();
    for object in known(volume, placings) {
        let found = placings.get(&object).unwrap_or(&nothing);
        let chosen = volume.choices.choice(u64::from(object));
        let home = match chosen {
            Some(position) => {
                let server = volume.candidate(object, position);
                let home = latest(found, |at| Some(at) == server);
                if server.is_some() && server == volume.away {
                    volume.places.set(object, Place::AWAY);
                } else if home.is_none() {
                    volume.lost.insert(object);
                }
                home
            }
            // The object may have been given up while the server was away.
            None => latest(found, |at| Some(at) != returning)
                .filter(|place| block_of(*place).is_none_or(|block| !doubtful.contains(&block)))
                .filter(|place| adopt(volume, object, *place)),
        };
        if let Some(place) = home {
            volume.places.set(object, place);
            volume.mended.adopted += u32::from(chosen.is_none());
        }
        release(volume, found, home, &mut cleared);
    }
    cleared
}

/// The objects that have a choice or a placing, in order.
fn known(volume: &Volume, placings: &BTreeMap<u32, Vec<(u64, Place)>>) -> Vec<u32> {
    let chosen = volume.choices.chosen_from(0);
    let chosen = chosen.filter_map(|object| u32::try_from(object).ok());
    let mut objects: Vec<u32> = chosen
        .filter(|object| *object < volume.layout.objects)
        .chain(placings.keys().copied())
        .collect();
    objects.sort_unstable();
    objects.dedup();
    objects
}

/// The block of a server's table that tells of a place.
fn block_of(place: Place) -> Option<(usize, u32)> {
    place.get().map(|(server, slot)| (server, slot / ENTRIES_PER_BLOCK))
}

/// The latest placing on such a server.
fn latest(found: &[(u64, Place)], is_wanted: impl Fn(usize) -> bool) -> Option<Place> {
    let there = found.iter().filter(|(_, place)| place.get().is_some_and(|(at, _)| is_wanted(at)));
    there.max_by_key(|(sequence, _)| *sequence).map(|(_, place)| *place)
}

/// Notes the choice that a placing tells of; false if the server is none of the candidates.
fn adopt(volume: &mut Volume, object: u32, place: Place) -> bool {
    let server = place.get().map(|(server, _)| server);
    let mut positions = 0..volume.layout.candidates as usize;
    let position = positions.find(|position| volume.candidate(object, *position) == server);
    if position.is_some() {
        volume.choices.set(u64::from(object), position);
    }
    position.is_some()
}

/// Slots of placings that do not count may be taken again.
fn release(
    volume: &mut Volume,
    found: &[(u64, Place)],
    home: Option<Place>,
    cleared: &mut BTreeSet<(usize, u32)>,
) {
    for (_, place) in found.iter().filter(|(_, place)| Some(*place) != home) {
        if let Some((server, slot)) = place.get() {
            volume.tables[server].entries[slot as usize] = None;
            volume.tables[server].free.insert(slot);
            cleared.insert((server, slot / ENTRIES_PER_BLOCK));
        }
    }
}
