//! The store loses power: at every command of short work, and again and again in long work.
//!
//! `EVENKEEL_CRASH_POINTS` says how many power cuts there are in all, about; 50,000 without it,
//! which takes less than a minute. Short work is tried in full with some millions of them.

use evenkeel_sim::disk::Tearing;

use super::clients::{Crowd, gather};
use super::crash::format;
use super::history::History;
use super::random::{Calm, Ordeal, endure};
use super::real::{Real, Setup};
use super::short::{Depth, every_word};
use super::subject::{Act, Acts};

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

/// What the words of short work are made of: two blocks, written whole, in part, together, by force,
/// or given back.
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

fn short(setup: &Setup, permille: u64) {
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
