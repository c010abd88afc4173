//! The policy against a naive one of plain vectors, and against bytes.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use evenkeel_core::time::Nanos;
use proptest::prelude::*;

use super::frequency::Frequency;
use super::*;

/// What happens to a cache. Keys are small, so that they meet.
#[derive(Clone, Copy, Debug)]
enum Step {
    Read(u64),
    Write(u64),
    Forget(u64),
    /// To a key that nothing has.
    Move(u64),
    /// From now on, keys from here up are of the tail.
    Rotate(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || prop_oneof![3 => 0_u64..12, 1 => 0_u64..60];
    let step = prop_oneof![
        6 => key().prop_map(Step::Read),
        5 => key().prop_map(Step::Write),
        1 => key().prop_map(Step::Forget),
        1 => key().prop_map(Step::Move),
        1 => (0_u64..80).prop_map(Step::Rotate),
    ];
    proptest::collection::vec(step, 0..600)
}

fn measures() -> impl Strategy<Value = Measures> {
    let flash = (4_u32..9, 1_u32..4);
    let flash = flash.prop_map(|(regions, region_blocks)| FlashMeasures { regions, region_blocks });
    let flash = proptest::option::weighted(0.8, flash);
    (1_usize..10, 1_usize..14, flash).prop_map(|(tail_blocks, body_blocks, flash)| Measures {
        tail_blocks,
        body_blocks,
        flash,
    })
}

/// Newest in front, searched from end to end.
struct Naive {
    measures: Measures,
    tail: Vec<(u64, bool)>,
    small: Vec<(u64, u8)>,
    main: Vec<(u64, u8)>,
    ghosts: Vec<u64>,
    /// Of each region each block's key, and whether it was read.
    flash: Vec<Vec<Option<(u64, bool)>>>,
    /// The region that is opened next.
    next: usize,
    /// The region that is open, and the block that is filled next.
    open: Option<(usize, usize)>,
    tail_from: u64,
    frequency: Frequency,
    /// In parts of 256.
    bar: u32,
    /// Of each key that was seen.
    places: BTreeMap<u64, Place>,
    counters: CacheCounters,
}

/// What a block is to the chain; of each side some blocks are young.
fn standing(tail_from: u64, key: u64) -> Standing {
    let side = if key >= tail_from { Side::Tail } else { Side::Body };
    Standing { side, is_young: !(key + tail_from).is_multiple_of(3) }
}

fn remove<T: Copy>(list: &mut Vec<(u64, T)>, key: u64) -> bool {
    let before = list.len();
    list.retain(|&(other, _)| other != key);
    list.len() < before
}

impl Naive {
    fn new(measures: Measures) -> Self {
        let regions = measures.flash.map_or(0, |flash| flash.regions as usize);
        let region = vec![None; measures.flash.map_or(0, |flash| flash.region_blocks as usize)];
        Self {
            measures,
            tail: Vec::new(),
            small: Vec::new(),
            main: Vec::new(),
            ghosts: Vec::new(),
            flash: vec![region; regions],
            next: 0,
            open: None,
            tail_from: 0,
            frequency: Frequency::new(measures.flash.map_or(0, FlashMeasures::blocks)),
            bar: 0,
            places: BTreeMap::new(),
            counters: CacheCounters::default(),
        }
    }

    /// The place of a key, which never changes as long as the key is in use.
    fn place(&mut self, key: u64) -> Place {
        *self.places.entry(key).or_insert_with(|| Place::of(0, key / 3))
    }

    fn on_flash(&mut self, key: u64) -> Option<&mut Option<(u64, bool)>> {
        let mut blocks = self.flash.iter_mut().flatten();
        blocks.find(|block| block.is_some_and(|(other, _)| other == key))
    }

    fn is_in_memory(&self, key: u64) -> bool {
        self.tail.iter().any(|entry| entry.0 == key)
            || self.small.iter().chain(&self.main).any(|entry| entry.0 == key)
    }

    fn is_known(&mut self, key: u64) -> bool {
        self.is_in_memory(key) || self.on_flash(key).is_some() || self.ghosts.contains(&key)
    }

