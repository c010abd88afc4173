//! Until when a volume counts as ours: what is asked before anything is handed to the cluster.
//!
//! It is judged by the clock that goes on while the machine is suspended. The runtime's clock does
//! not, and would let a gate that has slept for a day believe that it renewed its lock just now.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_core::time::{Nanos, Span};
use tokio::sync::Notify;

use super::loss::Loss;
use crate::clock::since_boot;

/// How long after the begin of a renewal the volume counts as ours: less than the lock lasts, for
/// clocks that run unevenly.
const HOLD: Span = Span::from_millis(4500);

/// Between two looks whether it has been unknown for too long.
const LOOK: Duration = Duration::from_millis(500);

/// Whether a volume is ours; any thread may ask.
#[derive(Debug, Default)]
pub(super) struct Lease {
    /// In nanoseconds since the machine was started.
    until: AtomicU64,
    /// Why it is not ours any more; that is for good.
    lost: OnceLock<Loss>,
    news: Notify,
}

impl Lease {
    /// Whether it is known to be ours now.
    pub(super) fn is_held(&self) -> bool {
        self.lost.get().is_none() && since_boot().0 < self.until.load(Ordering::SeqCst)
    }

    /// Waits until it is known whether it is ours.
    pub(super) async fn granted(&self) -> bool {
        loop {
            let news = self.news.notified();
            if self.is_held() {
                return true;
            }
            if self.lost.get().is_some() {
                return false;
            }
            news.await;
        }
    }

    /// Whether it may be ours or not.
    pub(super) fn is_in_doubt(&self) -> bool {
        !self.is_held() && self.lost.get().is_none()
    }

    /// It is ours for a while from `begin` on, when the lock was not yet asked for.
    pub(super) fn held_from(&self, begin: Nanos) {
        self.until.fetch_max(begin.0.saturating_add(HOLD.0), Ordering::SeqCst);
        self.news.notify_waiters();
    }

    /// It is not ours any more. The first reason counts.
    pub(super) fn lose(&self, why: Loss) {
        let _ = self.lost.set(why);
        self.news.notify_waiters();
    }

    /// Why it is not ours any more, if it is not.
    pub(super) fn lost(&self) -> Option<&Loss> {
        self.lost.get()
    }

    /// Waits until it is not ours any more. Returns why.
    pub(super) async fn until_lost(&self) -> &Loss {
        loop {
            let news = self.news.notified();
            if let Some(why) = self.lost() {
                return why;
            }
            news.await;
        }
    }

    /// Waits until it has been in doubt for so long.
    pub(super) async fn until_in_doubt_for(&self, patience: Duration) {
        let mut since = None;
        loop {
            tokio::time::sleep(LOOK).await;
            since = if self.is_in_doubt() { since.or_else(|| Some(since_boot())) } else { None };
            if since
                .is_some_and(|since| u128::from(since_boot().since(since).0) > patience.as_nanos())
            {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_ours_for_a_while_from_the_begin_of_a_renewal_and_once_lost_never_again() {
        let lease = Lease::default();
        assert!(lease.is_in_doubt());
        let long_ago = Nanos(since_boot().0.saturating_sub(HOLD.0));
        lease.held_from(long_ago);
        assert!(!lease.is_held(), "an answer that came late says nothing of now");
        lease.held_from(since_boot());
        lease.held_from(long_ago);
        assert!(lease.is_held() && !lease.is_in_doubt());
        lease.lose(Loss::Taken);
        lease.held_from(since_boot());
        assert!(!lease.is_held() && !lease.is_in_doubt());
        assert_eq!(lease.lost(), Some(&Loss::Taken));
    }
}
