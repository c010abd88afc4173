//! What a power cut leaves of the writes that were not flushed: chosen by a seed, or every way.
//!
//! Units are torn apart at 4 KiB or 512 bytes: each unit of a write is old or new by itself, and
//! one that was just under the head may be neither, hence unreadable.

use evenkeel_core::prng::Prng;

use super::crash_disk::{CrashDisk, Unflushed};
use super::platter::{BLOCK_BYTES, SECTOR_BYTES};

/// What becomes of one write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing of it is on the medium.
    Lost,
    /// All of it is.
    Kept,
    /// Some of it is.
    Torn {
        /// Into what it is torn.
        unit_bytes: u64,
        /// The fate of each unit, by address; units beyond these are old.
        units: Vec<UnitFate>,
    },
}

/// What becomes of a unit of a torn write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitFate {
    /// It is as it was before.
    Old,
    /// It is as it was written.
    New,
    /// It cannot be read until it is written again.
    Ruined,
}

/// How finely writes tear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tearing {
    /// A write is there or not.
    Never,
    /// At 4 KiB.
    Blocks,
    /// At 512 bytes.
    #[default]
    Sectors,
}

/// How unkind a power cut is.
#[derive(Clone, Copy, Debug, Default)]
pub struct CutOptions {
    /// How finely writes tear.
    pub tearing: Tearing,
    /// Whether a unit may be left unreadable: at most one per cut and drive.
    pub may_ruin: bool,
}

/// A power cut that a seed determines. Cuts differ in how much they leave: some keep nearly all,
/// some nearly nothing, since bugs hide at both ends.
#[derive(Clone, Debug)]
pub struct SeededCut {
    prng: Prng,
    options: CutOptions,
    kept_percent: u64,
}

impl SeededCut {
    /// The cut of this seed.
    pub fn new(seed: u64, options: CutOptions) -> Self {
        let mut prng = Prng::new(seed);
        let kept_percent = one_of(&mut prng, &[0, 20, 50, 80, 95, 100]);
        Self { prng, options, kept_percent }
    }

    /// What becomes of this write; for [`CrashDisk::power_cut`].
    pub fn fate(&mut self, write: &Unflushed) -> Fate {
        let unit_bytes = match self.options.tearing {
            Tearing::Blocks => BLOCK_BYTES,
            Tearing::Sectors => one_of(&mut self.prng, &[SECTOR_BYTES, BLOCK_BYTES]),
            Tearing::Never => return self.whole(),
        };
        // A discard or a run of zeroes may be of the whole drive; it is done or not.
        let is_torn = write.carries_bytes && self.prng.below(3) == 0;
        if is_torn { self.torn(write, unit_bytes) } else { self.whole() }
    }

    fn is_kept(&mut self) -> bool {
        self.prng.below(100) < self.kept_percent
    }

    fn whole(&mut self) -> Fate {
        if self.is_kept() { Fate::Kept } else { Fate::Lost }
    }

    fn torn(&mut self, write: &Unflushed, unit_bytes: u64) -> Fate {
        let count = write.length_bytes.div_ceil(unit_bytes);
        let units = match self.prng.below(3) {
            // From the front or from the back, as a head or a controller gets on; or any.
            0 => self.split(count, UnitFate::New, UnitFate::Old),
            1 => self.split(count, UnitFate::Old, UnitFate::New),
            _ => (0..count)
                .map(|_| if self.is_kept() { UnitFate::New } else { UnitFate::Old })
                .collect(),
        };
        Fate::Torn { unit_bytes, units: self.ruin_one(units) }
    }

    fn split(&mut self, count: u64, before: UnitFate, after: UnitFate) -> Vec<UnitFate> {
        let at = self.prng.below(count + 1);
        (0..count).map(|unit| if unit < at { before } else { after }).collect()
    }

    fn ruin_one(&mut self, mut units: Vec<UnitFate>) -> Vec<UnitFate> {
        if self.options.may_ruin && self.prng.below(4) == 0 {
            self.options.may_ruin = false;
            let unit = self.prng.below(units.len().max(1) as u64);
            let unit = usize::try_from(unit).expect("below the length of a vector");
            units.get_mut(unit).into_iter().for_each(|unit| *unit = UnitFate::Ruined);
        }
        units
    }
}

/// The disk after each way in which a power cut can keep or lose the 4 KiB units of its unflushed
/// writes: two to the number of units. `None` if there are more units than `units_max`, or than 20.
pub fn every_cut(disk: &CrashDisk, units_max: u32) -> Option<impl Iterator<Item = CrashDisk>> {
    let units: u64 = disk.unflushed().iter().map(units_of).sum();
    let disk = disk.clone();
    (units <= u64::from(units_max.min(20))).then(|| {
        (0..1u64 << units).map(move |choice| {
            let mut after = disk.clone();
            let mut left = choice;
            after.power_cut(|write| {
                let bits = left;
                left >>= units_of(write);
                subset(write, bits)
            });
            after
        })
    })
}

/// A write of bytes tears at every block, anything else never.
fn units_of(write: &Unflushed) -> u64 {
    if write.carries_bytes { write.length_bytes.div_ceil(BLOCK_BYTES) } else { 1 }
}

fn subset(write: &Unflushed, bits: u64) -> Fate {
    let units = units_of(write);
    if units == 1 {
        return if bits & 1 == 1 { Fate::Kept } else { Fate::Lost };
    }
    let unit = |index: u64| if bits >> index & 1 == 1 { UnitFate::New } else { UnitFate::Old };
    Fate::Torn { unit_bytes: BLOCK_BYTES, units: (0..units).map(unit).collect() }
}

fn one_of(prng: &mut Prng, choices: &[u64]) -> u64 {
    let index = prng.below(choices.len() as u64);
    choices[usize::try_from(index).expect("below the length of a slice")]
}
