//! What a run found.

mod summary;

pub use summary::{
    BackendSummary, FairnessLag, GroupSummary, IntervalSummary, Latency, Progress, Summary,
    TenantSummary, Traffic,
};
