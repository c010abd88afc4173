//! Which clients wait for their answers before they ask for more.
//!
//! On quicker storage such a client asks more often (a *closed loop*, like fio with its `iodepth`),
//! and one that does not asks what it asked before (an *open loop*, like the users of a web site).
//! A forecast that takes one for the other is wrong by any factor, and a trace does not say it.
//! What tells them apart is when requests arrive, given how many are under way:
//!
//! ```text
//! open       the rate of arrivals is the same, whatever is under way
//! closed     `depth` places: a place that is empty is filled after `think` on average, so that
//!            the rate is (depth - under way) / think, and none arrives while all are taken
//! ```
//!
//! Both are Poisson processes whose rate depends on a state, so each has a likelihood, and the more
//! likely one is taken. Arrivals at a regular pace are open though they never pile up.
//!
//! Clients that have nothing under way for long are not there: a recording is cut into
//! [phases](Phase) at such pauses, and into pieces in between, since what a client does changes.
//!
//! Related: dependencies between requests inferred from their times (Mesnier and others, //TRACE,
//! FAST 2007; Haghdoost and others, hfplayer, FAST 2017). Those find which request waits for which;
//! here it suffices how many places a client has.

mod phase;
mod source;

use std::ops::Range;

use evenkeel_core::time::Span;

use crate::{Record, Sources};
use source::Watch;

/// A client is away if nothing of it is under way for so long.
const PAUSE: Span = Span::from_millis(250);

/// Pieces into which a recording without pauses is cut,
const PIECES: u64 = 60;

/// none of them shorter than this.
const PIECE_MIN: Span = Span::from_secs(1);

/// How the requests of one source come.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// Whether they wait for each other's answers.
    pub is_closed: bool,
    /// How sure that is: the logarithm of how many times as likely it is as the opposite, for each
    /// request. Zero where nothing tells.
    pub evidence: f64,
    /// When it was there, in order and apart.
    pub phases: Vec<Phase>,
}

/// A time throughout which a source did the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// Its first instant, since the trace's.
    pub start: Span,
    /// Its end.
    pub end: Span,
    /// Requests that arrived in it.
    pub requests: u64,
    /// The most requests that were under way.
    pub depth: u32,
    /// From an answer to the next request in its place, on average.
    pub think: Span,
}

impl Client {
    /// The greatest number of requests that it had under way.
    pub fn depth_max(&self) -> u32 {
        self.phases.iter().map(|phase| phase.depth).max().unwrap_or(0)
    }
}

/// How the requests of each source come, by [`crate::SourceId`]. `records` are in the order of
/// arrival; those without a response time are taken to have none. `length` is that of the trace.
pub fn of<'r>(
    records: impl Iterator<Item = &'r Record>,
    sources: &Sources,
    length: Span,
) -> Vec<Client> {
    let piece = Span(length.0 / PIECES).max(PIECE_MIN);
    let mut watches: Vec<Watch> = Vec::new();
    watches.resize_with(sources.names().len(), || Watch::new(piece, PAUSE));
    for record in records {
        watches[record.source.0 as usize].arrived(record.at, record.response);
    }
    watches.into_iter().map(Watch::finish).collect()
}

impl Phase {
    /// From its start to its end.
    pub fn range(&self) -> Range<Span> {
        self.start..self.end
    }
}

#[cfg(test)]
mod tests;
