//! A policy that comes into force while requests are under way, as a reload or `ctl` has it.
//!
//! Engines keep what they have queued and in service; the checkers watch them under the new terms.

use evenkeel_core::id::TenantId;
use evenkeel_engine::Input;
use evenkeel_engine::policy;

use super::World;
use super::tables::Home;
use crate::result::{Mark, RowId};

/// What one change brings each domain, in their order.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) domains: Vec<policy::Domain>,
    /// Whose the requests of each target are from then on, and where they are booked.
    pub(super) owners: Vec<(TenantId, RowId)>,
}

impl World<'_> {
    /// A policy comes into force. A gate that is down starts with it.
    pub(super) fn change_policy(&mut self, change: u32) {
        let now = self.now;
        self.hash.note(now, Mark::Policy, change, 0);
        let Change { domains, owners } = &mut self.changes[change as usize];
        let (domains, owners) = (std::mem::take(domains), std::mem::take(owners));
        for (target, (tenant, row)) in self.targets.iter_mut().zip(owners) {
            (target.tenant, target.row) = (tenant, row);
        }
        let is_up = self.gate.is_up();
        for (index, policy) in (0..).zip(domains) {
            let domain = &mut self.gate.domains[index as usize];
            for &server in &domain.servers {
                self.servers[server as usize].change_policy(self.now, &policy);
            }
            domain.policy = policy;
            if is_up {
                domain.engine.handle(now, Input::Policy(&domain.policy));
                self.gate.stir(index);
            }
        }
        if is_up {
            self.watch_backlog();
        }
    }

    /// What is queued was queued before the checkers began to watch under the new terms.
    fn watch_backlog(&mut self) {
        for (slot, request) in (0..).zip(self.requests.entries()) {
            let Home::Server(server) = request.home else { continue };
            let custody = &request.custody;
            let is_queued =
                custody.is_at_gate() && !custody.is_submitted() && !custody.has_failed();
            if !request.is_backlog || !is_queued {
                continue;
            }
            let server = &mut self.servers[server as usize];
            if let Some(fairness) = &mut server.fairness {
                fairness.arrived(request.tenant);
            }
            if let Some(patience) = &mut server.patience {
                patience.arrived(request.waits_since, request.tenant, slot);
            }
        }
    }
}
