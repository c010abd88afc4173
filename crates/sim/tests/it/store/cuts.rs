//! The store loses power: at every command of short work, and again and again in long work.
//!
//! `EVENKEEL_CRASH_POINTS` says how many power cuts there are in all, about; 50,000 without it,
//! which takes less than a minute. Short work is tried in full with some millions of them.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_core::prng::Prng;
use evenkeel_sim::disk::{CutOptions, Tearing};
use evenkeel_store::Tuning;

use super::clients::{Crowd, gather};
use super::crash::{Scene, cut, format, recover, scenes, scenes_of_making};
use super::history::History;
use super::random::{Calm, Ordeal, endure};
use super::real::{Real, Setup};
use super::short::{Depth, cuts_of, every_word};
use super::subject::{Act, Acts, Subject};

const POINTS: u64 = 50_000;
const VARIABLE: &str = "EVENKEEL_CRASH_POINTS";

/// So many per mille of all power cuts.
pub(crate) fn points(permille: u64) -> u64 {
    let all = std::env::var_os(VARIABLE).map_or(POINTS, |text| {
        let number = text.to_str().and_then(|text| text.replace('_', "").parse().ok());
        number.unwrap_or_else(|| panic!("{VARIABLE}={} is no number", text.display()))
    });
    all * permille / 1000
}

/// What the words of short work are made of: two blocks, written whole, in part, together, by
/// force, or given back.
const ALPHABET: [fn(u32) -> Act; 9] = [
    |author| paint(author, 0, 8, false),
    |author| paint(author, 8, 8, false),
    |author| paint(author, 0, 16, false),
    |author| paint(author, 0, 8, true),
    |author| paint(author, 3, 3, false),
    |_| Act::Discard { space: 0, first: 0, cells: 8 },
    |_| paint(0, 6, 12, false),
    |_| Act::Flush,
    |_| Act::Tidy,
];

fn paint(author: u32, first: u32, cells: u32, is_forced: bool) -> Act {
    Act::Paint { space: 0, first, cells, author, is_forced }
}

pub(crate) fn short(setup: &Setup, permille: u64) {
    let depth = Depth { acts_max: 4, cuts_max: 64, budget: points(permille) };
    match every_word::<Real>(setup, &format::<Real>(setup), &ALPHABET, depth) {
        Ok(tried) => println!("{tried:?}"),
        Err(violation) => panic!("{violation}"),
    }
}

#[test]
fn every_cut_of_short_work_leaves_a_prefix_on_one_drive() {
    short(&Setup::tiny(1, 1), 300);
}

#[test]
fn every_cut_of_short_work_leaves_a_prefix_on_a_mirrored_pair() {
    short(&Setup::tiny(2, 2), 300);
}

#[test]
fn every_cut_of_short_work_leaves_a_prefix_on_a_chain() {
    short(&Setup::tiny(3, 1), 100);
}

/// Work of a single client, with cuts until there were so many.
pub(crate) fn long(setup: &Setup, ordeal: Ordeal, seed: u64) -> Result<(), String> {
    let mut acts = Acts::new(seed);
    endure::<Real>(setup, ordeal, seed, Calm(move |history: &History| acts.draw(history.now())))
}

/// The same with snapshots and clones.
pub(crate) fn long_among_volumes(setup: &Setup, ordeal: Ordeal, seed: u64) -> Result<(), String> {
    let mut acts = Acts::new(seed);
    let script = Calm(move |history: &History| acts.draw_among_volumes(history.now()));
    endure::<Real>(setup, ordeal, seed, script)
}

/// The same with volumes that come, grow, shrink and go.
pub(crate) fn long_among_lives(setup: &Setup, ordeal: Ordeal, seed: u64) -> Result<(), String> {
    let mut acts = Acts::new(seed);
    let script = Calm(move |history: &History| acts.draw_among_lives(history.now()));
    endure::<Real>(setup, ordeal, seed, script)
}

/// A small volume, and room for half a dozen copies of it, so that there is always something to
/// clean.
pub(crate) fn with_room_for_copies(setup: &Setup) -> Setup {
    let spare_segments = 6 / setup.drives as u64 * u64::from(setup.copies);
    Setup { volume_bytes: 8 * 4096, spare_segments, ..setup.clone() }
}

const ORDEAL: Ordeal = Ordeal { cuts: 6, commands_max: 300, tearing: Tearing::Sectors };

fn endures(setup: &Setup, permille: u64) {
    for seed in 0..points(permille) / u64::from(ORDEAL.cuts) {
        assert_eq!(long(setup, ORDEAL, seed), Ok(()));
    }
}

