//! Upkeep of stores: whatever a store wants to do for itself is queued like a tenant's request.
//!
//! ```text
//! store wants to read 1 MiB --> errand of tenant `upkeep` --> its turn --> the store reads
//! ```
//!
//! The chores of a store are requests to its backend: they share the device with the clients', by
//! the shares of the policy, and show in every account. A backend that has left the policy is
//! looked after as well, on nobody's account.

use std::rc::Rc;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::ticket::Kind;
use evenkeel_engine::{Room, Target};
use evenkeel_store::{Chore, ChoreKind};

use super::Worker;
use crate::device::store::StoreHost;
use crate::device::turn::Turn;
use crate::device::{Device, Medium};
use crate::domain::Domain;
use crate::domain::errand::Task;
use crate::op::LossesHeard;

/// Who pays for a chore, and where.
pub(super) struct Account {
    domain: Rc<Domain>,
    server: ServerId,
    tenant: TenantId,
}

impl Worker {
    /// Sees to it that a store's chores come in their turns, until it stops or the gate does.
    pub(super) async fn keep_up(self: Rc<Self>, backend: String, host: Rc<StoreHost>) {
        let Some(store) = host.once_open().await else { return };
        let attendance = store.attend();
        let mut last = 0;
        while let Some(chore) = attendance.next(last).await {
            // Whatever waits for the store now should be over soon.
            if self.stopping.get() {
                return;
            }
            last = chore.number;
            let work = store.work_on(chore);
            match self.account(&backend) {
                Some(account) => account.pay(kind_of(chore), chore.bytes, work).await,
                None => work.await,
            }
        }
    }

    /// Tells who schedules a store's requests whether writes wait for room in its log, until it
    /// stops or the gate does.
    pub(super) async fn tell_room(self: Rc<Self>, backend: String, host: Rc<StoreHost>) {
        let Some(store) = host.once_open().await else { return };
        let mut is_short = false;
        while !self.stopping.get() {
            if let Some(Account { domain, server, tenant }) = self.account(&backend) {
                domain.set_room(server, Room { is_short, maker: Some(tenant) });
            }
            match store.next_shortage(is_short).await {
                Some(next) => is_short = next,
                None => return,
            }
        }
    }

    pub(super) fn account(&self, backend: &str) -> Option<Account> {
        let plan = self.plan();
        let planned = plan.domains.iter().find(|domain| domain.has(backend))?;
        Some(Account {
            domain: self.domains.borrow().get(&planned.name).cloned()?,
            server: planned.server(backend)?,
            tenant: plan.upkeep_tenant()?,
        })
    }
}

impl Account {
    /// Does some work when its turn at the backend comes, and pays for it.
    pub(super) async fn pay<T>(&self, kind: Kind, length: u64, work: impl Future<Output = T>) -> T {
        let turn = Rc::new(Turn::default());
        let medium = Medium::Turn(Rc::clone(&turn));
        let device = Rc::new(Device { target: Target::Server(self.server), medium });
        let heard = Rc::new(LossesHeard::new(Vec::new()));
        let task = Task::Turn { kind, length };
        let errand = self.domain.run_errand(&device, (self.tenant, &heard), task);
        let (paid, outcome) = tokio::join!(errand, turn.spend(work));
        paid.expect("nobody refuses a turn");
        outcome
    }
}

/// What a chore is to the engine.
fn kind_of(chore: Chore) -> Kind {
    match chore.kind {
        ChoreKind::Read => Kind::Read,
        ChoreKind::Write => Kind::Write,
    }
}
