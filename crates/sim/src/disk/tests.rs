//! What the simulated drive promises, and what it does not.

use std::sync::Arc;

use evenkeel_core::prng::Prng;

use super::*;

const SIZE_BYTES: u64 = 64 * BLOCK_BYTES;

fn lost(_: &Unflushed) -> Fate {
    Fate::Lost
}

fn write(block: u64, byte: u8, fua: bool) -> Command {
    Command::Write { offset: block * BLOCK_BYTES, bytes: Arc::new([byte; 4096]), fua }
}

/// The first byte of a block.
fn first(disk: &mut CrashDisk, block: u64) -> u8 {
    disk.read(block * BLOCK_BYTES, 1).unwrap()[0]
}

#[test]
fn an_unflushed_write_is_seen_and_may_be_lost() {
    let mut disk = CrashDisk::new(SIZE_BYTES);
    disk.write(0, &[1; 512]).unwrap();
    assert_eq!(first(&mut disk, 0), 1);
    disk.power_cut(lost);
    assert_eq!(first(&mut disk, 0), 0);
}

#[test]
fn a_flush_covers_what_was_acknowledged_when_it_was_submitted() {
    let mut disk = CrashDisk::new(SIZE_BYTES);
    let early = disk.submit(write(0, 1, false));
    disk.complete(early).unwrap();
    let late = disk.submit(write(1, 2, false));
    let flush = disk.submit(Command::Flush);
    disk.complete(late).unwrap();
    disk.complete(flush).unwrap();
    disk.power_cut(lost);
    assert_eq!((first(&mut disk, 0), first(&mut disk, 1)), (1, 0));
}

#[test]
fn a_flush_does_not_cover_later_writes_though_another_emptied_the_cache() {
    let mut disk = CrashDisk::new(SIZE_BYTES);
    disk.write(0, &[1; 4096]).unwrap();
    let slow = disk.submit(Command::Flush);
    disk.flush().unwrap();
    disk.write(BLOCK_BYTES, &[2; 4096]).unwrap();
    disk.complete(slow).unwrap();
    disk.power_cut(lost);
    assert_eq!((first(&mut disk, 0), first(&mut disk, 1)), (1, 0));
}

#[test]
fn a_forced_write_is_durable_and_not_undone_by_older_ones_in_the_cache() {
    let mut disk = CrashDisk::new(SIZE_BYTES);
    disk.write(0, &[1; 3 * 4096]).unwrap();
    let forced = disk.submit(write(1, 9, true));
    disk.complete(forced).unwrap();
    let ends: Vec<_> = every_cut(&disk, 8)
        .unwrap()
        .map(|mut disk| [0, 1, 2].map(|block| first(&mut disk, block)))
        .collect();
    assert_eq!(ends, [[0, 9, 0], [1, 9, 0], [0, 9, 1], [1, 9, 1]]);
}

#[test]
fn a_command_under_way_is_done_in_part_and_never_completes() {
    let mut disk = CrashDisk::new(SIZE_BYTES);
    disk.submit(Command::Write { offset: 0, bytes: Arc::new([3; 8192]), fua: true });
    disk.submit(Command::Flush);
    let ends: Vec<_> = every_cut(&disk, 8)
        .unwrap()
        .map(|mut disk| [0, 1].map(|block| first(&mut disk, block)))
        .collect();
    assert_eq!(ends, [[0, 0], [3, 0], [0, 3], [3, 3]]);
}

#[test]
fn of_two_unflushed_writes_to_a_place_either_or_none_remains() {
    let mut disk = CrashDisk::new(SIZE_BYTES);
    disk.write(0, &[1; 4096]).unwrap();
    disk.write(0, &[2; 4096]).unwrap();
    let ends: Vec<_> = every_cut(&disk, 8).unwrap().map(|mut disk| first(&mut disk, 0)).collect();
    assert_eq!(ends, [0, 1, 2, 2]);
    assert!(every_cut(&disk, 1).is_none(), "too many");
}

