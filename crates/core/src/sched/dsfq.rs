//! Total-service shares over many servers: distributed start-time fair queuing.
//!
//! Source: Wang and Merchant, "Proportional-Share Scheduling for Distributed Storage Systems", FAST
//! 2007. A tenant that is served elsewhere should get less here, so that its share counts over all
//! servers. The coordinator sees every request on its way in and tells each server how much of the
//! tenant's service went to the others since its last request there; the server's tags leave that
//! much room ([`super::sfq`]):
//!
//! ```text
//! S = max(V, F_prev + elsewhere/weight)        F = S + cost/weight
//!
//! tenant's arrivals     A(10)   B(10)   B(10)   A(10)
//! elsewhere             0       10      0       20      <- both that went to B
//! ```
//!
//! **Total** passes the whole on: shares hold in sum, but a tenant that is busy elsewhere may wait
//! long at one server. **Hybrid** caps it at `cost * (w/w' - 1)`, which leaves the tenant at least
//! the weight w' on every server: its requests there are spaced as if each cost `w/w'` times as
//! much.
//!
//! The servers of a gate exchange nothing. What *other gates* serve of a tenant is heard of once a
//! period, a lump at a time ([`crate::control::service`]), and is a **debt** at every server here:
//! the next request pays it under Total, each pays as much as the cap leaves under Hybrid. The debt
//! of a tenant of which nothing waits here loses an eighth with each period, so that whoever comes
//! back after an hour elsewhere owes for the last second, not for the hour.
//!
//! ```text
//! heard       80                        0     0     0    ..
//! debt        80 --a request pays 30--> 50    44    39   ..      (Hybrid, cap 30)
//! ```
//!
//! Memory is 16 bytes per tenant and server.

use crate::id::{ServerId, TenantId};
use crate::ticket::{Cost, Ticket};

/// How shares count over the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// On each server by itself: `cost_elsewhere` stays zero.
    Local,
    /// In all.
    Total,
    /// In all, with a least share everywhere.
    Hybrid {
        /// That least share, w'/w in thousandths; 1 to 1000. At 1000 it equals `Local`.
        min_share_milli: u32,
    },
}

/// Counts every tenant's service over all servers, and stamps tickets with it.
#[derive(Clone, Debug)]
pub struct Coordinator {
    form: Form,
    servers: usize,
    /// Cost of all that a tenant sent anywhere.
    total: Vec<Cost>,
    /// That total at the tenant's last request to a server, tenant-major.
    seen: Vec<Cost>,
    /// What other gates served and no request here has paid for yet, tenant-major.
    debt: Vec<Cost>,
}

/// The part of a debt that a period takes away: one in so many.
const FADING: u64 = 8;

impl Coordinator {
    /// A coordinator of `servers` servers that knows no tenant yet.
    pub fn new(servers: usize, form: Form) -> Self {
        Self { form, servers, total: Vec::new(), seen: Vec::new(), debt: Vec::new() }
    }

    /// Changes how shares count from here on.
    pub fn set_form(&mut self, form: Form) {
        self.form = form;
    }

    /// Makes room for a tenant. O(tenants x servers) when it is new.
    pub fn configure(&mut self, tenant: TenantId) {
        let tenants = self.total.len().max(tenant.index() + 1);
        self.total.resize(tenants, Cost(0));
        self.seen.resize(tenants * self.servers, Cost(0));
        self.debt.resize(tenants * self.servers, Cost(0));
    }

    /// Notes a ticket on its way to `server`, and sets its `cost_elsewhere`. O(1).
    pub fn stamp(&mut self, server: ServerId, ticket: &mut Ticket) {
        let cell = self.cell(server, ticket.tenant);
        let total = &mut self.total[ticket.tenant.index()];
        let here = total.0.saturating_sub(self.seen[cell].0);
        total.0 = total.0.saturating_add(ticket.cost.0);
        self.seen[cell] = *total;
        let debt = &mut self.debt[cell].0;
        let elsewhere = here.saturating_add(*debt);
        let counted = match self.form {
            Form::Local => 0,
            Form::Total => elsewhere,
            Form::Hybrid { min_share_milli } => {
                elsewhere.min(hybrid_cap(ticket.cost, min_share_milli))
            }
        };
        *debt -= counted.saturating_sub(here).min(*debt);
        ticket.cost_elsewhere = Cost(counted);
    }

    /// A period has passed in which other gates served so much of these tenants, each named once.
    /// `waits` says of whom something waits here. O(tenants x servers).
    pub fn served_by_others(
        &mut self,
        costs: &[(TenantId, Cost)],
        waits: impl Fn(TenantId) -> bool,
    ) {
        let tenants = self.debt.chunks_mut(self.servers);
        for (_, debts) in (0..).map(TenantId).zip(tenants).filter(|(tenant, _)| !waits(*tenant)) {
            for debt in debts {
                debt.0 -= debt.0.div_ceil(FADING);
            }
        }
        for (tenant, cost) in costs {
            let first = self.cell(ServerId(0), *tenant);
            for debt in &mut self.debt[first..first + self.servers] {
                debt.0 = debt.0.saturating_add(cost.0);
            }
        }
    }

