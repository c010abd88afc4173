//! Contents of a tiered volume: what was written last is what is read, wherever moves took it.
//!
//! No bytes are kept. Each write has a number, and each block of a tier remembers the number of the
//! write that it holds and the block of the volume that it was for. A move carries these along:
//!
//! ```text
//! volume block 7   --write 12-->  slow:40 holds (7, 12)
//! move             reads slow:40, writes fast:3  -->  fast:3 holds (7, 12)
//! volume block 7   --write 13-->  slow:40 holds (7, 13)       the move must copy it again
//! volume block 7   --read ----->  fast:3 holds (7, 12) < 13   caught
//! ```
//!
//! A write counts from its answer on, a copy takes what is there when it sets out: the latest and
//! the earliest that a device may do. A read must find what had been answered when it came to the
//! gate; later writes it may miss, for it may be on its way to where they were not yet. A block
//! that nobody has written may hold nothing, but nobody else's.

use std::collections::BTreeMap;

use evenkeel_core::time::Nanos;

use super::{Rule, Verdict, broken};

/// Bytes of a block. A write to a part of one counts for all of it.
const BLOCK_BYTES: u64 = 4096;

/// What a block of a tier holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    /// The block of the volume.
    home: u64,
    /// The write.
    write: u64,
}

/// A part of the volume, and the server where it lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// First byte in the volume; of a step of a move, where in the step.
    pub(crate) offset: u64,
    /// Index of the server.
    pub(crate) server: u32,
    /// First byte there.
    pub(crate) server_offset: u64,
    /// Bytes.
    pub(crate) length: u64,
}

/// The contents of one volume and its tiers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    writes: u64,
    /// Writes answered so far.
    answered: u64,
    /// By server and block.
    held: BTreeMap<(u32, u64), Held>,
    /// By block of the volume: the last write that was answered, and as which.
    last: BTreeMap<u64, (u64, u64)>,
    /// What the last step that reads has read, by block of the step.
    copied: BTreeMap<u64, Held>,
}

impl Part {
    /// Blocks of the volume or step, and of the server.
    fn blocks(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let end = (self.offset + self.length).div_ceil(BLOCK_BYTES);
        let first = self.offset / BLOCK_BYTES;
        let there = self.server_offset / BLOCK_BYTES;
        (first..end.max(first)).zip(there..)
    }
}

impl Contents {
    /// How many writes had been answered by now: what a request that comes now must find.
    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    /// A write goes out; its number.
    pub(crate) fn begin_write(&mut self) -> u64 {
        self.writes += 1;
        self.writes
    }

    /// A write of this number was answered well.
    pub(crate) fn end_write(&mut self, part: &Part, write: u64) {
        self.answered += 1;
        for (home, there) in part.blocks() {
            let key = (part.server, there);
            let is_newer = |held: &Held| held.home != home || held.write < write;
            if self.held.get(&key).is_none_or(is_newer) {
                self.held.insert(key, Held { home, write });
            }
            let last = self.last.entry(home).or_default();
            *last = (*last).max((write, self.answered));
        }
    }

    /// A read goes out on behalf of a request that came when so many writes had been answered.
    pub(crate) fn read(&self, now: Nanos, part: &Part, answered: u64) -> Verdict {
        if self.last.is_empty() {
            return Ok(());
        }
        for (home, there) in part.blocks() {
            let held = self.held.get(&(part.server, there));
            let last = self.last.get(&home).filter(|(_, as_which)| *as_which <= answered);
            let is_right = match (held, last) {
                (None, last) => last.is_none(),
                (Some(held), last) => {
                    held.home == home && last.is_none_or(|(write, _)| held.write >= *write)
                }
            };
            if !is_right {
                let what = format!("block {home} is read from {part:?}, which holds {held:?}");
                return Err(broken(now, Rule::BytesAreWhereTheyBelong, what));
            }
        }
        Ok(())
    }

    /// A step of a move sets out to read.
    pub(crate) fn copy_from(&mut self, part: &Part) {
        if part.offset == 0 {
            self.copied.clear();
        }
        for (at, there) in part.blocks() {
            if let Some(held) = self.held.get(&(part.server, there)) {
                self.copied.insert(at, *held);
            }
        }
    }

    /// A step of a move has written what the last one read.
    pub(crate) fn copy_to(&mut self, part: &Part) {
        for (at, there) in part.blocks() {
            match self.copied.get(&at) {
                Some(held) => self.held.insert((part.server, there), *held),
                None => self.held.remove(&(part.server, there)),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos(1);

    fn part(offset: u64, server: u32, server_offset: u64) -> Part {
        let [offset, server_offset] = [offset, server_offset].map(|block| block * BLOCK_BYTES);
        Part { offset, server, server_offset, length: 2 * BLOCK_BYTES }
    }

    fn write(contents: &mut Contents, part: &Part) {
        let write = contents.begin_write();
        contents.end_write(part, write);
    }

    fn read(contents: &Contents, part: &Part) -> Option<Rule> {
        contents.read(NOW, part, contents.answered()).err().map(|violation| violation.rule)
    }

    /// Blocks 6 and 7 of the volume, first at 40 of server 0, then at 3 of server 1.
    fn moved(between: impl FnOnce(&mut Contents, &Part)) -> Contents {
        let mut contents = Contents::default();
        let from = part(6, 0, 40);
        write(&mut contents, &from);
        contents.copy_from(&part(0, 0, 40));
        between(&mut contents, &from);
        contents.copy_to(&part(0, 1, 3));
        contents
    }

    #[test]
    fn what_was_moved_is_read_from_either_place() {
        let contents = moved(|_, _| ());
        assert_eq!(read(&contents, &part(6, 0, 40)), None);
        assert_eq!(read(&contents, &part(6, 1, 3)), None);
    }

    #[test]
    fn a_write_that_the_copy_missed_is_noticed_by_who_comes_later() {
        let contents = moved(write);
        assert_eq!(read(&contents, &part(6, 1, 3)), Some(Rule::BytesAreWhereTheyBelong));
        assert!(contents.read(NOW, &part(6, 1, 3), 0).is_ok(), "it came before the write's answer");
    }

    #[test]
    fn bytes_of_somebody_else_and_of_nobody_are_noticed() {
        let contents = moved(|_, _| ());
        for wrong in [part(8, 1, 3), part(6, 1, 4), part(6, 1, 90)] {
            assert_eq!(read(&contents, &wrong), Some(Rule::BytesAreWhereTheyBelong), "{wrong:?}");
        }
        assert_eq!(read(&contents, &part(90, 1, 90)), None, "nobody wrote either");
    }

    #[test]
    fn what_a_copy_finds_unwritten_is_unwritten_where_it_goes() {
        let mut contents = moved(|_, _| ());
        contents.copy_from(&part(0, 0, 70));
        contents.copy_to(&part(0, 1, 3));
        assert_eq!(read(&contents, &part(20, 1, 3)), None);
    }
}
