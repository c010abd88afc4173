//! Damage in the midst of the log is no end of it: what was durable is there, or missed aloud.

use evenkeel_store::{DriveIndex, Nonce, OpenError, OpenOptions, Rules};

use crate::support::drive::CrashDrive;
use crate::support::mirror::{self, is_filled, lose_cache, open, with, write};
use crate::support::usual;

const BLOCKS: u64 = 12;

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

/// How often a damaged header, but for the last one, was missed aloud.
fn refusals(rules: Rules) -> (usize, usize) {
    let options = OpenOptions { rules, ..usual() };
    let (mut refused, mut tried) = (0, 0);
    for damaged in 0.. {
        let drives = mirror::drives(1, 1, BLOCKS);
        let headers = write_and_kill(&drives, options);
        let Some(&place) = headers.get(damaged).filter(|_| damaged + 1 < headers.len()) else {
            return (refused, tried);
        };
        drives[0].tamper(place, |bytes| bytes[90] ^= 1);
        settle(&drives);
        tried += 1;
        match open(&drives, options) {
            Err(OpenError::Damaged(damage)) => {
                assert!(damage.missing <= damage.durable, "{damage:?}");
                // Behind the last record of a segment nothing shows where it should have been.
                assert!(damage.drive.is_none_or(|drive| drive == DriveIndex(0)), "{damage:?}");
                let accepted = OpenOptions { accepts_loss: true, ..OpenOptions::new(Nonce(77)) };
                assert!(is_filled(&drives, accepted, damaged, 7), "what was before is there");
                assert!(is_filled(&drives, usual(), damaged, 7), "and it is whole again");
                refused += 1;
            }
            outcome => drop(outcome.unwrap()),
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
fn a_damaged_header_does_not_end_the_log_without_a_word() {
    let (refused, tried) = refusals(Rules::default());
    assert!(tried > 8 && refused == tried, "{refused} of {tried}");
}

#[cfg(feature = "mutants")]
#[test]
fn without_a_look_behind_it_a_damaged_header_would_end_the_log() {
    let (refused, tried) = refusals(Rules::without(evenkeel_store::Rule::LookBehind));
    assert!(refused == 0 && tried > 8, "{refused} of {tried}");
}

#[test]
fn a_damaged_header_on_one_drive_of_a_pair_does_no_harm() {
    let drives = mirror::drives(2, 2, BLOCKS);
    let headers = write_and_kill(&drives, usual());
    for place in headers {
        drives[0].tamper(place, |bytes| bytes[90] ^= 1);
    }
    settle(&drives);
    assert!(is_filled(&drives, usual(), usize::try_from(BLOCKS).unwrap(), 7));
}
