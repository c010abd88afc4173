//! The crash tests prove themselves: a right toy passes, and each mistake is found, by every cut of
//! short work as well as by long random work.

use evenkeel_sim::disk::{Tearing, every_cut};

use super::crash::{Scene, format, recover, scenes};
use super::history::History;
use super::random::{Ordeal, endure};
use super::subject::{Act, Acts, SnapshotUse};
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
    let mut acts = Acts::new(seed, SnapshotUse::Never);
    endure::<Toy>(&mistake, ordeal, seed, move |history| toy_act(&mut acts, history))
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

/// Every way to cut the power in three acts; how many there are.
fn every_way(mistake: Mistake, acts: &[Act]) -> Result<u64, String> {
    let start = format::<Toy>(&mistake);
    let mut ways = 0;
    for Scene { disks, history } in scenes::<Toy>(&mistake, &start, acts)? {
        for disk in every_cut(&disks[0], 12).expect("a toy writes little") {
            let mut scene = Scene { disks: vec![disk], history: history.clone() };
            recover::<Toy>(&mistake, &mut scene)?;
            ways += 1;
        }
    }
    Ok(ways)
}

#[test]
fn every_cut_of_short_work_is_tried() {
    let paint = |author, block: u32| Act::Paint {
        space: 0,
        first: block * 8,
        cells: 8,
        author,
        is_forced: false,
    };
    let acts = [paint(1, 0), Act::Flush, paint(2, 0), paint(3, 1)];
    let ways = every_way(Mistake::None, &acts).unwrap();
    assert!(ways > 60, "{ways}");
    for mistake in [Mistake::FlushNothing, Mistake::TrustRecords, Mistake::SkipGaps] {
        assert!(every_way(mistake, &acts).is_err(), "{mistake:?}");
    }
}
