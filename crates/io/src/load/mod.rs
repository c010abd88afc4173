//! A load generator that speaks NBD: closed or open loop, many clients, striped requests with a
//! barrier, verification, and a report per group of clients.
//!
//! One thread makes all the load. Each client is a task with its own connections that reads
//! whatever has come, starts whatever is due, and writes it in one call. The thread's processor
//! time is part of the report, so that a generator which was itself the bottleneck shows.
//!
//! ```text
//! LoadPlan -> [ Drawer: kind, offset, size ]     [ Pace: when ]      ReplayPlan -> [ Feed ]
//!                           \                     /                                  |
//!                            Client  (slots, barrier)  <---- Work ------------------+
//!                           /   |   \
//!                        Link  Link  Link          one connection each
//!                           \   |   /
//!                            Recorder  -> LoadReport
//! ```

mod client;
mod cpu;
mod link;
mod probe;
mod record;
pub mod replay;
mod report;
mod session;
mod spec;
mod verify;
mod work;

pub use evenkeel_core::workload::{DEPTH_MAX, Layout, Pattern, SIZE_BYTES_MAX, WeightedSize};
pub use probe::{ExportOffer, list, probe};
pub use report::{
    CpuTime, DirectionReport, GroupReport, IntervalReport, Latency, LoadReport, Progress,
    Verification,
};
pub use session::{run, run_observed, run_while};
pub use spec::{Arrivals, CLIENTS_MAX, LoadPlan, LoadSpec};

/// Why a plan could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plan makes no sense.
    #[error("load{}: {what}", in_group(.group))]
    Plan {
        /// The group, empty for the plan as a whole.
        group: String,
        /// What is wrong.
        what: String,
    },
    /// No session with a target.
    #[error("cannot use {target}: {what}")]
    Connect {
        /// The target.
        target: String,
        /// What went wrong.
        what: String,
    },
    /// A session broke off.
    #[error("lost {target}: {what}")]
    Lost {
        /// The target.
        target: String,
        /// What went wrong.
        what: String,
    },
    /// Somebody interrupted it twice.
    #[error("interrupted before requests under way had their answers")]
    Interrupted,
    /// The system refused something that the generator needs.
    #[error("the load generator cannot run")]
    System(#[from] std::io::Error),
}

fn in_group(group: &str) -> String {
    if group.is_empty() { String::new() } else { format!(" {group:?}") }
}
