//! What the notes of all servers come to: where each object lies, what is lost, and what has to be
//! written again.
//!
//! ```text
//! pages -> tables -> objects, page by page -> notes to write again
//! ```
//!
//! It goes on in small steps, so that whoever shares the thread is not held up by a volume of
//! millions of objects.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::directory::Listed;
use super::format::table::Entry;
use super::layout::{ENTRIES_PER_BLOCK, Note};
use super::place::Place;
use super::reading::{Reading, may_be_newer};
use super::rules::Mutant;
use super::volume::{Latest, Volume};
use crate::notes::block::{BlockKind, Label};

/// What has to be written again, by server, where the volume says.
pub(super) type Rewrites = BTreeSet<(usize, Note)>;

/// Objects that are looked at in one step, and what looking at other things takes beside.
const OBJECTS_AT_ONCE: usize = 4096;
const OBJECTS_OF_PAGE: usize = 8;
const OBJECTS_OF_BLOCK: usize = 64;

/// A placing that a table tells of.
#[derive(Clone, Copy, Debug)]
struct Placing {
    object: u32,
    sequence: u64,
    place: Place,
}

/// A volume that is put together from what was read.
#[derive(Debug)]
pub(super) struct Assembly {
    reading: Reading,
    /// By server: notes of this generation and later ones are to be written again.
    settled: Vec<u64>,
    stage: Stage,
    /// Blocks of the table at hand that are yet to be taken.
    blocks: VecDeque<u32>,
    /// By page of their objects.
    placings: BTreeMap<u32, Vec<Placing>>,
    /// Blocks of tables of which a copy is damaged that may have been newer than what is used.
    doubtful: BTreeSet<(usize, u32)>,
    /// Blocks of tables with entries that do not count.
    cleared: BTreeSet<(usize, u32)>,
    /// Pages of which choices were made anew.
    changed: BTreeSet<u32>,
    rewrites: Rewrites,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Pages(u32),
    Table(usize),
    Objects(u32),
    Notes(u32),
}

/// How far it is.
#[derive(Debug)]
pub(super) enum Step {
    /// There is more to do.
    More,
    /// The volume is put together.
    Done(Rewrites),
    /// So much is damaged that what was lost cannot be told from what never was.
    Damaged,
}

impl Assembly {
    /// Begins with what was read.
    pub(super) fn new(reading: Reading, settled: Vec<u64>) -> Self {
        Self {
            reading,
            settled,
            stage: Stage::Pages(0),
            blocks: VecDeque::new(),
            placings: BTreeMap::new(),
            doubtful: BTreeSet::new(),
            cleared: BTreeSet::new(),
            changed: BTreeSet::new(),
            rewrites: Rewrites::new(),
        }
    }

    /// A block that could not be read, if there is one: its server and offset.
    pub(super) fn unreadable(&self) -> Option<(usize, u64)> {
        self.reading.unreadable.first().copied()
    }

    /// Goes on for a moment.
    pub(super) fn step(&mut self, volume: &mut Volume) -> Step {
        let mut looked = 0;
        while looked < OBJECTS_AT_ONCE {
            looked += match self.stage {
                Stage::Pages(page) if page < volume.layout.pages => {
                    self.load_page(volume, page);
                    self.stage = Stage::Pages(page + 1);
                    OBJECTS_OF_PAGE
                }
                Stage::Pages(_) if !self.may_guess(volume) => return Step::Damaged,
                Stage::Pages(_) => {
                    reach_chosen(volume);
                    self.begin_table(volume, 0)
                }
                Stage::Table(server) if server < volume.layout.servers.len() => {
                    match self.blocks.pop_front() {
                        Some(block) => self.load_block(volume, server, block),
                        None => self.begin_table(volume, server + 1),
                    }
                }
                Stage::Table(_) => {
                    if self.is_too_damaged(volume) {
                        return Step::Damaged;
                    }
                    self.stage = Stage::Objects(0);
                    0
                }
                Stage::Objects(page) if page < volume.layout.pages => {
                    self.stage = Stage::Objects(page + 1);
                    OBJECTS_OF_PAGE + self.place_objects(volume, page)
                }
                Stage::Objects(_) => {
                    self.push_cleared(volume);
                    self.changed.extend(std::iter::from_fn(|| volume.choices.take_changed()));
                    self.stage = Stage::Notes(0);
                    0
                }
                Stage::Notes(page) if page < volume.layout.pages => {
                    self.push_page(volume, page);
                    self.stage = Stage::Notes(page + 1);
                    OBJECTS_OF_PAGE
                }
                Stage::Notes(_) => return Step::Done(std::mem::take(&mut self.rewrites)),
            };
        }
        Step::More
    }

