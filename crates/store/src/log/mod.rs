//! The log: how changes become records, and records become durable.
//!
//! ```text
//! write --> change --+
//! write --> change --+--> record LSN 7 --> both copies --> map, acknowledge 7
//! trim  --> change --+
//! write --> change -----> record LSN 8 --> both copies --> (waits for 7) map, acknowledge 8
//! ```

mod bound;
mod commit;
mod fail;
mod flush;
mod mark;
mod write;

pub(crate) use bound::Work;

use crate::buffer::Buffer;
use crate::error::StoreError;
use crate::format::record::Extent;
use crate::sync::{Once, RangeHeld};
use crate::volume::Promise;

/// A change that waits for its record, and holds its blocks until it is in the map.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) extent: Extent,
    /// Whole blocks, aligned; none to unmap.
    pub(crate) data: Option<Buffer>,
    /// Of each data block.
    pub(crate) checksums: Vec<u32>,
    pub(crate) done: Once<Result<(), StoreError>>,
    /// The room that it takes, if it was not promised before.
    pub(crate) _promise: Option<Promise>,
    pub(crate) _held: RangeHeld,
}

impl Pending {
    fn data_blocks(&self) -> usize {
        self.checksums.len()
    }
}
