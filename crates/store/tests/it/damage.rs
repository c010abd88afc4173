//! Damage in the middle of the log does not end it: what was durable is there, or the store is
//! refused.

use evenkeel_store::{DriveIndex, Nonce, OpenError, OpenOptions, Rules};

use crate::support::drive::CrashDrive;
use crate::support::mirror::{self, is_filled, lose_cache, open, with, write};
use crate::support::usual;

const BLOCKS: u64 = 12;
const ALL: usize = 12;

/// Writes a block at a time and flushes each, on drives that then lose power. The places of the
/// records' headers on drive 0, in the order of their writing.
fn write_and_kill(drives: &[CrashDrive], options: OpenOptions) -> Vec<u64> {
    let mut headers = Vec::new();
    with(&open(drives, options).unwrap(), async |store| {
        let before = drives[0].blocks_with(b"\xe9kRH");
        for block in 0..BLOCKS {
            write(store, block..block + 1, 7).await;
            let now = drives[0].blocks_with(b"\xe9kRH");
            headers.extend(now.into_iter().filter(|at| !before.contains(at)));
            headers.dedup();
        }
    });
    lose_cache(drives);
    headers.sort_unstable();
    headers.dedup();
    headers
}

/// Damages so many headers in a row, but not the last; once for each place. How often the store was
/// refused, and how often it had everything.
fn outcomes(in_a_row: usize, rules: Rules) -> [usize; 2] {
    let options = OpenOptions { rules, ..usual() };
    let (mut refused, mut whole) = (0, 0);
    for first in 0.. {
        let drives = mirror::drives(1, 1, BLOCKS);
        let headers = write_and_kill(&drives, options);
        let damaged = headers.get(first..first + in_a_row);
        let Some(damaged) = damaged.filter(|_| first + in_a_row < headers.len()) else {
            return [refused, whole];
        };
        for &place in damaged {
            drives[0].tamper(place, |bytes| bytes[90] ^= 1);
        }
        settle(&drives);
        match open(&drives, options) {
            Err(OpenError::Damaged(damage)) => {
                assert!(damage.missing <= damage.durable, "{damage:?}");
                // Behind the last record of a segment nothing shows where it should have been.
                assert!(damage.drive.is_none_or(|drive| drive == DriveIndex(0)), "{damage:?}");
                let accepted = OpenOptions { accepts_loss: true, ..OpenOptions::new(Nonce(77)) };
                assert!(is_filled(&drives, accepted, first, 7), "what was before is there");
                assert!(is_filled(&drives, usual(), first, 7), "and it is whole again");
                refused += 1;
            }
            outcome => {
                drop(outcome.unwrap());
                whole += usize::from(is_filled(&drives, usual(), ALL, 7));
            }
        }
    }
    unreachable!("there are few headers")
}

/// What was tampered with is on the medium.
fn settle(drives: &[CrashDrive]) {
    for drive in drives {
        drive.lose_cache(100);
    }
}

#[test]
fn a_damaged_header_is_restored_from_the_next() {
    let [refused, whole] = outcomes(1, Rules::default());
    assert!(refused == 0 && whole > 8, "{refused} refused, {whole} whole");
}

#[test]
fn a_store_with_two_damaged_headers_in_a_row_is_refused() {
    let [refused, whole] = outcomes(2, Rules::default());
    assert!(refused > 8 && whole == 0, "{refused} refused, {whole} whole");
}

#[test]
fn a_segment_without_any_sound_header_does_not_end_the_log() {
    for in_a_row in 3..ALL {
        let [refused, whole] = outcomes(in_a_row, Rules::default());
        assert_eq!([refused, whole], [ALL - in_a_row, 0], "{in_a_row} in a row");
    }
}

