//! Objects of a pool that say what a volume is like: whatever is read of them is written again, and
//! read again as the same.
#![no_main]

use evenkeel_engine::pooled::{Directory, Head};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(head) = Head::parse(bytes) {
        assert_eq!(Head::parse(head.to_text().as_bytes()), Ok(head));
    }
    if let Ok(directory) = Directory::decode(bytes) {
        assert_eq!(directory.encode(), bytes);
    }
});
