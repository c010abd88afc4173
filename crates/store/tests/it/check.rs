//! A check finds what is wrong, names the place and the remedy, and writes nothing; a dump shows
//! what is there.

use evenkeel_store::DriveIndex;
use evenkeel_store::check::{CheckOptions, CheckReport, Place, Severity, check, survey};
use evenkeel_store::dump::{DumpOptions, Entry, dump};

use crate::support::drive::CrashDrive;
use crate::support::executor::block_on;
use crate::support::mirror::{drives, lose_cache, open, with, without_missing, write};
use crate::support::usual;

const BLOCKS: u64 = 100;

fn filled(count: u8, copies: u8) -> Vec<CrashDrive> {
    let drives = drives(count, copies, BLOCKS);
    with(&open(&drives, usual()).unwrap(), async |store| {
        write(store, 0..BLOCKS, 7).await;
        store.close().await.unwrap();
    });
    drives
}

/// Everything, by drives that must not be written to.
fn checked(drives: &[CrashDrive]) -> CheckReport {
    let before: Vec<_> = drives.iter().map(CrashDrive::content).collect();
    let options = CheckOptions { reads_data: true, known: None };
    let report = block_on(check(drives.to_vec(), options, |progress| {
        assert!(progress.done_bytes <= progress.total_bytes);
    }));
    let after: Vec<_> = drives.iter().map(CrashDrive::content).collect();
    assert!(before == after, "a check wrote to a drive");
    report
}

/// The severities of the findings, and where they are, as texts.
fn places(report: &CheckReport) -> Vec<String> {
    let findings = report.findings.iter();
    findings.map(|finding| format!("{}: {}", finding.severity, finding.place)).collect()
}

#[test]
fn a_good_store_has_no_findings_whether_it_was_closed_or_lost_power() {
    for (count, copies) in [(1, 1), (3, 2)] {
        let drives = filled(count, copies);
        let report = checked(&drives);
        assert_eq!(places(&report), Vec::<String>::new());
        assert!(report.data.total_bytes >= BLOCKS * 4096 * u64::from(copies));
        for survivors_percent in [0, 50, 100] {
            with(&open(&drives, usual()).unwrap(), async |store| {
                write(store, 0..40, 8).await;
                drives[0].power.cut_after(u64::MAX);
            });
            for drive in &drives {
                drive.lose_cache(survivors_percent);
            }
            let report = checked(&drives);
            let worst = report.worst();
            assert!(worst.is_none_or(|worst| worst == Severity::Note), "{:?}", report.findings);
        }
    }
}

#[test]
fn rot_is_a_warning_on_one_copy_and_an_error_on_all() {
    let drives = filled(2, 2);
    let (first, second) = (drives[0].blocks_with(&[7; 64]), drives[1].blocks_with(&[7; 64]));
    drives[0].tamper(first[9], |bytes| bytes[8] = 0);
    let report = checked(&drives);
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!(finding.severity, Severity::Warning);
    assert!(matches!(finding.place, Place::Block { slot, .. } if slot.drive == DriveIndex(0)));
    assert!(finding.remedy.starts_with("scrub the store"), "{}", finding.remedy);
    drives[1].tamper(second[9], |bytes| bytes[8] = 0);
    let report = checked(&drives);
    assert_eq!((report.findings.len(), report.worst()), (2, Some(Severity::Error)));
    assert!(report.findings[0].what.starts_with("no copy of block"), "{:?}", report.findings);
}

#[test]
fn damaged_structures_are_notes_as_long_as_another_drive_has_them() {
    let drives = filled(2, 2);
    let superblock = drives[0].blocks_with(b"\xe9kSB")[0];
    drives[0].tamper(superblock, |bytes| bytes[50] ^= 1);
    for chunk in drives[1].blocks_with(b"\xe9kCP") {
        drives[1].tamper(chunk, |bytes| bytes[60] ^= 1);
    }
    let report = checked(&drives);
    let chunks = report.survey.as_ref().unwrap().superblock.checkpoint.chunks;
    let mut expected = vec!["note: drive 0 of those given, superblock A at the start".to_owned()];
    expected.extend((0..chunks).map(|index| format!("note: drive 1, checkpoint chunk {index}")));
    assert_eq!(places(&report), expected);
    for chunk in drives[0].blocks_with(b"\xe9kCP") {
        drives[0].tamper(chunk, |bytes| bytes[60] ^= 1);
    }
    let report = checked(&drives);
    assert_eq!(report.worst(), Some(Severity::Error));
    assert!(report.findings.last().unwrap().what.contains("no drive has the newest checkpoint"));
}

