//! Lets connections in, and counts them out when their permits are dropped.

mod ledger;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::id::TenantId;
use tokio::sync::oneshot;

pub(crate) use ledger::Full;
pub use ledger::network_of;
use ledger::{Ledger, Origin};

use crate::clock::since_boot;

/// The door of a gate, for all its workers.
#[derive(Debug, Default)]
pub(crate) struct Door {
    state: Mutex<State>,
    refused: AtomicU64,
    /// Refusals in the log.
    log: OncePerSecond,
}

/// Lets something pass once a second.
#[derive(Debug, Default)]
pub(crate) struct OncePerSecond {
    /// When something passed last, in seconds since boot.
    passed_at: AtomicU64,
}

impl OncePerSecond {
    /// Whether this may pass.
    pub(crate) fn passes(&self) -> bool {
        let now = since_boot().0 / 1_000_000_000;
        self.passed_at.swap(now, Ordering::Relaxed) != now
    }
}

#[derive(Debug, Default)]
struct State {
    ledger: Ledger,
    /// By the number of a handshake: dropped where it has to go.
    stays: BTreeMap<u64, oneshot::Sender<()>>,
}

/// A connection that is counted, until this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    door: Arc<Door>,
    origin: Origin,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Handshake(u64),
    Client(TenantId),
}

impl Door {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection from there begins its handshake, of at most `most` connections in all. What is
    /// returned beside the permit ends when it has to make room for another.
    pub(crate) fn begin(
        self: &Arc<Self>,
        address: Option<IpAddr>,
        most: u32,
    ) -> (Permit, oneshot::Receiver<()>) {
        let origin = Origin::of(address);
        let (stay, goes) = oneshot::channel();
        let mut state = self.state();
        let (number, evicted) = state.ledger.begin(origin, most);
        state.stays.insert(number, stay);
        if let Some(evicted) = evicted {
            state.stays.remove(&evicted);
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        drop(state);
        (Permit { door: Arc::clone(self), origin, stage: Stage::Handshake(number) }, goes)
    }

    /// Connections now.
    pub(crate) fn connections(&self) -> u64 {
        self.state().ledger.total()
    }

    /// Whether a refusal is to be logged: at most one a second.
    pub(crate) fn logs(&self) -> bool {
        self.log.passes()
    }

    /// Connections that were not let in since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Permit {
    /// The client has said who it is: from now on it counts as its tenant's, of `most` connections
    /// among so many tenants.
    ///
    /// # Errors
    /// What is full. It is still in its handshake then.
    pub(crate) fn enter(
        &mut self,
        tenant: TenantId,
        (most, tenants): (u32, usize),
    ) -> Result<(), Full> {
        if self.stage == Stage::Client(tenant) {
            return Ok(());
        }
        let mut state = self.door.state();
        if let Err(full) = state.ledger.enter(self.origin, tenant, (most, tenants)) {
            self.door.refused.fetch_add(1, Ordering::Relaxed);
            return Err(full);
        }
        state.count_out(self.origin, self.stage);
        drop(state);
        self.stage = Stage::Client(tenant);
        Ok(())
    }
}

impl State {
    fn count_out(&mut self, origin: Origin, stage: Stage) {
        match stage {
            Stage::Handshake(number) => {
                self.ledger.end(origin, number);
                self.stays.remove(&number);
            }
            Stage::Client(tenant) => self.ledger.leave(origin, tenant),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.door.state().count_out(self.origin, self.stage);
    }
}
