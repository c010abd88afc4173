//! Scrubbing finds what is bad on any copy, has it written anew, and leaves the good alone.

use evenkeel_store::{FlawKind, OpenOptions, ScrubReport, Store, Tuning, VolumeId};

use crate::support::drive::CrashDrive;
use crate::support::executor::block_on;
use crate::support::mirror::{
    drives, is_filled, lose_cache, mend, open, with, without_missing, write,
};
use crate::support::usual;

const BLOCKS: u64 = 200;

fn filled(count: u8, copies: u8) -> Vec<CrashDrive> {
    let drives = drives(count, copies, BLOCKS);
    with(&open(&drives, usual()).unwrap(), async |store| {
        write(store, 0..BLOCKS, 7).await;
        store.close().await.unwrap();
    });
    drives
}

/// The whole walk: its report, and what it found.
async fn scrub(store: &Store<CrashDrive>) -> (ScrubReport, Vec<FlawKind>) {
    let mut scrub = store.scrub();
    let mut flaws = Vec::new();
    while let Some(step) = scrub.step().await.unwrap() {
        assert!(step.read_bytes <= 1 << 20);
        flaws.extend(step.flaws.into_iter().map(|flaw| flaw.kind));
        let report = scrub.report();
        assert!(report.done_bytes <= report.total_bytes);
    }
    assert_eq!(scrub.report().done_bytes, scrub.report().total_bytes);
    (scrub.report().clone(), flaws)
}

/// Scrubs and mends; gives the report.
fn scrub_and_mend(drives: &[CrashDrive]) -> ScrubReport {
    let mut report = ScrubReport::default();
    with(&open(drives, usual()).unwrap(), async |store| {
        report = scrub(store).await.0;
        mend(store).await;
        store.close().await.unwrap();
    });
    report
}

#[test]
fn a_store_without_trouble_has_no_flaws_and_is_read_once_per_copy() {
    for (count, copies) in [(1, 1), (3, 2)] {
        let report = scrub_and_mend(&filled(count, copies));
        let flaws = report.bad_headers + report.bad_blocks + report.lost_blocks;
        assert_eq!((flaws, report.gone.len()), (0, 0), "{report:?}");
        assert!(report.total_bytes >= BLOCKS * 4096 * u64::from(copies), "{report:?}");
    }
}

#[test]
fn rot_on_one_copy_is_mended_from_the_other_wherever_it_is() {
    let drives = filled(2, 2);
    let data = drives[1].blocks_with(&[7; 64]);
    let headers = drives[1].blocks_with(b"\xe9kRH");
    for block in data.iter().chain(&headers).copied().filter(|block| block % 3 == 0) {
        drives[1].tamper(block, |bytes| bytes[2000] ^= 4);
    }
    let report = scrub_and_mend(&drives);
    assert!(report.bad_blocks > 20 && report.bad_headers > 20, "{report:?}");
    assert_eq!(report.lost_blocks, 0);
    let again = scrub_and_mend(&drives);
    assert_eq!((again.bad_blocks, again.bad_headers, again.lost_blocks), (0, 0, 0));
    lose_cache(&drives);
    assert!(is_filled(&drives[1..], without_missing(), 200, 7), "the rotten drive is whole");
}

#[test]
fn a_header_that_is_lost_on_all_copies_costs_nothing() {
    let drives = filled(2, 2);
    for drive in &drives {
        for block in drive.blocks_with(b"\xe9kRH").into_iter().step_by(5) {
            drive.tamper(block, |bytes| bytes.fill(0));
        }
    }
    let report = scrub_and_mend(&drives);
    assert!(report.bad_headers > 0 && report.lost_blocks == 0, "{report:?}");
    assert_eq!(scrub_and_mend(&drives).bad_headers, 0);
    assert!(is_filled(&drives, usual(), 200, 7));
}

