//! Wakes the engine when it asked to be woken.

use std::cell::Cell;
use std::rc::Rc;

use evenkeel_core::time::Nanos;
use tokio::sync::Notify;

use super::Domain;

/// The instant at which the engine wants to be polled.
#[derive(Debug, Default)]
pub(super) struct Timer {
    at: Cell<Option<Nanos>>,
    sooner: Notify,
}

impl Timer {
    /// Asks for a poll at `at`. Only a sooner instant disturbs the sleeper: an early poll is
    /// harmless, and the engine says each time anew when it wants the next.
    pub(super) fn set(&self, at: Option<Nanos>) {
        let sooner = match (at, self.at.get()) {
            (Some(at), Some(known)) => at < known,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if sooner {
            self.at.set(at);
            self.sooner.notify_one();
        }
    }
}

/// Runs the timer of a domain for as long as the domain lives.
pub(super) fn spawn(domain: &Rc<Domain>) {
    let domain = Rc::clone(domain);
    tokio::task::spawn_local(async move {
        loop {
            let sooner = domain.timer.sooner.notified();
            match domain.timer.at.get() {
                None => sooner.await,
                Some(at) => tokio::select! {
                    () = sooner => {}
                    () = tokio::time::sleep_until(domain.worker.clock.instant(at)) => {
                        domain.timer.at.set(None);
                        domain.pump();
                    }
                },
            }
        }
    });
}
