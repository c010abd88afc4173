//! Every power cut of short work: each word over an alphabet of acts, each command at which the
//! power can go, each subset of what was not flushed.
//!
//! Of a word only the scenes of its last act are tried; those before are of shorter words. Where
//! there are too many subsets, some are drawn.

use evenkeel_core::prng::Prng;
use evenkeel_sim::disk::{CrashDisk, CutOptions, Tearing, every_cut};

use super::crash::{Scene, cut, recover, scenes};
use super::subject::{Act, Subject};

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depth {
    /// Acts of a word at most.
    pub(crate) acts_max: u32,
    /// Cuts of a scene at most, over all drives; all of them if there are no more.
    pub(crate) cuts_max: u64,
    /// Cuts in all, after which no further word is begun.
    pub(crate) budget: u64,
}

/// How much was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tried {
    pub(crate) cuts: u64,
    /// Whether no word was left out.
    pub(crate) is_all: bool,
}

/// Words are taken in steps of a prime, so that a budget is spent on words of every kind.
const STEP: u64 = 7_919;

/// Tries words from this scene on, the shortest first.
///
/// # Errors
/// The first violation, with the word.
pub(crate) fn every_word<S: Subject>(
    setup: &S::Setup,
    start: &Scene,
    alphabet: &[fn(u32) -> Act],
    depth: Depth,
) -> Result<Tried, String> {
    let letters = alphabet.len() as u64;
    let mut tried = Tried { cuts: 0, is_all: true };
    for length in 1..=depth.acts_max {
        let words = letters.pow(length);
        for turn in 0..words {
            if tried.cuts >= depth.budget {
                return Ok(Tried { is_all: false, ..tried });
            }
            let number = turn * STEP % words;
            let letter = |at: u32| {
                let index = number / letters.pow(at) % letters;
                alphabet[usize::try_from(index).expect("a letter of the alphabet")](at + 1)
            };
            let word: Vec<Act> = (0..length).map(letter).collect();
            let seed = number * 8 + u64::from(length);
            tried.cuts += every_cut_of_word::<S>(setup, start, &word, depth.cuts_max, seed)
                .map_err(|error| format!("{word:?}: {error}"))?;
        }
    }
    Ok(tried)
}

fn every_cut_of_word<S: Subject>(
    setup: &S::Setup,
    start: &Scene,
    word: &[Act],
    cuts_max: u64,
    seed: u64,
) -> Result<u64, String> {
    let mut prng = Prng::new(seed);
    let mut cuts = 0;
    for (number, scene) in scenes::<S>(setup, start, word)?.into_iter().enumerate() {
        for (choice, disks) in cuts_of(&scene.disks, cuts_max, &mut prng).enumerate() {
            let mut after = Scene { disks, history: scene.history.clone() };
            recover::<S>(setup, &mut after)
                .map_err(|error| format!("scene {number}, cut {choice}: {error}"))?;
            cuts += 1;
        }
    }
    Ok(cuts)
}

/// The drives after each combined cut, or after some.
pub(crate) fn cuts_of(
    disks: &[CrashDisk],
    cuts_max: u64,
    prng: &mut Prng,
) -> Box<dyn Iterator<Item = Vec<CrashDisk>>> {
    let each: Option<Vec<Vec<CrashDisk>>> =
        disks.iter().map(|disk| Some(every_cut(disk, 12)?.collect())).collect();
    let all = each.map(|each| {
        let ways = each.iter().map(|ways| ways.len() as u64).product::<u64>();
        (each, ways)
    });
    match all {
        Some((each, ways)) if ways <= cuts_max => Box::new((0..ways).map(move |way| {
            let mut left = way;
            let mut pick = |ways: &Vec<CrashDisk>| {
                let count = ways.len() as u64;
                let picked = usize::try_from(left % count).expect("an index of a vector");
                left /= count;
                ways[picked].clone()
            };
            each.iter().map(&mut pick).collect()
        })),
        _ => {
            let (disks, seed) = (disks.to_vec(), prng.next_u64());
            Box::new((0..cuts_max).map(move |way| {
                let mut disks = disks.clone();
                let options = CutOptions { tearing: Tearing::Sectors, may_ruin: way % 4 == 0 };
                cut(&mut disks, seed.wrapping_add(way), options);
                disks
            }))
        }
    }
}
