//! The oracle for clients who wait for each answer: after a crash the store is as it was after some
//! prefix of what they asked.
//!
//! ```text
//!   asked      1   2   3   F   4   5   (6, no answer yet)
//!   image   0  |   |   |       |   |   |
//!                      +---- allowed --+      F was answered: not before 3
//! ```
//!
//! All volumes and snapshots count together, since they share one log: they are all at the same
//! point. What is not in the allowed part of the history is a violation, whatever it may be.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use super::stamp::Author;

/// A volume or snapshot, by its place among those that are there, the oldest first.
pub(crate) type Space = u32;

/// What a space holds, cell by cell.
pub(crate) type Image = Rc<Vec<Author>>;

/// Everything that clients can see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) spaces: BTreeMap<Space, Image>,
    /// Which of them never change.
    pub(crate) snapshots: BTreeSet<Space>,
}

/// A change, which happens wholly or not at all. One of what is not there, or not all of it,
/// changes nothing.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Some cells have this author from now on; nobody if they are zeroes.
    Paint { space: Space, first: u32, cells: u32, author: Author },
    /// There is a new space with the content of this one, a snapshot if this is a volume, else a
    /// volume.
    Copy(Space),
    /// The volume has the content of a snapshot.
    RollBack { space: Space, to: Space },
    /// It is gone, and the younger ones move up.
    Delete(Space),
    /// There is a new volume of zeroes.
    Create { cells: u32 },
    /// The volume has so many cells: zeroes behind those that it had, or fewer of them.
    Resize { space: Space, cells: u32 },
}

impl World {
    /// A world of one volume of zeroes.
    pub(crate) fn of(volumes: &[(Space, u32)]) -> Self {
        let blank = |&(space, cells): &(Space, u32)| (space, Rc::new(vec![0; cells as usize]));
        Self { spaces: volumes.iter().map(blank).collect(), ..Self::default() }
    }

    /// Whether this is a volume, which can be written to.
    pub(crate) fn is_volume(&self, space: Space) -> bool {
        self.spaces.contains_key(&space) && !self.snapshots.contains(&space)
    }

    /// Has a change happen.
    pub(crate) fn change(&mut self, change: &Change) {
        match *change {
            Change::Paint { space, first, cells, author }
                if self.is_volume(space)
                    && self.spaces[&space].len() as u64 >= u64::from(first) + u64::from(cells) =>
            {
                let image = self.spaces.get_mut(&space).expect("it is there");
                Rc::make_mut(image)[first as usize..][..cells as usize].fill(author);
            }
            Change::Copy(of) => {
                let Some(image) = self.spaces.get(&of).cloned() else { return };
                let space = u32::try_from(self.spaces.len()).expect("a small world");
                self.spaces.insert(space, image);
                if self.is_volume(of) {
                    self.snapshots.insert(space);
                }
            }
            Change::RollBack { space, to }
                if self.is_volume(space) && self.snapshots.contains(&to) =>
            {
                let image = Rc::clone(&self.spaces[&to]);
                self.spaces.insert(space, image);
            }
            Change::Delete(space) if self.spaces.contains_key(&space) => {
                self.spaces.remove(&space);
                let younger = |other: Space| if other > space { other - 1 } else { other };
                let spaces = std::mem::take(&mut self.spaces).into_iter();
                self.spaces = spaces.map(|(other, image)| (younger(other), image)).collect();
                self.snapshots.remove(&space);
                self.snapshots = self.snapshots.iter().map(|&other| younger(other)).collect();
            }
            Change::Create { cells } => {
                let space = u32::try_from(self.spaces.len()).expect("a small world");
                self.spaces.insert(space, Rc::new(vec![0; cells as usize]));
            }
            Change::Resize { space, cells } if self.is_volume(space) => {
                let image = self.spaces.get_mut(&space).expect("it is there");
                Rc::make_mut(image).resize(cells as usize, 0);
            }
            _ => {}
        }
    }
}

/// The worlds that a crash may leave. See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// From the last durable one to the last asked for.
    worlds: VecDeque<World>,
    /// How many of them came before the first of `worlds`.
    forgotten: u64,
}

impl History {
    /// A history that begins with a durable world.
    pub(crate) fn new(world: World) -> Self {
        Self { worlds: [world].into(), forgotten: 0 }
    }

    /// A client asks for a change.
    pub(crate) fn ask(&mut self, change: &Change) {
        let mut world = self.now().clone();
        world.change(change);
        self.worlds.push_back(world);
    }

    /// The store refused so many changes, the last that were asked for, and none of them happened.
    pub(crate) fn refused(&mut self, changes: usize) {
        self.worlds.truncate(self.worlds.len() - changes);
    }

    /// What clients see who have an answer to everything.
    pub(crate) fn now(&self) -> &World {
        self.worlds.back().expect("a history is never empty")
    }

    /// Everything asked for so far, and answered, is durable from now on.
    pub(crate) fn flushed(&mut self) {
        self.forgotten += self.worlds.len() as u64 - 1;
        self.worlds.drain(..self.worlds.len() - 1);
    }

