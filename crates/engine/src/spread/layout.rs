//! What lies where on the servers of a spread volume.
//!
//! ```text
//! | head A | head B | owner |  | directory, 4 copies | table, 4 | choices, 4 | slot 0 | ..
//! 0        4 KiB    8 KiB      16 KiB                                        data offset
//! ```
//!
//! Up to three servers keep the choices, the first ones at first.
//!
//! A head says what the server is, the owner which gate uses it. The table says which object lies
//! in which slot, the choices which of its candidates each object is on. The directory says which
//! blocks of these there are: a volume that is far larger than what is written in it has few. Every
//! block has room for four copies, two for each `Half`. An owner writes to the older one of its
//! half, so that a power cut that tears it costs nothing that was known before; and whoever takes
//! over from an owner that may still write uses the other half, and takes slots from the other end.
//! Copies of one kind lie together: to write all of a table anew takes few writes.

use std::fmt;

use super::format::directory::DIRECTORY_NOTES;
use super::members::Members;
use super::place::{OBJECTS_MAX, SLOTS_MAX};
use crate::lease::{FRONT_BYTES, Half, MEMBERS_MAX, OWNER_OFFSET};
use crate::notes::blank::ends_of;
use crate::notes::block::BLOCK_BYTES;
use evenkeel_core::bytes::Bytes;
use evenkeel_core::place::CANDIDATES_MAX;
use evenkeel_core::place::choices::PAGE_OBJECTS;

/// Most servers of one volume.
pub const SERVERS_MAX: usize = MEMBERS_MAX;
/// Servers that keep the choices: the first ones of a new volume, up to so many.
pub const KEEPERS_MAX: usize = 3;
/// Sizes that objects may have, in bytes; each is a power of two.
pub const OBJECT_BYTES: std::ops::RangeInclusive<u64> = (64 << 10)..=(64 << 20);
/// Entries of one block of a table.
pub(super) const ENTRIES_PER_BLOCK: u32 = 252;
/// Where the notes begin.
const NOTES_OFFSET: u64 = 4 * BLOCK_BYTES;
/// Copies of each block of directory, table and choices.
pub(super) const COPIES: u64 = 4;
/// Copies of which an owner writes the older one.
const COPIES_OF_HALF: u64 = COPIES / 2;
/// Part of the room that a volume has by default, in thousandths: below any sensible ceiling, so
/// that a disk that is written from end to end does not meet it.
const SIZE_MILLI: u64 = 900;

/// How many times larger a volume can become than it, or the room for it, was when it was made.
const GROWTH: u64 = 16;
/// The part of the smallest server that room for growth may take.
const GROWTH_PART: u64 = 64;

/// A block of what a server notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Note {
    /// This block of its directory.
    Directory(u32),
    /// This block of its table.
    Table(u32),
    /// This page of the choices.
    Page(u32),
}

impl Note {
    /// The one that follows it in its copy.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Directory(block) => Self::Directory(block + 1),
            Self::Table(block) => Self::Table(block + 1),
            Self::Page(page) => Self::Page(page + 1),
        }
    }
}

impl Half {
    /// The one that a copy of a block belongs to.
    pub(super) fn of_copy(copy: u64) -> Self {
        if copy < COPIES_OF_HALF { Self::First } else { Self::Second }
    }

    /// Its first copy.
    pub(super) fn first_copy(self) -> u64 {
        if self == Self::First { 0 } else { COPIES_OF_HALF }
    }
}

/// What a new volume is to be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Size of an object and of a slot; a power of two within [`OBJECT_BYTES`].
    pub object_bytes: u64,
    /// Size of the volume, rounded up to whole objects; nine tenths of the room if none is said.
    pub size_bytes: Option<u64>,
    /// Servers that are considered for each object, 2 to [`CANDIDATES_MAX`].
    pub candidates: usize,
}

/// What lies where. Offsets and sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Size of an object and of a slot.
    pub object_bytes: u64,
    /// Objects of the volume.
    pub objects: u32,
    /// Servers that are considered for each object.
    pub candidates: u32,
    /// Pages of the choices that there is room for.
    pub pages: u32,
    /// The servers, in the order of the policy.
    pub servers: Vec<ServerLayout>,
    /// Which of them objects are placed on.
    pub(super) members: Members,
}

/// The part of a server that holds objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLayout {
    /// The server's number within the volume.
    pub number: u32,
    /// Where the first slot begins.
    pub data_offset: u64,
    /// How many slots there are.
    pub slots: u32,
}

