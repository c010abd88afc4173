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
use evenkeel_core::place::candidates::{Candidates, ObjectName};
use evenkeel_core::place::choices::{ChoiceMap, PAGE_OBJECTS};
use evenkeel_core::place::cluster::{DomainId, GroupMap, GroupOptions, Member};

use super::format::choices::Page;
use super::format::owner::OwnerId;
use super::format::table::{Entry, TablePart};
use super::layout::{ENTRIES_PER_BLOCK, Layout};
use super::place::Place;
use crate::notes::VolumeId;
use crate::notes::block::{BLOCK, Block};

/// Groups of the table that candidates are drawn from, as a power of two: 64 to each of 64 servers.
const GROUP_BITS: u32 = 12;

/// A volume that was opened. See [`super::Opening`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    pub(super) id: VolumeId,
    pub(super) owner: OwnerId,
    pub(super) owner_name: String,
    pub(super) generation: u64,
    pub(super) layout: Layout,
    pub(super) groups: GroupMap,
    /// By object.
    pub(super) places: Vec<Place>,
    pub(super) choices: ChoiceMap,
    /// Objects that were written and are not where they should be.
    pub(super) lost: BTreeSet<u32>,
    /// By server.
    pub(super) tables: Vec<Table>,
    /// By page: the number of its last version.
    pub(super) versions: Vec<u64>,
    /// By keeper, by page: the copy that was written last.
    pub(super) pages: Vec<Vec<Latest>>,
    /// The number of the last placing.
    pub(super) sequence: u64,
    pub(super) mended: Mended,
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
}

/// Where the newest copy of a block stands, and its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Latest {
    pub(super) number: u64,
    pub(super) copy: u64,
}

impl Latest {
    /// What the next write of the block has: the other copy, so that this one stays.
    pub(super) fn next(self) -> Self {
        Self { number: self.number + 1, copy: 1 - self.copy }
    }
}

/// What lies in the slots of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// By slot, and a bit beyond: up to the end of the last block.
    pub(super) entries: Vec<Option<Entry>>,
    /// By block.
    pub(super) latest: Vec<Latest>,
    /// Slots that may be taken; the next one last.
    pub(super) free: Vec<u32>,
}

impl Table {
    /// A table of nothing.
    pub(super) fn new(slots: u32) -> Self {
        let blocks = slots.div_ceil(ENTRIES_PER_BLOCK) as usize;
        Self {
            entries: vec![None; blocks * ENTRIES_PER_BLOCK as usize],
            latest: vec![Latest::default(); blocks],
            free: (0..slots).rev().collect(),
        }
    }
}

/// The seed of everything that is drawn by the volume's name.
fn seed(id: VolumeId) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| id.0[index]))
}

/// The table of groups: servers by their slots.
fn groups(id: VolumeId, layout: &Layout) -> GroupMap {
    let members: Vec<Member> = (0..)
        .zip(&layout.servers)
        .map(|(server, part)| Member {
            server: ServerId(server),
            capacity_bytes: u64::from(part.slots) * layout.object_bytes,
            domain: DomainId(server),
        })
        .collect();
    let options = GroupOptions { group_bits: GROUP_BITS, replicas: 1, seed: seed(id) };
    GroupMap::new(&members, options).expect("there are two servers with slots at least")
}

impl Volume {
    /// A volume in which nothing was written.
    pub(super) fn blank(
        id: VolumeId,
        layout: Layout,
        generation: u64,
        (owner, owner_name): (OwnerId, String),
    ) -> Self {
        let pages = layout.pages as usize;
        Self {
            id,
            owner,
            owner_name,
            generation,
            groups: groups(id, &layout),
            places: vec![Place::NOWHERE; layout.objects as usize],
            choices: ChoiceMap::new(u64::from(layout.pages) * PAGE_OBJECTS),
            lost: BTreeSet::new(),
            tables: layout.servers.iter().map(|server| Table::new(server.slots)).collect(),
            versions: vec![0; pages],
            pages: vec![vec![Latest::default(); pages]; layout.keepers()],
            sequence: 0,
            mended: Mended::default(),
            layout,
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

    /// How many objects were written and are not where they should be.
    pub fn lost_objects(&self) -> usize {
        self.lost.len()
    }

    /// The candidates of an object.
    pub(super) fn candidates(&self, object: u32) -> Candidates {
        let name = ObjectName { volume: seed(self.id), index: u64::from(object) };
        name.candidates(&self.groups, self.layout.candidates as usize)
    }

    /// The server of one candidate; none if there is no such candidate.
    pub(super) fn candidate(&self, object: u32, position: usize) -> Option<usize> {
        let candidates = self.candidates(object);
        candidates.sets(&self.groups).nth(position).map(|set| set[0].index())
    }

    /// The page that tells of an object.
    pub(super) fn page_of(object: u32) -> u32 {
        u32::try_from(u64::from(object) / PAGE_OBJECTS).expect("pages hold many objects")
    }

    /// Makes a block of a server's table, as it is in memory, to be written as `latest` says;
    /// returns where it goes.
    pub(super) fn encode_table(
        &self,
        server: usize,
        block: u32,
        latest: Latest,
        bytes: &mut Vec<u8>,
    ) -> u64 {
        let offset = Layout::table_offset(block, latest.copy);
        let size = ENTRIES_PER_BLOCK as usize;
        let entries = self.tables[server].entries[block as usize * size..][..size].to_vec();
        let (number, generation) = (latest.number, self.generation);
        let mut encoded: Block = [0; BLOCK];
        let part = TablePart { number, generation, index: block, entries };
        part.encode(self.id, offset, &mut encoded);
        bytes.clear();
        bytes.extend_from_slice(&encoded);
        offset
    }

    /// Makes a page of the choices, as it is in memory, for a copy on a keeper; returns where it
    /// goes.
    pub(super) fn encode_page(
        &self,
        keeper: usize,
        page: u32,
        copy: u64,
        bytes: &mut Vec<u8>,
    ) -> u64 {
        let offset = self.layout.page_offset(keeper, page, copy);
        let page = Page {
            number: self.versions[page as usize],
            generation: self.generation,
            index: page,
            bits: self.choices.page(page).try_into().expect("pages have one size"),
        };
        let mut encoded: Block = [0; BLOCK];
        page.encode(self.id, offset, &mut encoded);
        bytes.clear();
        bytes.extend_from_slice(&encoded);
        offset
    }
}
