//! The rate at which a store takes writes for ever while it cleans: what the drive has, over all
//! that each block written makes it move.
//!
//! ```text
//! rate = T / (1 + (A - 1) (1 / v + 1)) = T / 2 A      T the drive's rate, A write amplification
//! ```
//!
//! What is cleaned is read over its holes, so all of a victim for its live share v, and written
//! once; in the long run v is (A - 1) / A. That is the formula of the notes on the chained log
//! (section 6.6) for a single drive that never seeks, so that all of its time counts.

use evenkeel_core::time::Span;
use evenkeel_sim::device::simple::Constant;
use evenkeel_sim::device::spec::ConstantSpec;

use super::full::{BLOCK_BYTES, Full};

const RATE_BYTES: u64 = 120_000_000;

/// Blocks of a segment: two headers and 128 of data. The formula knows no headers; with half as
/// many blocks they alone would take 3 percent of what is written.
const SEGMENT_BLOCKS: u64 = 130;

/// Clients: enough for records as long as their segments.
const CLIENTS: u64 = 128;

#[test]
fn a_store_under_steady_cleaning_keeps_within_a_tenth_of_the_rate_that_cleaning_leaves() {
    // Four fifths of what blocks there are for data come to this part of what volumes may have.
    let mut full = Full::new(96, SEGMENT_BLOCKS, |size_bytes| {
        let (fixed, rate_bytes) = (Span::ZERO, RATE_BYTES);
        Box::new(Constant::new(ConstantSpec { size_bytes, fixed, rate_bytes, servers: 1 }))
    });
    let blocks = full.blocks;
    full.write(CLIENTS, blocks, false);
    full.write(CLIENTS, 4 * blocks, true);
    let (start, before) = (full.rack.clock().now(), full.store.status().counters);
    full.write(CLIENTS, 4 * blocks, true);
    let (end, after) = (full.rack.clock().now(), full.store.status().counters);
    let written = (after.written_blocks - before.written_blocks) as f64;
    let moved = (after.moved_blocks - before.moved_blocks) as f64;
    let amplification = 1.0 + moved / written;
    let bound = RATE_BYTES as f64 / (2.0 * amplification);
    let rate = written * BLOCK_BYTES as f64 / ((end.0 - start.0) as f64 / 1e9);
    assert!(
        (0.9..=1.0).contains(&(rate / bound)),
        "{rate:.0} of {bound:.0} bytes/s at {amplification:.2}"
    );
}