#[test]
fn missing_and_stale_drives_are_named() {
    let drives = filled(3, 2);
    let (rest, warning) = ([drives[0].clone(), drives[2].clone()], Some(Severity::Warning));
    let report = checked(&rest);
    assert_eq!((places(&report)[0].as_str(), report.worst()), ("warning: drive 1", warning));
    assert_eq!(report.survey.unwrap().wanting(), [DriveIndex(1)]);
    with(&open(&rest, without_missing()).unwrap(), async |store| {
        write(store, 0..8, 9).await;
        store.close().await.unwrap();
    });
    lose_cache(&rest);
    let report = checked(&drives);
    assert_eq!(places(&report)[0], "warning: drive 1");
    assert!(report.findings[0].what.contains("was away"), "{:?}", report.findings);
}

#[test]
fn drives_that_are_no_store_are_one_error_with_the_reason() {
    let drives = filled(2, 2);
    let blank = CrashDrive::new(1000, &drives[0].power);
    let report = checked(&[drives[0].clone(), blank]);
    assert_eq!(places(&report), ["error: drive 1 of those given"]);
    assert!(report.survey.is_none());
    assert_eq!(checked(&[]).worst(), Some(Severity::Error));
}

#[test]
fn a_survey_says_what_the_next_mount_would_find() {
    let drives = filled(2, 2);
    let survey = block_on(survey(drives.clone())).unwrap();
    let store = open(&drives, usual()).unwrap();
    assert_eq!(survey.volumes, store.volumes());
    let (seen, found) = (survey.status, store.status());
    assert_eq!(seen.lsn, found.lsn);
    assert_eq!(seen.telemetry.live_bytes, BLOCKS * 4096);
    assert_eq!(seen.telemetry.live_bytes, found.telemetry.live_bytes);
    assert_eq!(seen.telemetry.provisioned_bytes, BLOCKS * 4096);
    assert_eq!(seen.telemetry.until_full_bytes, 0);
}

#[test]
fn a_dump_shows_every_structure_of_a_drive_and_what_is_none() {
    let drives = filled(2, 2);
    let mut entries = Vec::new();
    let options = DumpOptions { leaves: true, records: true };
    block_on(dump(&drives[0], options, |entry| entries.push(entry))).unwrap();
    let count = |is: fn(&Entry) -> bool| entries.iter().filter(|entry| is(entry)).count();
    assert_eq!(count(|entry| matches!(entry, Entry::Superblock { found: Ok(_), .. })), 4);
    let newest = entries.iter().filter_map(|entry| match entry {
        Entry::Superblock { found: Ok(superblock), .. } => Some(superblock),
        _ => None,
    });
    let newest = newest.max_by_key(|it| it.sequence).unwrap().checkpoint;
    let chunks = count(|entry| matches!(entry, Entry::Chunk { found: Ok(_), .. }));
    assert_eq!(chunks, newest.chunks as usize);
    assert!(count(|entry| matches!(entry, Entry::Item(_))) > 5);
    let records = drives[0].blocks_with(b"\xe9kRH").len();
    assert_eq!(count(|entry| matches!(entry, Entry::Record { .. })), records);
    let blank = CrashDrive::new(100, &drives[0].power);
    let mut entries = Vec::new();
    block_on(dump(&blank, options, |entry| entries.push(entry))).unwrap();
    assert!(entries.len() == 4, "{entries:?}");
    assert!(entries.iter().all(|entry| matches!(entry, Entry::Superblock { found: Err(_), .. })));
}

#[test]
fn telemetry_adds_up() {
    let drives = drives(2, 2, 400);
    with(&open(&drives, usual()).unwrap(), async |store| {
        let before = store.status().telemetry;
        assert_eq!((before.client_bytes, before.live_bytes), (0, 0));
        assert_eq!((before.write_amplification_permille, before.cleaner_debt_blocks), (None, 0));
        write(store, 0..400, 1).await;
        let full = store.status().telemetry;
        assert_eq!((full.client_bytes, full.live_bytes), (400 * 4096, 400 * 4096));
        assert_eq!(full.until_full_bytes, 0);
        assert!(full.until_cleaning_bytes < before.until_cleaning_bytes);
        // One header for each single block, twice, and checkpoints.
        let amplification = full.write_amplification_permille.unwrap();
        assert!((2000..4000).contains(&amplification), "{amplification}");
        let purity = full.tail_purity_permille.unwrap();
        assert!((500..=1000).contains(&purity), "{full:?}");
        for round in 0..4 {
            write(store, 0..400, 2 + round).await;
        }
        let late = store.status();
        assert!(late.counters.moved_blocks > 0 && late.telemetry.live_bytes == 400 * 4096);
        assert!(late.telemetry.drive_written_bytes > 2 * late.telemetry.client_bytes);
    });
}
