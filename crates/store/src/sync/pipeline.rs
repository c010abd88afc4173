//! Futures under way at once whose outcomes are taken in the order in which they began.
//!
//! ```text
//! push ->  [ 7: done ] [ 6: done ] [ 5: waiting ] [ 4: done ]  -> next() gives 4, then waits for 5
//! ```

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A row of futures. See the [module](self).
pub(crate) struct Pipeline<'a, T> {
    row: VecDeque<Stage<'a, T>>,
}

enum Stage<'a, T> {
    Waiting(Pin<Box<dyn Future<Output = T> + 'a>>),
    Done(T),
}

/// Which outcome comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// That of the oldest future.
    Begun,
    /// That of whichever ends first.
    Ended,
}

impl<'a, T> Pipeline<'a, T> {
    pub(crate) fn new() -> Self {
        Self { row: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, future: impl Future<Output = T> + 'a) {
        self.row.push_back(Stage::Waiting(Box::pin(future)));
    }

    pub(crate) fn len(&self) -> usize {
        self.row.len()
    }

    /// Drives all of them; gives the next outcome if it is there.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>, order: Order) -> Poll<T> {
        for stage in &mut self.row {
            if let Stage::Waiting(future) = stage
                && let Poll::Ready(outcome) = future.as_mut().poll(context)
            {
                *stage = Stage::Done(outcome);
            }
        }
        let is_done = |stage: &Stage<'_, T>| matches!(stage, Stage::Done(_));
        let next = match order {
            Order::Begun => self.row.front().filter(|stage| is_done(stage)).map(|_| 0),
            Order::Ended => self.row.iter().position(is_done),
        };
        match next.and_then(|index| self.row.remove(index)) {
            Some(Stage::Done(outcome)) => Poll::Ready(outcome),
            _ => Poll::Pending,
        }
    }
}
