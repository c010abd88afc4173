//! What the exchange with other gates asks of the worker whose domain takes part.

use evenkeel_core::control::Decision;
use evenkeel_core::control::name::DeviceId;
use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::ticket::Cost;
use tokio::sync::mpsc::UnboundedSender;

use super::Worker;
use crate::exchange::Told;

/// A question or an order.
pub(crate) enum Asked {
    /// Tell what happened in the period of this number at a server that other gates share.
    ClosePeriod { server: ServerId, backend: String, number: u64, reply: UnboundedSender<Told> },
    /// Put in force what was decided for a server that other gates share.
    Decide { server: ServerId, decision: Box<Decision> },
    /// Tell all that was ever served of each tenant, at the beginning of this period.
    TellServed { group: DeviceId, period: u64, reply: UnboundedSender<Told> },
    /// Other gates served so much since this was said last.
    ServedByOthers(Vec<(TenantId, Cost)>),
}

impl Worker {
    /// Answers, unless a policy has just taken the domain away.
    pub(super) fn exchange(&self, domain: &str, asked: Asked) {
        let domain = self.domains.borrow().get(domain).cloned();
        let Some(domain) = domain else { return };
        match asked {
            Asked::ClosePeriod { server, backend, number, reply } => {
                if let Some(summary) = domain.close_period(server, number) {
                    let _ = reply.send(Told::Summary { backend, summary });
                }
            }
            Asked::Decide { server, decision } => domain.decide(server, &decision),
            Asked::TellServed { group, period, reply } => {
                let served = domain.served();
                let _ = reply.send(Told::Served { group, period, served });
            }
            Asked::ServedByOthers(costs) => domain.served_by_others(&costs),
        }
    }
}