#[test]
fn a_discard_reads_as_zeroes_and_comes_back_unless_it_was_flushed() {
    let mut disk = CrashDisk::new(SIZE_BYTES);
    disk.write(0, &[1; 8192]).unwrap();
    disk.flush().unwrap();
    let discard = disk.submit(Command::Discard { offset: 0, length_bytes: BLOCK_BYTES });
    disk.complete(discard).unwrap();
    assert_eq!(first(&mut disk, 0), 0);
    let mut cut = disk.clone();
    cut.power_cut(lost);
    assert_eq!(first(&mut cut, 0), 1);
    disk.flush().unwrap();
    disk.power_cut(lost);
    assert_eq!((first(&mut disk, 0), first(&mut disk, 1)), (0, 1));
}

#[test]
fn a_torn_write_is_old_new_or_unreadable_sector_by_sector() {
    let mut disk = CrashDisk::new(SIZE_BYTES);
    disk.write(0, &[1; 4096]).unwrap();
    disk.flush().unwrap();
    disk.write(0, &[2; 4096]).unwrap();
    let units = vec![UnitFate::New, UnitFate::Old, UnitFate::Ruined];
    disk.power_cut(|_| Fate::Torn { unit_bytes: 512, units: units.clone() });
    assert_eq!(disk.read(0, 1024).unwrap()[511..513], [2, 1]);
    assert_eq!(disk.read(0, 4096), Err(DiskError::Unreadable { offset: 1024 }));
}

#[test]
fn a_drive_that_vanished_returns_with_what_it_had() {
    let mut disk = CrashDisk::new(SIZE_BYTES);
    disk.write(0, &[1; 4096]).unwrap();
    disk.flush().unwrap();
    let under_way = disk.submit(write(0, 2, false));
    disk.detach(lost);
    assert_eq!(disk.complete(under_way), Err(DiskError::Gone));
    assert_eq!(disk.write(0, &[3; 4096]), Err(DiskError::Gone));
    disk.attach();
    assert_eq!(first(&mut disk, 0), 1);
}

/// What a single fault does to a write of block 1, over a drive whose blocks 0 and 1 hold 1.
fn after(fault: Fault) -> (Result<(), DiskError>, CrashDisk) {
    let mut disk = CrashDisk::new(SIZE_BYTES);
    disk.write(0, &[1; 8192]).unwrap();
    disk.flush().unwrap();
    disk.set_faults(FaultPlan::default().with(CommandId(2), fault));
    let answer = disk.write(BLOCK_BYTES, &[2; 4096]);
    (answer, disk)
}

#[test]
fn lost_misdirected_and_shorn_writes_are_acknowledged() {
    let (answer, mut disk) = after(Fault::Ignored);
    assert_eq!((answer, first(&mut disk, 1)), (Ok(()), 1));
    let (answer, mut disk) = after(Fault::Misdirected { salt: 0 });
    assert_eq!((answer, first(&mut disk, 0), first(&mut disk, 1)), (Ok(()), 2, 1));
    let (answer, mut disk) = after(Fault::Shorn { salt: 3 });
    assert_eq!(answer, Ok(()));
    assert_eq!(disk.read(BLOCK_BYTES, 4096).unwrap()[3 * 512 - 1..][..2], [2, 1]);
}

#[test]
fn a_failed_write_is_done_in_part_at_most() {
    let (answer, mut disk) = after(Fault::Failed { salt: 0 });
    assert_eq!((answer, first(&mut disk, 1)), (Err(DiskError::Failed), 1));
    let (answer, mut disk) = after(Fault::Failed { salt: 8 });
    assert_eq!((answer, first(&mut disk, 1)), (Err(DiskError::Failed), 2));
}

#[test]
fn after_a_failed_flush_some_acknowledged_writes_are_gone_and_flushing_again_does_not_help() {
    let mut outcomes = std::collections::BTreeSet::new();
    for salt in 0..64 {
        let plan = FaultPlan::default().with(CommandId(1), Fault::Failed { salt });
        let mut disk = CrashDisk::new(SIZE_BYTES).with_faults(plan);
        disk.write(0, &[1; 4096]).unwrap();
        assert_eq!(disk.flush(), Err(DiskError::Failed));
        let seen = first(&mut disk, 0);
        disk.flush().unwrap();
        disk.power_cut(lost);
        assert_eq!(first(&mut disk, 0), seen, "what is seen and flushed is there");
        outcomes.insert(seen);
    }
    assert_eq!(outcomes, [0, 1].into());
}

