//! A volume as its servers tell of it: where every object lies, and what may be placed where.
//!
//! The **table** of each server says which object lies in which slot. The **choices** say, in two
//! bits, which of its candidate servers an object is on. Either could be made from the other, slots
//! aside; together they tell more:
//!
//! | choice | entry | meaning |
//! |---|---|---|
//! | none | none | never written: zeroes |
//! | none | there | a placing that was cut short; it holds zeroes, so it may count |
//! | there | there | the object |
//! | there | none | the server has lost it, or is an older copy: an error, never zeroes |

use std::collections::BTreeSet;

use evenkeel_core::id::ServerId;
use evenkeel_core::place::candidates::ObjectName;
use evenkeel_core::place::choices::{ChoiceMap, PAGE_OBJECTS};
use evenkeel_core::place::cluster::{DomainId, GroupMap, GroupOptions, Member};

use super::absent::can_miss_one;
use super::format::choices::{Page, Passed};
use super::format::directory::{BITS_BYTES, DirectoryPart};
use super::format::table::TablePart;
use super::layout::{Layout, Note, SERVERS_MAX};
use super::members::Members;
use super::place::Places;
use super::refusal::PARLANCE;
use super::table::Table;
use crate::lease::{Absent, Half, Identity, LateWrites, Lease, Office, OwnerId, Settled, Witness};
use crate::notes::VolumeId;
use crate::notes::block::Block;

/// Groups of the table that candidates are drawn from, as a power of two: 64 to each of 64 servers.
const GROUP_BITS: u32 = 12;
/// All objects of a page.
#[expect(clippy::cast_possible_truncation, reason = "checked below")]
const PAGE_LEFT: u16 = PAGE_OBJECTS as u16;
const _: () = assert!(PAGE_LEFT as u64 == PAGE_OBJECTS);

/// A volume that was opened. See [`super::Opening`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    pub(super) id: VolumeId,
    /// What is said of the opening on the servers.
    pub(super) office: Office,
    pub(super) layout: Layout,
    /// Objects that it is to have, while heads are written that say so.
    pub(super) wanted_objects: Option<u32>,
    /// By server: the last opening before this one that came to its end with it.
    pub(super) afters: Vec<OwnerId>,
    /// The servers by number, and none where there is no such number.
    indices: Vec<Option<usize>>,
    /// Where objects are placed.
    groups: GroupMap,
    /// Where they were placed before the last change, unless all have passed.
    groups_before: Option<GroupMap>,
    /// By page: its last objects that have not passed.
    pub(super) left: Vec<u16>,
    /// By object.
    pub(super) places: Places,
    pub(super) choices: ChoiceMap,
    /// Objects that were written and are not where they should be.
    pub(super) lost: BTreeSet<u32>,
    /// By server, by block of its directory: the copy that was written last.
    pub(super) directories: Vec<Vec<Latest>>,
    /// By server.
    pub(super) tables: Vec<Table>,
    /// By page: the number of its last version; zero if there is no such page.
    pub(super) versions: Vec<u64>,
    /// By server, by page: the copy that was written last; of keepers.
    pub(super) pages: Vec<Vec<Latest>>,
    /// The number of the last placing.
    pub(super) sequence: u64,
    pub(super) mended: Mended,
    /// The server that was not there when it was opened.
    pub(super) away: Option<usize>,
    /// What is noted of that server.
    pub(super) left_out: Option<Absent>,
    /// Whether it was ever opened without a server.
    pub(super) is_parted: bool,
    /// What an earlier process of this gate may still change.
    pub(super) late: LateWrites,
}

/// What an opening had to put right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// Placings that had been cut short and were completed.
    pub adopted: u32,
    /// Pages of the choices that were lost and made anew from the tables.
    pub rebuilt_pages: u32,
    /// Blocks of tables that are damaged; what was in their slots is lost.
    pub damaged_blocks: u32,
    /// Blocks of tables of which a copy is damaged that may have been the newest.
    pub doubtful_blocks: u32,
}

/// Where the newest copy of a block stands, and its number; zero if there is no such block, and it
/// is not listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Latest {
    pub(super) number: u64,
    pub(super) copy: u64,
}

impl Latest {
    /// Nothing that was written in this half.
    pub(super) fn none(half: Half) -> Self {
        Self { number: 0, copy: half.first_copy() }
    }

    /// What the next write of the block has: the other copy of the half, so that this one stays if
    /// there is one.
    pub(super) fn next(self) -> Self {
        let copy = if self.number == 0 { self.copy } else { self.copy ^ 1 };
        Self { number: self.number + 1, copy }
    }

