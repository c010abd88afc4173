//! What a request touches.

use super::*;

#[test]
fn a_request_touches_the_blocks_that_hold_its_bytes() {
    let record = |offset, length| Record {
        at: evenkeel_core::time::Nanos(0),
        source: crate::SourceId(0),
        kind: evenkeel_core::ticket::Kind::Read,
        offset,
        length,
        response: None,
    };
    let blocks = Blocks::default();
    assert_eq!(blocks.of(&record(0, 4096)), 0..1);
    assert_eq!(blocks.of(&record(4095, 2)), 0..2);
    assert_eq!(blocks.of(&record(8192, 0)), 0..0);
    assert_eq!(blocks.of(&record(0, u64::MAX)), 0..Blocks::PER_REQUEST_MAX);
    assert!(!blocks.of(&record(u64::MAX, u64::MAX)).is_empty());
    assert!(Blocks::new(0).is_none());
}