/// Why devices cannot be the servers of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// This server has no room for one object and what the volume notes of itself.
    TooSmall {
        /// The server.
        server: usize,
        /// The least that it must have.
        needed_bytes: u64,
    },
    /// The volume has more objects, or this server more slots, than can be numbered.
    TooMany {
        /// The server; the first one for the volume's objects.
        server: usize,
        /// The smallest objects that would do.
        object_bytes: u64,
    },
}

impl LayoutError {
    /// The server.
    pub fn server(&self) -> usize {
        let (Self::TooSmall { server, .. } | Self::TooMany { server, .. }) = self;
        *server
    }
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { needed_bytes, .. } => {
                write!(f, "it is too small: it needs at least {}", Bytes(*needed_bytes))
            }
            Self::TooMany { object_bytes, .. } => {
                write!(f, "there are too many objects: make them at least {}", Bytes(*object_bytes))
            }
        }
    }
}

impl Layout {
    /// The layout of a new volume over devices of these sizes.
    ///
    /// # Errors
    /// If a device is too small, or there are too many objects.
    ///
    /// # Panics
    /// Unless there are 2 to [`SERVERS_MAX`] servers and the shape is within its bounds; the
    /// policy's checks see to both.
    pub fn plan(shape: &Shape, sizes_bytes: &[u64]) -> Result<Self, LayoutError> {
        let Shape { object_bytes, size_bytes, candidates } = *shape;
        assert!(object_bytes.is_power_of_two() && OBJECT_BYTES.contains(&object_bytes));
        assert!((2..=SERVERS_MAX).contains(&sizes_bytes.len()), "2 to 64 servers");
        assert!((2..=CANDIDATES_MAX).contains(&candidates), "2 or 3 candidates");
        // Slots depend on what table and choices leave, and those on the number of slots: they are
        // made large enough for slots all over the devices.
        let most: u64 = sizes_bytes.iter().map(|bytes| bytes / object_bytes).sum();
        let wanted = size_bytes.map(|bytes| bytes.div_ceil(object_bytes));
        let most = wanted.unwrap_or(most);
        if most > u64::from(OBJECTS_MAX) {
            let object_bytes = grown(object_bytes, most, OBJECTS_MAX);
            return Err(LayoutError::TooMany { server: 0, object_bytes });
        }
        let smallest_bytes = sizes_bytes.iter().copied().min().unwrap_or(0);
        let pages = pages_for(most, smallest_bytes);
        let mut servers = Vec::new();
        for (server, &bytes) in sizes_bytes.iter().enumerate() {
            servers.push(place_slots(server, bytes, object_bytes, pages)?);
            servers[server].number = u32::try_from(server).expect("few servers");
        }
        let slots: u64 = servers.iter().map(|server| u64::from(server.slots)).sum();
        let objects = wanted.unwrap_or_else(|| (slots * SIZE_MILLI / 1000).max(1));
        let objects = u32::try_from(objects).expect("no more than there is room for");
        let pages = u32::try_from(pages).expect("a page tells of thousands of objects");
        let candidates = u32::try_from(candidates).expect("at most three");
        let members = Members::of_new(servers.len());
        Ok(Self { object_bytes, objects, candidates, pages, servers, members })
    }

    /// The most objects that the pages have room for.
    pub(super) fn objects_max(&self) -> u32 {
        let most = u64::from(self.pages) * PAGE_OBJECTS;
        u32::try_from(most).unwrap_or(u32::MAX).min(OBJECTS_MAX)
    }

    /// Size of the volume.
    pub fn size_bytes(&self) -> u64 {
        u64::from(self.objects) * self.object_bytes
    }

    /// Where a slot begins on its server.
    pub fn slot_offset(&self, server: usize, slot: u32) -> u64 {
        self.servers[server].data_offset + u64::from(slot) * self.object_bytes
    }

    /// The servers that keep the choices.
    pub fn keepers(&self) -> impl Iterator<Item = usize> {
        (0..self.servers.len()).filter(|server| self.is_keeper(*server))
    }

    /// Whether a server keeps the choices.
    pub fn is_keeper(&self, server: usize) -> bool {
        self.members.keepers & self.bit(server) != 0
    }

    /// Whether a server is to be left by all its objects.
    pub fn is_leaving(&self, server: usize) -> bool {
        self.members.after & self.bit(server) == 0
    }