    /// Whether pages that are lost can be made anew from the tables, if all of those are whole.
    fn may_guess(&self, volume: &Volume) -> bool {
        let has_all_pages = volume.mended.rebuilt_pages == 0;
        let is_told = volume.away.or(self.reading.returning).is_none();
        let is_known = is_told || self.reading.rules.is_broken(Mutant::GuessWithout);
        has_all_pages || !volume.layout.members.may_be_changing() && is_known
    }

    /// Whether pages are lost and tables are not whole.
    fn is_too_damaged(&mut self, volume: &mut Volume) -> bool {
        self.doubtful = self.find_doubtful(volume);
        volume.mended.doubtful_blocks = u32::try_from(self.doubtful.len()).expect("few blocks");
        let is_damaged = volume.mended.damaged_blocks + volume.mended.doubtful_blocks > 0
            && !self.reading.rules.is_broken(Mutant::GuessChoices);
        is_damaged && volume.mended.rebuilt_pages > 0
    }

    /// The blocks of tables of which a copy is damaged that may have been newer than what is used.
    /// An object that was freed there, and nobody has a choice of, must not come back. Two notes of
    /// a block are one step apart, and no slot is taken in the step that clears it; so the other
    /// objects of the block are where it says, or known to be lost.
    fn find_doubtful(&self, volume: &Volume) -> BTreeSet<(usize, u32)> {
        let reading = &self.reading;
        let of = |server: usize, offset| match volume.layout.note_at(server, offset).0 {
            Note::Table(block) => Some((server, block)),
            Note::Directory(_) | Note::Page(_) => None,
        };
        let found = |(server, block): (usize, u32)| {
            reading.tables[server]
                .get(&block)
                .map(|(found, _)| (found.latest.number, found.generation))
        };
        if reading.rules.is_broken(Mutant::AdoptDoubtful) {
            return BTreeSet::new();
        }
        let may_be_newer = |(server, offset, damaged): &(usize, u64, Box<_>)| {
            let block = of(*server, *offset)?;
            let (number, generation) = found(block)?;
            let used = Label { volume: volume.id(), number, offset: *offset };
            may_be_newer(BlockKind::Table, (&used, generation), damaged).then_some(block)
        };
        let unreadable =
            reading.unreadable.iter().filter_map(|(server, offset)| of(*server, *offset));
        let unreadable = unreadable.filter(|block| found(*block).is_some());
        reading.damaged.iter().filter_map(may_be_newer).chain(unreadable).collect()
    }

    fn load_page(&mut self, volume: &mut Volume, index: u32) {
        let Some(page) = self.reading.newest.get_mut(&index) else {
            let counts = |keeper: &usize| self.reading.returning != Some(*keeper);
            let keepers: Vec<usize> = volume.keepers().filter(counts).collect();
            if self.reading.directories.has_page(&volume.layout, &keepers, index) {
                volume.mended.rebuilt_pages += 1;
                self.changed.insert(index);
            }
            return;
        };
        let Some(left) = volume.left_by(page.passed) else {
            volume.mended.rebuilt_pages += 1;
            self.changed.insert(index);
            return;
        };
        volume.versions[index as usize] = page.age.1;
        volume.left[index as usize] = left;
        if let Some(bits) = page.bits.take() {
            volume.choices.load(index, &bits);
        }
    }

