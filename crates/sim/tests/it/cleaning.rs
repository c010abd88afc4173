//! The store's cleaner writes as much as was published of its policy.

use evenkeel_sim::cleaning::{Load, PUBLISHED, Published, Setup, amplification, fifo};

/// The column that is looked at here; all of the table is
/// `cargo bench -p evenkeel-bench --bench amplification`.
const FULL_PERCENT: u64 = 80;

fn setup(load: Load, segment_blocks: u64, drives: usize) -> Setup {
    let (full_percent, volume_segments) = (FULL_PERCENT, Published::SEGMENTS);
    Setup { load, full_percent, volume_segments, segment_blocks, is_net: true, drives }
}

#[test]
fn the_cleaner_writes_at_most_5_percent_more_than_was_published() {
    let column = Published::FULL_PERCENT.iter().position(|&percent| percent == FULL_PERCENT);
    let column = column.expect("it is one of the table");
    for Published { name, load, amplification: published } in PUBLISHED {
        let setup = setup(load, 64, 1);
        let (measured, published) = (amplification(&setup).blocks, published[column]);
        // Far less would mean that it is not the published load that is measured.
        let ratio = measured / published;
        assert!((0.92..=1.05).contains(&ratio), "{name}: {measured:.2}, published {published:.2}");
    }
}

#[test]
fn all_that_drives_get_is_at_most_a_tenth_more_than_theory_says() {
    for (drives, load) in [(1, Load::Uniform), (3, Load::Uniform), (1, Load::Hot(90))] {
        let setup = setup(load, 256, drives);
        let (measured, theory) = (amplification(&setup), fifo(load, 1 << 16, FULL_PERCENT));
        let what = format!("{drives} drives, {load:?}: {measured:?}, theory {theory:.2}");
        assert!(measured.bytes <= 1.1 * theory, "{what}");
        assert!(measured.checkpoint_percent <= 3.0, "{what}");
    }
}
