//! A journal that is longer than what is looked ahead in it.

use std::collections::BTreeMap;
use std::ops::Range;

use super::super::format::PLACES_PER_BLOCK;
use super::super::layout::COPIES;
use super::super::rules::Mutant;
use super::super::{Refusal, Volume};
use super::*;
use crate::lease::Half;
use crate::trial::names::names;

const EXTENT_BYTES: u64 = 64 << 10;
/// Twice as many records have room as the slow tier has blocks of the map.
const SIZES_BYTES: [u64; 2] = [900 * PLACES_PER_BLOCK as u64 * EXTENT_BYTES, 1 << 30];
const MOVES: u32 = 700;

/// Tiers of which only what was written takes memory.
#[derive(Clone, Default)]
struct Tiers {
    blocks: [BTreeMap<u64, Block>; 2],
    /// Bytes that were read of the fast one.
    read_bytes: u64,
}

impl Tiers {
    fn read(&mut self, tier: usize, offset: u64, length: u64) -> Vec<u8> {
        self.read_bytes += if tier == 1 { length } else { 0 };
        let blocks = (offset..offset + length).step_by(BLOCK);
        let block = |at| self.blocks[tier].get(&at).copied().unwrap_or([0; BLOCK]);
        blocks.flat_map(block).collect()
    }

    fn write(&mut self, tier: usize, offset: u64, bytes: &[u8]) {
        let (blocks, _) = bytes.as_chunks::<BLOCK>();
        self.blocks[tier].extend((offset..).step_by(BLOCK).zip(blocks.iter().copied()));
    }

    fn open(&mut self, names: Names) -> Result<Volume, Refusal> {
        self.open_breaking(None, names)
    }

    fn open_breaking(&mut self, rule: Option<Mutant>, names: Names) -> Result<Volume, Refusal> {
        let device = |(name, size_bytes): (&str, u64)| PartDevice { name: name.into(), size_bytes };
        let devices = ["slow", "fast"].into_iter().zip(SIZES_BYTES).map(device).collect();
        let mut opening = Opening::new(names, EXTENT_BYTES, devices);
        opening.rules.mutant = rule;
        let mut now = Nanos::ZERO;
        loop {
            let bytes;
            let answer = match opening.poll(now) {
                Ask::Read { part, offset, length } => {
                    bytes = self.read(part, offset, length);
                    Answer::Read(&bytes)
                }
                Ask::Write { part, offset, bytes } => {
                    self.write(part, offset, bytes);
                    Answer::Done
                }
                Ask::Wait(span) => {
                    now += span;
                    Answer::Done
                }
                Ask::Flush { .. } | Ask::Fence(_) => Answer::Done,
                Ask::Ready(volume) => return Ok(*volume),
                Ask::Refused(refusal) => return Err(refusal),
            };
            opening.answer(answer);
        }
    }

    /// Moves these extents to the fast tier, each to the slot that the one before has left.
    fn note_moves(&mut self, volume: &mut Volume, extents: Range<u32>) {
        let mut bytes = Vec::new();
        for extent in extents {
            let from = volume.map.place(extent);
            let to = volume.map.take_free(1, |_| true).expect("one slot is free");
            let Volume { layout, journal, map, .. } = volume;
            let offset = journal.write_record(layout, extent, [from, to], &mut bytes);
            self.write(1, offset, &bytes);
            journal.record_is_durable();
            map.switch(extent, to);
            map.release(from);
        }
    }

    fn note_map(&mut self, volume: &mut Volume) {
        let Volume { layout, journal, map, .. } = volume;
        let mut bytes = Vec::new();
        let offset = journal.write_checkpoint(layout, map, (0, u32::MAX), &mut bytes);
        self.write(1, offset, &bytes);
        journal.checkpoint_is_durable();
    }

    fn damage(&mut self, offset: u64) {
        self.blocks[1].get_mut(&offset).expect("something was written")[200] ^= 1;
    }
}

/// A volume of which extents have moved, and names of the same gate for another opening.
fn used() -> (Tiers, Volume, Names) {
    let mut tiers = Tiers::default();
    let (owner, mut next) = (names("one gate"), names("one gate"));
    next.before.push(owner.owner);
    let mut volume = tiers.open(owner).expect("it is made");
    tiers.note_moves(&mut volume, 0..MOVES);
    tiers.read_bytes = 0;
    (tiers, volume, next)
}

#[test]
fn a_journal_is_read_no_further_than_to_its_end_and_what_is_looked_ahead() {
    let (mut tiers, used, names) = used();
    let volume = tiers.open(names).expect("nothing is wrong");
    assert_eq!((volume.journal.last(), &volume.map), (u64::from(MOVES), &used.map));
    let layout = &volume.layout;
    assert!(layout.journal_records > 1800, "{}", layout.journal_records);
    let map_bytes = u64::from(layout.extents.div_ceil(PLACES_PER_BLOCK)) * BLOCK_BYTES;
    let journal_bytes = (u64::from(MOVES) + 512 + 128) * COPIES as u64 * BLOCK_BYTES;
    let most = map_bytes + journal_bytes + (64 << 10);
    assert!(tiers.read_bytes <= most, "{} of {most}", tiers.read_bytes);
}

#[test]
fn records_that_are_damaged_before_later_ones_are_missed() {
    for damaged in [300..301, 1..2, 150..650] {
        let (mut tiers, used, names) = used();
        let sequence = damaged.start;
        for record in damaged {
            let offset = used.layout.record_offset(Half::First, record);
            tiers.damage(offset);
            tiers.damage(offset + BLOCK_BYTES);
        }
        let mut broken = tiers.clone();
        let volume = broken.open_breaking(Some(Mutant::StopAtGap), names.clone());
        let last = volume.expect("nobody has noticed").journal.last();
        assert_eq!(last, sequence - 1, "moves are forgotten");
        let refusal = tiers.open(names).expect_err("records are missing");
        assert_eq!(refusal.reason, RefusalReason::JournalDamaged { sequence });
    }
}

#[test]
fn a_journal_that_ends_before_what_members_know_of_is_missed() {
    let (mut tiers, used, first) = used();
    let mut second = names("one gate");
    second.before.push(first.owner);
    tiers.open(first).expect("nothing is wrong");
    let last = u64::from(MOVES) - 10;
    for record in last + 1..=u64::from(MOVES) {
        let offset = used.layout.record_offset(Half::First, record);
        tiers.damage(offset);
        tiers.damage(offset + BLOCK_BYTES);
    }
    let volume = tiers.clone().open_breaking(Some(Mutant::TrustEnd), second.clone());
    assert_eq!(volume.expect("nobody has noticed").journal.last(), last, "moves are forgotten");
    let refusal = tiers.open(second).expect_err("records are missing");
    assert_eq!(refusal.reason, RefusalReason::JournalCut { last, noted: MOVES.into() });
}

#[test]
fn a_damaged_map_is_made_up_for_by_the_one_before_and_the_records_since() {
    // The newer map is sure to be durable only if a record follows.
    for (later, block) in [(0, 400), (5, 400), (5, 0)] {
        let (mut tiers, mut used, names) = used();
        tiers.note_map(&mut used);
        tiers.note_moves(&mut used, MOVES..MOVES + later);
        let offset = used.layout.checkpoint_offset(Half::First, 1);
        tiers.damage(offset + block * BLOCK_BYTES);
        let volume = tiers.open(names).expect("the other map is whole");
        assert_eq!((volume.journal.last(), volume.map), (used.journal.last(), used.map));
    }
}