#[test]
fn long_work_leaves_a_prefix_on_one_drive() {
    endures(&Setup::tiny(1, 1), 50);
}

#[test]
fn long_work_leaves_a_prefix_on_a_mirrored_pair() {
    endures(&Setup::tiny(2, 2), 50);
}

#[test]
fn long_work_leaves_a_prefix_on_a_chain() {
    endures(&Setup::tiny(3, 1), 40);
    endures(&Setup::tiny(5, 1), 10);
}

#[test]
fn long_work_leaves_a_prefix_on_rotating_pairs() {
    endures(&Setup::tiny(4, 2), 30);
    endures(&Setup::tiny(3, 2), 20);
}

/// Cuts the power while a store is made on these drives; how many were a store then, and how many
/// were refused.
fn half_made(setup: &Setup, start: Scene) -> (u32, u32) {
    let mut prng = Prng::new(1);
    let (mut opened, mut refused) = (0, 0);
    for scene in scenes_of_making::<Real>(setup, start) {
        for disks in cuts_of(&scene.disks, 64, &mut prng) {
            let mut after = Scene { disks, history: scene.history.clone() };
            match recover::<Real>(setup, &mut after) {
                Ok(()) => opened += 1,
                Err(error) => {
                    assert!(!error.contains("no world"), "neither old nor new: {error}");
                    refused += 1;
                }
            }
        }
    }
    (opened, refused)
}

#[test]
fn a_store_that_is_half_made_is_refused_or_empty() {
    let setup = Setup::tiny(2, 2);
    let disks = Real::drives(&setup);
    let history = History::new(Real::blank(&setup));
    let (opened, refused) = half_made(&setup, Scene { disks, history });
    assert!(opened > 0 && refused > 0, "{opened} opened, {refused} refused");
}

#[test]
fn a_store_that_is_half_made_over_another_is_refused_or_one_of_the_two() {
    let old = Setup::tiny(2, 2);
    let acts = [paint(9, 0, 64, true)];
    let mut scenes = scenes::<Real>(&old, &format::<Real>(&old), &acts).expect("a good store");
    let mut start = scenes.pop().expect("the end of the work");
    cut(&mut start.disks, 1, CutOptions::default());
    paint(0, 0, 64, false).changes(64).iter().for_each(|change| start.history.ask(change));
    let (opened, refused) = half_made(&Setup { name: 0xA0, ..old }, start);
    assert!(opened > 0 && refused > 0, "{opened} opened, {refused} refused");
}

/// Words of snapshots: a volume, a snapshot of it, a clone of that, all written to around.
const ALPHABET_OF_COPIES: [fn(u32) -> Act; 7] = [
    |author| paint(author, 0, 8, false),
    |author| Act::Paint { space: 2, first: 0, cells: 16, author, is_forced: false },
    |_| Act::Copy(0),
    |_| Act::Copy(1),
    |_| Act::RollBack { space: 0, to: 1 },
    |_| Act::Delete(1),
    |_| Act::Tidy,
];

#[test]
fn every_cut_of_short_work_with_snapshots_leaves_a_prefix() {
    let setup = with_room_for_copies(&Setup::tiny(1, 1));
    let depth = Depth { acts_max: 4, cuts_max: 32, budget: points(150) };
    match every_word::<Real>(&setup, &format::<Real>(&setup), &ALPHABET_OF_COPIES, depth) {
        Ok(tried) => println!("{tried:?}"),
        Err(violation) => panic!("{violation}"),
    }
}

fn endures_with_copies(setup: &Setup, permille: u64) {
    let setup = with_room_for_copies(setup);
    for seed in 0..points(permille) / u64::from(ORDEAL.cuts) {
        assert_eq!(long_among_volumes(&setup, ORDEAL, seed), Ok(()));
    }
}

#[test]
fn long_work_with_snapshots_leaves_a_prefix_on_one_drive() {
    endures_with_copies(&Setup::tiny(1, 1), 50);
}

#[test]
fn long_work_with_snapshots_leaves_a_prefix_on_mirrors() {
    endures_with_copies(&Setup::tiny(2, 2), 40);
    endures_with_copies(&Setup::tiny(3, 2), 20);
}

#[test]
fn long_work_with_snapshots_leaves_a_prefix_on_a_chain() {
    endures_with_copies(&Setup::tiny(3, 1), 30);
}

/// Words of volumes that come, shrink, grow and go, all written to around.
const ALPHABET_OF_LIVES: [fn(u32) -> Act; 7] = [
    |author| paint(author, 0, 16, false),
    |author| Act::Paint { space: 1, first: 0, cells: 16, author, is_forced: false },
    |_| Act::Create { cells: 16, is_thin: true },
    |_| Act::Resize { space: 1, cells: 8 },
    |_| Act::Resize { space: 1, cells: 32 },
    |_| Act::Delete(1),
    |_| Act::Tidy,
];

