//! What a host tells the others once each period.
//!
//! Counters of the period and the state at its end, by tenant, in whole numbers: nothing in it
//! depends on what the host decided to do about it, so that every algorithm can live on the same
//! summary. With tens of tenants it fits into one datagram.

use super::target::Target;
use crate::id::TenantId;
use crate::time::Span;

/// The most tenants that one summary tells of.
pub const FLOWS_MAX: usize = 64;

/// A host, as the index of its row in the list of peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

/// One tenant at one host: what gets slots, and has a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId {
    /// The host.
    pub host: HostId,
    /// The tenant there.
    pub tenant: TenantId,
}

/// A host's word on one period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Who speaks.
    pub host: HostId,
    /// Number of the period, counted alike by all hosts; grows from one summary to the next.
    pub period: u64,
    /// By tenant, at most [`FLOWS_MAX`].
    pub flows: Vec<FlowSummary>,
}

/// What happened to one tenant's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowSummary {
    /// Whose.
    pub tenant: TenantId,
    /// Its weight, in thousandths, for algorithms that know shares and no targets.
    pub weight_milli: u32,
    /// What it was promised; none for a tenant that takes what is left.
    pub target: Option<Target>,
    /// Requests that arrived.
    pub arrivals: u32,
    /// Requests that were sent to the device.
    pub dispatches: u32,
    /// Requests that the device finished.
    pub completions: u32,
    /// Of those, how many took longer than the target's latency.
    pub late: u32,
    /// Sum over the completions of the time from dispatch to completion.
    pub device_time: Span,
    /// Sum over the completions of the time from arrival to completion.
    pub response_time: Span,
    /// Time integral of the requests at the device: divided by the period, the slots used.
    pub slot_time: Span,
    /// Requests at the device at the end.
    pub outstanding: u32,
    /// Requests that wait for a slot at the end.
    pub queued: u32,
    /// Sum over those of the time since their arrival.
    pub queued_age: Span,
    /// Requests per second that the host expects to arrive.
    pub expected_per_s: u32,
}

impl FlowSummary {
    /// Mean time at the device of the requests that completed, in seconds; none if none did.
    pub fn device_latency_s(&self) -> Option<f64> {
        (self.completions > 0).then(|| self.device_time.as_secs_f64() / f64::from(self.completions))
    }

    /// The same flow, of which nothing was heard for a while: what it asks is taken to be the
    /// half.
    #[must_use]
    pub fn halved(self) -> Self {
        Self {
            arrivals: self.arrivals / 2,
            dispatches: self.dispatches / 2,
            completions: self.completions / 2,
            late: self.late / 2,
            device_time: Span(self.device_time.0 / 2),
            response_time: Span(self.response_time.0 / 2),
            slot_time: Span(self.slot_time.0 / 2),
            outstanding: self.outstanding / 2,
            queued: self.queued / 2,
            queued_age: Span(self.queued_age.0 / 2),
            expected_per_s: self.expected_per_s / 2,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_keeps_the_mean_latency_and_the_promise() {
        let flow = FlowSummary {
            completions: 10,
            device_time: Span::from_millis(400),
            queued: 7,
            target: Some(Target::mean(Span::from_millis(250), Span::from_secs(1))),
            ..FlowSummary::default()
        };
        let halved = flow.halved();
        assert_eq!(halved.device_latency_s(), flow.device_latency_s());
        assert_eq!((halved.queued, halved.target), (3, flow.target));
        assert_eq!(FlowSummary::default().device_latency_s(), None);
    }
}