    /// The lowest number that no server has. Even with fewer servers than numbers there may be
    /// none: one that has left keeps its own until the volume is opened without it.
    pub(super) fn free_number(&self) -> Option<u32> {
        let number = (self.members.all() | self.listed()).trailing_ones();
        ((number as usize) < SERVERS_MAX).then_some(number)
    }

    /// A server that joins by this number: this device of so many bytes.
    ///
    /// # Errors
    /// If it is too small or too large.
    pub(super) fn join(
        &mut self,
        server: usize,
        number: u32,
        size_bytes: u64,
    ) -> Result<(), LayoutError> {
        let joined = place_slots(server, size_bytes, self.object_bytes, self.pages.into())?;
        self.servers.insert(server, ServerLayout { number, ..joined });
        Ok(())
    }

    /// A server that is away: this number, and as many slots as others say; none if that cannot
    /// be.
    pub(super) fn leave_out(&mut self, server: usize, number: u32, slots: u32) -> Option<()> {
        let is_sound = (1..=SLOTS_MAX).contains(&slots) && server <= self.servers.len();
        // Where they begin nobody needs to know, as long as it is away.
        is_sound
            .then(|| self.servers.insert(server, ServerLayout { number, data_offset: 0, slots }))
    }

    /// The servers that there are, by their numbers.
    pub(super) fn listed(&self) -> u64 {
        (0..self.servers.len()).fold(0, |set, server| set | self.bit(server))
    }

    /// The bit that stands for a server in sets by number.
    pub(super) fn bit(&self, server: usize) -> u64 {
        1 << self.servers[server].number
    }

    /// Where the used part of a server ends.
    pub fn end(&self, server: usize) -> u64 {
        self.slot_offset(server, self.servers[server].slots)
    }

    /// Blocks of a server's table.
    pub(super) fn table_blocks(&self, server: usize) -> u32 {
        self.servers[server].slots.div_ceil(ENTRIES_PER_BLOCK)
    }

    /// Blocks of a server's directory.
    pub(super) fn directory_blocks(&self, server: usize) -> u32 {
        (self.table_blocks(server) + self.pages).div_ceil(DIRECTORY_NOTES)
    }

    /// The notes that a block of a server's directory tells of, in the order of its bits.
    pub(super) fn notes_of(&self, server: usize, block: u32) -> impl Iterator<Item = Note> {
        (0..DIRECTORY_NOTES).map_while(move |bit| self.note_of(server, block, bit))
    }

    /// The note that a bit of a block of a server's directory tells of, if there is room for one.
    pub(super) fn note_of(&self, server: usize, block: u32, bit: u32) -> Option<Note> {
        let number = block * DIRECTORY_NOTES + bit;
        match number.checked_sub(self.table_blocks(server)) {
            None => Some(Note::Table(number)),
            Some(page) => (page < self.pages).then_some(Note::Page(page)),
        }
    }

    /// The block of a server's directory that tells of a note, and which of its bits.
    ///
    /// # Panics
    /// If it is a block of the directory itself.
    pub(super) fn listed_in(&self, server: usize, note: Note) -> (u32, u32) {
        let number = match note {
            Note::Directory(_) => unreachable!("it lists itself nowhere"),
            Note::Table(block) => block,
            Note::Page(page) => self.table_blocks(server) + page,
        };
        (number / DIRECTORY_NOTES, number % DIRECTORY_NOTES)
    }

    /// Where the copies of each kind of note begin, and how many blocks a copy has.
    fn areas(&self, server: usize) -> [(Note, u64, u32); 3] {
        let counts = [self.directory_blocks(server), self.table_blocks(server), self.pages];
        let bytes = counts.map(|count| COPIES * u64::from(count) * BLOCK_BYTES);
        let [table, choices] = [NOTES_OFFSET + bytes[0], NOTES_OFFSET + bytes[0] + bytes[1]];
        [
            (Note::Directory(0), NOTES_OFFSET, counts[0]),
            (Note::Table(0), table, counts[1]),
            (Note::Page(0), choices, counts[2]),
        ]
    }

    /// Where a copy of a block stands.
    pub(super) fn note_offset(&self, server: usize, note: Note, copy: u64) -> u64 {
        let [directory, table, choices] = self.areas(server);
        let ((_, start, count), index) = match note {
            Note::Directory(block) => (directory, block),
            Note::Table(block) => (table, block),
            Note::Page(page) => (choices, page),
        };
        start + (copy * u64::from(count) + u64::from(index)) * BLOCK_BYTES
    }

