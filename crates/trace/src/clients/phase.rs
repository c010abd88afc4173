//! One piece of a recording: how many requests were under way for how long, and how many arrived
//! meanwhile.

use std::collections::BTreeMap;

use evenkeel_core::float::natural_log;
use evenkeel_core::time::{Nanos, Span};

use super::Phase;

/// Neighbours whose depths and thinking differ by no more than this part are one phase.
const ALIKE: f64 = 0.25;

/// Phases of one source; what has more of them rests for moments, which is thinking.
const PHASES_MAX: usize = 1000;

/// Time and arrivals while so many requests were under way.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    ns: u64,
    arrivals: u64,
}

/// A piece. See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Piece {
    pub(super) start: Nanos,
    pub(super) end: Nanos,
    /// By the number under way.
    states: BTreeMap<u32, State>,
    /// Requests that arrived after a pause: how long nothing was under way before them is not
    /// counted, so that they say nothing of the rate.
    unwatched: u64,
}

impl Piece {
    pub(super) fn new(start: Nanos) -> Self {
        Self { start, end: start, states: BTreeMap::new(), unwatched: 0 }
    }

    /// So many were under way until now.
    pub(super) fn passed(&mut self, now: Nanos, under_way: u32) {
        let ns = now.since(self.end).0;
        if ns > 0 {
            self.states.entry(under_way).or_default().ns += ns;
            self.end = now;
        }
    }

    /// A request arrived beside so many.
    pub(super) fn arrived(&mut self, under_way: u32) {
        self.states.entry(under_way).or_default().arrivals += 1;
    }

    /// A request arrived after a pause.
    pub(super) fn arrived_after_a_pause(&mut self) {
        self.unwatched += 1;
    }

    pub(super) fn arrivals(&self) -> u64 {
        self.watched() + self.unwatched
    }

    fn watched(&self) -> u64 {
        self.states.values().map(|state| state.arrivals).sum()
    }

    fn depth(&self) -> u32 {
        let arrived = self.states.iter().filter(|(_, state)| state.arrivals > 0);
        let most = arrived.map(|(under_way, _)| under_way + 1).max().unwrap_or(0);
        let most = most.max(self.states.keys().copied().max().unwrap_or(0));
        if self.unwatched > 0 { most.max(1) } else { most }
    }

    /// Time of empty places, all of them together.
    fn empty_ns(&self) -> f64 {
        let depth = self.depth();
        let of =
            |(under_way, state): (&u32, &State)| f64::from(depth - under_way) * state.ns as f64;
        self.states.iter().map(of).sum()
    }

    /// By how much it is more likely, as a logarithm, that the requests of a closed loop arrived so
    /// than those of an open one.
    pub(super) fn evidence(&self) -> f64 {
        let arrivals = self.watched() as f64;
        let time_ns: f64 = self.states.values().map(|state| state.ns as f64).sum();
        if arrivals == 0.0 || time_ns == 0.0 {
            return 0.0;
        }
        let depth = self.depth();
        // At least a nanosecond each: a driver may fill a place within one instant.
        let think_ns = (self.empty_ns() / arrivals).max(1.0);
        let filled = self.states.iter().filter(|(_, state)| state.arrivals > 0);
        let closed: f64 = filled
            .map(|(under_way, state)| {
                let empty = f64::from(depth - under_way).max(f64::MIN_POSITIVE);
                state.arrivals as f64 * natural_log(empty / think_ns)
            })
            .sum();
        // The terms of no arrivals are as many as there are arrivals, in both. The depth was chosen
        // so that it fits, which makes what is known of few arrivals likely at any rate.
        closed - arrivals * natural_log(arrivals / time_ns) - (1.0 + natural_log(arrivals))
    }

    pub(super) fn phase(&self) -> Phase {
        let arrivals = self.arrivals();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
        let think = Span((self.empty_ns() / arrivals.max(1) as f64) as u64);
        Phase {
            start: self.start.since(Nanos::ZERO),
            end: self.end.since(Nanos::ZERO),
            requests: arrivals,
            depth: self.depth(),
            think,
        }
    }
}

/// Joins neighbours that are alike.
pub(super) fn joined(phases: impl Iterator<Item = Phase>) -> Vec<Phase> {
    let mut joined: Vec<Phase> = Vec::new();
    for phase in phases.filter(|phase| phase.requests > 0) {
        match joined.last_mut() {
            Some(last) if last.end == phase.start && are_alike(last, &phase) => join(last, &phase),
            _ => joined.push(phase),
        }
    }
    let mut rest = Span::from_millis(1);
    while joined.len() > PHASES_MAX {
        rest = Span(rest.0.saturating_mul(2));
        joined = joined_over(&joined, rest);
    }
    joined
}

/// Joins neighbours that are no further apart than this. What lies between is thinking.
fn joined_over(phases: &[Phase], rest: Span) -> Vec<Phase> {
    let mut joined: Vec<Phase> = Vec::new();
    for phase in phases {
        match joined.last_mut() {
            Some(last) if phase.start.0.saturating_sub(last.end.0) <= rest.0 => {
                let rested = phase.start.0.saturating_sub(last.end.0);
                join(last, phase);
                let each = rested.saturating_mul(u64::from(last.depth)) / last.requests.max(1);
                last.think = Span(last.think.0.saturating_add(each));
            }
            _ => joined.push(*phase),
        }
    }
    joined
}

fn join(last: &mut Phase, next: &Phase) {
    let requests = last.requests + next.requests;
    let thought = |phase: &Phase| u128::from(phase.think.0) * u128::from(phase.requests);
    let think = (thought(last) + thought(next)) / u128::from(requests.max(1));
    *last = Phase {
        start: last.start,
        end: next.end,
        requests,
        depth: last.depth.max(next.depth),
        think: Span(u64::try_from(think).unwrap_or(u64::MAX)),
    };
}

fn are_alike(one: &Phase, other: &Phase) -> bool {
    let is_near = |a: f64, b: f64| (a - b).abs() <= ALIKE * a.max(b);
    // Thinking counts beside the time of a request, which is what both of them make of a second.
    let cycle = |phase: &Phase| {
        let ns = phase.end.0.saturating_sub(phase.start.0) as f64;
        ns * f64::from(phase.depth) / phase.requests.max(1) as f64
    };
    let thinks = [one, other].map(|phase| phase.think.0 as f64);
    is_near(f64::from(one.depth), f64::from(other.depth))
        && (thinks[0] - thinks[1]).abs() <= ALIKE * cycle(one).min(cycle(other))
}