#[test]
fn what_is_bad_everywhere_is_named_and_the_rest_is_saved() {
    let drives = filled(1, 1);
    let bad = drives[0].blocks_with(&[7; 64])[50];
    drives[0].tamper(bad, |bytes| bytes[0] = 8);
    with(&open(&drives, usual()).unwrap(), async |store| {
        let (report, flaws) = scrub(store).await;
        assert_eq!((report.lost_blocks, report.bad_blocks), (1, 0));
        let [FlawKind::Lost { volume: VolumeId(0), block }] = flaws[..] else {
            panic!("{flaws:?}");
        };
        let read = async |block: u64| store.read(VolumeId(0), block * 4096, 4096).await;
        assert!(read(block).await.is_err() && read((block + 1) % BLOCKS).await.is_ok());
        // Written anew it is well again.
        write(store, block..block + 1, 7).await;
        assert_eq!(scrub(store).await.0.lost_blocks, 0);
    });
}

#[test]
fn a_drive_that_does_not_answer_is_left_out_and_named() {
    let drives = filled(2, 2);
    with(&open(&drives, usual()).unwrap(), async |store| {
        drives[1].is_gone.set(true);
        let (report, flaws) = scrub(store).await;
        assert_eq!(report.gone.iter().map(|drive| drive.0).collect::<Vec<_>>(), [1]);
        assert_eq!(flaws, []);
    });
}

#[test]
fn clients_and_the_cleaner_go_on_during_a_scrub() {
    let drives = filled(3, 2);
    with(&open(&drives, usual()).unwrap(), async |store| {
        let mut scrub = store.scrub();
        let mut round = 0;
        while let Some(step) = scrub.step().await.unwrap() {
            assert_eq!(step.flaws, []);
            write(store, round % BLOCKS..round % BLOCKS + 1, 7).await;
            round += 1;
        }
        assert!(round > 10);
    });
    assert!(is_filled(&drives, usual(), 200, 7));
}

#[test]
fn what_is_beyond_the_room_for_notes_is_counted_and_found_again() {
    let drives = filled(2, 2);
    let data = drives[1].blocks_with(&[7; 64]);
    let bad: Vec<u64> = data.into_iter().step_by(4).collect();
    for &block in &bad {
        drives[1].tamper(block, |bytes| bytes[2000] ^= 4);
    }
    let tuning = Tuning { noted_blocks_max: 20, ..Tuning::default() };
    let mut found = bad.len() as u64;
    assert!(found > 40, "the notes will be full more than once");
    while found > 0 {
        let store = open(&drives, OpenOptions { tuning, ..usual() }).unwrap();
        // Housekeeping waits until the scrub is done.
        let report = block_on(scrub(&store)).0;
        assert_eq!(report.bad_blocks, found, "what is not noted is counted all the same");
        found = found.saturating_sub(20);
        assert_eq!(report.unnoted_blocks, found);
        assert_eq!(store.status().counters.unnoted_blocks, found);
        with(&store, async |store| {
            mend(store).await;
            store.close().await.unwrap();
        });
    }
    lose_cache(&drives);
    assert!(is_filled(&drives[1..], without_missing(), 200, 7), "all of it is written anew");
}

/// Nobody writes, makes checkpoints or asks for room behind the scrub.
#[test]
fn a_store_that_has_been_full_for_long_mends_what_rots_while_it_is_idle() {
    const FULL_BLOCKS: u64 = 850;
    let drives = drives(4, 2, FULL_BLOCKS);
    with(&open(&drives, usual()).unwrap(), async |store| {
        write(store, 0..FULL_BLOCKS, 7).await;
        let mut at = 0;
        // All room is kept ready for writers, and is enough for them.
        while store.status().free_segments > 0 || store.status().runway_segments < 6 {
            at = (at + 37) % FULL_BLOCKS;
            write(store, at..at + 1, 7).await;
        }
        for block in drives[1].blocks_with(&[7; 64]).into_iter().step_by(3) {
            drives[1].tamper(block, |bytes| bytes[2000] ^= 4);
        }
        let (report, _) = scrub(store).await;
        assert!(report.bad_blocks > 100, "{report:?}");
        let mut looks = 0;
        while store.status().is_mending {
            store.read(VolumeId(0), 0, 4096).await.unwrap();
            looks += 1;
            assert!(looks < 100_000, "{:?}", store.status());
        }
        assert_eq!(scrub(store).await.0.bad_blocks, 0);
    });
}