/// A power cut tears the first record of a segment, and the segment's own header with it, and
/// leaves the one behind it whole, which says what was durable.
#[test]
fn the_only_sound_header_may_lie_in_a_segment_that_looks_unused() {
    let drives = mirror::drives(1, 1, BLOCKS);
    let before = drives[0].blocks_with(b"\xe9kSG");
    let headers = write_and_kill(&drives, usual());
    let segments = drives[0].blocks_with(b"\xe9kSG");
    let begun: Vec<u64> = segments.into_iter().filter(|at| !before.contains(at)).collect();
    let [.., last] = begun[..] else { panic!("records lie in several segments") };
    let first_behind = headers.iter().find(|&&header| header > last).expect("it has records");
    let damaged = headers.iter().filter(|&header| header <= first_behind).chain([&last]);
    for &block in damaged {
        drives[0].tamper(block, |bytes| bytes[90] ^= 1);
    }
    settle(&drives);
    assert!(matches!(open(&drives, usual()), Err(OpenError::Damaged(_))));
}

#[cfg(feature = "mutants")]
#[test]
fn without_its_copy_a_damaged_header_is_lost() {
    let [refused, whole] = outcomes(1, Rules::without(evenkeel_store::Rule::HeaderTwice));
    assert!(refused > 8 && whole == 0, "{refused} refused, {whole} whole");
}

#[cfg(feature = "mutants")]
#[test]
fn without_a_look_behind_it_damage_would_end_the_log() {
    let [refused, whole] = outcomes(2, Rules::without(evenkeel_store::Rule::LookBehind));
    assert!(refused == 0 && whole == 0, "{refused} refused, {whole} whole");
}

/// Whether everything is there although the last record's header is damaged, in a store that was
/// killed as it rested.
fn has_last_record(is_marked: bool) -> bool {
    let drives = mirror::drives(1, 1, BLOCKS);
    let headers = |drives: &[CrashDrive]| drives[0].blocks_with(b"\xe9kRH");
    let mut last = None;
    with(&open(&drives, usual()).unwrap(), async |store| {
        write(store, 0..BLOCKS - 1, 7).await;
        let before = headers(&drives);
        write(store, BLOCKS - 1..BLOCKS, 7).await;
        last = headers(&drives).into_iter().find(|at| !before.contains(at));
        if is_marked {
            store.mark_tail().await.unwrap();
            let marked = headers(&drives);
            store.mark_tail().await.unwrap();
            assert_eq!(headers(&drives), marked, "once is enough");
        }
    });
    lose_cache(&drives);
    drives[0].tamper(last.unwrap(), |bytes| bytes[90] ^= 1);
    settle(&drives);
    is_filled(&drives, usual(), ALL, 7)
}

#[test]
fn the_last_header_of_a_log_that_rests_is_restored_from_an_empty_record() {
    assert!(has_last_record(true));
    assert!(!has_last_record(false), "nothing tells it from a torn record");
}

#[test]
fn a_damaged_header_on_one_drive_of_a_pair_does_no_harm() {
    let drives = mirror::drives(2, 2, BLOCKS);
    let headers = write_and_kill(&drives, usual());
    for place in headers {
        drives[0].tamper(place, |bytes| bytes[90] ^= 1);
    }
    settle(&drives);
    assert!(is_filled(&drives, usual(), ALL, 7));
}

/// Whether a store of one drive opens with all it had, and then with one chunk of its checkpoint
/// bad in a place, for each place where one of these stands.
#[test]
fn a_bad_sector_in_the_checkpoint_of_a_lone_drive_does_no_harm() {
    let mut tried = 0;
    for damaged in 0.. {
        let drives = mirror::drives(1, 1, BLOCKS);
        with(&open(&drives, usual()).unwrap(), async |store| {
            for byte in 1..=7 {
                write(store, 0..BLOCKS, byte).await;
                store.checkpoint().await.unwrap();
            }
            assert!(
                store.status().counters.checkpoints > store.status().counters.whole_checkpoints
            );
        });
        lose_cache(&drives);
        let chunks = drives[0].blocks_with(b"\xe9kCP");
        let Some(&place) = chunks.get(damaged) else { break };
        drives[0].tamper(place, |bytes| bytes[70] ^= 1);
        settle(&drives);
        assert!(is_filled(&drives, usual(), ALL, 7), "chunk in block {place}");
        tried += 1;
    }
    assert!(tried > 4, "{tried} chunks");
}