    /// Takes back a stamped ticket that will never be served, as when its client has vanished. What
    /// it has paid for other gates stays paid. O(1).
    pub fn forget(&mut self, server: ServerId, ticket: &Ticket) {
        let cell = self.cell(server, ticket.tenant);
        let total = &mut self.total[ticket.tenant.index()];
        total.0 = total.0.saturating_sub(ticket.cost.0);
        self.seen[cell].0 = self.seen[cell].0.saturating_sub(ticket.cost.0);
    }

    fn cell(&self, server: ServerId, tenant: TenantId) -> usize {
        assert!(server.index() < self.servers, "server {server:?} is not of this domain");
        assert!(tenant.index() < self.total.len(), "tenant {tenant:?} was not configured");
        tenant.index() * self.servers + server.index()
    }
}

fn hybrid_cap(cost: Cost, min_share_milli: u32) -> u64 {
    let least = u128::from(min_share_milli.clamp(1, 1000));
    let cap = u128::from(cost.0) * (1000 - least) / least;
    u64::try_from(cap).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::ticket;

    fn stamped(coordinator: &mut Coordinator, server: u32) -> u64 {
        let mut ticket = ticket(0, 0);
        ticket.cost = Cost(10);
        coordinator.stamp(ServerId(server), &mut ticket);
        ticket.cost_elsewhere.0
    }

    fn coordinator(form: Form) -> Coordinator {
        let mut coordinator = Coordinator::new(2, form);
        coordinator.configure(TenantId(0));
        coordinator
    }

    #[test]
    fn total_counts_what_went_elsewhere_since_the_last_request_here() {
        let mut coordinator = coordinator(Form::Total);
        let elsewhere = [0, 1, 1, 0, 0].map(|server| stamped(&mut coordinator, server));
        assert_eq!(elsewhere, [0, 10, 0, 20, 0]);
    }

    #[test]
    fn hybrid_caps_it_so_that_a_least_share_remains() {
        let mut coordinator = coordinator(Form::Hybrid { min_share_milli: 500 });
        let elsewhere = [0, 1, 1, 1, 0].map(|server| stamped(&mut coordinator, server));
        assert_eq!(elsewhere, [0, 10, 0, 0, 10], "at half a share a request counts twice at most");
    }

    #[test]
    fn local_counts_nothing() {
        let mut coordinator = coordinator(Form::Local);
        assert_eq!([0, 1, 0].map(|server| stamped(&mut coordinator, server)), [0, 0, 0]);
    }

    #[test]
    fn a_forgotten_ticket_leaves_no_trace() {
        let mut coordinator = coordinator(Form::Total);
        let mut ticket = ticket(0, 0);
        ticket.cost = Cost(10);
        coordinator.stamp(ServerId(1), &mut ticket);
        coordinator.forget(ServerId(1), &ticket);
        assert_eq!(stamped(&mut coordinator, 0), 0);
    }

    #[test]
    fn what_other_gates_served_is_paid_once_at_every_server() {
        let mut coordinator = coordinator(Form::Total);
        coordinator.served_by_others(&[(TenantId(0), Cost(50))], |_| true);
        let elsewhere = [0, 0, 1, 1].map(|server| stamped(&mut coordinator, server));
        assert_eq!(elsewhere, [50, 0, 20 + 50, 0]);
    }

    #[test]
    fn under_hybrid_it_is_paid_in_parts_that_leave_the_least_share() {
        let mut coordinator = coordinator(Form::Hybrid { min_share_milli: 500 });
        coordinator.served_by_others(&[(TenantId(0), Cost(25))], |_| true);
        assert_eq!([0; 4].map(|server| stamped(&mut coordinator, server)), [10, 10, 5, 0]);
    }

    #[test]
    fn a_debt_that_nobody_pays_is_that_of_the_last_second_or_so() {
        let mut coordinator = coordinator(Form::Total);
        for _ in 0..10_000 {
            coordinator.served_by_others(&[(TenantId(0), Cost(100))], |_| false);
        }
        assert_eq!(coordinator.debt[0], Cost(800 - 7), "eight periods' worth");
        for _ in 0..100 {
            coordinator.served_by_others(&[], |_| false);
        }
        assert_eq!(stamped(&mut coordinator, 0), 0);
    }

    #[test]
    fn a_new_tenant_does_not_disturb_the_others() {
        let mut coordinator = coordinator(Form::Total);
        stamped(&mut coordinator, 0);
        coordinator.configure(TenantId(7));
        assert_eq!(stamped(&mut coordinator, 1), 10);
    }
}
