//! What straight-line async code on one thread needs, for any executor: no timers, no spawning.

mod join;
mod lock;
mod once;
mod pipeline;
mod ranges;
mod signal;

pub(crate) use join::{first_of, join_all};
pub(crate) use lock::Lock;
pub(crate) use once::Once;
pub(crate) use pipeline::{Order, Pipeline};
pub(crate) use ranges::{RangeHeld, Ranges};
pub(crate) use signal::Signal;

/// Lets everybody else run once.
pub(crate) async fn yield_now() {
    let mut is_second_poll = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut is_second_poll, true) {
            std::task::Poll::Ready(())
        } else {
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        }
    })
    .await;
}
