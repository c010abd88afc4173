//! Reads that an opening is about to ask for, begun while it takes in what came before: a server
//! answers the next while the gate looks at the last.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Part, offset and length.
pub(super) type Read = (usize, u64, u64);

/// How many reads are begun before they are asked for.
pub(super) const AHEAD: usize = 4;

/// A read under way, or what it has brought.
enum Slot<'a, T> {
    UnderWay(Pin<Box<dyn Future<Output = T> + 'a>>),
    Ended(T),
}

/// The reads that were begun, in the order in which they are asked for.
pub(super) struct Ahead<'a, T> {
    reads: VecDeque<(Read, Slot<'a, T>)>,
}

impl<'a, T: Unpin> Ahead<'a, T> {
    pub(super) fn new() -> Self {
        Self { reads: VecDeque::new() }
    }

    /// Begins a read unless it was begun.
    pub(super) fn begin(
        &mut self,
        read: Read,
        future: impl FnOnce() -> Pin<Box<dyn Future<Output = T> + 'a>>,
    ) {
        if !self.reads.iter().any(|(known, _)| *known == read) {
            self.reads.push_back((read, Slot::UnderWay(future())));
        }
    }

    /// What a read brings that was begun; the others go on meanwhile. What was begun before it, and
    /// is not asked for any more, is let go.
    pub(super) async fn take(&mut self, read: Read) -> Option<T> {
        let at = self.reads.iter().position(|(known, _)| *known == read)?;
        self.reads.drain(..at);
        poll_fn(|context| {
            for (_, slot) in &mut self.reads {
                if let Slot::UnderWay(future) = slot
                    && let Poll::Ready(brought) = future.as_mut().poll(context)
                {
                    *slot = Slot::Ended(brought);
                }
            }
            match self.reads.front() {
                Some((_, Slot::UnderWay(_))) => Poll::Pending,
                _ => Poll::Ready(()),
            }
        })
        .await;
        match self.reads.pop_front()? {
            (_, Slot::Ended(brought)) => Some(brought),
            (_, Slot::UnderWay(_)) => unreachable!("waited for above"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn reads_are_begun_once_and_taken_in_order() {
        let begun = Cell::new(0);
        let mut ahead = Ahead::new();
        let read = |number: u64| {
            begun.set(begun.get() + 1);
            Box::pin(async move {
                tokio::task::yield_now().await;
                number
            }) as Pin<Box<dyn Future<Output = u64>>>
        };
        for number in [1, 2, 3, 2] {
            ahead.begin((0, number, 1), || read(number));
        }
        assert_eq!(begun.get(), 3);
        assert_eq!(ahead.take((0, 1, 1)).await, Some(1));
        assert_eq!(ahead.take((0, 9, 1)).await, None, "nobody has begun it");
        assert_eq!(ahead.take((0, 3, 1)).await, Some(3));
        assert_eq!(ahead.take((0, 2, 1)).await, None, "it was let go");
    }
}
