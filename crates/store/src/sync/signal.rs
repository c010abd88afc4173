//! A signal: "something changed, look again".
//!
//! Whoever waits states a condition; it is looked at now and after every [`Signal::notify`]. The
//! condition, not the signal, carries the meaning, so that a notification too many is harmless and
//! none can be missed: nothing runs between looking and registering on one thread.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Wakes those who wait for a change. See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Signal {
    wakers: RefCell<Vec<Waker>>,
}

impl Signal {
    /// Makes everyone who waits look again.
    pub(crate) fn notify(&self) {
        let wakers = std::mem::take(&mut *self.wakers.borrow_mut());
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until the condition gives a value.
    pub(crate) async fn until<T>(&self, mut condition: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| {
            if let Some(value) = condition() {
                return Poll::Ready(value);
            }
            self.register(context.waker());
            Poll::Pending
        })
        .await
    }

    /// Has this task look again at the next change; a task that asks twice is woken once.
    pub(crate) fn register(&self, waker: &Waker) {
        let mut wakers = self.wakers.borrow_mut();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }
}
