//! Another size for an open volume.
//!
//! ```text
//! grow     head -> choices -> clients that come from now on see it
//! shrink   end announced -> what came before it has ended -> nothing lies beyond?
//!          -> what is left of objects there removed -> head -> choices
//! ```
//!
//! A volume grows at once, and by a policy that says so. It shrinks at the operator's word alone,
//! and where nothing lies beyond the new end. Objects there that clients have discarded are removed
//! before the head says so: nobody will know of them later, and what is left of one would be read
//! again once the volume has grown.

use std::cell::Cell;

use evenkeel_core::bytes::Bytes;
use evenkeel_engine::pooled::{Head, OBJECTS_MAX, Place, Shape};
use tokio::sync::Notify;

use super::guarded::Guarded;
use super::opened::Opened;
use super::opening::NotOpened;
use super::pages::side_by_side;
use crate::buffer::Buf;

/// Where the volume ends for requests that come now, and what came before that was said.
#[derive(Debug)]
pub(super) struct End {
    bytes: Cell<u64>,
    /// Requests under way, of this epoch and the one before: whoever announces another end begins
    /// the next.
    under_way: [Cell<usize>; 2],
    epoch: Cell<usize>,
    is_quiet: Notify,
    /// The furthest end of a request that was given up, and may still take effect.
    given_up: Cell<u64>,
    is_changing: Cell<bool>,
}

/// A request under way.
pub(super) struct UnderWay<'a> {
    end: &'a End,
    epoch: usize,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let count = &self.end.under_way[self.epoch];
        count.set(count.get() - 1);
        if count.get() == 0 {
            self.end.is_quiet.notify_waiters();
        }
    }
}

impl End {
    pub(super) fn new(bytes: u64) -> Self {
        Self {
            bytes: Cell::new(bytes),
            under_way: Default::default(),
            epoch: Cell::new(0),
            is_quiet: Notify::new(),
            given_up: Cell::new(0),
            is_changing: Cell::new(false),
        }
    }

    /// A request begins that reaches up to there; none if it reaches beyond the end.
    pub(super) fn begin(&self, reaches: u64) -> Option<UnderWay<'_>> {
        if reaches > self.bytes.get() {
            return None;
        }
        let epoch = self.epoch.get();
        self.under_way[epoch].set(self.under_way[epoch].get() + 1);
        Some(UnderWay { end: self, epoch })
    }

    /// A request was given up that may still take effect.
    pub(super) fn give_up(&self, reaches: u64) {
        self.given_up.set(self.given_up.get().max(reaches));
    }

    /// Nothing begins any more that reaches further; waits until all has ended that began before.
    async fn announce(&self, bytes: u64) {
        self.bytes.set(bytes);
        let before = self.epoch.get();
        self.epoch.set(1 - before);
        loop {
            let quiet = self.is_quiet.notified();
            if self.under_way[before].get() == 0 {
                return;
            }
            quiet.await;
        }
    }
}

/// One resizing at a time.
struct Changing<'a>(&'a Cell<bool>);

impl<'a> Changing<'a> {
    fn begin(is_changing: &'a Cell<bool>) -> Result<Self, String> {
        if is_changing.replace(true) {
            return Err("it is being resized already".to_owned());
        }
        Ok(Self(is_changing))
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Opened {
    /// Gives the volume another size, in whole objects; returns it.
    ///
    /// # Errors
    /// Why it keeps the one it has.
    pub(super) async fn resize(&self, size_bytes: u64) -> Result<u64, String> {
        let _changing = Changing::begin(&self.end.is_changing)?;
        let shape = Shape { size_bytes, ..*self.volume.borrow().shape() };
        if size_bytes == 0 || shape.objects() > OBJECTS_MAX {
            let most = Bytes(OBJECTS_MAX * shape.object_bytes);
            return Err(format!("a volume has at least one object, and at most {most} in all"));
        }
        let before = self.size_bytes();
        let end = shape.objects() * shape.object_bytes;
        if end < before {
            self.end.announce(end).await;
            if let Err(why) = self.clear_beyond(shape).await {
                self.end.bytes.set(before);
                return Err(why);
            }
        }
        let head = Head { shape, ..self.head.borrow().clone() };
        if let Err(error) = self.hold.write_head(&head).await {
            // Nobody knows which of the two it is.
            self.end.bytes.set(before.min(end));
            return Err(format!("the head is not written: {error}; try it again"));
        }
        self.head.replace(head);
        self.volume.borrow_mut().resize(size_bytes);
        self.end.bytes.set(end);
        Ok(end)
    }

    /// Removes what is left of objects beyond an end that was announced.
    async fn clear_beyond(&self, shape: Shape) -> Result<(), String> {
        if self.end.given_up.get() > shape.objects() * shape.object_bytes {
            let why = "a request beyond that end was given up and may still take effect: restart \
                       the gate first";
            return Err(why.to_owned());
        }
        let names = self.names_beyond(shape.size_bytes)?;
        let look =
            |(object, name): (u64, String)| look_for_data(self.pool.clone(), shape, object, name);
        let looked = side_by_side(names.clone(), look, |()| Ok(())).await;
        looked.map_err(|error| error.to_string())?;
        let remove = |(_, name): (u64, String)| {
            let pool = self.pool.clone();
            async move {
                match pool.remove(&name).await {
                    Err(error) if !error.is_missing() => Err(NotOpened::from(error)),
                    _ => Ok(()),
                }
            }
        };
        let removed = side_by_side(names, remove, |()| Ok(())).await;
        removed.map_err(|error| error.to_string())
    }

    /// The objects beyond an end that were written, and their names.
    fn names_beyond(&self, size_bytes: u64) -> Result<Vec<(u64, String)>, String> {
        let volume = self.volume.borrow();
        let name = |object: u64| match volume.place_of(object) {
            Place::At(name) => Ok((object, name)),
            Place::Unwritten | Place::Pending => {
                Err("choices beyond that end are being stored: try it again".to_owned())
            }
        };
        volume.chosen_beyond(size_bytes).into_iter().map(name).collect()
    }
}

/// Refuses an object that has data. Discards leave nothing of one, or zeroes.
async fn look_for_data(
    pool: Guarded,
    shape: Shape,
    object: u64,
    name: String,
) -> Result<(), NotOpened> {
    let object_bytes = usize::try_from(shape.object_bytes).expect("objects fit memory");
    match pool.read(&name, 0, Buf::take(object_bytes)).await {
        Ok((data, count)) if data[..count].iter().any(|byte| *byte != 0) => {
            Err(NotOpened::Other(format!(
                "there is data beyond that end, at {}; copy it elsewhere and discard it there",
                Bytes(object * shape.object_bytes)
            )))
        }
        Err(error) if !error.is_missing() => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_end_is_announced_once_nothing_reaches_beyond_it() {
        let end = End::new(100);
        assert!(end.begin(101).is_none());
        let first = end.begin(100).expect("within it");
        {
            let mut announcing = std::pin::pin!(end.announce(50));
            let polled = futures_poll(announcing.as_mut());
            assert!(polled.is_pending() && end.begin(51).is_none());
            let second = end.begin(50).expect("within the new end");
            drop(first);
            assert!(futures_poll(announcing.as_mut()).is_ready(), "the second came after it");
            drop(second);
        }
        end.give_up(70);
        end.give_up(60);
        assert_eq!(end.given_up.get(), 70);
    }

    fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
        future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }
}
