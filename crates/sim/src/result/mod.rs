//! What a run found.

mod book;
mod hash;
mod steady;
mod summary;
mod tally;
mod waiting;

pub(crate) use book::{Book, RowId};
pub(crate) use hash::{LogHash, Mark};
pub(crate) use steady::Steady;
pub use summary::{
    BackendInterval, BackendSummary, FairnessLag, GroupSummary, IntervalSummary, Latency, Progress,
    Summary, TenantSummary, Traffic,
};
pub(crate) use tally::Ending;
