//! How the requests to one backend are queued, cut and counted.

use evenkeel_core::time::Span;

use super::{Depth, Discipline, Method};
use crate::cost::CostModel;

/// How a backend's requests are queued.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheduling {
    /// Which policy.
    pub discipline: Discipline,
    /// How much may be with the device.
    pub depth: Depth,
    /// The longest hold for a tenant whose queue ran dry for a moment; zero turns it off.
    pub hold: Span,
    /// What a request costs, or is taken to cost before anything is learned.
    pub cost: CostModel,
    /// What requests cost is learned from when they come back.
    pub is_cost_learned: bool,
    /// Larger requests are cut into units of this many bytes; a power of two, 4 KiB to 32 MiB.
    pub unit_bytes: u64,
    /// They may be smaller, where costs are learned: so that one takes a bounded time.
    pub is_unit_found: bool,
    /// Requests that the device serves in a second, where each costs the same
    /// ([`CostModel::PerRequest`]); promises are held against it. A linear model needs none: its
    /// device gives one second of service per second.
    pub capacity_iops: Option<u64>,
    /// Who decides the slots under [`Discipline::Shared`]; none under any other.
    pub control: Option<Method>,
}

impl Default for Scheduling {
    fn default() -> Self {
        Self {
            discipline: Discipline::Sfq,
            depth: Depth::Requests(32),
            hold: Span::ZERO,
            cost: CostModel::default(),
            is_cost_learned: false,
            unit_bytes: 1 << 20,
            is_unit_found: false,
            capacity_iops: None,
            control: None,
        }
    }
}

/// An automatic depth where nothing adjusts it.
const STATIC_DEPTH: u32 = 32;

impl Scheduling {
    /// The depth in units where nothing adjusts it: under arrival order, and as the slots of a gate
    /// at a shared device until the first decision.
    pub(crate) fn static_depth(&self) -> u32 {
        match self.depth {
            Depth::Automatic => STATIC_DEPTH,
            depth => depth.units_max(self.unit_bytes),
        }
    }
}
