//! What straight-line async code on one thread needs, for any executor: no timers, no spawning.

mod join;
mod once;
mod pipeline;
mod signal;

pub(crate) use join::{join_all, race_never};
pub(crate) use once::Once;
pub(crate) use pipeline::Pipeline;
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
