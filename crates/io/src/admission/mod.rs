//! Lets connections in, and counts them out when their permits are dropped.

mod ledger;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::id::TenantId;
use evenkeel_core::time::{Nanos, Span};
use tokio::sync::oneshot;

use ledger::Ledger;
pub use ledger::network_of;
pub(crate) use ledger::{Full, Origin};

use crate::clock::since_boot;

/// A handshake that has to go for others had so long at least.
const HANDSHAKE_TIME_MIN: Span = Span::from_millis(50);

/// A refusal is reported for so long.
const REFUSED_LATELY: Span = Span::from_secs(10);

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
    /// By the number of a handshake.
    stays: BTreeMap<u64, Stay>,
    /// When a connection of a tenant was refused last.
    refused: BTreeMap<TenantId, Nanos>,
}

/// A handshake under way.
#[derive(Debug)]
struct Stay {
    began: Nanos,
    #[expect(dead_code, reason = "dropped where it has to go")]
    goes: oneshot::Sender<()>,
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

    /// How long to wait before a connection from there is let in: until the handshake that has to
    /// go for it has had its time. Meanwhile the kernel holds back those who come, so that a flood
    /// takes neither their time nor the gate's.
    pub(crate) fn pause(&self, origin: Origin, most: u32) -> Option<Span> {
        let state = self.state();
        let (_, number) = state.ledger.next_to_go(origin, most)?;
        let until = state.stays.get(&number)?.began + HANDSHAKE_TIME_MIN;
        let pause = until.since(since_boot());
        (pause > Span::ZERO).then_some(pause)
    }

    /// A connection from there begins its handshake, of at most `most` connections in all. What is
    /// returned beside the permit ends when it has to make room for another.
    pub(crate) fn begin(
        self: &Arc<Self>,
        origin: Origin,
        most: u32,
    ) -> (Permit, oneshot::Receiver<()>) {
        let (stay, goes) = oneshot::channel();
        let mut state = self.state();
        if let Some((origin, number)) = state.ledger.next_to_go(origin, most) {
            state.count_out(origin, Stage::Handshake(number));
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        let number = state.ledger.begin(origin);
        state.stays.insert(number, Stay { began: since_boot(), goes: stay });
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

    /// Tenants of whom connections were not let in just now.
    pub(crate) fn refused_lately(&self) -> Vec<TenantId> {
        let now = since_boot();
        let state = self.state();
        let lately = state.refused.iter().filter(|(_, at)| now.since(**at) <= REFUSED_LATELY);
        lately.map(|(tenant, _)| *tenant).collect()
    }

    /// Connections that were not let in since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Permit {
    /// Something has been read of the client.
    pub(crate) fn speaks(&self) {
        if let Stage::Handshake(number) = self.stage {
            self.door.state().ledger.speaks(self.origin, number);
        }
    }

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
            state.refused.insert(tenant, since_boot());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_let_in_no_faster_than_its_handshakes_have_had_their_time() {
        let door = Arc::new(Door::default());
        let [flood, other] = [7, 8].map(|process| Origin::of(None, Some(process)));
        let mut stays = Vec::new();
        let pause = loop {
            if let Some(pause) = door.pause(flood, 100) {
                break pause;
            }
            stays.push(door.begin(flood, 100));
        };
        assert!(pause <= HANDSHAKE_TIME_MIN, "{pause:?}");
        assert_eq!(door.pause(other, 100), None, "others do not wait for it");
        std::thread::sleep(std::time::Duration::from_nanos(HANDSHAKE_TIME_MIN.0));
        assert_eq!(door.pause(flood, 100), None);
        stays.push(door.begin(flood, 100));
        let is_gone = |(_, goes): &mut (Permit, oneshot::Receiver<()>)| {
            goes.try_recv() == Err(oneshot::error::TryRecvError::Closed)
        };
        assert_eq!(stays.iter_mut().position(is_gone), Some(0), "the oldest has gone");
    }

    #[test]
    fn whose_connections_are_refused_is_told() {
        let door = Arc::new(Door::default());
        let origin = Origin::of(None, Some(7));
        let (tenant, bound) = (TenantId(3), (2, 1));
        let mut permits: Vec<_> = (0..8).map(|_| door.begin(origin, 100)).collect();
        let entered = permits.iter_mut().map(|(permit, _)| permit.enter(tenant, bound));
        assert!(entered.into_iter().any(|entered| entered.is_err()));
        assert_eq!(door.refused_lately(), [tenant]);
    }
}