    fn read(&mut self, key: u64) -> &'static str {
        let is_of_tail = key >= self.tail_from;
        let place = self.place(key);
        self.frequency.note(place);
        let hits = if is_of_tail { &mut self.counters.tail } else { &mut self.counters.body };
        if let Some(entry) = self.tail.iter_mut().find(|entry| entry.0 == key) {
            entry.1 = true;
            hits.memory += 1;
            return "memory";
        }
        let mut body = self.small.iter_mut().chain(&mut self.main);
        if let Some(entry) = body.find(|entry| entry.0 == key) {
            entry.1 = (entry.1 + 1).min(3);
            hits.memory += 1;
            return "memory";
        }
        let on_flash = self.on_flash(key);
        let is_on_flash = on_flash.is_some();
        if let Some(block) = on_flash {
            *block = Some((key, true));
        }
        let hits = if is_of_tail { &mut self.counters.tail } else { &mut self.counters.body };
        if is_on_flash {
            hits.flash += 1;
        } else {
            hits.misses += 1;
        }
        let was_ghost = self.ghosts.contains(&key);
        self.enter_body(key, was_ghost);
        if is_on_flash { "flash" } else { "nowhere" }
    }

    fn write(&mut self, key: u64) {
        self.forget(key);
        let place = self.place(key);
        self.frequency.note(place);
        self.counters.written += 1;
        if self.tail.len() == self.measures.tail_blocks {
            let (old, was_read) = self.tail.pop().unwrap();
            if was_read {
                self.enter_body(old, true);
            } else {
                self.leave(old, false);
            }
        }
        self.tail.insert(0, (key, false));
    }

    fn enter_body(&mut self, key: u64, is_main: bool) {
        self.ghosts.retain(|&ghost| ghost != key);
        let small_target = (self.measures.body_blocks / 10).max(1);
        let mut left = None;
        while self.small.len() + self.main.len() >= self.measures.body_blocks {
            if self.small.len() >= small_target || self.main.is_empty() {
                let (old, count) = self.small.pop().unwrap();
                if count >= 2 {
                    self.main.insert(0, (old, 0));
                } else {
                    left = Some((old, false));
                    self.ghosts.insert(0, old);
                    self.ghosts.truncate((self.measures.body_blocks - small_target).max(1));
                }
            } else {
                let (old, count) = self.main.pop().unwrap();
                if count > 0 {
                    self.main.insert(0, (old, count - 1));
                } else {
                    left = Some((old, true));
                }
            }
        }
        let queue = if is_main { &mut self.main } else { &mut self.small };
        queue.insert(0, (key, 0));
        if let Some((old, was_main)) = left {
            self.leave(old, was_main);
        }
    }

    fn leave(&mut self, key: u64, was_main: bool) {
        let Some(flash) = self.measures.flash else { return };
        let place = self.place(key);
        let uses = u32::from(self.frequency.estimate(place));
        let is_young = standing(self.tail_from, key).is_young;
        if !(was_main || is_young || uses > 1) || self.on_flash(key).is_some() {
            return;
        }
        if self.worth(key) * 256 < self.bar {
            self.counters.flash_unworthy += 1;
            return;
        }
        if self.open.is_none() {
            self.make_room(flash.region_blocks as usize * 3 / 4);
        }
        let Some((region, at)) = self.open else { return };
        self.flash[region][at] = Some((key, false));
        self.counters.flash_written += 1;
        self.open = self.free_from(region, at + 1);
    }

    fn worth(&mut self, key: u64) -> u32 {
        let place = self.place(key);
        let weight = if standing(self.tail_from, key).side == Side::Tail { 4 } else { 1 };
        weight * u32::from(self.frequency.estimate(place))
    }

