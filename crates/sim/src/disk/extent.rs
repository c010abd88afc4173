//! A run of bytes for a place, or of zeroes: what a write carries, whole or in parts.

use std::sync::Arc;

use super::command::Command;
use super::crash_disk::Unflushed;
use super::cut::{Fate, UnitFate};
use super::platter::Platter;

/// Bytes for a place, or zeroes; see the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Extent {
    pub(super) offset: u64,
    pub(super) length_bytes: u64,
    /// The bytes, from this index on; zeroes without.
    pub(super) bytes: Option<(Arc<[u8]>, u64)>,
    /// Counts acknowledged writes; zero as long as it is none.
    pub(super) sequence: u64,
    pub(super) effect: Effect,
}

/// What it does to the zone that it lies in, if it lies in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The pointer comes to stand behind it.
    Write,
    /// The zone is empty.
    Reset,
    /// The zone is full; nothing is written.
    Finish,
}

impl Extent {
    /// A write of these bytes, or of zeroes without.
    pub(super) fn new(offset: u64, length_bytes: u64, bytes: Option<Arc<[u8]>>) -> Self {
        let bytes = bytes.map(|bytes| (bytes, 0));
        Self { offset, length_bytes, bytes, sequence: 0, effect: Effect::Write }
    }

    /// What a command changes, if it changes anything.
    pub(super) fn of(command: &Command) -> Option<Self> {
        let (offset, length_bytes) = command.range();
        let (bytes, effect) = match command {
            Command::Read { .. } | Command::Flush => return None,
            Command::Write { bytes, .. } => (Some(bytes.clone()), Effect::Write),
            Command::WriteZeroes { .. } | Command::Discard { .. } => (None, Effect::Write),
            Command::ResetZone { .. } => (None, Effect::Reset),
            Command::FinishZone { .. } => (None, Effect::Finish),
        };
        Some(Self { effect, ..Self::new(offset, length_bytes, bytes) })
    }

    /// What the fate of a power cut is asked about.
    pub(super) fn describe(&self, in_flight: bool) -> Unflushed {
        let carries_bytes = self.bytes.is_some();
        Unflushed { offset: self.offset, length_bytes: self.length_bytes, carries_bytes, in_flight }
    }

    fn end(&self) -> u64 {
        self.offset + self.length_bytes
    }

    /// The part from `start` bytes after its offset.
    pub(super) fn part(&self, start: u64, length_bytes: u64) -> Self {
        let bytes = self.bytes.clone().map(|(bytes, first)| (bytes, first + start));
        let offset = self.offset + start;
        Self { offset, length_bytes, bytes, sequence: self.sequence, effect: self.effect }
    }

    /// What of it lies outside `newer`.
    pub(super) fn minus(&self, newer: &Self) -> impl Iterator<Item = Self> + use<> {
        let before = newer.offset.clamp(self.offset, self.end()) - self.offset;
        let after = newer.end().clamp(self.offset, self.end()) - self.offset;
        let parts = if before < after {
            [self.part(0, before), self.part(after, self.length_bytes - after)]
        } else {
            [self.clone(), self.part(0, 0)]
        };
        parts.into_iter().filter(|part| part.length_bytes > 0)
    }

    /// Writes all of it.
    pub(super) fn apply(&self, platter: &mut Platter) {
        match &self.bytes {
            None if self.effect == Effect::Finish => {}
            None => platter.zero(self.offset, self.length_bytes),
            Some((bytes, first)) => {
                let range = *first..first + self.length_bytes;
                let [start, end] = [range.start, range.end]
                    .map(|at| usize::try_from(at).expect("within bytes in memory"));
                platter.write(self.offset, &bytes[start..end]);
            }
        }
    }

    /// Writes what its fate leaves of it.
    pub(super) fn suffer(&self, fate: &Fate, medium: &mut Platter) {
        match fate {
            Fate::Lost => {}
            Fate::Kept => self.apply(medium),
            Fate::Torn { unit_bytes, units } => {
                for (index, unit) in (0..).zip(units) {
                    let start = (index * unit_bytes).min(self.length_bytes);
                    let part = self.part(start, (*unit_bytes).min(self.length_bytes - start));
                    match unit {
                        UnitFate::Old => {}
                        UnitFate::New => part.apply(medium),
                        UnitFate::Ruined => medium.ruin(part.offset, part.length_bytes),
                    }
                }
            }
        }
    }
}
