//! Power cuts of a store on drives with zones, which refuse whatever is not at a write pointer: a
//! refusal ends a run at once.

use evenkeel_sim::disk::{CrashDisk, Fate, FaultPlan, FaultRates, Tearing, Unflushed, UnitFate};
use evenkeel_store::{Cleaning, Tuning};

use super::clients::{Crowd, gather};
use super::crash::{Machine, Scene, format, recover, scenes};
use super::cuts::{
    long, long_among_lives, long_among_volumes, points, short, with_room_for_copies,
};
use super::faults::{self, FAILING, LYING, one_bad, vanishing};
use super::random::Ordeal;
use super::real::{Real, Setup};
use super::subject::{Act, Subject};

const ORDEAL: Ordeal = Ordeal { cuts: 6, commands_max: 300, tearing: Tearing::Sectors };

#[test]
fn every_cut_of_short_work_leaves_a_prefix_on_a_zoned_drive() {
    short(&Setup::zoned(1, 1), 60);
}

#[test]
fn every_cut_of_short_work_leaves_a_prefix_on_zoned_mirrors() {
    short(&Setup::zoned(2, 2), 60);
}

fn endures(setup: &Setup, permille: u64) {
    for seed in 0..points(permille) / u64::from(ORDEAL.cuts) {
        assert_eq!(long(setup, ORDEAL, seed), Ok(()));
    }
}

#[test]
fn long_work_leaves_a_prefix_on_zoned_drives() {
    endures(&Setup::zoned(1, 1), 20);
    endures(&Setup::zoned(2, 2), 20);
    endures(&Setup::zoned(3, 1), 10);
    endures(&Setup::zoned(4, 2), 10);
}

#[test]
fn records_of_clients_and_the_cleaner_share_a_zone_and_a_prefix_is_left() {
    let to_tail = Tuning { cleaning: Cleaning::MoveToTail, ..Tuning::default() };
    for setup in [Setup::zoned(1, 1), Setup::zoned(2, 2)] {
        endures(&Setup { tuning: to_tail, ..setup }, 10);
    }
}

#[test]
fn snapshots_and_volumes_that_come_and_go_leave_a_prefix_on_zoned_drives() {
    for setup in [Setup::zoned(1, 1), Setup::zoned(2, 2)].map(|it| with_room_for_copies(&it)) {
        for seed in 0..points(5) / u64::from(ORDEAL.cuts) {
            assert_eq!(long_among_volumes(&setup, ORDEAL, seed), Ok(()));
            assert_eq!(long_among_lives(&setup, ORDEAL, seed), Ok(()));
        }
    }
}

#[test]
fn many_clients_have_one_order_on_zoned_drives() {
    let crowd = Crowd { clients: 6, cuts: 6, commands_max: 300, is_ragged: false };
    for setup in [Setup::zoned(1, 1), Setup::zoned(4, 2)] {
        for seed in 0..points(5) / u64::from(crowd.cuts) {
            let outcome = gather(&setup, crowd, seed);
            assert!(outcome.is_ok(), "{setup:?} {outcome:?}");
        }
    }
}

#[test]
fn zoned_mirrors_vanish_and_return_one_at_a_time_and_nothing_is_lost() {
    for seed in 0..points(10) / 12 {
        assert_eq!(vanishing(&Setup::zoned(2, 2), seed), Ok(()));
        let chain = Setup { spare_segments: 8, ..Setup::zoned(4, 2) };
        assert_eq!(vanishing(&chain, seed), Ok(()));
    }
}

#[test]
fn a_failing_drive_of_a_zoned_pair_costs_nothing() {
    for seed in 0..points(15) / u64::from(faults::ORDEAL.cuts) {
        assert_eq!(one_bad(&Setup::zoned(2, 2), FAILING, seed), Ok(()));
        assert_eq!(one_bad(&Setup::zoned(4, 2), FAILING, seed), Ok(()));
    }
}

#[test]
fn a_lying_drive_of_a_zoned_pair_is_never_seen() {
    for seed in 0..points(10) / u64::from(faults::ORDEAL.cuts) {
        assert_eq!(one_bad(&Setup::zoned(2, 2), LYING, seed), Ok(()));
    }
}

/// Cuts in the midst of writing, after which one drive of a zoned pair has nothing but bad sectors
/// of what was not flushed, which cannot be mended in a zone, and the other one has all of it.
fn torn_copies(setup: &Setup) -> Vec<Scene> {
    let paint =
        |first, author, is_forced| Act::Paint { space: 0, first, cells: 16, author, is_forced };
    let acts = [paint(0, 1, true), paint(16, 2, true), paint(32, 3, false), paint(48, 4, false)];
    let scenes = scenes::<Real>(setup, &format::<Real>(setup), &acts).expect("a good store");
    let ruin = |write: &Unflushed| {
        let blocks = usize::try_from(write.length_bytes / 4096).expect("few");
        let units = vec![UnitFate::Ruined; blocks];
        let is_data = write.carries_bytes;
        if is_data { Fate::Torn { unit_bytes: 4096, units } } else { Fate::Kept }
    };
    let torn: usize = scenes.iter().map(|scene| scene.disks[0].unflushed().len()).sum();
    assert!(torn > 5, "{torn}");
    let cut = |mut scene: Scene| {
        scene.disks[0].power_cut(ruin);
        scene.disks[1].power_cut(|_| Fate::Kept);
        scene
    };
    scenes.into_iter().map(cut).collect()
}