    /// The worlds that a crash may leave, the oldest first.
    pub(crate) fn worlds(&self) -> impl Iterator<Item = &World> {
        self.worlds.iter()
    }

    /// Whether a crash may leave this world; a new history then begins with it.
    ///
    /// # Errors
    /// If it is no prefix; says which is the nearest.
    pub(crate) fn recover(&mut self, found: World) -> Result<(), String> {
        if !self.worlds.contains(&found) {
            return Err(self.explain(&found));
        }
        *self = Self::new(found);
        Ok(())
    }

    fn explain(&self, found: &World) -> String {
        let differences = |world: &World| {
            let lost = world.spaces.keys().filter(|space| !found.spaces.contains_key(space));
            let more = found.spaces.keys().filter(|space| !world.spaces.contains_key(space));
            let cells = found.spaces.iter().flat_map(|(space, image)| {
                let expected = world.spaces.get(space).into_iter().flat_map(|image| image.iter());
                (0..)
                    .zip(image.iter().zip(expected))
                    .filter(|(_, (found, other))| found != other)
                    .map(move |(cell, (found, other)): (u32, _)| {
                        format!("space {space} cell {cell}: {found} and not {other}")
                    })
            });
            let sizes = found.spaces.iter().filter_map(|(space, image)| {
                let (size, other) = (image.len(), world.spaces.get(space)?.len());
                (size != other).then(|| format!("space {space} has {size} cells and not {other}"))
            });
            let lost = lost.map(|space| format!("space {space} is missing"));
            let more = more.map(|space| format!("space {space} is there"));
            lost.chain(more).chain(sizes).chain(cells).collect::<Vec<_>>()
        };
        let nearest =
            (self.forgotten..).zip(&self.worlds).map(|(at, world)| (at, differences(world)));
        let (at, differences) =
            nearest.min_by_key(|(_, list)| list.len()).expect("a history is never empty");
        let last = self.forgotten + self.worlds.len() as u64 - 1;
        let shown = &differences[..differences.len().min(6)];
        format!(
            "no world from {} to {last} is what was found; nearest is {at}, but {}",
            self.forgotten,
            shown.join("; ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paint(first: u32, cells: u32, author: Author) -> Change {
        Change::Paint { space: 0, first, cells, author }
    }

    fn found(cells: &[Author]) -> World {
        World { spaces: [(0, Rc::new(cells.to_vec()))].into(), ..World::default() }
    }

    fn history() -> History {
        let mut history = History::new(World::of(&[(0, 3)]));
        history.ask(&paint(0, 1, 1));
        history.flushed();
        history.ask(&paint(0, 2, 2));
        history.ask(&paint(2, 1, 3));
        history
    }

    #[test]
    fn prefixes_since_the_last_flush_are_allowed() {
        for cells in [[1, 0, 0], [2, 2, 0], [2, 2, 3]] {
            assert_eq!(history().recover(found(&cells)), Ok(()));
        }
    }

    #[test]
    fn lost_torn_reordered_and_foreign_worlds_are_not() {
        for cells in [[0, 0, 0], [2, 0, 0], [1, 0, 3], [2, 2, 9]] {
            assert!(history().recover(found(&cells)).is_err(), "{cells:?}");
        }
    }

    #[test]
    fn a_volume_that_was_cut_short_has_zeroes_when_it_grows_again() {
        let mut history = History::new(World::of(&[(0, 3)]));
        history.ask(&paint(0, 3, 1));
        history.ask(&Change::Create { cells: 2 });
        history.ask(&Change::Resize { space: 0, cells: 1 });
        history.ask(&Change::Resize { space: 0, cells: 2 });
        let cells: Vec<_> = history.now().spaces.values().map(|image| image.to_vec()).collect();
        assert_eq!(cells, [[1, 0], [0, 0]]);
        assert!(history.recover(found(&[1])).is_err(), "the volume that was made is missing");
    }

    #[test]
    fn snapshots_stay_and_clones_go_their_own_way() {
        let mut history = History::new(World::of(&[(0, 2)]));
        history.ask(&paint(0, 1, 1));
        history.ask(&Change::Copy(0));
        history.ask(&Change::Copy(1));
        history.ask(&paint(1, 1, 2));
        history.ask(&Change::Paint { space: 2, first: 0, cells: 1, author: 3 });
        history.ask(&Change::Paint { space: 1, first: 0, cells: 1, author: 4 });
        let cells = |history: &History| -> Vec<Vec<Author>> {
            history.now().spaces.values().map(|image| image.to_vec()).collect()
        };
        assert_eq!(cells(&history), [[1, 2], [1, 0], [3, 0]]);
        history.ask(&Change::RollBack { space: 0, to: 1 });
        history.ask(&Change::Delete(1));
        assert_eq!(cells(&history), [[1, 0], [3, 0]]);
        assert!(history.now().is_volume(1));
        history.refused(2);
        assert_eq!(cells(&history).len(), 3);
    }
}
