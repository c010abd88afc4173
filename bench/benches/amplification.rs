//! What the store writes for each block of its clients, beside what was published of its cleaner's
//! policy and what theory says of cleaning first in, first out, for every load and fill of the
//! table: `cargo bench -p evenkeel-bench --bench amplification`, which takes some minutes. As a
//! test (`cargo test --benches`) one cell is measured at toy size.
//!
//! `net` leaves aside what the store keeps ahead of its clients, as the published simulation does;
//! `gross` is what the owner of a store pays who fills it so far. `bytes` are all that drives get,
//! net, of a store four times as large: headers and checkpoints too. The aims: a net figure within
//! 5 percent of the published one, bytes at most 1.1 times theory, and at 80 percent full at most
//! 3 percent of them checkpoints.

use evenkeel_sim::cleaning::{Load, PUBLISHED, Published, Setup, amplification, fifo};

/// Data blocks of a segment: with fewer, headers would leave no room for 90 percent.
const SEGMENT_BLOCKS: u64 = 256;

/// The same where figures do not count.
const SMOKE_SEGMENT_BLOCKS: u64 = 64;

/// Segments beside theory, which knows none that are being filled.
const SEGMENTS_OF_THEORY: u64 = 1024;

/// Blocks for which theory is asked: it hardly depends on them.
const THEORY_BLOCKS: u64 = 1 << 16;

fn main() {
    if std::env::args().any(|argument| argument == "--bench") {
        for drives in [1, 3] {
            table(drives);
        }
    } else {
        let (load, segment_blocks) = (Load::Hot(90), SMOKE_SEGMENT_BLOCKS);
        let setup = Setup {
            load,
            full_percent: 70,
            volume_segments: Published::SEGMENTS,
            segment_blocks,
            is_net: true,
            drives: 1,
        };
        // A toy has no figure worth reading.
        assert!(amplification(&setup).bytes >= 1.0, "drives took less than was written");
        println!("smoke: 90 % to 10 %, U = 0.7");
    }
}

fn table(drives: usize) {
    println!(
        "{drives} drives\n{:14} {:>4} {:>10} {:>14} {:>6}   {:>6} {:>6} {:>7} {:>11}",
        "load", "U", "published", "net", "gross", "theory", "bytes", "", "checkpoints"
    );
    for row in PUBLISHED {
        for (full_percent, published) in Published::FULL_PERCENT.into_iter().zip(row.amplification)
        {
            let (load, segment_blocks) = (row.load, SEGMENT_BLOCKS);
            let measure = |volume_segments, is_net| {
                amplification(&Setup {
                    load,
                    full_percent,
                    volume_segments,
                    segment_blocks,
                    is_net,
                    drives,
                })
            };
            let [net, gross] = [true, false].map(|is_net| measure(Published::SEGMENTS, is_net));
            let large = measure(SEGMENTS_OF_THEORY, true);
            let theory = fifo(row.load, THEORY_BLOCKS, full_percent);
            println!(
                "{:14} 0.{:<2} {published:>10.2} {:>6.2} {:>+5.1} % {:>6.2}   {theory:>6.2} \
                 {:>6.2} {:>5.2} x {:>9.1} %",
                row.name,
                full_percent / 10,
                net.blocks,
                (net.blocks / published - 1.0) * 100.0,
                gross.blocks,
                large.bytes,
                large.bytes / theory,
                large.checkpoint_percent,
            );
        }
    }
}
