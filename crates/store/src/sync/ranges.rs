//! Ranges of blocks that are being changed: overlapping changes wait for each other, in the order
//! in which they came, unless both replace whole blocks.
//!
//! A write of a part of a block must not be under way beside another one of that block: it writes
//! the rest as well, as it was before the other changed it. Writes of whole blocks do not look at
//! what was there. They may share a record, of which the last one holds: else everybody who writes
//! to a block that all want would wait for a record of their own.
//!
//! ```text
//! replace 0..4   held
//! replace 2..6   held
//! change  5..6   waits for the second
//! replace 5..8   waits for the third
//! ```

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::units::VolumeId;

/// All ranges that are held or waited for, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    rows: RefCell<Vec<Row>>,
    next: Cell<u64>,
}

#[derive(Debug)]
struct Row {
    ticket: u64,
    volume: VolumeId,
    blocks: Range<u64>,
    /// Whether all of the blocks are replaced, whatever was there.
    replaces: bool,
    /// Who waits for it; nobody if it is held.
    waiting: Option<Waker>,
}

/// Holds a range until dropped.
#[derive(Debug)]
pub(crate) struct RangeHeld {
    ranges: Rc<Ranges>,
    ticket: u64,
}

impl Row {
    /// Whether only one of them may be held.
    fn excludes(&self, other: &Self) -> bool {
        !(self.replaces && other.replaces)
            && self.volume == other.volume
            && self.blocks.start < other.blocks.end
            && other.blocks.start < self.blocks.end
    }
}

impl Ranges {
    /// Waits until nobody who came earlier holds or wants a part of the range.
    pub(crate) async fn acquire(
        self: &Rc<Self>,
        volume: VolumeId,
        blocks: Range<u64>,
    ) -> RangeHeld {
        self.acquire_row(volume, blocks, false).await
    }

    /// The same to replace all blocks of the range, beside others who do.
    pub(crate) async fn acquire_to_replace(
        self: &Rc<Self>,
        volume: VolumeId,
        blocks: Range<u64>,
    ) -> RangeHeld {
        self.acquire_row(volume, blocks, true).await
    }

    async fn acquire_row(
        self: &Rc<Self>,
        volume: VolumeId,
        blocks: Range<u64>,
        replaces: bool,
    ) -> RangeHeld {
        let ticket = self.next.replace(self.next.get() + 1);
        self.rows.borrow_mut().push(Row { ticket, volume, blocks, replaces, waiting: None });
        // From here on the row goes with the guard, also if the wait is given up.
        let held = RangeHeld { ranges: Rc::clone(self), ticket };
        poll_fn(|context| self.poll_first(ticket, context)).await;
        held
    }

    fn poll_first(&self, ticket: u64, context: &Context<'_>) -> Poll<()> {
        let mut rows = self.rows.borrow_mut();
        let index = index_of(&rows, ticket);
        if is_first(&rows, index) {
            return Poll::Ready(());
        }
        rows[index].waiting = Some(context.waker().clone());
        Poll::Pending
    }

    /// Takes a row out, and wakes those who waited for this one alone.
    fn release(&self, ticket: u64) {
        let mut rows = self.rows.borrow_mut();
        let index = index_of(&rows, ticket);
        let released = rows.remove(index);
        let mut woken = Vec::new();
        for later in index..rows.len() {
            if rows[later].excludes(&released) && is_first(&rows, later) {
                woken.extend(rows[later].waiting.take());
            }
        }
        drop(rows);
        woken.into_iter().for_each(Waker::wake);
    }
}

fn index_of(rows: &[Row], ticket: u64) -> usize {
    rows.iter().position(|row| row.ticket == ticket).expect("the guard keeps it")
}

/// Whether no earlier row keeps this one from being held.
fn is_first(rows: &[Row], index: usize) -> bool {
    !rows[..index].iter().any(|earlier| earlier.excludes(&rows[index]))
}

impl Drop for RangeHeld {
    fn drop(&mut self) {
        self.ranges.release(self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    const VOLUME: VolumeId = VolumeId(3);

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Somebody who wants a range, and how often that was woken.
    struct Client<'a> {
        acquire: Pin<Box<dyn Future<Output = RangeHeld> + 'a>>,
        woken: Arc<Count>,
    }

    impl<'a> Client<'a> {
        fn new(ranges: &'a Rc<Ranges>, blocks: Range<u64>) -> Self {
            let acquire = Box::pin(ranges.acquire(VOLUME, blocks));
            Self { acquire, woken: Arc::default() }
        }

        fn replacing(ranges: &'a Rc<Ranges>, blocks: Range<u64>) -> Self {
            let acquire = Box::pin(ranges.acquire_to_replace(VOLUME, blocks));
            Self { acquire, woken: Arc::default() }
        }

        fn held(&mut self) -> Option<RangeHeld> {
            let waker = Waker::from(Arc::clone(&self.woken));
            match self.acquire.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(held) => Some(held),
                Poll::Pending => None,
            }
        }

        fn woken(&self) -> u32 {
            self.woken.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn overlapping_ranges_are_held_in_their_order_and_only_the_next_is_woken() {
        let ranges = Rc::new(Ranges::default());
        let [mut first, mut second, mut third, mut apart] =
            [0..4, 2..6, 3..5, 6..7].map(|blocks| Client::new(&ranges, blocks));
        let held = first.held();
        assert!(held.is_some() && second.held().is_none() && third.held().is_none());
        assert!(apart.held().is_some());
        drop(held);
        assert_eq!((second.woken(), third.woken()), (1, 0));
        let held = second.held();
        assert!(held.is_some() && third.held().is_none());
        drop(held);
        assert_eq!((second.woken(), third.woken()), (1, 1));
        assert!(third.held().is_some());
    }

    #[test]
    fn who_replaces_whole_blocks_waits_for_nobody_who_does() {
        let ranges = Rc::new(Ranges::default());
        let mut replacing = [0..4, 2..6, 2..3].map(|blocks| Client::replacing(&ranges, blocks));
        let held = replacing.each_mut().map(Client::held);
        assert!(held.iter().all(Option::is_some));
        let mut change = Client::new(&ranges, 5..6);
        let mut behind = [5..8, 5..6].map(|blocks| Client::replacing(&ranges, blocks));
        assert!(change.held().is_none() && behind.iter_mut().all(|it| it.held().is_none()));
        drop(held);
        assert_eq!((change.woken(), behind.each_ref().map(Client::woken)), (1, [0, 0]));
        drop(change.held());
        assert_eq!(behind.each_ref().map(Client::woken), [1, 1], "both at once");
    }

    #[test]
    fn who_gives_up_waiting_lets_the_next_pass() {
        let ranges = Rc::new(Ranges::default());
        let [mut first, mut second, mut third] =
            [0..2, 1..3, 2..4].map(|blocks| Client::new(&ranges, blocks));
        let held = first.held();
        assert!(held.is_some() && second.held().is_none() && third.held().is_none());
        drop(second);
        assert_eq!(third.woken(), 1);
        assert!(third.held().is_some());
    }
}
