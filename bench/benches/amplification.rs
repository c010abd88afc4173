//! The write amplification of the store's cleaner beside what was published of its policy, for
//! every load and fill of the table: `cargo bench -p evenkeel-bench --bench amplification`, which
//! takes some minutes. As a test (`cargo test --benches`) one cell is measured at toy size.
//!
//! `net` leaves aside what the store keeps ahead of its clients, as the published simulation does;
//! `gross` is what the owner of a store pays who fills it so far. The aim is a net figure within 5
//! percent of the published one.

use evenkeel_sim::cleaning::{Load, PUBLISHED, Published, Setup, amplification};

/// Data blocks of a segment: with fewer, headers would leave no room for 90 percent.
const SEGMENT_BLOCKS: u64 = 256;

/// The same where figures do not count.
const SMOKE_SEGMENT_BLOCKS: u64 = 64;

fn main() {
    if std::env::args().any(|argument| argument == "--bench") {
        table();
    } else {
        let (load, segment_blocks) = (Load::Hot(90), SMOKE_SEGMENT_BLOCKS);
        let setup = Setup { load, full_percent: 70, segment_blocks, is_net: true };
        // A toy has no figure worth reading.
        assert!(amplification(&setup) >= 1.0, "drives took less than was written");
        println!("smoke: 90 % to 10 %, U = 0.7");
    }
}

fn table() {
    println!("{:14} {:>4} {:>10} {:>14} {:>6}", "load", "U", "published", "net", "gross");
    for row in PUBLISHED {
        for (full_percent, published) in Published::FULL_PERCENT.into_iter().zip(row.amplification)
        {
            let measure = |is_net| {
                let (load, segment_blocks) = (row.load, SEGMENT_BLOCKS);
                amplification(&Setup { load, full_percent, segment_blocks, is_net })
            };
            let (net, gross) = (measure(true), measure(false));
            let difference_percent = (net / published - 1.0) * 100.0;
            println!(
                "{:14} 0.{:<2} {published:>10.2} {net:>6.2} {difference_percent:>+5.1} % \
                 {gross:>6.2}",
                row.name,
                full_percent / 10,
            );
        }
    }
}
