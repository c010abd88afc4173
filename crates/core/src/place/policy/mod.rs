//! Which of two candidates is better: one policy per file, all behind one interface.
//!
//! | file | prefers | figure |
//! |---|---|---|
//! | [`space`] | the emptier servers | sum of the used parts of their capacity |
//! | [`local`] | a primary close to the client | failure domain |
//! | [`memory`] | a primary with free memory for its cache | free part |
//! | [`cpu`] | idle processors | sum of the busy parts |
//! | [`latency`] | quick servers among those without a queue | requests in flight, then latency |
//! | [`journal`] | short journals | bytes not yet flushed |
//! | [`in_order`] | whatever the first of several policies with an opinion does | |
//!
//! A policy compares the candidate that would be kept with another one and says [`Better::Even`]
//! unless the difference is clear. The first candidate is the default, so margins keep most objects
//! where a client without any memory looks first: with one percent of capacity as the margin of
//! [`space`], nine objects of ten.
//!
//! To add a policy of your own, implement [`Policy`]; what is known of the servers is in
//! [`View::loads`].

pub mod cpu;
pub mod in_order;
pub mod journal;
pub mod latency;
pub mod local;
pub mod memory;
pub mod space;

use super::loads::Loads;
use crate::id::ServerId;

/// What a comparison goes by.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What is known of the servers.
    pub loads: &'a Loads,
    /// Bytes that the object is going to take on each server of its set.
    pub size_bytes: u64,
}

/// The outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The candidate that would be kept.
    Kept,
    /// The other one.
    Other,
    /// Neither, clearly.
    Even,
}

/// A way to compare candidates. Sets are never empty; their first server is the primary.
pub trait Policy {
    /// Which of two sets of servers is clearly better.
    fn compare(&self, view: &View<'_>, kept: &[ServerId], other: &[ServerId]) -> Better;

    /// The figures have changed: time to work out what comparisons share.
    fn refresh(&mut self, _loads: &Loads) {}
}

/// Compares two costs: the lower is better if the difference exceeds the margin.
pub fn by_cost(kept: f64, other: f64, margin: f64) -> Better {
    if kept - other > margin {
        Better::Other
    } else if other - kept > margin {
        Better::Kept
    } else {
        Better::Even
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::place::loads::Metrics;

    /// Servers that reported these figures.
    pub(crate) fn loads(reports: &[Metrics]) -> Loads {
        let mut loads = Loads::new(reports.len());
        for (server, report) in (0..).map(ServerId).zip(reports) {
            loads.report(server, *report);
        }
        loads
    }

    /// Compares the sets of one server each that are 0 and 1.
    pub(crate) fn zero_or_one(policy: &impl Policy, loads: &Loads) -> Better {
        let view = View { loads, size_bytes: 0 };
        policy.compare(&view, &[ServerId(0)], &[ServerId(1)])
    }
}
