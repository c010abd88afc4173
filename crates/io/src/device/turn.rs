//! A turn at a device for work that is no transfer of anybody's bytes: its requests are queued like
//! others, and are over when the work is.
//!
//! ```text
//! worker   waits ------> works -----------> end
//! units    queued, come ------------ over   come, over at once
//! ```
//!
//! The work begins with the first unit that comes. What is left of a long one is paid while it goes
//! on or afterwards, always before the next: with one place at the device, units that waited for
//! each other would wait for ever.

use std::cell::Cell;

use tokio::sync::Notify;

/// One turn. See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Turn {
    stage: Cell<Stage>,
    /// Told whenever `stage` changes.
    news: Notify,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    #[default]
    Queued,
    Come,
    Over,
}

impl Turn {
    /// A unit has come to the device: the work may begin, and the unit lasts until it is over.
    pub(crate) async fn come(&self) {
        self.advance(Stage::Come);
        self.until(Stage::Over).await;
    }

    /// Does the work in its turn.
    pub(crate) async fn spend<T>(&self, work: impl Future<Output = T>) -> T {
        self.until(Stage::Come).await;
        let outcome = work.await;
        self.advance(Stage::Over);
        outcome
    }

    fn advance(&self, to: Stage) {
        self.stage.set(self.stage.get().max(to));
        self.news.notify_waiters();
    }

    async fn until(&self, stage: Stage) {
        loop {
            let news = self.news.notified();
            if self.stage.get() >= stage {
                return;
            }
            news.await;
        }
    }
}
