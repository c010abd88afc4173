//! Clients that make so many requests between them, each one after the other.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use crate::executor::Clock;

/// What the clients share.
struct Crowd<R> {
    request: R,
    /// Requests that nobody has begun.
    waiting: Cell<u64>,
    /// Clients that are not done.
    working: Cell<u64>,
    /// Who waits for the last of them.
    foreman: RefCell<Option<Waker>>,
}

/// Sets so many clients to work until so many requests are made and done.
pub async fn work<F: Future<Output = ()>>(
    clock: Clock,
    clients: u64,
    requests: u64,
    request: impl Fn() -> F + 'static,
) {
    let (waiting, working) = (Cell::new(requests), Cell::new(clients));
    let crowd = Rc::new(Crowd { request, waiting, working, foreman: RefCell::default() });
    for _ in 0..clients {
        let crowd = Rc::clone(&crowd);
        clock.spawn(async move {
            while let Some(left) = crowd.waiting.get().checked_sub(1) {
                crowd.waiting.set(left);
                (crowd.request)().await;
            }
            crowd.working.set(crowd.working.get() - 1);
            crowd.foreman.take().into_iter().for_each(Waker::wake);
        });
    }
    poll_fn(|context| {
        crowd.foreman.replace(Some(context.waker().clone()));
        if crowd.working.get() == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::{Nanos, Span};

    use super::*;
    use crate::executor::{Executor, Order};

    #[test]
    fn all_requests_are_made_with_as_many_under_way_as_there_are_clients() {
        let mut executor = Executor::new(Order::Fair);
        let (clock, made) = (executor.clock(), Rc::new(Cell::new(0)));
        let (asleep, count) = (clock.clone(), Rc::clone(&made));
        let request = move || {
            let (clock, made) = (asleep.clone(), Rc::clone(&count));
            async move {
                clock.sleep(Span(10)).await;
                made.set(made.get() + 1);
            }
        };
        executor.block_on(work(clock.clone(), 4, 10, request)).unwrap();
        assert_eq!((made.get(), clock.now()), (10, Nanos(30)));
    }
}
