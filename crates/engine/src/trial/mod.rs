//! What trials of volumes stand on: drives that reorder, tear and fail, the truth about what a
//! client may read, and the world that brings both together with an engine.

pub(crate) mod care;
pub(crate) mod damage;
pub(crate) mod disk;
pub(crate) mod names;
pub(crate) mod oracle;
pub(crate) mod world;

use std::fmt::Debug;
use std::ops::Range;

/// What can be tried with any seed.
pub(crate) trait Trial: Copy {
    /// Runs it.
    ///
    /// # Errors
    /// What was noticed.
    fn run(self, seed: u64) -> Result<(), String>;
}

/// The first seed in which a trial notices something.
fn noticed(seeds: Range<u64>, trial: impl Trial) -> Option<(u64, String)> {
    seeds.into_iter().find_map(|seed| trial.run(seed).err().map(|why| (seed, why)))
}

pub(crate) fn assert_clean(seeds: Range<u64>, trial: impl Trial) {
    if let Some((seed, why)) = noticed(seeds, trial) {
        panic!("seed {seed}: {why}");
    }
}

/// A trial in which this rule is broken notices that in one of these seeds.
pub(crate) fn assert_noticed(rule: impl Debug, seeds: Range<u64>, trial: impl Trial) {
    match noticed(seeds, trial) {
        Some((seed, why)) => println!("{rule:?}: seed {seed}: {why}"),
        None => panic!("{rule:?} goes unnoticed"),
    }
}
