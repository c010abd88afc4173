//! A check of what a power cut leaves: it takes nothing for damage that recovery gets over, and
//! writes nothing.

use evenkeel_core::prng::Prng;
use evenkeel_sim::disk::{CrashDisk, Fate};
use evenkeel_store::Drive;
use evenkeel_store::check::{CheckOptions, CheckReport, Finding, Severity, check};

use super::crash::{Machine, Scene, format, recover, scenes};
use super::cuts::points;
use super::real::{Real, Setup};
use super::short::cuts_of;
use super::subject::Act;

fn checked(disks: Vec<CrashDisk>) -> CheckReport {
    let mut machine = Machine::boot(disks, 0);
    let before = contents(&machine.rack.disks());
    let options = CheckOptions { reads_data: true, known: None };
    let report = machine.executor.block_on(check(machine.drives.clone(), options, |_| {}));
    assert!(contents(&machine.rack.disks()) == before, "a check wrote to a drive");
    report.expect("a check comes to an end")
}

/// What is on the media, byte by byte; an error where a block cannot be read.
fn contents(disks: &[CrashDisk]) -> Vec<Option<Vec<u8>>> {
    let blocks = disks.iter().flat_map(|disk| {
        (0..disk.size_bytes() / 4096).map(|block| {
            let mut bytes = vec![0; 4096];
            disk.medium().read(block * 4096, &mut bytes).ok().map(|()| bytes)
        })
    });
    blocks.collect()
}

/// As a tool for zones would that nobody should have used.
async fn reset_zones(drive: impl Drive) {
    let zoning = drive.zoning().expect("the setup has zones");
    let zones = drive.geometry().size_bytes / zoning.zone_bytes;
    for zone in u64::from(zoning.conventional_zones)..zones {
        drive.reset_zone(zone * zoning.zone_bytes).await.expect("a good drive");
    }
}

#[test]
fn a_zone_that_was_reset_behind_the_store_is_named_and_is_an_error_without_another_copy() {
    for (setup, severity) in
        [(Setup::zoned(2, 2), Severity::Warning), (Setup::zoned(1, 1), Severity::Error)]
    {
        let paint = Act::Paint { space: 0, first: 0, cells: 64, author: 1, is_forced: true };
        let scenes = scenes::<Real>(&setup, &format::<Real>(&setup), &[paint, Act::Tidy]);
        let mut end = scenes.expect("a good store").into_iter().next_back().expect("its end");
        end.disks.iter_mut().for_each(|disk| disk.power_cut(|_| Fate::Kept));
        assert!(checked(end.disks.clone()).worst() <= Some(Severity::Note));
        let mut machine = Machine::boot(end.disks, 0);
        let reset = reset_zones(machine.drives[0].clone());
        machine.executor.block_on(reset).expect("it comes to an end");
        let options = CheckOptions { reads_data: false, known: None };
        let report = machine.executor.block_on(check(machine.drives.clone(), options, |_| {}));
        let report = report.expect("a check comes to an end");
        assert_eq!(report.worst(), Some(severity), "{:?}", report.findings);
        let is_named = |finding: &Finding| finding.what.contains("is written up to block 0");
        assert!(report.findings.iter().any(is_named), "{:?}", report.findings);
    }
}

#[test]
fn what_recovery_gets_over_is_at_most_a_note() {
    let paint =
        |author, first, cells, is_forced| Act::Paint { space: 0, first, cells, author, is_forced };
    let works = [
        vec![paint(1, 0, 64, false), Act::Flush, paint(2, 8, 16, false)],
        vec![paint(1, 0, 192, true), Act::Tidy, paint(2, 0, 192, false), Act::Tidy],
    ];
    let mut prng = Prng::new(3);
    for setup in [Setup::tiny(1, 1), Setup::tiny(2, 2), Setup::tiny(3, 2)] {
        for work in &works {
            let scenes = scenes::<Real>(&setup, &format::<Real>(&setup), work);
            for scene in scenes.expect("a good store") {
                for disks in cuts_of(&scene.disks, points(1) / 5, &mut prng) {
                    let report = checked(disks.clone());
                    let worst = report.worst();
                    assert!(worst <= Some(Severity::Note), "{setup:?} {:?}", report.findings);
                    let mut after = Scene { disks, history: scene.history.clone() };
                    assert_eq!(recover::<Real>(&setup, &mut after), Ok(()));
                }
            }
        }
    }
}
