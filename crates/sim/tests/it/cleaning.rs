//! The store's cleaner writes as much as was published of its policy.

use evenkeel_sim::cleaning::{PUBLISHED, Published, Setup, amplification};

/// The column that is looked at here; all of the table is
/// `cargo bench -p evenkeel-bench --bench amplification`.
const FULL_PERCENT: u64 = 80;

#[test]
fn the_cleaner_writes_at_most_5_percent_more_than_was_published() {
    let column = Published::FULL_PERCENT.iter().position(|&percent| percent == FULL_PERCENT);
    let column = column.expect("it is one of the table");
    for Published { name, load, amplification: published } in PUBLISHED {
        let setup = Setup { load, full_percent: FULL_PERCENT, segment_blocks: 64, is_net: true };
        let (measured, published) = (amplification(&setup), published[column]);
        // Far less would mean that it is not the published load that is measured.
        let ratio = measured / published;
        assert!((0.92..=1.05).contains(&ratio), "{name}: {measured:.2}, published {published:.2}");
    }
}
