//! Why a tenant gets no more than it does: one cause, with the figure that shows it and the remedy.
//!
//! # What it is due
//!
//! Its floor while it keeps that much queued, its goal for the response time, and its share: what
//! its weight gives it beside those that are active ([`shares`](crate::shares)). A tenant that asks
//! for less than its share is not below it for that.
//!
//! # Which cause
//!
//! A client that keeps N requests outstanding gets N answers for each time that one of them takes
//! (Little's law), so whatever its requests spend most of their time with is what keeps it back:
//!
//! ```text
//! time of its requests = own limit + slow exports + device standing still
//!                      + behind itself + behind the gate's own work + behind others + own service
//! ```
//!
//! The parts are those that the accounts and [`attribution`](crate::attribution) have gathered over
//! the last seconds (`recent`). Where the gate orders requests and a tenant always has some
//! waiting, the order decides instead: who goes first, and by which promise. And where it seldom
//! has any waiting it asks for too little, whatever its requests spend their time with.
//!
//! What the engine cannot see, memory, connections, and links to upstreams, comes from the driver
//! ([`Surroundings`]).
//!
//! `rules` finds the cause, `words` says it. History, alerts and pages use both.

pub mod cause;
pub(crate) mod recent;
mod rules;
mod surroundings;
mod words;

use evenkeel_core::id::TenantId;
use evenkeel_core::sched::Share;

use crate::policy::{Mode, Scheduling};
use crate::report::ServerReport;
pub use cause::{Cause, Standing};
use recent::Recent;
pub use surroundings::{Failed, Surroundings};

/// How a tenant stands, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// Whether it has what it is due.
    pub standing: Standing,
    /// Why it gets no more; none where it has all that it asks for.
    pub cause: Option<Cause>,
    /// Who stands in its way, where somebody does.
    pub behind: Option<TenantId>,
    /// What holds, in a sentence with the figure that shows it.
    pub sentence: String,
    /// What can be done; empty where nothing need be.
    pub remedy: String,
}

/// All that the cause is found from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) mode: Mode,
    /// Names and shares, by [`TenantId`].
    pub(crate) tenants: &'a [(String, Share)],
    /// Likewise.
    pub(crate) recent: &'a [Recent],
    pub(crate) servers: &'a [ServerReport],
    /// By server.
    pub(crate) scheduling: &'a [(String, Scheduling)],
    /// Whether weights say what each tenant is due, and nothing else.
    pub(crate) is_by_weight: bool,
}

/// Why this tenant gets no more than it does.
pub(crate) fn explain(scene: &Scene<'_>, tenant: TenantId) -> Finding {
    let verdict = rules::judge(scene, tenant);
    let (sentence, remedy) = words::say(scene, tenant, &verdict);
    let rules::Verdict { standing, cause, behind, .. } = verdict;
    Finding { standing, cause, behind, sentence, remedy }
}
