//! Drives that lie, fail, vanish and return, one of a mirror at a time: clients never notice.

use std::cell::Cell;
use std::rc::Rc;

use evenkeel_core::prng::Prng;
use evenkeel_sim::disk::{
    BayId, CrashDisk, CutOptions, FaultPlan, FaultRates, Rack, SeededCut, Tearing,
};

use super::crash::format;
use super::cuts::points;
use super::history::History;
use super::random::{Ordeal, Script, endure_from};
use super::real::{Real, Setup};
use super::subject::{Act, Acts};

pub(crate) const ORDEAL: Ordeal = Ordeal { cuts: 6, commands_max: 400, tearing: Tearing::Sectors };

/// Lies and silent damage.
pub(crate) const LYING: FaultRates = FaultRates {
    failed_reads: 0,
    failed_writes: 0,
    failed_flushes: 0,
    lost_writes: 20_000,
    lost_flushes: 20_000,
    lost_discards: 500_000,
    misdirected_writes: 10_000,
    shorn_writes: 10_000,
    rotten_reads: 5_000,
    unreadable: 5_000,
    stuck: 0,
    stuck_for: evenkeel_core::time::Span::ZERO,
};

/// Honest errors.
pub(crate) const FAILING: FaultRates = FaultRates {
    failed_reads: 10_000,
    failed_writes: 3_000,
    failed_flushes: 3_000,
    lost_writes: 0,
    lost_flushes: 0,
    misdirected_writes: 0,
    shorn_writes: 0,
    rotten_reads: 0,
    unreadable: 10_000,
    ..LYING
};

struct Client(Acts);

impl Script<Real> for Client {
    fn act(&mut self, history: &History) -> Act {
        self.0.draw(history.now())
    }
}

/// One drive with these faults among good ones, until it is refused by name, if ever.
pub(crate) fn one_bad(setup: &Setup, rates: FaultRates, seed: u64) -> Result<(), String> {
    let mut scene = format::<Real>(setup);
    let bad = usize::try_from(seed).expect("a small seed") % setup.drives;
    scene.disks[bad].set_faults(FaultPlan::seeded(rates, seed));
    let client = Client(Acts::new(seed));
    match endure_from::<Real>(setup, scene, ORDEAL, seed, client) {
        // None of its superblocks can be read any more: the operator is told to leave it out.
        Err(error) if error.contains("has no superblock of a store") => Ok(()),
        outcome => outcome,
    }
}

/// A client, and drives that vanish one after the other, each when the store has got over the last.
pub(crate) struct Vanishing {
    client: Acts,
    prng: Prng,
    /// The drive that was away, until all it missed is made good.
    behind: Rc<Cell<Option<usize>>>,
    /// The drive that was away last; its return is put to the test by taking another one.
    last: usize,
}

impl Vanishing {
    pub(crate) fn new(seed: u64) -> Self {
        let client = Acts::new(seed);
        Self { client, prng: Prng::new(seed), behind: Rc::default(), last: 0 }
    }
}

impl Script<Real> for Vanishing {
    fn act(&mut self, history: &History) -> Act {
        self.client.draw(history.now())
    }

    fn befall(&mut self, real: &Real, rack: &Rack) {
        let disks = rack.disks();
        let is_mended =
            real.store.status().thin_segments == 0 && !disks.iter().any(CrashDisk::is_gone);
        if is_mended {
            self.behind.set(None);
        }
        // A power cut can have cost a copy as well, in a zone: then none can be spared either.
        if self.behind.get().is_none() && is_mended && self.prng.below(3) == 0 {
            let count = disks.len() as u64;
            let further = 1 + self.prng.below(count - 1);
            let victim = (self.last as u64 + further) % count;
            let victim = usize::try_from(victim).expect("the number of a drive");
            self.last = victim;
            let mut cut = SeededCut::new(self.prng.next_u64(), CutOptions::default());
            rack.with_disk(BayId(victim), |disk| disk.detach(|write| cut.fate(write)));
            self.behind.set(Some(victim));
        }
    }

    fn recall(&mut self, disk: &mut CrashDisk) {
        if self.prng.below(3) > 0 {
            disk.attach();
        }
    }
}

/// Drives come and go.
pub(crate) fn vanishing(setup: &Setup, seed: u64) -> Result<(), String> {
    let setup = Setup { allow_missing: true, ..setup.clone() };
    let ordeal = Ordeal { cuts: 12, commands_max: 150, ..ORDEAL };
    endure_from::<Real>(&setup, format::<Real>(&setup), ordeal, seed, Vanishing::new(seed))
}

#[test]
fn a_lying_drive_of_a_pair_is_never_seen() {
    for seed in 0..points(15) / u64::from(ORDEAL.cuts) {
        assert_eq!(one_bad(&Setup::tiny(2, 2), LYING, seed), Ok(()));
    }
}

#[test]
fn a_failing_drive_of_a_pair_is_never_seen() {
    for seed in 0..points(15) / u64::from(ORDEAL.cuts) {
        assert_eq!(one_bad(&Setup::tiny(2, 2), FAILING, seed), Ok(()));
        assert_eq!(one_bad(&Setup::tiny(4, 2), FAILING, seed), Ok(()));
    }
}

#[test]
fn drives_of_a_mirror_vanish_and_return_one_at_a_time_and_nothing_is_lost() {
    for seed in 0..points(20) / 12 {
        assert_eq!(vanishing(&Setup::tiny(2, 2), seed), Ok(()));
        let chain = Setup { spare_segments: 8, ..Setup::tiny(4, 2) };
        assert_eq!(vanishing(&chain, seed), Ok(()));
    }
}
