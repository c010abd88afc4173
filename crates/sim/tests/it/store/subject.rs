//! What the crash tests ask of a store, be it the real one or the toy that proves the tests.

use std::ops::Range;
use std::rc::Rc;

use evenkeel_core::prng::Prng;
use evenkeel_sim::disk::{CrashDisk, SimDrive};
use evenkeel_sim::executor::Clock;

use super::history::{Change, Space, World};
use super::stamp::Author;

/// Something that a client asks for.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Writes cells, or with author 0 zeroes; if `is_forced`, durably.
    Paint { space: Space, first: u32, cells: u32, author: Author, is_forced: bool },
    /// Discards cells, which read as zeroes from then on.
    Discard { space: Space, first: u32, cells: u32 },
    /// Makes all that was answered durable.
    Flush,
    /// Has the store tidy up by itself: cleaning, a checkpoint.
    Tidy,
    /// Writes nothing for a while.
    Rest,
    /// Makes a snapshot of a volume, or a clone of a snapshot.
    Copy(Space),
    /// Gives a volume the content of a snapshot.
    RollBack { space: Space, to: Space },
    /// Deletes a volume or snapshot.
    Delete(Space),
    /// Makes an empty volume of so many cells, of whole blocks, with all its room or with none.
    Create { cells: u32, is_thin: bool },
    /// Makes a volume larger or smaller.
    Resize { space: Space, cells: u32 },
}

/// What became of an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    /// There was no room for it, or nothing to do it to; nothing happened.
    Refused,
}

impl Act {
    /// What it changes, in pieces of which each happens wholly or not at all: writes are cut at the
    /// largest atomic piece, and zeroes that do not begin and end with a block have edges.
    pub(crate) fn changes(&self, atomic_cells: u32) -> Vec<Change> {
        match *self {
            Self::Paint { space, first, cells, author: 0, .. }
            | Self::Discard { space, first, cells } => {
                let end = first + cells;
                let first_whole = first.next_multiple_of(8).min(end);
                let last_whole = (end - end % 8).max(first_whole);
                [first..first_whole, last_whole..end, first_whole..last_whole]
                    .into_iter()
                    .filter(|cells| !cells.is_empty())
                    .map(|cells| paint(space, cells, 0))
                    .collect()
            }
            Self::Paint { space, first, cells, author, .. } => {
                let end = first + cells;
                let mut starts = vec![first];
                starts
                    .extend((first - first % 8 + atomic_cells..end).step_by(atomic_cells as usize));
                let ends = starts.iter().skip(1).copied().chain([end]);
                let pieces = starts.iter().zip(ends).map(|(start, end)| *start..end);
                pieces.map(|cells| paint(space, cells, author)).collect()
            }
            Self::Copy(of) => vec![Change::Copy(of)],
            Self::RollBack { space, to } => vec![Change::RollBack { space, to }],
            Self::Delete(space) => vec![Change::Delete(space)],
            Self::Create { cells, .. } => vec![Change::Create { cells }],
            Self::Resize { space, cells } => vec![Change::Resize { space, cells }],
            Self::Flush | Self::Tidy | Self::Rest => Vec::new(),
        }
    }

    /// Whether everything before it, and itself, is durable once it is answered.
    pub(crate) fn is_barrier(&self) -> bool {
        matches!(self, Self::Flush | Self::Paint { is_forced: true, .. })
    }
}

fn paint(space: Space, cells: Range<u32>, author: Author) -> Change {
    let (first, cells) = (cells.start, cells.end - cells.start);
    Change::Paint { space, first, cells, author }
}

/// A store under test. Errors are texts: without faults of the drives, each is a violation.
pub(crate) trait Subject: Sized + 'static {
    /// What a store is made and opened with.
    type Setup: Clone + 'static;

    /// Makes a store of the volumes of [`Self::blank`].
    async fn format(setup: Self::Setup, drives: Vec<SimDrive>) -> Result<(), String>;

    /// Opens a store and recovers it.
    async fn open(
        setup: Self::Setup,
        drives: Vec<SimDrive>,
        clock: Clock,
    ) -> Result<Rc<Self>, String>;

    /// Does what a client asks.
    async fn perform(&self, act: &Act) -> Result<Answer, String>;

    /// All that clients can see.
    async fn contents(&self) -> Result<World, String>;

    /// What clients see of a new store.
    fn blank(setup: &Self::Setup) -> World;

    /// Cells of the largest write that happens wholly or not at all.
    fn atomic_cells(setup: &Self::Setup) -> u32;

    /// The drives, blank.
    fn drives(setup: &Self::Setup) -> Vec<CrashDisk>;
}

