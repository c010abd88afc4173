//! Traces of Linux's block layer: `blkparse`'s text and `blktrace`'s binary records.
//!
//! They tell events, not requests: a request is queued (Q), may be merged with others or split,
//! is issued to the driver (D), perhaps put back (R), and completes (C). The module pairs them:
//! a request arrives when it is queued (or issued, see [`Arrival`]), and its response takes until
//! all of its sectors have completed.
//!
//! ```text
//! Q 0+8      at 10 us  ---+                    arrives at 10 us, takes 90 us
//! Q 8+8      at 12 us  ---|--+  merged         arrives at 12 us, takes 88 us
//! D 0+16     at 15 us     |  |
//! C 0+16     at 100 us ---+--+
//! ```
//!
//! Records leave in the order of arrival. At most 65,536 of them wait for their completion; the
//! oldest leaves without one when there are more.

pub(super) mod binary;
mod completions;
mod pairing;
pub(super) mod text;

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use super::names::{Numbering, canonical};
use crate::{Record, SourceId};

/// When a request of a block layer's trace arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrival {
    /// When it enters the block layer: what an application asks for.
    #[default]
    Queued,
    /// When it goes to the driver, merged and scheduled: what a device sees.
    Issued,
}

/// One of the events that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event {
    action: Action,
    at: Nanos,
    source: SourceId,
    kind: Kind,
    offset: u64,
    length: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Queue,
    Issue,
    Requeue,
    Complete,
}

/// What no event can tell.
fn check(record: &Record) -> Result<(), String> {
    match record.kind {
        Kind::Read | Kind::Write | Kind::Trim if record.length > 0 => Ok(()),
        Kind::Flush if record.length == 0 && record.offset == 0 => Ok(()),
        Kind::Cache | Kind::WriteZeroes => {
            Err(format!("the block layer's traces have no {}", record.kind.name()))
        }
        kind => Err(format!("a {} of {} bytes is no event", kind.name(), record.length)),
    }
}

/// A device number as the kernel packs it: 12 bits of major, 20 of minor.
const MINOR_BITS: u32 = 20;
/// The first of the major numbers that are for local use; sources that are no device get these.
const LOCAL_MAJOR: u32 = 240;

/// Device numbers for an encoder.
fn devices() -> Numbering {
    Numbering::new(device, LOCAL_MAJOR << MINOR_BITS)
}

/// The packed number of a device whose name is `8,16`.
fn device(name: &str) -> Option<u32> {
    let (major, minor) = name.split_once(',')?;
    let (major, minor) = (canonical(major)?, canonical(minor)?);
    (major < 1 << 12 && minor < 1 << MINOR_BITS).then_some(major << MINOR_BITS | minor)
}

fn device_name(device: u32) -> String {
    format!("{},{}", device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_return() {
        assert_eq!(device("8,16").map(device_name).as_deref(), Some("8,16"));
        assert_eq!(device("259,0"), Some(259 << 20));
        for name in ["8", "8,", "08,1", "4096,0", "0,1048576", "sda"] {
            assert_eq!(device(name), None);
        }
    }
}