/// The other drive loses sectors of what both had long before.
#[test]
fn a_torn_copy_still_has_what_the_other_drive_loses_before_it_is_copied_anew() {
    let setup = Setup::zoned(2, 2);
    let rates = FaultRates { unreadable: 100_000, ..FaultRates::default() };
    for scene in torn_copies(&setup) {
        for seed in 0..20 {
            let mut scene = scene.clone();
            scene.disks[1].set_faults(FaultPlan::seeded(rates, seed));
            assert_eq!(recover::<Real>(&setup, &mut scene), Ok(()), "seed {seed}");
        }
    }
}

/// The other drive fails after the next power cut, which may come as soon as the store is open.
#[test]
fn what_was_torn_has_two_copies_once_the_store_is_open() {
    let setup = Setup::zoned(2, 2);
    let rates = FaultRates { unreadable: 300_000, ..FaultRates::default() };
    for mut scene in torn_copies(&setup) {
        assert_eq!(recover::<Real>(&setup, &mut scene), Ok(()));
        for seed in 0..20 {
            let mut scene = scene.clone();
            scene.disks.iter_mut().for_each(|disk| disk.power_cut(|_| Fate::Lost));
            scene.disks[1].set_faults(FaultPlan::seeded(rates, seed));
            assert_eq!(recover::<Real>(&setup, &mut scene), Ok(()), "seed {seed}");
        }
    }
}

/// The other drive fails at its first write, before what it alone has is on the one that was torn.
#[test]
fn a_drive_that_fails_before_what_was_torn_has_two_copies_is_done_without() {
    let setup = Setup::zoned(2, 2);
    let rates = FaultRates { failed_writes: 1_000_000, ..FaultRates::default() };
    for mut scene in torn_copies(&setup) {
        scene.disks[1].set_faults(FaultPlan::seeded(rates, 1));
        assert_eq!(recover::<Real>(&setup, &mut scene), Ok(()));
    }
}

/// A store with something in it, cut when all was flushed.
fn written(setup: &Setup) -> Scene {
    let act = Act::Paint { space: 0, first: 0, cells: 64, author: 1, is_forced: true };
    let scenes = scenes::<Real>(setup, &format::<Real>(setup), &[act]).expect("a good store");
    let mut end = scenes.into_iter().next_back().expect("the end of the work");
    end.disks.iter_mut().for_each(|disk| disk.power_cut(|_| Fate::Kept));
    end
}

#[test]
fn a_copy_of_a_zoned_drive_on_a_plain_one_is_refused() {
    let setup = Setup::zoned(1, 1);
    let mut scene = written(&setup);
    assert_eq!(recover::<Real>(&setup, &mut scene), Ok(()));
    let size_bytes = scene.disks[0].size_bytes();
    let mut bytes = vec![0; usize::try_from(size_bytes).expect("a small drive")];
    scene.disks[0].medium().read(0, &mut bytes).expect("a good drive");
    let mut plain = CrashDisk::new(size_bytes);
    plain.write(0, &bytes).expect("a good drive");
    plain.flush().expect("a good drive");
    scene.disks = vec![plain];
    let refusal = recover::<Real>(&setup, &mut scene).expect_err("it has no zones");
    assert!(refusal.contains("other zones"), "{refusal}");
}

#[test]
fn a_zoned_drive_and_a_plain_one_make_a_mirror() {
    let setup = Setup::zoned(2, 2);
    let mut disks = Real::drives(&setup);
    disks[1] = CrashDisk::new(disks[0].size_bytes());
    let mut machine = Machine::boot(disks, 0);
    let made = machine.executor.block_on(Real::format(setup.clone(), machine.drives.clone()));
    assert_eq!(made, Ok(Ok(())));
    let disks = machine.rack.disks();
    drop(machine);
    let history = format::<Real>(&setup).history;
    let act = Act::Paint { space: 0, first: 0, cells: 64, author: 1, is_forced: true };
    let mut scene = Scene { disks, history };
    for _ in 0..20 {
        let acts = [act.clone(), Act::Tidy];
        let seen = scenes::<Real>(&setup, &scene, &acts).expect("a good store");
        scene = seen.into_iter().next_back().expect("the end of the work");
        scene.disks.iter_mut().for_each(|disk| disk.power_cut(|_| Fate::Lost));
        assert_eq!(recover::<Real>(&setup, &mut scene), Ok(()));
    }
}