/// Draws what a client asks for, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Acts {
    prng: Prng,
    author: Author,
}

/// The cells of the largest atomic record: 1 MiB.
const CELLS_MAX: u32 = 2048;

impl Acts {
    pub(crate) fn new(seed: u64) -> Self {
        Self { prng: Prng::new(seed), author: 0 }
    }

    /// A number below this.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.prng.below(u64::from(bound))).expect("below 32 bits")
    }

    /// An author that was never there before.
    pub(crate) fn author(&mut self) -> Author {
        self.author += 1;
        self.author
    }

    /// The next act in this world, whose space 0 is a volume.
    pub(crate) fn draw(&mut self, world: &World) -> Act {
        match self.below(100) {
            0..70 => self.paint(world),
            70..78 => {
                let (first, cells) = self.range(world);
                Act::Discard { space: 0, first, cells }
            }
            78..90 => Act::Flush,
            90..94 => Act::Rest,
            _ => Act::Tidy,
        }
    }

    /// The next act in a world of several volumes and snapshots, all of one family.
    pub(crate) fn draw_among_volumes(&mut self, world: &World) -> Act {
        const SPACES_MAX: u32 = 6;
        let count = u32::try_from(world.spaces.len()).expect("a small world");
        let any = self.below(count);
        match self.below(100) {
            0..16 if count < SPACES_MAX => Act::Copy(any),
            16..20 => Act::RollBack { space: any, to: self.below(count) },
            20..30 if any > 0 => Act::Delete(any),
            30..60 if world.is_volume(any) => {
                let blocks = u32::try_from(world.spaces[&any].len() / 8).expect("a small volume");
                let (first, author) = (self.below(blocks), self.author());
                let cells = 8 * (1 + self.below(3)).min(blocks - first);
                let author = if self.below(12) == 0 { 0 } else { author };
                let is_forced = self.below(12) == 0;
                Act::Paint { space: any, first: first * 8, cells, author, is_forced }
            }
            _ => self.draw(world),
        }
    }

    /// The next act in a world of volumes that come, grow, shrink and go, each with its snapshots.
    /// Space 0 stays, and keeps a block.
    pub(crate) fn draw_among_lives(&mut self, world: &World) -> Act {
        const SPACES_MAX: u32 = 5;
        let count = u32::try_from(world.spaces.len()).expect("a small world");
        let any = self.below(count);
        match self.below(100) {
            0..12 if count < SPACES_MAX => {
                Act::Create { cells: 8 * self.below(8), is_thin: self.below(2) == 0 }
            }
            12..30 => Act::Resize { space: any, cells: 8 * (self.below(9) + u32::from(any == 0)) },
            30..40 if any > 0 => Act::Delete(any),
            40..48 if count < SPACES_MAX => Act::Copy(any),
            48..52 => {
                let to = self.below(count);
                // An empty one would leave space 0 without a block.
                let to = if world.spaces[&to].is_empty() { 0 } else { to };
                Act::RollBack { space: any, to }
            }
            52..80 if world.is_volume(any) && !world.spaces[&any].is_empty() => {
                let blocks = u32::try_from(world.spaces[&any].len() / 8).expect("a small volume");
                let (first, author) = (self.below(blocks), self.author());
                let cells = 8 * (1 + self.below(3)).min(blocks - first);
                let is_forced = self.below(12) == 0;
                Act::Paint { space: any, first: first * 8, cells, author, is_forced }
            }
            _ => self.draw(world),
        }
    }

    fn paint(&mut self, world: &World) -> Act {
        let (first, cells) = self.range(world);
        let is_forced = self.below(12) == 0;
        let author = self.author();
        let author = if self.below(20) == 0 { 0 } else { author };
        Act::Paint { space: 0, first, cells, author, is_forced }
    }

    /// Mostly whole blocks, sometimes parts of them, seldom a great deal.
    fn range(&mut self, world: &World) -> (u32, u32) {
        let all = u32::try_from(world.spaces[&0].len()).expect("a small volume");
        let (first, cells) = match self.below(10) {
            0..6 => (self.below(all / 8) * 8, 8),
            6..8 => (self.below(all / 8) * 8, 8 * (1 + self.below(6))),
            8 => (self.below(all), 1 + self.below(20)),
            _ => (self.below(all), 1 + self.below(CELLS_MAX)),
        };
        (first, cells.min(all - first).min(CELLS_MAX))
    }
}