#[test]
fn rot_is_silent_and_a_bad_sector_is_not() {
    let plan = FaultPlan::default()
        .with(CommandId(0), Fault::Rot { salt: 9 })
        .with(CommandId(2), Fault::Unreadable);
    let mut disk = CrashDisk::new(SIZE_BYTES).with_faults(plan);
    assert_eq!(disk.read(0, 2), Ok(vec![0, 2]));
    assert_eq!(disk.read(0, 2), Ok(vec![0, 2]), "the damage stays");
    assert_eq!(disk.read(512, 2), Err(DiskError::Unreadable { offset: 512 }));
    disk.write(512, &[1; 512]).unwrap();
    assert_eq!(disk.read(512, 1), Ok(vec![1]));
}

/// A drive with the same promises, kept naively: the versions that each block may have after
/// a cut.
struct Naive {
    seen: Vec<u8>,
    possible: Vec<Vec<u8>>,
}

#[test]
fn random_commands_leave_what_a_naive_drive_allows() {
    for seed in 0..300 {
        let mut prng = Prng::new(seed);
        let mut disk = CrashDisk::new(SIZE_BYTES);
        let mut naive = Naive { seen: vec![0; 8], possible: vec![vec![0]; 8] };
        for _ in 0..prng.below(40) {
            let block = prng.below(8);
            let byte = u8::try_from(prng.below(200)).unwrap();
            let index = usize::try_from(block).unwrap();
            match prng.below(10) {
                0 => {
                    disk.flush().unwrap();
                    naive.possible = naive.seen.iter().map(|byte| vec![*byte]).collect();
                }
                1 => {
                    let id = disk.submit(write(block, byte, true));
                    disk.complete(id).unwrap();
                    naive.seen[index] = byte;
                    naive.possible[index] = vec![byte];
                }
                2 => {
                    disk.submit(write(block, byte, prng.below(2) == 0));
                    naive.possible[index].push(byte);
                    // Nothing may overtake what is under way, in this test: cut now.
                    break;
                }
                _ => {
                    disk.write(block * BLOCK_BYTES, &[byte; 4096]).unwrap();
                    naive.seen[index] = byte;
                    naive.possible[index].push(byte);
                }
            }
            let seen: Vec<_> = (0..8).map(|block| first(&mut disk, block)).collect();
            assert_eq!(seen, naive.seen, "seed {seed}");
        }
        let mut cut = SeededCut::new(seed, CutOptions::default());
        disk.power_cut(|write| cut.fate(write));
        for (block, possible) in (0..8).zip(&naive.possible) {
            for sector in 0..8 {
                let byte = disk.read(block * BLOCK_BYTES + sector * 512, 1).unwrap()[0];
                assert!(possible.contains(&byte), "seed {seed}: {byte} of {possible:?}");
            }
        }
    }
}

#[test]
fn the_same_plan_over_the_same_commands_is_the_same_run() {
    let rates = FaultRates {
        failed_writes: 100_000,
        failed_flushes: 200_000,
        misdirected_writes: 100_000,
        shorn_writes: 100_000,
        ..FaultRates::default()
    };
    let run = |seed| {
        let mut disk = CrashDisk::new(SIZE_BYTES).with_faults(FaultPlan::seeded(rates, seed));
        let answers: Vec<_> = (0..200u64)
            .map(|step| match step % 5 {
                0 => disk.flush(),
                _ => disk.write(step % 60 * BLOCK_BYTES, &step.to_le_bytes().repeat(512)),
            })
            .collect();
        let mut cut = SeededCut::new(seed, CutOptions::default());
        disk.power_cut(|write| cut.fate(write));
        (answers, disk.medium().clone())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}
