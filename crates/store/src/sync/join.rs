//! Several futures in one task.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Drives all of them at once; gives their outcomes in their order.
pub(crate) async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut slots: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        for (future, outcome) in slots.iter_mut().filter(|(_, outcome)| outcome.is_none()) {
            if let Poll::Ready(value) = future.as_mut().poll(context) {
                *outcome = Some(value);
            }
        }
        if slots.iter().all(|(_, outcome)| outcome.is_some()) {
            Poll::Ready(slots.iter_mut().filter_map(|(_, outcome)| outcome.take()).collect())
        } else {
            Poll::Pending
        }
    })
    .await
}

/// Drives two futures until one ends; gives its outcome and drops the other.
pub(crate) async fn first_of<T>(
    first: impl Future<Output = T>,
    second: impl Future<Output = T>,
) -> T {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|context| match first.as_mut().poll(context) {
        Poll::Pending => second.as_mut().poll(context),
        ready @ Poll::Ready(_) => ready,
    })
    .await
}