#[test]
fn every_cut_of_short_work_with_volumes_that_come_and_go_leaves_a_prefix() {
    let setup = with_room_for_copies(&Setup::tiny(1, 1));
    let depth = Depth { acts_max: 4, cuts_max: 32, budget: points(100) };
    match every_word::<Real>(&setup, &format::<Real>(&setup), &ALPHABET_OF_LIVES, depth) {
        Ok(tried) => println!("{tried:?}"),
        Err(violation) => panic!("{violation}"),
    }
}

fn endures_with_lives(setup: &Setup, permille: u64) {
    let setup = with_room_for_copies(setup);
    for seed in 0..points(permille) / u64::from(ORDEAL.cuts) {
        assert_eq!(long_among_lives(&setup, ORDEAL, seed), Ok(()));
        // Mostly recoveries, of which each is cut by the next.
        let often = Ordeal { cuts: 12, commands_max: 40, ..ORDEAL };
        assert_eq!(long_among_lives(&setup, often, seed), Ok(()));
    }
}

#[test]
fn long_work_with_volumes_that_come_and_go_leaves_a_prefix_on_one_drive() {
    endures_with_lives(&Setup::tiny(1, 1), 10);
}

#[test]
fn long_work_with_volumes_that_come_and_go_leaves_a_prefix_on_mirrors() {
    endures_with_lives(&Setup::tiny(2, 2), 10);
    endures_with_lives(&Setup::tiny(3, 2), 5);
}

#[test]
fn long_work_with_volumes_that_come_and_go_leaves_a_prefix_on_a_chain() {
    endures_with_lives(&Setup::tiny(3, 1), 10);
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = || {
        let mut acts = Acts::new(7);
        let notes = Rc::new(RefCell::new(Vec::new()));
        let book = Rc::clone(&notes);
        let script = Calm(move |history: &History| {
            let act = acts.draw(history.now());
            book.borrow_mut().push((format!("{act:?}"), history.now().clone()));
            act
        });
        endure::<Real>(&Setup::tiny(4, 2), ORDEAL, 7, script).expect("a good store");
        notes.take()
    };
    assert_eq!(run(), run());
}

/// So short a leash that the store flushes by itself all the time, and clients wait for it.
fn on_a_leash(setup: Setup) -> Setup {
    let tuning = Tuning { volatile_bytes: 64 << 10, log_bytes: 128 << 10, ..setup.tuning };
    Setup { tuning, spare_segments: 16, ..setup }
}

#[test]
fn flushes_of_the_stores_own_leave_a_prefix() {
    for setup in [Setup::tiny(1, 1), Setup::tiny(2, 2), Setup::tiny(3, 1), Setup::tiny(4, 2)] {
        endures(&on_a_leash(setup), 10);
    }
}

#[test]
fn flushes_of_the_stores_own_beside_many_clients_leave_one_order() {
    let crowd = Crowd { clients: 6, cuts: 6, commands_max: 300, is_ragged: false };
    for seed in 0..points(10) / u64::from(crowd.cuts) {
        for setup in [Setup::tiny(1, 1), Setup::tiny(4, 2)] {
            let outcome = gather(&on_a_leash(setup), crowd, seed);
            assert!(outcome.is_ok(), "{outcome:?}");
        }
    }
}

#[test]
fn records_of_a_mebibyte_are_atomic() {
    let setup = Setup { segment_bytes: 2 << 20, volume_bytes: 3 << 20, ..Setup::tiny(2, 2) };
    endures(&setup, 2);
}

fn crowds(is_ragged: bool, permille: u64) {
    let crowd = Crowd { clients: 6, cuts: 6, commands_max: 300, is_ragged };
    for setup in [Setup::tiny(1, 1), Setup::tiny(2, 2), Setup::tiny(3, 1), Setup::tiny(4, 2)] {
        for seed in 0..points(permille) / 4 / u64::from(crowd.cuts) {
            match gather(&setup, crowd, seed) {
                Ok(reads) => assert!(is_ragged || seed > 0 || reads > 0, "nobody reads"),
                Err(violation) => panic!("{setup:?} {violation}"),
            }
        }
    }
}

#[test]
fn what_many_clients_read_and_what_a_cut_leaves_has_one_order() {
    crowds(false, 30);
}

#[test]
fn what_a_cut_leaves_of_the_ragged_writes_of_many_clients_has_one_order() {
    crowds(true, 30);
}
