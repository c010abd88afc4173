//! How the requests to one backend are queued, cut and counted.

use evenkeel_core::time::Span;

use super::joint::SLOTS_FIRST;
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
    /// The backend answers within the call that asks it, as the gate's own memory does: nothing is
    /// ever with it for any time, so that nothing is learned of it.
    pub answers_at_once: bool,
    /// Requests that the device serves in a second, where each costs the same
    /// ([`CostModel::PerRequest`]); promises are held against it. A linear model needs none: its
    /// device gives one second of service per second.
    pub capacity_iops: Option<u64>,
    /// Who decides the slots; a method under [`Discipline::Shared`], and none under any other.
    pub control: Control,
    /// What the gates that share the device call it; see [`Backend::array`](super::Backend::array).
    pub array: Option<String>,
}

/// Who decides the slots of a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// This gate, whoever else is before the device.
    #[default]
    Alone,
    /// This gate until it hears another before the same array; then all of them, by
    /// [`Method::Shares`], whatever the discipline is here ([`Joint`](super::Joint)).
    Automatic,
    /// All gates before the device, by this.
    By(Method),
}

impl Control {
    /// By what all gates decide, where they always do.
    pub fn method(self) -> Option<Method> {
        match self {
            Self::By(method) => Some(method),
            Self::Alone | Self::Automatic => None,
        }
    }
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
            answers_at_once: false,
            capacity_iops: None,
            control: Control::Alone,
            array: None,
        }
    }
}

/// An automatic depth where nothing adjusts it.
const STATIC_DEPTH: u32 = 32;

impl Scheduling {
    /// The same for a backend that answers within the call that asks it: what would be found of
    /// another is left as it would begin.
    #[must_use]
    pub fn answered_at_once(self) -> Self {
        let is_automatic = self.depth == Depth::Automatic;
        let depth = if is_automatic { Depth::Requests(STATIC_DEPTH) } else { self.depth };
        let (is_cost_learned, is_unit_found, answers_at_once) = (false, false, true);
        Self { depth, is_cost_learned, is_unit_found, answers_at_once, ..self }
    }

    /// The depth in units where nothing adjusts it: under arrival order, and as the slots of a gate
    /// at a shared device until the first decision.
    pub(crate) fn static_depth(&self) -> u32 {
        match self.depth {
            Depth::Automatic if self.control == Control::By(Method::Shares) => SLOTS_FIRST,
            Depth::Automatic => STATIC_DEPTH,
            depth => depth.units_max(self.unit_bytes),
        }
    }
}
