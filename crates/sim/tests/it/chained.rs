//! What a tail of its own is worth, with the store's own code.

use evenkeel_core::time::Span;
use evenkeel_sim::chained::cleaning::{CleaningOutcome, CleaningRun, Scale};
use evenkeel_sim::chained::contention::{ContentionOutcome, ContentionRun};
use evenkeel_sim::chained::rig::Layout;
use evenkeel_sim::chained::standby::{StandbyOutcome, StandbyRun};
use evenkeel_store::Cleaning;

const CHAIN: Layout = Layout::Chain { length: 2 };

fn cleaning(layout: Layout, cleaning: Cleaning) -> CleaningOutcome {
    let scale = Scale::QUICK;
    let (window_bytes, quantum_bytes) = (256 << 10, 1 << 20);
    CleaningRun { layout, cleaning, window_bytes, quantum_bytes, scale, seed: 1 }.run()
}

#[test]
fn clients_keep_the_tails_drive_while_the_chain_is_cleaned_and_lose_a_striped_log() {
    let striped = cleaning(Layout::Striped, Cleaning::MoveToTail);
    let chain = cleaning(CHAIN, Cleaning::CompactInBody);
    assert!(striped.before.application > 1.5 * chain.before.application, "two drives, not one");
    assert!(chain.during.application > 0.95 * chain.before.application, "{chain:?}");
    assert!(chain.during.application > 3.0 * striped.during.application, "{striped:?} {chain:?}");
    assert!(chain.during.copies > 5e6, "the cleaner works: {chain:?}");
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
        drive_bytes: 1 << 30,
        measure: Span::from_secs(2),
        seed: 1,
    };
    run.run()
}

#[test]
fn readers_do_not_slow_the_tail_of_a_chain_and_do_slow_a_striped_log() {
    let chain = Layout::Chain { length: 4 };
    let alone = contention(chain, 0).written.application;
    let [beside, striped] = [chain, Layout::Striped].map(|layout| contention(layout, 8));
    let written = beside.written.application;
    assert!(written > 0.95 * alone, "{written} of {alone}");
    assert!(written > 2.0 * striped.written.application, "{written} {:?}", striped.written);
    assert!(beside.read > striped.read);
    assert_eq!(beside, contention(chain, 8), "a run comes out the same every time");
}

#[test]
fn readers_of_a_mirrored_pair_get_both_drives() {
    let read = |layout, drives| {
        let run = ContentionRun {
            layout,
            drives,
            readers: 8,
            read_bytes: 16 << 10,
            window_bytes: 0,
            body_hits_milli: 0,
            tail_hits_milli: 0,
            drive_bytes: 1 << 30,
            measure: Span::from_secs(2),
            seed: 1,
        };
        run.run().read
    };
    let [one, two] = [read(Layout::Striped, 1), read(Layout::Pairs, 2)];
    assert!(two > 1.6 * one, "{two} of {one} bytes per second");
}

fn standby(layout: Layout, after: Option<Span>) -> StandbyOutcome {
    let run = StandbyRun {
        layout,
        drives: 4,
        drive_bytes: 1 << 30,
        writes_per_s: 8,
        after,
        measure: Span::from_secs(3600),
        seed: 1,
    };
    run.run()
}

#[test]
fn the_body_of_a_chain_sleeps_while_little_is_written_and_a_striped_log_never_does() {
    let minute = Some(Span::from_secs(60));
    let striped = standby(Layout::Striped, minute);
    let chain = standby(Layout::Chain { length: 4 }, minute);
    let pairs = standby(Layout::Pairs, minute);
    let awake = standby(Layout::Chain { length: 4 }, None);
    for (name, outcome) in
        [("striped", &striped), ("chain", &chain), ("pairs", &pairs), ("no timer", &awake)]
    {
        let (permille, watts) = (outcome.standby_permille(), outcome.average_mw);
        println!("{name}: {permille} per mille asleep, {watts} mW, {outcome:?}");
    }
    assert_eq!((striped.standby_permille(), awake.standby_permille()), (0, 0));
    assert!(chain.standby_permille() > 600, "{chain:?}");
    assert!(pairs.standby_permille() > 400, "{pairs:?}");
    assert!(chain.average_mw * 10 < awake.average_mw * 6, "{chain:?} {awake:?}");
}