    fn make_room(&mut self, kept_max: usize) {
        let region = self.next;
        self.next = (self.next + 1) % self.flash.len();
        let before = std::mem::take(&mut self.flash[region]);
        let (mut kept, mut worth, mut dropped) = (0, 0, 0);
        for block in before {
            let stays = block.is_some_and(|(_, was_read)| was_read) && kept < kept_max;
            kept += usize::from(stays);
            self.flash[region].push(block.filter(|_| stays).map(|(key, _)| (key, false)));
            if let Some((key, _)) = block.filter(|_| !stays) {
                worth += self.worth(key);
                dropped += 1;
            }
        }
        if let Some(mean) = (worth * 256).checked_div(dropped) {
            self.bar = (self.bar * 4 + mean) / 5;
        }
        self.counters.flash_kept += kept as u64;
        self.counters.flash_written += kept as u64;
        self.open = self.free_from(region, 0);
    }

    fn free_from(&self, region: usize, from: usize) -> Option<(usize, usize)> {
        let free = (from..self.flash[region].len()).find(|&at| self.flash[region][at].is_none());
        free.map(|at| (region, at))
    }

    fn forget(&mut self, key: u64) {
        self.counters.died_in_memory += u64::from(remove(&mut self.tail, key));
        remove(&mut self.small, key);
        remove(&mut self.main, key);
        self.ghosts.retain(|&ghost| ghost != key);
        self.on_flash(key).into_iter().for_each(|block| *block = None);
        self.places.remove(&key);
    }

    fn rename(&mut self, from: u64, to: u64) {
        let place = self.places.remove(&from);
        self.places.extend(place.map(|place| (to, place)));
        let rename = |key: &mut u64| {
            if *key == from {
                *key = to;
            }
        };
        self.tail.iter_mut().for_each(|entry| rename(&mut entry.0));
        self.small.iter_mut().chain(&mut self.main).for_each(|entry| rename(&mut entry.0));
        let flash = self.flash.iter_mut().flatten().flatten().map(|block| &mut block.0);
        self.ghosts.iter_mut().chain(flash).for_each(rename);
    }
}

proptest! {
    #[test]
    fn each_read_finds_its_block_where_a_naive_cache_has_it(
        steps in steps(),
        measures in measures(),
    ) {
        let mut replay = Replay::new(Nanos::ZERO, measures, Endurance::default());
        let mut naive = Naive::new(measures);
        for step in steps {
            let tail_from = naive.tail_from;
            let standing = |Key(key)| standing(tail_from, key);
            match step {
                Step::Read(key) => {
                    let place = naive.place(key);
                    let found = match replay.read(Nanos::ZERO, Key(key), place, standing) {
                        Found::Memory(_) => "memory",
                        Found::Flash(_) => "flash",
                        Found::Nowhere => "nowhere",
                    };
                    prop_assert_eq!(found, naive.read(key));
                }
                Step::Write(key) => {
                    naive.places.remove(&key);
                    replay.write(Nanos::ZERO, Key(key), naive.place(key), standing);
                    naive.write(key);
                }
                Step::Forget(key) => {
                    replay.forget(Key(key));
                    naive.forget(key);
                }
                Step::Move(key) => {
                    let free = (0..1000).find(|&to| !naive.is_known(to)).unwrap();
                    replay.rename(Key(key), Key(free));
                    naive.rename(key, free);
                }
                Step::Rotate(key) => naive.tail_from = key,
            }
            prop_assert_eq!(replay.counters(), naive.counters);
        }
    }

    /// Here a frame and a block of the SSD hold the number of a content, and each key has its own.
    #[test]
    fn what_is_found_has_the_content_of_its_key(steps in steps(), measures in measures()) {
        let mut policy = Policy::new(Nanos::ZERO, measures, Endurance::default());
        let mut frames = vec![0; measures.frames()];
        let mut flash = vec![0; measures.flash.map_or(0, FlashMeasures::blocks)];
        let mut contents: BTreeMap<u64, u64> = BTreeMap::new();
        let mut tail_from = 0;
        for (number, step) in (1..).zip(steps) {
            let standing = |Key(key)| standing(tail_from, key);
            let (key, placed) = match step {
                Step::Read(key) => {
                    let content = *contents.entry(key).or_insert(number);
                    match policy.read(Key(key), Place::of(0, key), standing(Key(key)).side) {
                        Found::Memory(Frame(frame)) => {
                            prop_assert_eq!(frames[frame as usize], content);
                        }
                        Found::Flash(FlashBlock(block)) => {
                            prop_assert_eq!(flash[block as usize], content);
                        }
                        Found::Nowhere => {}
                    }
                    (key, policy.take_read(Nanos::ZERO, Key(key), Place::of(0, key), standing))
                }
                Step::Write(key) => {
                    contents.insert(key, number);
                    let place = Place::of(0, key);
                    let placed = policy.take_written(Nanos::ZERO, Key(key), place, standing);
                    (key, Some(placed))
                }
                Step::Forget(key) => {
                    policy.forget(Key(key));
                    contents.remove(&key);
                    continue;
                }
                Step::Move(key) => {
                    let free = (0..1000).find(|to| !contents.contains_key(to)).unwrap();
                    policy.rename(Key(key), Key(free));
                    let content = contents.remove(&key);
                    contents.extend(content.map(|content| (free, content)));
                    continue;
                }
                Step::Rotate(key) => {
                    tail_from = key;
                    continue;
                }
            };
            let Some(Placed { staged, frame }) = placed else { continue };
            if let Some(Staged { from, to, sealed }) = staged {
                flash[to.0 as usize] = frames[from.0 as usize];
                if let Some(region) = sealed {
                    policy.written(region);
                }
            }
            frames[frame.0 as usize] = contents[&key];
        }
    }
}

