//! How much payload one worker may hold: in all, and for each tenant.
//!
//! A connection asks before it takes a request in, and stops reading its socket while the answer
//! is no; the pressure reaches the client through TCP. A tenant that holds nothing is always let
//! in with one request, so no tenant can keep another out; the bound is therefore the total plus
//! one largest request per tenant, and one step of a move per tiered volume.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_core::id::TenantId;

use crate::client::Client;

/// The payload accounts of one worker.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    per_tenant_max: Cell<usize>,
    total_max: Cell<usize>,
    total: Cell<usize>,
    tenants: RefCell<Vec<usize>>,
    waiting: RefCell<Vec<Rc<Client>>>,
}

impl Budget {
    /// Sets the bounds, in bytes; what is held already stays.
    pub(crate) fn set_bounds(&self, per_tenant_max: usize, total_max: usize) {
        self.per_tenant_max.set(per_tenant_max);
        self.total_max.set(total_max);
        self.wake();
    }

    /// Whether `tenant` may take `bytes` more.
    pub(crate) fn admits(&self, tenant: TenantId, bytes: usize) -> bool {
        let held = self.tenants.borrow().get(tenant.index()).copied().unwrap_or(0);
        held == 0
            || (held + bytes <= self.per_tenant_max.get()
                && self.total.get() + bytes <= self.total_max.get())
    }

    /// Wakes `client` when something is given back.
    pub(crate) fn wait(&self, client: &Rc<Client>) {
        self.waiting.borrow_mut().push(Rc::clone(client));
    }

    /// Whether somebody waits.
    pub(crate) fn is_contended(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Replaces what a connection held by what it holds now.
    pub(crate) fn change(&self, tenant: TenantId, before: usize, after: usize) {
        let mut tenants = self.tenants.borrow_mut();
        if tenants.len() <= tenant.index() {
            tenants.resize(tenant.index() + 1, 0);
        }
        let held = &mut tenants[tenant.index()];
        *held = *held + after - before;
        drop(tenants);
        self.total.set(self.total.get() + after - before);
        if after < before {
            self.wake();
        }
    }

    /// Bytes held now.
    pub(crate) fn total(&self) -> usize {
        self.total.get()
    }

    /// The most that may be held.
    pub(crate) fn bound(&self) -> usize {
        self.total_max.get()
    }

    fn wake(&self) {
        if self.is_contended() {
            // Taken out first: a woken client may come back at once.
            let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
            for client in waiting {
                client.wake();
            }
        }
    }
}
