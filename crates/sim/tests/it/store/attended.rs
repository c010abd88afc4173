//! A store whose cleaner is scheduled by somebody: it goes on in its turn, and nobody waits for
//! ever because the turn does not come.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_core::time::Span;
use evenkeel_sim::disk::{Jitter, JitterOptions};
use evenkeel_store::{Chore, ChoreKind, VolumeId};

use super::full::{BLOCK_BYTES, Full};

const SEGMENT_BLOCKS: u64 = 66;
const CLIENTS: u64 = 8;

fn full(percent: u64) -> Full {
    let jitter = |size_bytes| Box::new(Jitter::new(JitterOptions::default(), size_bytes, 3)) as _;
    Full::new(percent, SEGMENT_BLOCKS, jitter)
}

/// Attends to the cleaner for as long as `attends` says, and lets every chore begin after a
/// `delay`; never without one. Gives the chores that came to their turns.
fn attend(full: &Full, attends: &Rc<Cell<bool>>, delay: Option<Span>) -> Rc<RefCell<Vec<Chore>>> {
    let chores = Rc::new(RefCell::new(Vec::new()));
    let (store, clock) = (Rc::clone(&full.store), full.executor.clock());
    let (seen, attends) = (Rc::clone(&chores), Rc::clone(attends));
    full.executor.clock().spawn(async move {
        let attendance = store.attend();
        let mut last = 0;
        while attends.get() {
            let Some(delay) = delay else {
                clock.sleep(Span::from_millis(1)).await;
                continue;
            };
            let Some(chore) = attendance.next(last).await else { return };
            last = chore.number;
            clock.sleep(delay).await;
            store.work_on(chore).await;
            seen.borrow_mut().push(chore);
        }
    });
    chores
}

/// Reads for as long as `attends` says; two at once, so that one is always under way.
fn keep_reading(full: &Full, attends: &Rc<Cell<bool>>) {
    let blocks = full.blocks;
    for reader in 0..2 {
        let (store, attends) = (Rc::clone(&full.store), Rc::clone(attends));
        full.executor.clock().spawn(async move {
            let mut block = reader;
            while attends.get() {
                block = (block + 7) % blocks;
                store.read(VolumeId(0), block * BLOCK_BYTES, 4096).await.expect("it is there");
            }
        });
    }
}

#[test]
fn whoever_attends_sees_all_that_is_cleaned_and_decides_when() {
    let mut full = full(80);
    let blocks = full.blocks;
    full.write(CLIENTS, blocks, false);
    let before = full.store.status().counters.moved_blocks;
    let attends = Rc::new(Cell::new(true));
    let chores = attend(&full, &attends, Some(Span::from_micros(300)));
    keep_reading(&full, &attends);
    full.write(CLIENTS, 2 * blocks, true);
    let chores = chores.borrow();
    let bytes = |kind| -> u64 {
        chores.iter().filter(|chore| chore.kind == kind).map(|chore| chore.bytes).sum()
    };
    let moved_bytes = (full.store.status().counters.moved_blocks - before) * BLOCK_BYTES;
    assert!(moved_bytes > blocks * BLOCK_BYTES / 4, "{moved_bytes}");
    // A quantum goes ahead where a checkpoint is due; the others come to their turns.
    for kind in [ChoreKind::Read, ChoreKind::Write] {
        assert!(bytes(kind) > moved_bytes / 10 * 9, "{kind:?} {} of {moved_bytes}", bytes(kind));
    }
    assert!(chores.is_sorted_by(|one, other| one.number < other.number));
}

#[test]
fn writers_who_wait_for_room_do_not_wait_for_a_turn_that_never_comes() {
    let mut full = full(100);
    let chores = attend(&full, &Rc::new(Cell::new(true)), None);
    let blocks = full.blocks;
    full.write(CLIENTS, blocks, false);
    full.write(CLIENTS, 3 * blocks, true);
    assert!(chores.borrow().is_empty());
    assert!(full.store.status().counters.moved_blocks > blocks);
}

#[test]
fn while_somebody_reads_the_cleaner_waits_and_checkpoints_do_not() {
    let mut full = full(80);
    let blocks = full.blocks;
    full.write(CLIENTS, blocks, false);
    let attends = Rc::new(Cell::new(true));
    attend(&full, &attends, None);
    keep_reading(&full, &attends);
    let (clock, store) = (full.executor.clock(), Rc::clone(&full.store));
    let done = Rc::clone(&attends);
    full.executor.clock().spawn(async move {
        clock.sleep(Span::from_secs(2)).await;
        let before = store.status().counters.moved_blocks;
        clock.sleep(Span::from_secs(2)).await;
        store.checkpoint().await.expect("it is running");
        let moved = store.status().counters.moved_blocks - before;
        assert!(moved <= 2 * SEGMENT_BLOCKS, "{moved} blocks were cleaned out of turn");
        done.set(false);
    });
    // They wait until the readers are gone, and are done nevertheless.
    full.write(CLIENTS, 3 * blocks, true);
    assert!(!attends.get());
}
