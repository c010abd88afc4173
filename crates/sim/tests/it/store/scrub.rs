//! Scrubs between the acts of clients, on drives that lie, fail and lose power: they do no harm,
//! and what is bad on one drive of a mirror is good again behind them.

use evenkeel_core::prng::Prng;
use evenkeel_sim::disk::{CrashDisk, Fate, Tearing};

use super::crash::{Machine, Scene, format, recover, scenes};
use super::cuts::{long, points};
use super::faults::{FAILING, LYING, ORDEAL, one_bad};
use super::random::Ordeal;
use super::real::{Real, Setup};
use super::subject::{Act, Subject};

fn scrubbing(drives: usize, copies: u8) -> Setup {
    Setup { scrubs: true, ..Setup::tiny(drives, copies) }
}

#[test]
fn scrubs_on_lying_and_failing_drives_of_a_mirror_are_never_seen() {
    for seed in 0..points(10) / u64::from(ORDEAL.cuts) {
        for rates in [LYING, FAILING] {
            assert_eq!(one_bad(&scrubbing(2, 2), rates, seed), Ok(()));
            assert_eq!(one_bad(&scrubbing(3, 2), rates, seed), Ok(()));
        }
    }
}

#[test]
fn scrubs_between_power_cuts_leave_a_prefix() {
    let ordeal = Ordeal { cuts: 6, commands_max: 400, tearing: Tearing::Sectors };
    for seed in 0..points(10) / u64::from(ordeal.cuts) {
        assert_eq!(long(&scrubbing(1, 1), ordeal, seed), Ok(()));
        assert_eq!(long(&scrubbing(4, 2), ordeal, seed), Ok(()));
    }
}

/// Scrubs until all is mended; the drives as they are then.
fn scrubbed(setup: &Setup, disks: Vec<CrashDisk>) -> Vec<CrashDisk> {
    let mut machine = Machine::boot(disks, 0);
    let (setup, drives, clock) = (setup.clone(), machine.drives.clone(), machine.executor.clock());
    let end = machine.executor.block_on(async move {
        let real = Real::open(setup, drives, clock).await?;
        real.perform(&Act::Tidy).await?;
        while real.store.status().is_mending {
            real.perform(&Act::Tidy).await?;
        }
        // What was moved last is durable only now.
        real.perform(&Act::Flush).await.map(drop)
    });
    assert_eq!(end, Ok(Ok(())), "a scrub of a mirror with one bad drive");
    machine.rack.disks()
}

fn lose_caches(disks: &mut [CrashDisk]) {
    for disk in disks {
        disk.power_cut(|_| Fate::Lost);
    }
}

/// Each drive rots, is scrubbed, and then has to stand in for the other alone.
#[test]
fn behind_a_scrub_the_rotten_drive_of_a_pair_can_stand_alone() {
    let setup = Setup { allow_missing: true, ..scrubbing(2, 2) };
    let act = Act::Paint { space: 0, first: 0, cells: 192, author: 9, is_forced: true };
    let work = [act.clone(), Act::Tidy, act, Act::Tidy];
    for seed in 0..points(2) {
        let scenes = scenes::<Real>(&setup, &format::<Real>(&setup), &work);
        let Scene { mut disks, history } = scenes.expect("a good store").pop().expect("the end");
        let (mut prng, bad) = (Prng::new(seed), usize::from(seed % 2 == 1));
        lose_caches(&mut disks);
        let blocks = disks[bad].size_bytes() / 4096;
        for _ in 0..8 {
            // Superblocks are not the scrub's affair; each mount writes them anew.
            let (block, bit) = (2 + prng.below(blocks - 4), prng.below(8 * 4096));
            disks[bad].damage(|platter| platter.rot(block * 4096, bit));
        }
        let mut disks = scrubbed(&setup, disks);
        lose_caches(&mut disks);
        disks[1 - bad].detach(|_| Fate::Lost);
        let mut after = Scene { disks, history };
        assert_eq!(recover::<Real>(&setup, &mut after), Ok(()), "seed {seed}");
    }
}
