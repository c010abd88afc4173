//! Checkers: what must hold of every run, whatever the scenario. They are always on.
//!
//! | file | what it watches |
//! |---|---|
//! | `custody` | every request and unit: handed on once, answered once, with all its bytes |
//! | `conservation` | sums per tenant: what was sent is answered or under way |
//! | `contents` | what was written last to a tiered volume is what is read, wherever it was moved |
//! | `fairness` | two tenants with a backlog at one server: their services stay together |
//! | `patience` | who has waited for its goal has half its share at least, oldest first |
//! | `limits` | no tenant gets more than its limit at a server that counts it at dispatch |
//! | `bounds` | no server has more in service than its depth allows |
//!
//! Time is watched where it passes, in the world: it never goes back, and nobody asks to be woken
//! in the past. A checker that finds something stops the run: its result would mean nothing.

mod bounds;
mod conservation;
mod contents;
mod custody;
mod fairness;
mod limits;
mod patience;

use std::fmt;

use evenkeel_core::time::Nanos;

pub(crate) use bounds::Bounds;
pub(crate) use conservation::Conservation;
pub(crate) use contents::{Contents, Part};
pub(crate) use custody::Custody;
pub(crate) use fairness::{Fairness, Lag};
pub(crate) use limits::Limits;
pub(crate) use patience::{Dispatch, Patience};

/// Something that must never happen, and did: a fault of the gate's code, of a device model, or of
/// the simulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When.
    pub at: Nanos,
    /// What must hold.
    pub rule: Rule,
    /// What happened instead.
    pub what: String,
}

/// What must hold of every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Time never goes back, and every wake-up lies ahead.
    TimeIsMonotone,
    /// Every request and every unit is handed on once and answered once.
    NothingIsLostOrDoubled,
    /// Every request is answered with the bytes that it asked for.
    BytesAreConserved,
    /// What is read of a tiered volume is what was written there last.
    BytesAreWhereTheyBelong,
    /// Requests sent are requests answered and requests under way.
    RequestsAreConserved,
    /// While two tenants keep a backlog, their services per weight stay within the discipline's
    /// bound.
    LagIsBounded,
    /// Once a request has waited for its goal, its tenant is served at half its share at least,
    /// oldest first.
    NobodyStarves,
    /// No tenant gets more than its limit and its burst, over any window.
    LimitsHold,
    /// No more is in service than the depth allows, and no client has more under way than its own.
    QueuesAreBounded,
}

impl Rule {
    /// The rule as people read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::TimeIsMonotone => "time is monotone",
            Self::NothingIsLostOrDoubled => "nothing is lost or doubled",
            Self::BytesAreConserved => "bytes are conserved",
            Self::BytesAreWhereTheyBelong => "bytes are where they belong",
            Self::RequestsAreConserved => "requests are conserved",
            Self::LagIsBounded => "lag is bounded",
            Self::NobodyStarves => "nobody starves",
            Self::LimitsHold => "limits hold",
            Self::QueuesAreBounded => "queues are bounded",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} ns: {}: {}", self.at.0, self.rule.name(), self.what)
    }
}

/// What a checker says: nothing, or what broke. Boxed, for the hot path carries it.
pub(crate) type Verdict = Result<(), Box<Violation>>;

/// A rule is broken.
#[cold]
#[expect(clippy::unnecessary_box_returns, reason = "verdicts are carried through the hot path")]
pub(crate) fn broken(at: Nanos, rule: Rule, what: impl Into<String>) -> Box<Violation> {
    Box::new(Violation { at, rule, what: what.into() })
}
