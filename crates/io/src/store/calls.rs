//! The operations of one drive that are under way: a future waits for each, until the drive is done
//! with it or taken to be gone.
//!
//! Nothing is asked of the clock for each operation. Time is cut into rounds, an operation knows
//! the round it began in, and one that is still under way [`ROUNDS`] later will not end any more:
//!
//! ```text
//! round      7         8         9         10        11        12
//!            | begins  |         |         |         |         | gone
//! ```

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use slab::Slab;
use tokio::sync::{Notify, oneshot};
use tokio::task::spawn_local;
use tokio::time::Instant;

use crate::drive::bell::Bell;
use crate::drive::{Action, Drive, DriveKind, Finished, Job};

/// Rounds that an operation may take.
const ROUNDS: u32 = 4;

/// The operations of one drive. See the [module](self).
#[derive(Debug)]
pub(super) struct Calls {
    file: Arc<File>,
    work: RefCell<Work>,
    round: Cell<u32>,
    is_gone: Cell<bool>,
    /// Told whenever an operation has ended.
    ended: Notify,
}

#[derive(Debug)]
struct Work {
    /// None if it was given up.
    drive: Option<Drive>,
    calls: Slab<Call>,
    finished: Vec<Finished>,
}

/// Somebody waits for the end of an operation, or did.
#[derive(Debug)]
struct Call {
    round: u32,
    is_write: bool,
    done: oneshot::Sender<(io::Result<()>, Action)>,
}

/// The drive does not answer.
#[derive(Debug)]
pub(super) struct Gone;

impl Calls {
    /// Makes a drive of this kind for the file, on this thread's runtime. It is gone when it
    /// has owed an answer for `patience`.
    pub(super) fn new(
        file: Arc<File>,
        kind: DriveKind,
        patience: Duration,
    ) -> io::Result<Rc<Self>> {
        let (drive, event) = Drive::new(kind)?;
        let bell = Bell::new(event)?;
        let work = Work { drive: Some(drive), calls: Slab::new(), finished: Vec::new() };
        let calls = Rc::new(Self {
            file,
            work: RefCell::new(work),
            round: Cell::new(0),
            is_gone: Cell::new(false),
            ended: Notify::new(),
        });
        spawn_local(watch(Rc::downgrade(&calls), bell, patience / ROUNDS));
        Ok(calls)
    }

    /// Does one thing; gives the action back with what it brought.
    pub(super) async fn perform(
        &self,
        offset: u64,
        action: Action,
    ) -> Result<(io::Result<()>, Action), Gone> {
        let (done, end) = oneshot::channel();
        let is_write = !matches!(action, Action::Read(_) | Action::Flush);
        let call = Call { round: self.round.get(), is_write, done };
        {
            let work = &mut *self.work.borrow_mut();
            let drive = work.drive.as_mut().ok_or(Gone)?;
            let mark = work.calls.insert(call) as u64;
            drive.push(Job { file: Arc::clone(&self.file), offset, action, mark });
        }
        self.advance();
        end.await.map_err(|_| Gone)
    }

    /// Waits until no write is under way for which nobody waits any more: it would not be known
    /// whether a flush covers it.
    pub(super) async fn settle_abandoned(&self) {
        loop {
            let ended = self.ended.notified();
            let is_abandoned = |call: &Call| call.is_write && call.done.is_closed();
            if !self.work.borrow().calls.iter().any(|(_, call)| is_abandoned(call)) {
                return;
            }
            ended.await;
        }
    }

    /// Gives the drive up: everything under way fails, and all that is asked of it.
    pub(super) fn give_up(&self) {
        self.is_gone.set(true);
        let work = &mut *self.work.borrow_mut();
        // Dropping it would wait for what is under way, which may never end. The memory that a
        // drive like this may still write to is not used again.
        std::mem::forget(work.drive.take());
        work.calls.clear();
        self.ended.notify_waiters();
    }

    /// Whether it was given up.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.get()
    }

    /// Starts what was pushed, and tells of what has ended.
    fn advance(&self) {
        let work = &mut *self.work.borrow_mut();
        let Some(drive) = &mut work.drive else { return };
        drive.submit();
        drive.reap(&mut work.finished);
        for Finished { mark, action, result } in work.finished.drain(..) {
            let mark = usize::try_from(mark).expect("marks are slab keys");
            // Nobody may be waiting any more.
            let _ = work.calls.remove(mark).done.send((result, action));
        }
        self.ended.notify_waiters();
    }

    /// Begins the next round; false if something has been under way for too many of them.
    fn begin_round(&self) -> bool {
        let round = self.round.get() + 1;
        self.round.set(round);
        let is_late = |call: &Call| round - call.round > ROUNDS;
        !self.work.borrow().calls.iter().any(|(_, call)| is_late(call))
    }
}

/// Looks after a drive for as long as it is open.
async fn watch(calls: Weak<Calls>, bell: Bell, round: Duration) {
    let mut next = Instant::now() + round;
    loop {
        let rung = tokio::time::timeout_at(next, bell.rung()).await;
        let Some(calls) = calls.upgrade() else { return };
        if let Ok(Err(error)) = rung {
            tracing::error!(%error, "a drive's event cannot be watched");
            return calls.give_up();
        }
        calls.advance();
        if Instant::now() >= next {
            next = Instant::now() + round;
            if !calls.begin_round() {
                tracing::error!(
                    "a drive has not answered for {:?}; it is given up",
                    round * ROUNDS
                );
                return calls.give_up();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buf;
    use crate::store::block_on;

    #[test]
    fn a_drive_that_owes_an_answer_for_too_long_is_gone_for_good() {
        // Nothing is ever written to this pipe, so that a read of it never ends.
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        block_on(async {
            let file = Arc::new(File::from(reader));
            let patience = Duration::from_millis(40);
            let calls = Calls::new(file, DriveKind::Best, patience).unwrap();
            if matches!(calls.work.borrow().drive, Some(Drive::Pool(_))) {
                eprintln!("skipped: threads cannot read a pipe at an offset, and io_uring is off");
                return;
            }
            let reads = (0..3).map(|_| calls.perform(0, Action::Read(Buf::take(512))));
            for read in reads {
                assert!(read.await.is_err());
                assert!(calls.is_gone());
            }
        })
        .unwrap();
    }
}