    /// The same by an owner who writes to this half.
    pub(super) fn next_in(self, half: Half) -> Self {
        if Half::of_copy(self.copy) == half {
            return self.next();
        }
        Self { number: self.number + 1, ..Self::none(half) }
    }
}

/// The seed of everything that is drawn by the volume's name.
fn seed(id: VolumeId) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| id.0[index]))
}

/// The table of groups: the servers of these numbers, by their slots.
fn groups(id: VolumeId, layout: &Layout, numbers: u64) -> GroupMap {
    let servers = layout.servers.iter().filter(|server| numbers >> server.number & 1 == 1);
    let members: Vec<Member> = servers
        .map(|server| Member {
            server: ServerId(server.number),
            capacity_bytes: u64::from(server.slots) * layout.object_bytes,
            domain: DomainId(server.number),
        })
        .collect();
    let options = GroupOptions { group_bits: GROUP_BITS, replicas: 1, seed: seed(id) };
    GroupMap::new(&members, options).expect("there are two servers with slots at least")
}

/// The table before the last change; none if all objects have passed, or nobody who could tell is
/// listed.
fn groups_before(id: VolumeId, layout: &Layout) -> Option<GroupMap> {
    let members = &layout.members;
    let is_needed = members.may_be_changing() && members.before & !layout.listed() == 0;
    is_needed.then(|| groups(id, layout, members.before))
}

impl Volume {
    /// A volume in which nothing was written.
    pub(super) fn blank(id: VolumeId, layout: Layout, office: Office) -> Self {
        let (pages, half) = (layout.pages as usize, office.half);
        let directory = |server| vec![Latest::default(); layout.directory_blocks(server) as usize];
        let noted =
            |server| vec![Latest::default(); if layout.is_keeper(server) { pages } else { 0 }];
        let mut indices = vec![None; SERVERS_MAX];
        for (index, server) in layout.servers.iter().enumerate() {
            indices[server.number as usize] = Some(index);
        }
        Self {
            id,
            office,
            wanted_objects: None,
            afters: vec![OwnerId::default(); layout.servers.len()],
            indices,
            groups: groups(id, &layout, layout.members.after),
            groups_before: groups_before(id, &layout),
            left: vec![0; pages],
            places: Places::new(layout.objects),
            choices: ChoiceMap::new(layout.objects_max().into()),
            lost: BTreeSet::new(),
            directories: (0..layout.servers.len()).map(directory).collect(),
            tables: layout.servers.iter().map(|server| Table::new(server.slots, half)).collect(),
            versions: vec![0; pages],
            pages: (0..layout.servers.len()).map(noted).collect(),
            sequence: 0,
            mended: Mended::default(),
            away: None,
            left_out: None,
            is_parted: false,
            late: LateWrites::default(),
            layout,
        }
    }

    /// From now on the half of this opening is written to.
    pub(super) fn note_in_half(&mut self) {
        let half = self.office.half;
        let directories = self.directories.iter_mut().flatten();
        for latest in directories.chain(self.pages.iter_mut().flatten()) {
            *latest = Latest::none(half);
        }
    }

