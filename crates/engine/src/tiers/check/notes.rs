//! Map and journal of a tiered volume, block by block: what an opening passes over as well.

use std::fmt::Write;

use super::super::format::checkpoint::{self, CheckpointHead};
use super::super::format::journal::Record;
use super::super::format::{BLOCK_BYTES, PLACES_PER_BLOCK};
use super::super::journal::Checkpoint;
use super::super::layout::{COPIES, Layout};
use super::super::opening::KnownNotes;
use crate::care::{Doubt, Finding, Reads, Report, Severity, each_block};
use crate::notes::block::Block;

/// What stands in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found<T> {
    Whole(T),
    Blank,
    Damaged,
    Unreadable,
}

impl<T: Copy> Found<T> {
    fn of(block: Option<&Block>, decode: impl FnOnce(&Block) -> Option<T>) -> Self {
        match block {
            None => Self::Unreadable,
            Some(block) => match decode(block) {
                Some(whole) => Self::Whole(whole),
                None if block.iter().all(|byte| *byte == 0) => Self::Blank,
                None => Self::Damaged,
            },
        }
    }

    fn whole(&self) -> Option<T> {
        if let Self::Whole(whole) = self { Some(*whole) } else { None }
    }

    /// What is wrong with it.
    fn what(&self) -> &'static str {
        match self {
            Self::Whole(_) => "it is of another time than the rest",
            Self::Blank => "it is blank",
            Self::Damaged => "it is damaged",
            Self::Unreadable => "it cannot be read",
        }
    }

    /// Whether something stands there that nobody can tell.
    fn is_illegible(&self) -> bool {
        matches!(self, Self::Damaged | Self::Unreadable)
    }
}

/// What was read.
pub(super) struct Notes {
    known: KnownNotes,
    areas: [Vec<Found<CheckpointHead>>; 2],
    /// By position in the ring.
    pairs: Vec<[Found<Record>; COPIES]>,
}

impl Notes {
    /// Reads both maps and the journal of the half that counts.
    pub(super) fn read(known: KnownNotes, reads: &mut dyn Reads) -> Self {
        let (volume, half, fastest) = (known.volume, known.settled.half, known.layout.fastest());
        let blocks = u64::from(known.layout.extents.div_ceil(PLACES_PER_BLOCK));
        let areas = [0, 1].map(|area| {
            let mut found = Vec::new();
            let start = known.layout.checkpoint_offset(half, area);
            each_block(reads, fastest, start..start + blocks * BLOCK_BYTES, |offset, block| {
                let is_next =
                    |head: &CheckpointHead| u64::from(head.index) * BLOCK_BYTES == offset - start;
                found.push(Found::of(block, |block| {
                    let (head, _) = checkpoint::decode(volume, offset, block)?;
                    Some(head).filter(is_next)
                }));
            });
            found
        });
        let start = known.layout.journal_offset(half);
        let mut records = Vec::new();
        each_block(reads, fastest, start..start + known.layout.journal_bytes(), |offset, block| {
            records.push(Found::of(block, |block| Record::decode(volume, offset, block)));
        });
        let (pairs, _) = records.as_chunks::<COPIES>();
        let pairs = pairs.to_vec();
        Self { known, areas, pairs }
    }

    fn layout(&self) -> &Layout {
        &self.known.layout
    }

    /// Whether something of this term counts.
    fn counts(&self, term: u64) -> bool {
        term >= self.known.settled.since
    }

    /// The map in an area, if all of it is whole.
    fn whole_map(&self, area: usize) -> Option<CheckpointHead> {
        let first = self.areas[area].first()?.whole().filter(|head| self.counts(head.term))?;
        let key = |head: CheckpointHead| (head.number, head.sequence, head.term);
        let mut blocks = self.areas[area].iter();
        blocks.all(|block| block.whole().is_some_and(|one| key(one) == key(first))).then_some(first)
    }

    fn newest_record(&self) -> u64 {
        let records = self.pairs.iter().flatten().filter_map(Found::whole);
        records.filter(|one| self.counts(one.term)).map(|one| one.sequence).max().unwrap_or(0)
    }

    /// Tells what is there, and what is wrong.
    pub(super) fn report(&self, report: &mut Report) {
        let used = self.known.map_used;
        for area in [0, 1] {
            self.report_map(area, used.as_ref(), report);
        }
        let last = self.known.last.unwrap_or_else(|| self.newest_record().max(self.known.noted));
        let maps = [0, 1].map(|area| self.whole_map(area));
        let first = maps.iter().flatten().map(|map| map.sequence).min();
        let first = first.or_else(|| used.map(|map| map.sequence)).unwrap_or(0);
        let room = u64::from(self.layout().journal_records);
        for sequence in first.max(last.saturating_sub(room)) + 1..=last {
            self.report_record(sequence, report);
        }
        if self.known.last.is_some() {
            self.report_end(last, report);
        }
        let mut told = format!("ends with move {last}");
        if self.known.noted > 0 {
            let _ = write!(told, "; durable for certain: {}", self.known.noted);
        }
        report.facts.push(("journal", told));
    }

