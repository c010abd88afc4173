//! What the exchange with other gates asks of the worker whose domain takes part.

use evenkeel_core::control::Decision;
use evenkeel_core::control::name::DeviceId;
use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::ticket::Cost;
use evenkeel_engine::cost::CostModel;
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
    /// Divide a server with other gates from now on, and tell with what it begins.
    Join { server: ServerId, backend: String, reply: UnboundedSender<Told> },
    /// Be alone at a server from now on.
    Part { server: ServerId },
    /// Gates before a server agree on what requests cost there, or no longer.
    AgreeOnCost { server: ServerId, cost: Option<CostModel> },
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
            Asked::Join { server, backend, reply } => {
                let (joint, measured) = domain.join(server);
                let _ = reply.send(Told::Joined { backend, joint, measured });
            }
            Asked::Part { server } => domain.part(server),
            Asked::AgreeOnCost { server, cost } => domain.agree_on_cost(server, cost),
        }
    }
}