    /// Its size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.layout.size_bytes()
    }

    /// What it is known by.
    pub fn id(&self) -> VolumeId {
        self.id
    }

    /// What lies where on the servers.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What the opening had to put right.
    pub fn mended(&self) -> Mended {
        self.mended
    }

    /// The server, in the order of the policy, that it was opened without.
    pub fn away(&self) -> Option<usize> {
        self.away
    }

    /// What this opening is known by.
    pub fn owner(&self) -> OwnerId {
        self.office.owner
    }

    /// What this gate is to remember of it.
    pub fn witness(&self) -> Witness {
        self.office.witness(self.id)
    }

    /// The servers that keep the choices and are there.
    pub(super) fn keepers(&self) -> impl Iterator<Item = usize> {
        self.layout.keepers().filter(|keeper| self.away != Some(*keeper))
    }

    /// How many keepers need a choice before it counts: two of three, since one may be away when
    /// the volume is opened next.
    pub(super) fn copies_needed(&self) -> usize {
        if can_miss_one(&self.layout.members) { 2 } else { 1 }
    }

    /// How many servers a beat has to reach for the volume to stay this gate's: two if the next
    /// one might be the gate that misses one.
    pub(super) fn beats_needed(&self) -> usize {
        if can_miss_one(&self.layout.members) && self.away.is_none() { 2 } else { 1 }
    }

    /// What is said of the opening once it has come to its end.
    pub(super) fn settled(&self) -> Settled {
        self.office.settled(self.left_out)
    }

    /// The lease on a server, unless that is away.
    pub fn lease_of(&self, server: usize) -> Option<Lease> {
        (self.away != Some(server)).then(|| self.lease(server))
    }

    /// The lease that it was opened with, on one of its servers.
    pub fn lease(&self, server: usize) -> Lease {
        let number = self.layout.servers[server].number;
        let identity = Identity { words: PARLANCE, volume: self.id, number };
        self.office.lease((identity, self.office.generation), server, self.left_out)
    }

    /// How many objects were written and are not where they should be.
    pub fn lost_objects(&self) -> usize {
        self.lost.len()
    }

    /// Puts the next members in force: no object has passed to them yet.
    pub(super) fn change(&mut self, members: Members) {
        let is_new_era = members.era != self.layout.members.era;
        self.layout.members = members;
        self.groups = groups(self.id, &self.layout, members.after);
        self.groups_before = groups_before(self.id, &self.layout);
        if is_new_era {
            // Of a page that there is not, nothing was placed by the members before.
            for (left, version) in self.left.iter_mut().zip(&self.versions) {
                *left = if *version > 0 { PAGE_LEFT } else { 0 };
            }
        }
        for server in 0..self.layout.servers.len() {
            let pages = if self.layout.is_keeper(server) { self.left.len() } else { 0 };
            self.pages[server].resize(pages, Latest::none(self.office.half));
        }
    }

    /// How many objects of a page have not passed, by what the page says; none if that cannot be.
    pub(super) fn left_by(&self, passed: Passed) -> Option<u16> {
        let members = &self.layout.members;
        match passed {
            Passed { era, left } if era == members.era => {
                (left == 0 || members.may_be_changing()).then_some(left)
            }
            Passed { era, left: 0 } if era.checked_add(1) == Some(members.era) => Some(PAGE_LEFT),
            _ => None,
        }
    }

    /// What a page says of that.
    fn passed(&self, page: u32) -> Passed {
        let (era, left) = (self.layout.members.era, self.left[page as usize]);
        if left == PAGE_LEFT { Passed { era: era - 1, left: 0 } } else { Passed { era, left } }
    }

    /// Objects that have not passed to the servers of the last change.
    pub fn objects_left(&self) -> u64 {
        let objects = u64::from(self.layout.objects);
        let of_page = |(page, &left): (u64, &u16)| {
            let end = (page + 1) * PAGE_OBJECTS;
            let first_left = end - u64::from(left);
            objects.min(end).saturating_sub(first_left)
        };
        (0..).zip(&self.left).map(of_page).sum()
    }

    /// Whether any page is left of which not all has passed.
    pub(super) fn is_passing(&self) -> bool {
        self.left.iter().any(|left| *left > 0)
    }

    /// Of those, how many have to move: their server is none of their candidates any more.
    pub fn objects_to_move(&self) -> usize {
        self.places.known().filter(|(object, _)| self.must_move(*object)).count()
    }

    /// Whether an object has to move when its turn comes.
    pub(super) fn must_move(&self, object: u32) -> bool {
        !self.has_passed(object)
            && self.places.get(object).get().is_some_and(|(server, _)| {
                !self.new_candidates(object).any(|one| one == Some(server))
            })
    }

    /// Whether an object is placed by the map that is in force.
    pub(super) fn has_passed(&self, object: u32) -> bool {
        let left = self.left[Self::page_of(object) as usize];
        u64::from(object) % PAGE_OBJECTS < PAGE_OBJECTS - u64::from(left)
    }

    /// The servers of an object's candidates, in their order.
    pub(super) fn candidates(&self, object: u32) -> impl Iterator<Item = Option<usize>> {
        let before = self.groups_before.as_ref().filter(|_| !self.has_passed(object));
        self.drawn(object, before.unwrap_or(&self.groups))
    }

    /// The same by the map in force, whether or not the object has passed to it.
    pub(super) fn new_candidates(&self, object: u32) -> impl Iterator<Item = Option<usize>> {
        self.drawn(object, &self.groups)
    }

    fn drawn<'a>(
        &'a self,
        object: u32,
        groups: &'a GroupMap,
    ) -> impl Iterator<Item = Option<usize>> + use<'a> {
        let name = ObjectName { volume: seed(self.id), index: u64::from(object) };
        let candidates = name.candidates(groups, self.layout.candidates as usize);
        let groups_of = (0..self.layout.candidates as usize).map(move |at| candidates.groups()[at]);
        groups_of.map(|group| self.indices[groups.servers(group)[0].index()])
    }

    /// The server of one candidate; none if there is no such candidate.
    pub(super) fn candidate(&self, object: u32, position: usize) -> Option<usize> {
        self.candidates(object).nth(position).flatten()
    }

    /// The page that tells of an object.
    pub(super) fn page_of(object: u32) -> u32 {
        u32::try_from(u64::from(object) / PAGE_OBJECTS).expect("pages hold many objects")
    }

    /// The copy of a block that was written last.
    pub(super) fn latest(&self, server: usize, note: Note) -> Latest {
        match note {
            Note::Directory(block) => self.directories[server][block as usize],
            Note::Table(block) => self.tables[server].latest(block),
            Note::Page(page) => self.pages[server][page as usize],
        }
    }

    /// The same, to be changed.
    pub(super) fn latest_mut(&mut self, server: usize, note: Note) -> &mut Latest {
        match note {
            Note::Directory(block) => &mut self.directories[server][block as usize],
            Note::Table(block) => self.tables[server].latest_mut(block),
            Note::Page(page) => &mut self.pages[server][page as usize],
        }
    }

    /// Makes a block, as it is in memory, for the place that `latest` says; returns where it goes.
    pub(super) fn encode(
        &self,
        server: usize,
        note: Note,
        latest: Latest,
        encoded: &mut Block,
    ) -> u64 {
        let offset = self.layout.note_offset(server, note, latest.copy);
        let (number, generation) = (latest.number, self.office.generation);
        match note {
            Note::Directory(_) => {
                return self.encode_listing((server, note), latest, std::iter::empty(), encoded);
            }
            Note::Table(block) => {
                let entries = Box::new(*self.tables[server].entries(block));
                let part = TablePart { number, generation, index: block, entries };
                part.encode(self.id, offset, encoded);
            }
            Note::Page(page) => {
                let passed = self.passed(page);
                let bits = *self.choices.page(page);
                let page = Page { number, generation, index: page, passed, bits };
                page.encode(self.id, offset, encoded);
            }
        }
        offset
    }

    /// The same of a block of the directory that lists these notes as well, those of them that it
    /// tells of.
    pub(super) fn encode_listing(
        &self,
        (server, note): (usize, Note),
        latest: Latest,
        notes: impl Iterator<Item = Note>,
        encoded: &mut Block,
    ) -> u64 {
        let Note::Directory(block) = note else { unreachable!("a block of the directory") };
        let offset = self.layout.note_offset(server, note, latest.copy);
        let mut part = self.directory(server, block);
        (part.number, part.generation) = (latest.number, self.office.generation);
        for (_, bit) in
            notes.map(|note| self.layout.listed_in(server, note)).filter(|at| at.0 == block)
        {
            part.insert(bit);
        }
        part.encode(self.id, offset, encoded);
        offset
    }

    /// Whether a note counts, as it does from the moment on when it is listed.
    pub(super) fn is_listed(&self, server: usize, note: Note) -> bool {
        let is_there = !matches!(note, Note::Page(_)) || self.layout.is_keeper(server);
        is_there && self.latest(server, note).number > 0
    }

    /// A block of a server's directory as it is in memory, of no number.
    pub(super) fn directory(&self, server: usize, block: u32) -> DirectoryPart {
        let bits = Box::new([0; BITS_BYTES]);
        let mut part = DirectoryPart { number: 0, generation: 0, index: block, bits };
        for (bit, note) in (0..).zip(self.layout.notes_of(server, block)) {
            if self.is_listed(server, note) {
                part.insert(bit);
            }
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::Shape;
    use super::*;

    #[test]
    fn a_volume_of_a_pebibyte_takes_next_to_nothing_while_nothing_is_written() {
        let shape = Shape { object_bytes: 4 << 20, size_bytes: Some(1 << 50), candidates: 2 };
        let layout = Layout::plan(&shape, &[250 << 40; 4]).unwrap();
        assert!(layout.is_sound() && layout.objects_max() == 1 << 30);
        let volume = Volume::blank(VolumeId([1; 16]), layout, Office::default());
        assert_eq!(volume.size_bytes(), 1 << 50);
        assert_eq!(volume.choices.chosen().objects, 0);
    }
}
