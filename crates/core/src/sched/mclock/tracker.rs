//! What each tenant received everywhere, so that each server can be told what it missed.
//!
//! The gate that sends a tenant's requests to several servers keeps the counts (dmClock's rho and
//! delta); servers exchange nothing.
//!
//! ```text
//! completions      A floor   B weight   B floor     then a request to A
//! told to A                                         by_floor 1 (B), in_all 2 (B, B)
//! ```

use super::{Amount, Elsewhere, Phase};
use crate::id::{ServerId, TenantId};
use crate::ticket::Ticket;

/// Counts of one tenant, everywhere or at one server.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    by_floor: Amount,
    in_all: Amount,
}

impl Served {
    fn add(&mut self, amount: Amount, phase: Phase) {
        self.in_all = self.in_all.plus(amount);
        if phase == Phase::Floor {
            self.by_floor = self.by_floor.plus(amount);
        }
    }
}

/// Counts of one tenant at one server.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    here: Served,
    /// What others had given it when it last sent a request here.
    told: Served,
}

/// Counts completions of every tenant at every server. Memory is 96 bytes for each such pair.
#[derive(Clone, Debug)]
pub struct Tracker {
    servers: usize,
    total: Vec<Served>,
    /// Tenant-major.
    cells: Vec<Cell>,
}

impl Tracker {
    /// A tracker of `servers` servers that knows no tenant yet.
    pub fn new(servers: usize) -> Self {
        Self { servers, total: Vec::new(), cells: Vec::new() }
    }

    /// Makes room for a tenant. O(tenants x servers) when it is new.
    pub fn configure(&mut self, tenant: TenantId) {
        let tenants = self.total.len().max(tenant.index() + 1);
        self.total.resize(tenants, Served::default());
        self.cells.resize(tenants * self.servers, Cell::default());
    }

    /// Notes that `server` served a ticket in this phase. O(1).
    pub fn served(&mut self, server: ServerId, ticket: &Ticket, phase: Phase) {
        let amount = Amount::of(ticket);
        self.total[ticket.tenant.index()].add(amount, phase);
        let cell = self.cell(server, ticket.tenant);
        self.cells[cell].here.add(amount, phase);
    }

    /// What to tell `server` with the tenant's next request. O(1).
    pub fn elsewhere(&mut self, server: ServerId, tenant: TenantId) -> Elsewhere {
        let index = self.cell(server, tenant);
        let (total, cell) = (self.total[tenant.index()], &mut self.cells[index]);
        let others = Served {
            by_floor: total.by_floor.since(cell.here.by_floor),
            in_all: total.in_all.since(cell.here.in_all),
        };
        let told = std::mem::replace(&mut cell.told, others);
        Elsewhere {
            by_floor: others.by_floor.since(told.by_floor),
            in_all: others.in_all.since(told.in_all),
        }
    }

    fn cell(&self, server: ServerId, tenant: TenantId) -> usize {
        assert!(server.index() < self.servers, "no server {server:?}");
        tenant.index() * self.servers + server.index()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::ticket;

    #[test]
    fn each_server_is_told_once_what_the_others_gave() {
        let mut tracker = Tracker::new(2);
        tracker.configure(TenantId(0));
        let [a, b] = [ServerId(0), ServerId(1)];
        tracker.served(a, &ticket(0, 0), Phase::Floor);
        tracker.served(b, &ticket(0, 1), Phase::Weight);
        tracker.served(b, &ticket(0, 2), Phase::Floor);
        let some = |requests| Amount { requests, bytes: 4096 * requests };
        let expected = Elsewhere { by_floor: some(1), in_all: some(2) };
        assert_eq!(tracker.elsewhere(a, TenantId(0)), expected);
        assert_eq!(tracker.elsewhere(a, TenantId(0)), Elsewhere::default());
        let expected = Elsewhere { by_floor: some(1), in_all: some(1) };
        assert_eq!(tracker.elsewhere(b, TenantId(0)), expected);
    }
}