    /// Begins with a server's table. Returns what that takes, in objects, as all steps do.
    fn begin_table(&mut self, volume: &Volume, server: usize) -> usize {
        self.stage = Stage::Table(server);
        // Whoever joins has noted nothing yet.
        let is_there = server < volume.layout.servers.len()
            && volume.layout.members.all() & volume.layout.bit(server) != 0
            && volume.away != Some(server);
        if is_there {
            let notes = self.reading.directories.notes(&volume.layout, server);
            let table = notes.filter_map(|note| match note {
                Note::Table(block) => Some(block),
                Note::Directory(_) | Note::Page(_) => None,
            });
            self.blocks.extend(table);
        }
        self.blocks.len()
    }

    fn load_block(&mut self, volume: &mut Volume, server: usize, block: u32) -> usize {
        let (half, layout) = (volume.office.half, &volume.layout);
        let slots = layout.servers[server].slots;
        let table = &mut volume.tables[server];
        let found = self.reading.tables[server].get_mut(&block);
        let found = found.and_then(|(found, entries)| Some((*found, entries.take()?)));
        let Some((found, mut entries)) = found else {
            if self.reading.listed(layout, server, Note::Table(block)) == Listed::Yes {
                volume.mended.damaged_blocks += 1;
                // It stays listed, and nobody takes its slots.
                *table.latest_mut(block) = Latest { number: 1, ..Latest::none(half) };
                table.free.remove_range(block * ENTRIES_PER_BLOCK..(block + 1) * ENTRIES_PER_BLOCK);
            }
            return OBJECTS_OF_BLOCK;
        };
        for (slot, entry) in (block * ENTRIES_PER_BLOCK..).zip(entries.iter_mut()) {
            let Some(Entry { object, sequence }) = *entry else { continue };
            if object >= layout.objects || slot >= slots {
                // Were it left, it would come back once the volume has grown.
                *entry = None;
                self.cleared.insert((server, block));
                continue;
            }
            volume.sequence = volume.sequence.max(sequence.get());
            let place = Place::new(server, slot);
            let placing = Placing { object, sequence: sequence.get(), place };
            self.placings.entry(Volume::page_of(object)).or_default().push(placing);
            table.free.remove(slot);
        }
        let is_unsure = found.is_unsure(self.settled[server], half);
        let latest = if is_unsure { found.latest.next_in(half) } else { found.latest };
        table.load(block, entries, latest);
        if is_unsure {
            self.rewrites.insert((server, Note::Table(block)));
        }
        OBJECTS_OF_BLOCK
    }

    /// Finds where the objects of a page lie; returns how many there are.
    fn place_objects(&mut self, volume: &mut Volume, page: u32) -> usize {
        let mut placings = self.placings.remove(&page).unwrap_or_default();
        placings.sort_by_key(|one| one.object);
        let mut objects: Vec<u32> = placings.iter().map(|one| one.object).collect();
        objects.extend(volume.choices.chosen_on(page).filter_map(|object| {
            u32::try_from(object).ok().filter(|object| *object < volume.layout.objects)
        }));
        objects.sort_unstable();
        objects.dedup();
        let mut rest = placings.as_slice();
        for &object in &objects {
            let count = rest.iter().take_while(|one| one.object == object).count();
            let (found, others) = rest.split_at(count);
            rest = others;
            self.place_object(volume, object, found);
        }
        objects.len()
    }

    /// Finds where an object lies, by its choice and the placings that tables tell of.
    fn place_object(&mut self, volume: &mut Volume, object: u32, found: &[Placing]) {
        let chosen = volume.choices.choice(u64::from(object));
        let home = match chosen {
            Some(position) => chosen_home(volume, object, position, found),
            None => self.adopted_home(volume, object, found),
        };
        if let Some(place) = home {
            volume.places.set(object, place);
            volume.mended.adopted += u32::from(chosen.is_none());
        }
        self.release(volume, found, home);
    }

    /// Where an object lies of which no choice tells: its placing was cut short.
    fn adopted_home(&self, volume: &mut Volume, object: u32, found: &[Placing]) -> Option<Place> {
        let adopts = self.reading.rules.is_broken(Mutant::AdoptReturned);
        // The object may have been given up while the server was away.
        let returning = self.reading.returning.filter(|_| !adopts);
        let is_sound =
            |place: &Place| block_of(*place).is_none_or(|block| !self.doubtful.contains(&block));
        latest(found, |at| Some(at) != returning)
            .filter(is_sound)
            .filter(|place| adopt(volume, object, *place))
    }