    /// Tells of the map in an area.
    fn report_map(&self, area: usize, used: Option<&Checkpoint>, report: &mut Report) {
        let whole = self.whole_map(area);
        let is_used = used.is_some_and(|used| used.area as usize == area);
        let name = if area == 0 { "map, area 0" } else { "map, area 1" };
        if let Some(map) = whole {
            let told = format!("number {}, with all moves up to {}", map.number, map.sequence);
            let standing = match used {
                None => "not used",
                Some(_) if is_used => "used",
                Some(used) if map.number > used.number => {
                    "passed over: no record was written after it"
                }
                Some(_) => "the one before",
            };
            report.facts.push((name, format!("{told}; {standing}")));
        }
        let Some(used) = used.filter(|_| !is_used) else {
            if whole.is_none() {
                self.report_bad_blocks(area, "no other map is whole", report);
            }
            return;
        };
        let is_neighbour = |number: u64| number + 1 == used.number || used.number + 1 == number;
        if let Some(map) = whole {
            if !is_neighbour(map.number) {
                let what = format!(
                    "it has number {}, and should have {}: a write was lost",
                    map.number,
                    used.number - 1
                );
                report.push(self.bad_map(area, 0, what, "only one map can be used"));
            }
            return;
        }
        // A map that was being written is that of the moves so far, over the one before the last.
        let is_first = used.number == 1;
        let may_be_cut = |block: &Found<CheckpointHead>| match block {
            Found::Whole(head) => is_neighbour(head.number),
            Found::Blank => is_first,
            Found::Damaged | Found::Unreadable => false,
        };
        if self.areas[area].iter().all(may_be_cut) {
            if !self.areas[area].iter().all(|block| *block == Found::Blank) {
                report.facts.push((name, "was being written; passed over".to_owned()));
            }
            return;
        }
        report.facts.push((name, "damaged; passed over".to_owned()));
        self.report_bad_blocks(area, "the other map is the only one", report);
    }

    fn report_bad_blocks(&self, area: usize, consequence: &str, report: &mut Report) {
        let newest = self.areas[area].iter().filter_map(Found::whole).map(|head| head.number).max();
        for (index, block) in self.areas[area].iter().enumerate() {
            let is_rest =
                |head: CheckpointHead| Some(head.number) == newest && self.counts(head.term);
            if !block.whole().is_some_and(is_rest) {
                report.push(self.bad_map(area, index, block.what().to_owned(), consequence));
            }
        }
    }

    fn bad_map(&self, area: usize, index: usize, what: String, consequence: &str) -> Finding {
        let half = self.known.settled.half;
        let start = self.layout().checkpoint_offset(half, u32::from(area == 1));
        Finding {
            severity: Severity::Warning,
            member: Some(self.layout().fastest()),
            offset: Some(start + index as u64 * BLOCK_BYTES),
            part: format!("block {index} of the map in area {area}"),
            what,
            consequence: consequence.to_owned(),
            remedy: "evenkeel volume repair writes that map anew".to_owned(),
            doubt: Doubt::None,
        }
    }

    /// Tells of copies of a record that are not whole.
    fn report_record(&self, sequence: u64, report: &mut Report) {
        let pair = self.pair(sequence);
        let fits = |one: &Record| one.sequence == sequence && self.counts(one.term);
        let whole = pair.iter().filter_map(Found::whole).filter(fits);
        let record = whole.max_by_key(|one| one.term);
        for (copy, found) in pair.iter().enumerate() {
            if record.is_some() && found.whole() == record {
                continue;
            }
            let what = match found {
                Found::Whole(other) if other.sequence != sequence => {
                    format!("record {} stands there", other.sequence)
                }
                found => found.what().to_owned(),
            };
            let consequence = if record.is_some() {
                "the other copy is the only one"
            } else {
                "neither copy is whole: where the extent lies that moved is not known"
            };
            let remedy = if record.is_some() {
                "evenkeel volume repair writes it again"
            } else {
                "restore all tiers from the same backup"
            };
            report.push(Finding {
                severity: Severity::Warning,
                what,
                consequence: consequence.to_owned(),
                remedy: remedy.to_owned(),
                ..self.at_record(sequence, copy)
            });
        }
    }

    /// Tells of a record behind the end that may have been one.
    fn report_end(&self, last: u64, report: &mut Report) {
        if !self.pair(last + 1).iter().all(Found::is_illegible) {
            return;
        }
        report.push(Finding {
            severity: Severity::Warning,
            what: "both copies are damaged".to_owned(),
            consequence: format!(
                "if move {} had come to its end, the extent is looked for where it was before; if \
                 a power cut tore the record, nothing is missing",
                last + 1
            ),
            remedy: "the next move writes over it".to_owned(),
            doubt: Doubt::MayBeOlder,
            ..self.at_record(last + 1, 0)
        });
    }

    fn at_record(&self, sequence: u64, copy: usize) -> Finding {
        let offset = self.layout().record_offset(self.known.settled.half, sequence);
        Finding {
            severity: Severity::Warning,
            member: Some(self.layout().fastest()),
            offset: Some(offset + copy as u64 * BLOCK_BYTES),
            part: format!("record {sequence} of the journal, copy {copy}"),
            what: String::new(),
            consequence: String::new(),
            remedy: String::new(),
            doubt: Doubt::None,
        }
    }

    fn pair(&self, sequence: u64) -> &[Found<Record>; COPIES] {
        let index = sequence % u64::from(self.layout().journal_records);
        &self.pairs[usize::try_from(index).expect("the journal is in memory")]
    }
}
