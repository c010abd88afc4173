//! What a tail of its own is worth, with the store's own code at toy size.

use evenkeel_core::time::Span;
use evenkeel_sim::chained::cleaning::{CleaningOutcome, CleaningRun, Scale};
use evenkeel_sim::chained::contention::{ContentionOutcome, ContentionRun};
use evenkeel_sim::chained::rig::Layout;
use evenkeel_store::Cleaning;

const CHAIN: Layout = Layout::Chain { length: 2 };

fn cleaning(layout: Layout, cleaning: Cleaning) -> CleaningOutcome {
    let scale = Scale { drive_bytes: 2 << 30, measure: Span::from_secs(3) };
    let (window_bytes, quantum_bytes) = (256 << 10, 1 << 20);
    CleaningRun { layout, cleaning, window_bytes, quantum_bytes, scale, seed: 1 }.run()
}

#[test]
fn clients_keep_the_tails_drive_while_the_chain_is_cleaned_and_lose_a_striped_log() {
    let striped = cleaning(Layout::Striped, Cleaning::MoveToTail);
    let chain = cleaning(CHAIN, Cleaning::CompactInBody);
    assert!(striped.before.application > 1.5 * chain.before.application, "two drives, not one");
    assert!(chain.during.application > 0.93 * chain.before.application, "{chain:?}");
    assert!(chain.during.application > 3.0 * striped.during.application, "{striped:?} {chain:?}");
    assert!(chain.during.copies > 5e6, "the cleaner works: {chain:?}");
}

#[test]
fn a_run_comes_out_the_same_every_time() {
    assert_eq!(
        cleaning(CHAIN, Cleaning::MoveToTail).during,
        cleaning(CHAIN, Cleaning::MoveToTail).during
    );
}

fn contention(layout: Layout, readers: u32) -> ContentionOutcome {
    let run = ContentionRun {
        layout,
        drives: 4,
        readers,
        read_bytes: 16 << 10,
        window_bytes: 1 << 20,
        body_hits_milli: 0,
        tail_hits_milli: 1000,
        drive_bytes: 512 << 20,
        measure: Span::from_secs(1),
        seed: 1,
    };
    run.run()
}

#[test]
fn readers_do_not_slow_the_tail_of_a_chain_and_do_slow_a_striped_log() {
    let chain = Layout::Chain { length: 4 };
    let [alone, beside] = [0, 8].map(|readers| contention(chain, readers).written.application);
    assert!(beside > 0.95 * alone, "{beside} of {alone}");
    let striped = contention(Layout::Striped, 8);
    assert!(beside > 2.0 * striped.written.application);
    assert!(contention(chain, 8).read > striped.read);
}
