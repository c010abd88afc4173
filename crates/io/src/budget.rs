//! How much payload the gate may hold: in all, and for each tenant.
//!
//! A connection asks before it takes a request in, and stops reading its socket while the answer
//! is no; the pressure reaches the client through TCP.
//!
//! The [accounts](Accounts) are the gate's, one for all workers: a tenant on one backend, and so on
//! one worker, may hold all that is its own, however many cores there are. Workers only add to them
//! and subtract; two that look at the same moment may both let one more request in.
//!
//! A tenant that holds nothing on a worker is always let in there with one request, so no tenant
//! can keep another out. It is also why no worker has to wake another: whoever waits has a request
//! under way here, and looks again when that is answered. The bound is therefore the total plus one
//! largest request per tenant and worker, and one step of a move per tiered volume.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::id::TenantId;
use evenkeel_engine::policy::Memory;

use crate::client::Client;

/// What the whole gate holds. Counters only: no order between them and anything else matters.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    total: AtomicUsize,
    waiting: AtomicUsize,
    tenants: Mutex<Vec<Arc<AtomicUsize>>>,
}

impl Accounts {
    fn tenant(&self, index: usize) -> Arc<AtomicUsize> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if tenants.len() <= index {
            tenants.resize_with(index + 1, Arc::default);
        }
        Arc::clone(&tenants[index])
    }
}

/// What a tenant holds.
#[derive(Debug)]
struct Held {
    here: usize,
    everywhere: Arc<AtomicUsize>,
}

/// One worker's way to the accounts.
#[derive(Debug)]
pub(crate) struct Budget {
    accounts: Arc<Accounts>,
    per_tenant_max: Cell<usize>,
    total_max: Cell<usize>,
    total: Cell<usize>,
    tenants: RefCell<Vec<Held>>,
    waiting: RefCell<Vec<Rc<Client>>>,
}

impl Budget {
    /// Nothing is held yet, and nothing allowed but one request of each tenant.
    pub(crate) fn new(accounts: Arc<Accounts>) -> Self {
        Self {
            accounts,
            per_tenant_max: Cell::default(),
            total_max: Cell::default(),
            total: Cell::default(),
            tenants: RefCell::default(),
            waiting: RefCell::default(),
        }
    }

    /// Sets the bounds; what is held already stays.
    pub(crate) fn set_bounds(&self, memory: Memory) {
        let bound = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        self.per_tenant_max.set(bound(memory.per_tenant_bytes));
        self.total_max.set(bound(memory.total_bytes));
        self.wake();
    }

    /// Whether `tenant` may take `bytes` more.
    pub(crate) fn admits(&self, tenant: TenantId, bytes: usize) -> bool {
        match self.tenants.borrow().get(tenant.index()) {
            Some(held) if held.here > 0 => {
                let fits = |held: &AtomicUsize, max: &Cell<usize>| {
                    held.load(Relaxed).saturating_add(bytes) <= max.get()
                };
                fits(&held.everywhere, &self.per_tenant_max)
                    && fits(&self.accounts.total, &self.total_max)
            }
            _ => true,
        }
    }

    /// Wakes `client` when something is given back.
    pub(crate) fn wait(&self, client: &Rc<Client>) {
        self.accounts.waiting.fetch_add(1, Relaxed);
        self.waiting.borrow_mut().push(Rc::clone(client));
    }

    /// Whether somebody waits, on whichever worker.
    pub(crate) fn is_contended(&self) -> bool {
        self.accounts.waiting.load(Relaxed) > 0
    }

    /// Replaces what a connection held by what it holds now.
    pub(crate) fn change(&self, tenant: TenantId, before: usize, after: usize) {
        let mut tenants = self.tenants.borrow_mut();
        for index in tenants.len()..=tenant.index() {
            tenants.push(Held { here: 0, everywhere: self.accounts.tenant(index) });
        }
        let held = &mut tenants[tenant.index()];
        held.here = held.here + after - before;
        self.total.set(self.total.get() + after - before);
        // Wraps around where less is held than before, which is what a subtraction does.
        let change = after.wrapping_sub(before);
        held.everywhere.fetch_add(change, Relaxed);
        self.accounts.total.fetch_add(change, Relaxed);
        drop(tenants);
        if after < before {
            self.wake();
        }
    }

    /// Bytes held on this worker.
    pub(crate) fn total(&self) -> usize {
        self.total.get()
    }

    fn wake(&self) {
        // Taken out first: a woken client may come back at once.
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        if !waiting.is_empty() {
            self.accounts.waiting.fetch_sub(waiting.len(), Relaxed);
            for client in waiting {
                client.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;
    const ONE: TenantId = TenantId(0);
    const OTHER: TenantId = TenantId(1);

    /// Workers of a gate with 4 MiB for each tenant and 6 MiB in all.
    fn workers(count: usize) -> Vec<Budget> {
        let accounts = Arc::new(Accounts::default());
        let bounds = Memory { per_tenant_bytes: 4 << 20, total_bytes: 6 << 20, connections: 1 };
        let worker = |_| {
            let budget = Budget::new(Arc::clone(&accounts));
            budget.set_bounds(bounds);
            budget
        };
        (0..count).map(worker).collect()
    }

    #[test]
    fn a_tenant_on_one_of_many_workers_may_hold_all_that_is_its_own() {
        let workers = workers(32);
        workers[7].change(ONE, 0, 3 * MIB);
        assert!(workers[7].admits(ONE, MIB));
        assert!(!workers[7].admits(ONE, MIB + 1), "4 MiB are the tenant's bound");
    }

    #[test]
    fn a_tenant_on_two_workers_has_one_account() {
        let workers = workers(2);
        workers[0].change(ONE, 0, 3 * MIB);
        workers[1].change(ONE, 0, MIB);
        assert!(!workers[0].admits(ONE, 1) && !workers[1].admits(ONE, 1));
        workers[0].change(ONE, 3 * MIB, MIB);
        assert!(workers[1].admits(ONE, 2 * MIB));
        assert_eq!((workers[0].total(), workers[1].total()), (MIB, MIB));
    }

    #[test]
    fn the_total_binds_all_and_keeps_nobody_out() {
        let workers = workers(2);
        workers[0].change(ONE, 0, 4 * MIB);
        assert!(workers[1].admits(OTHER, 32 * MIB), "whoever holds nothing is let in");
        workers[1].change(OTHER, 0, 2 * MIB);
        assert!(!workers[1].admits(OTHER, 1), "6 MiB are held");
        assert!(workers[1].admits(ONE, MIB), "a tenant that holds nothing here");
        workers[0].change(ONE, 4 * MIB, 0);
        assert!(workers[1].admits(OTHER, 2 * MIB));
    }
}