    /// Which copy of which block stands there.
    pub(super) fn note_at(&self, server: usize, offset: u64) -> (Note, u64) {
        let areas = self.areas(server).into_iter().rev();
        let area = areas.into_iter().find(|(_, start, _)| *start <= offset);
        let (first, start, count) = area.expect("notes begin with the directory");
        let index = (offset - start) / BLOCK_BYTES;
        let (copy, index) = (index / u64::from(count), index % u64::from(count));
        let index = u32::try_from(index).expect("notes are numbered by u32");
        let note = match first {
            Note::Directory(_) => Note::Directory(index),
            Note::Table(_) => Note::Table(index),
            Note::Page(_) => Note::Page(index),
        };
        (note, copy)
    }

    /// The bytes of a server that an owner of this half notes in: directory, table and choices.
    pub(super) fn half_ranges(&self, server: usize, half: Half) -> [std::ops::Range<u64>; 3] {
        let (first, end) = (half.first_copy(), half.first_copy() + COPIES_OF_HALF);
        self.areas(server).map(|(note, _, _)| {
            self.note_offset(server, note, first)..self.note_offset(server, note, end)
        })
    }

    /// The bytes of a server's directory, all copies of it.
    pub(super) fn directory_range(&self, server: usize) -> std::ops::Range<u64> {
        NOTES_OFFSET..self.note_offset(server, Note::Table(0), 0)
    }

    /// The bytes in which a server notes.
    #[cfg(test)]
    pub(super) fn notes_range(&self, server: usize) -> std::ops::Range<u64> {
        let copies = if self.is_keeper(server) { COPIES } else { 0 };
        NOTES_OFFSET..self.note_offset(server, Note::Page(0), copies)
    }

    /// Where the first and the last block stand of all that a server may note beside its heads: any
    /// server may come to keep the choices.
    pub(super) fn note_ends(&self, server: usize) -> Vec<u64> {
        let copies = self.areas(server).into_iter().flat_map(|(first, _, blocks)| {
            let bytes = u64::from(blocks) * BLOCK_BYTES;
            let starts = (0..COPIES).map(move |copy| self.note_offset(server, first, copy));
            starts.map(move |start| start..start + bytes)
        });
        ends_of(std::iter::once(OWNER_OFFSET..FRONT_BYTES).chain(copies))
    }

    /// Whether the parts do not overlap and everything can be numbered.
    pub(super) fn is_sound(&self) -> bool {
        let fits = |(server, layout): (usize, &ServerLayout)| {
            layout.slots > 0
                && layout.slots <= SLOTS_MAX
                && layout.data_offset < 1 << 62
                && self.note_offset(server, Note::Page(0), COPIES) <= layout.data_offset
        };
        // This first: what it counts may not overflow.
        u64::from(self.pages) <= u64::from(OBJECTS_MAX).div_ceil(PAGE_OBJECTS)
            && self.servers.iter().enumerate().all(fits)
            && (1..=OBJECTS_MAX).contains(&self.objects)
            && u64::from(self.pages) >= u64::from(self.objects).div_ceil(PAGE_OBJECTS)
            && (2..=CANDIDATES_MAX).contains(&(self.candidates as usize))
    }
}

/// Pages that a new volume has room for: those of so many objects, and for as much growth as takes
/// next to nothing of its smallest server.
fn pages_for(objects: u64, smallest_bytes: u64) -> u64 {
    let grown = (GROWTH * objects).min(u64::from(OBJECTS_MAX)).div_ceil(PAGE_OBJECTS);
    let little = smallest_bytes / GROWTH_PART / (COPIES * BLOCK_BYTES);
    objects.div_ceil(PAGE_OBJECTS).max(grown.min(little))
}

