//! The crash tests prove themselves: a right toy passes, and each mistake is found, by every cut of
//! short work as well as by long random work.

use evenkeel_sim::disk::Tearing;

use super::crash::format;
use super::history::History;
use super::random::{Calm, Ordeal, endure};
use super::short::{Depth, Tried, every_word};
use super::subject::{Act, Acts};
use super::toy::{Mistake, Toy};

/// Blocks, as a toy has them.
fn toy_act(acts: &mut Acts, _: &History) -> Act {
    match acts.below(10) {
        0..7 => {
            let author = acts.author();
            let is_forced = acts.below(10) == 0;
            Act::Paint { space: 0, first: acts.below(4) * 8, cells: 8, author, is_forced }
        }
        7..9 => Act::Flush,
        _ => Act::Tidy,
    }
}

fn ordeal(mistake: Mistake, seed: u64) -> Result<(), String> {
    let ordeal = Ordeal { cuts: 5, commands_max: 60, tearing: Tearing::Sectors };
    let mut acts = Acts::new(seed);
    endure::<Toy>(
        &mistake,
        ordeal,
        seed,
        Calm(move |history: &History| toy_act(&mut acts, history)),
    )
}

#[test]
fn a_right_store_endures() {
    for seed in 0..200 {
        assert_eq!(ordeal(Mistake::None, seed), Ok(()));
    }
}

#[test]
fn random_work_finds_every_mistake() {
    for mistake in Mistake::ALL {
        let violations = (0..200).filter(|seed| ordeal(mistake, *seed).is_err()).count();
        assert!(violations > 0, "{mistake:?}");
    }
}

fn paint(author: u32, block: u32) -> Act {
    Act::Paint { space: 0, first: block * 8, cells: 8, author, is_forced: false }
}

fn every_word_of_a_toy(mistake: Mistake) -> Result<Tried, String> {
    let alphabet: [fn(u32) -> Act; 4] =
        [|author| paint(author, 0), |author| paint(author, 1), |_| Act::Flush, |_| Act::Tidy];
    let depth = Depth { acts_max: 3, cuts_max: 64, budget: u64::MAX };
    every_word::<Toy>(&mistake, &format::<Toy>(&mistake), &alphabet, depth)
}

#[test]
fn every_cut_of_short_work_finds_most_mistakes() {
    let tried = every_word_of_a_toy(Mistake::None).unwrap();
    assert!(tried.is_all && tried.cuts > 500, "{tried:?}");
    for mistake in [Mistake::FlushNothing, Mistake::TrustRecords, Mistake::SkipGaps] {
        assert!(every_word_of_a_toy(mistake).is_err(), "{mistake:?}");
    }
}
