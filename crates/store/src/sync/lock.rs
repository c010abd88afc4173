//! A lock that is held over waits.

use std::cell::Cell;

use super::Signal;

/// One holder at a time.
#[derive(Debug, Default)]
pub(crate) struct Lock {
    is_held: Cell<bool>,
    released: Signal,
}

/// Holds a [`Lock`] until dropped.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a Lock);

impl Lock {
    /// Waits for the lock.
    pub(crate) async fn acquire(&self) -> Held<'_> {
        self.released.until(|| (!self.is_held.replace(true)).then(|| Held(self))).await
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.is_held.set(false);
        self.0.released.notify();
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn there_is_one_holder_at_a_time() {
        let lock = Lock::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut acquire = Box::pin(lock.acquire());
        let held = acquire.as_mut().poll(&mut context);
        let mut second = Box::pin(lock.acquire());
        assert!(held.is_ready());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending(), "asking does not release it");
        drop(held);
        assert!(second.as_mut().poll(&mut context).is_ready());
    }
}