/// The slots of a server of this size.
pub(super) fn place_slots(
    server: usize,
    size_bytes: u64,
    object_bytes: u64,
    pages: u64,
) -> Result<ServerLayout, LayoutError> {
    let most = size_bytes / object_bytes;
    let blocks = most.div_ceil(u64::from(ENTRIES_PER_BLOCK));
    // Any server may come to keep the choices.
    let notes = blocks + pages;
    let notes = notes + notes.div_ceil(u64::from(DIRECTORY_NOTES));
    let notes_bytes = NOTES_OFFSET + notes * COPIES * BLOCK_BYTES;
    let data_offset = notes_bytes.next_multiple_of(object_bytes);
    let slots = size_bytes.saturating_sub(data_offset) / object_bytes;
    if slots == 0 {
        let needed_bytes = data_offset + object_bytes;
        return Err(LayoutError::TooSmall { server, needed_bytes });
    }
    let slots = u32::try_from(slots).ok().filter(|count| *count <= SLOTS_MAX);
    let too_many =
        || LayoutError::TooMany { server, object_bytes: grown(object_bytes, most, SLOTS_MAX) };
    Ok(ServerLayout { number: 0, data_offset, slots: slots.ok_or_else(too_many)? })
}

/// The size of objects at which there are no more than `most` of them.
fn grown(object_bytes: u64, count: u64, most: u32) -> u64 {
    (object_bytes * count.div_ceil(u64::from(most)).max(2)).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SHAPE: Shape = Shape { object_bytes: 4 * MIB, size_bytes: None, candidates: 2 };

    #[test]
    fn slots_and_what_the_volume_notes_do_not_overlap() {
        let layout = Layout::plan(&SHAPE, &[4096 * MIB, 4096 * MIB, 1024 * MIB, 64 * MIB]).unwrap();
        assert_eq!(
            layout.servers[0],
            ServerLayout { number: 0, data_offset: 4 * MIB, slots: 1023 }
        );
        assert_eq!(layout.servers[3], ServerLayout { number: 3, data_offset: 4 * MIB, slots: 15 });
        assert_eq!((layout.keepers().count(), layout.pages), (3, 3));
        let pages = layout.note_offset(0, Note::Page(0), 0);
        assert_eq!(pages, 16384 + 16384 + 5 * 16384, "1023 entries, 252 in a block");
        assert_eq!(layout.notes_of(0, 0).count(), 5 + 3);
        for (bit, note) in (0..).zip(layout.notes_of(0, 0)) {
            assert_eq!(layout.listed_in(0, note), (0, bit));
        }
        for note in layout.notes_of(0, 0).chain([Note::Directory(0)]) {
            for copy in 0..COPIES {
                let offset = layout.note_offset(0, note, copy);
                assert!(layout.notes_range(0).contains(&offset));
                assert_eq!(layout.note_at(0, offset), (note, copy));
            }
        }
        assert_eq!(layout.directory_range(0), 16384..32768);
        assert_eq!(layout.size_bytes(), (2 * 1023 + 255 + 15) * 9 / 10 * 4 * MIB);
        assert!(layout.is_sound());
        let thin = Shape { size_bytes: Some(1 << 40), ..SHAPE };
        let thin = Layout::plan(&thin, &[64 * MIB, 64 * MIB]).unwrap();
        assert_eq!((thin.size_bytes(), thin.pages, thin.is_sound()), (1 << 40, 64, true));
    }

    #[test]
    fn who_joins_gets_the_lowest_number() {
        let mut layout = Layout::plan(&SHAPE, &[64 * MIB; 4]).unwrap();
        assert_eq!(layout.free_number(), Some(4));
        layout.join(1, 4, 64 * MIB).unwrap();
        let numbers: Vec<u32> = layout.servers.iter().map(|server| server.number).collect();
        assert_eq!((numbers, layout.listed()), (vec![0, 4, 1, 2, 3], 0b1_1111));
        let small = layout.join(0, 5, MIB).unwrap_err();
        assert_eq!(small, LayoutError::TooSmall { server: 0, needed_bytes: 8 * MIB });
        let mut crowd = Layout::plan(&SHAPE, &[64 * MIB; SERVERS_MAX]).unwrap();
        crowd.servers.remove(7);
        assert_eq!(crowd.free_number(), None, "the one that is gone has not been forgotten");
    }

    #[test]
    fn devices_that_cannot_serve_are_named() {
        let small = Layout::plan(&SHAPE, &[64 * MIB, 7 * MIB]).unwrap_err();
        assert_eq!(small, LayoutError::TooSmall { server: 1, needed_bytes: 8 * MIB });
        let shape = Shape { object_bytes: 64 << 10, size_bytes: Some(1 << 60), ..SHAPE };
        let large = Layout::plan(&shape, &[64 << 30, 64 << 30]).unwrap_err();
        assert!(matches!(large, LayoutError::TooMany { .. }), "{large}");
    }
}