fn hot_and_cold(replay: &mut Replay, seconds: u64) {
    // Of each second's 64 blocks, 56 overwrite those of the second before, and 8 stay.
    for second in 0..seconds {
        let now = Nanos(second * 1_000_000_000);
        for block in 0..64 {
            if block < 56 && second > 0 {
                replay.forget(Key((second - 1) * 64 + block));
            }
            let place = Place::of(0, if block < 56 { block } else { second * 64 + block });
            replay.write(now, Key(second * 64 + block), place, |_| Side::Tail.into());
        }
    }
}

#[test]
fn what_is_overwritten_in_memory_never_wears_the_ssd() {
    let flash = Some(FlashMeasures { regions: 64, region_blocks: 16 });
    let measures = Measures { tail_blocks: 128, body_blocks: 16, flash };
    let mut replay = Replay::new(Nanos::ZERO, measures, Endurance::default());
    hot_and_cold(&mut replay, 1_000);
    let counters = replay.counters();
    let coalescing = counters.written as f64 / counters.flash_written as f64;
    assert!((7.9..8.2).contains(&coalescing), "{coalescing}: seven of eight blocks die in memory");
}

#[test]
fn a_budget_holds_whatever_is_written() {
    let flash = Some(FlashMeasures { regions: 64, region_blocks: 16 });
    let measures = Measures { tail_blocks: 1, body_blocks: 1, flash };
    let budget = 86_400 * 4 * 4096;
    let endurance =
        Endurance { budget_bytes_per_day: NonZeroU64::new(budget), ..Endurance::default() };
    let mut replay = Replay::new(Nanos::ZERO, measures, endurance);
    hot_and_cold(&mut replay, 86_400);
    let wear = replay.wear(Nanos(86_400 * 1_000_000_000));
    assert!(wear.written_bytes <= budget + budget / 24, "{wear:?}");
    assert!(wear.written_bytes >= budget, "and it is used: {wear:?}");
    assert!(replay.counters().flash_over_budget > 0);
}

#[test]
fn a_scan_neither_empties_the_memory_nor_wears_the_ssd() {
    let flash = Some(FlashMeasures { regions: 8, region_blocks: 16 });
    let measures = Measures { tail_blocks: 1, body_blocks: 100, flash };
    let mut replay = Replay::new(Nanos::ZERO, measures, Endurance::default());
    let mut read =
        |key| replay.read(Nanos::ZERO, Key(key), Place::of(0, key), |_| Side::Body.into());
    for _ in 0..4 {
        (0..80).for_each(|key| {
            read(key);
        });
    }
    (1_000..100_000).for_each(|key| {
        read(key);
    });
    let hits = (0..80).filter(|&key| matches!(read(key), Found::Memory(_))).count();
    assert!(hits >= 70, "{hits} of 80 are still there");
    assert!(replay.counters().flash_written < 1_000, "of 99,000: {:?}", replay.counters());
}