    /// Slots of placings that do not count may be taken again.
    fn release(&mut self, volume: &mut Volume, found: &[Placing], home: Option<Place>) {
        for one in found.iter().filter(|one| Some(one.place) != home) {
            if let Some((server, slot)) = one.place.get() {
                volume.tables[server].enter(slot, None);
                volume.tables[server].free.insert(slot);
                self.cleared.insert((server, slot / ENTRIES_PER_BLOCK));
            }
        }
    }

    /// Has the blocks written again whose entries do not count: should their objects be given up
    /// later, nothing may be left to tell of them.
    fn push_cleared(&mut self, volume: &mut Volume) {
        let cleared = std::mem::take(&mut self.cleared);
        let doubtful = std::mem::take(&mut self.doubtful);
        for (server, block) in cleared.union(&doubtful).copied() {
            if self.rewrites.insert((server, Note::Table(block))) {
                let latest = volume.latest_mut(server, Note::Table(block));
                *latest = latest.next();
            }
        }
    }

    /// Has a page written again that not all keepers have, that may not be durable, or that has
    /// just changed.
    fn push_page(&mut self, volume: &mut Volume, page: u32) {
        let (index, half) = (page as usize, volume.office.half);
        let reading = &self.reading;
        let newest = reading.newest.get(&page).map(|page| page.age);
        let is_changed = self.changed.contains(&page);
        if newest.is_none() && !is_changed {
            return;
        }
        let keepers: Vec<usize> = volume.keepers().collect();
        let is_sure = |keeper: &usize| {
            reading.pages[*keeper].get(&page).is_some_and(|found| {
                Some(found.age()) == newest
                    && !found.is_unsure(self.settled[*keeper], half)
                    && reading.returning != Some(*keeper)
            })
        };
        let is_kept = !is_changed && keepers.iter().all(is_sure);
        if !is_kept {
            volume.versions[index] += 1;
        }
        for keeper in keepers {
            let found = reading.pages[keeper].get(&page);
            let found = found.map_or_else(|| Latest::none(half), |found| found.latest);
            let number = volume.versions[index];
            volume.pages[keeper][index] =
                if is_kept { found } else { Latest { number, ..found.next_in(half) } };
            if !is_kept {
                self.rewrites.insert((keeper, Note::Page(page)));
            }
        }
    }
}

/// The volume is as large as its last object that was chosen, whatever heads say: it shrinks only
/// once nothing is chosen beyond the new end, so that a greater size was lost with its head.
fn reach_chosen(volume: &mut Volume) {
    let beyond = volume.choices.chosen_from(volume.layout.objects.into()).last();
    if let Some(object) = beyond.and_then(|object| u32::try_from(object).ok()) {
        volume.layout.objects = object + 1;
        volume.places.resize(object + 1);
    }
}

/// The block of a server's table that tells of a place.
fn block_of(place: Place) -> Option<(usize, u32)> {
    place.get().map(|(server, slot)| (server, slot / ENTRIES_PER_BLOCK))
}

/// Where an object lies that is on this candidate; it is lost if that does not know of it.
fn chosen_home(
    volume: &mut Volume,
    object: u32,
    position: usize,
    found: &[Placing],
) -> Option<Place> {
    let server = volume.candidate(object, position);
    let home = latest(found, |at| Some(at) == server);
    if server.is_some() && server == volume.away {
        volume.places.set(object, Place::AWAY);
    } else if home.is_none() {
        volume.lost.insert(object);
    }
    home
}

/// The latest placing on such a server.
fn latest(found: &[Placing], is_wanted: impl Fn(usize) -> bool) -> Option<Place> {
    let there = found.iter().filter(|one| one.place.get().is_some_and(|(at, _)| is_wanted(at)));
    there.max_by_key(|one| one.sequence).map(|one| one.place)
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
