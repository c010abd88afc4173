//! Turns: who schedules the clients' requests can schedule the cleaner's use of the drives as well.
//!
//! ```text
//! cleaner     wants to read ------ waits ------> reads ----> wants to write --> ..
//! attendant   next() --> queues it like a request --> work_on(chore) .. over
//! ```
//!
//! Without an attendant the cleaner never waits. With one, every quantum asks twice: to read what
//! is alive, and to write it again. It does not wait where that could only do harm:
//!
//! - while a client's record waits for room that cleaning makes, and no client reads: the attendant
//!   may be waiting for that very record, and there is nobody to be spared;
//! - while a checkpoint is due, which the same task makes.
//!
//! A chore that went ahead so is over when its turn comes; the attendant books it all the same.

use std::cell::Cell;

use crate::drive::Drive;
use crate::store::Store;
use crate::sync::Signal;

/// Something that the cleaner wants to do with the drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chore {
    /// Counted from one, in the order in which they are wanted.
    pub number: u64,
    /// Whether it reads from drives or writes to them.
    pub kind: ChoreKind,
    /// About how many bytes; at least 4 KiB.
    pub bytes: u64,
}

/// What a chore does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChoreKind {
    /// It reads blocks that are alive.
    Read,
    /// It writes them again, to all copies; counted once.
    Write,
}

/// Decides when the cleaner may use the drives, until it is dropped.
#[derive(Debug)]
pub struct Attendance<'a, D: Drive>(&'a Store<D>);

/// How far the cleaner is with its chores.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    attendants: Cell<u32>,
    /// What the cleaner waits for.
    wanted: Cell<Option<Chore>>,
    /// Chores up to this one have been wanted.
    last: Cell<u64>,
    /// Chores up to this one are over.
    over: Cell<u64>,
    /// Chores up to this one may begin.
    granted: Cell<u64>,
    /// Told of every change.
    news: Signal,
}

/// The cleaner is using the drives until this is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a Turns);

impl Turns {
    /// Whether somebody decides when the cleaner may go on.
    pub(super) fn are_attended(&self) -> bool {
        self.attendants.get() > 0
    }

    /// Has everybody look again.
    pub(crate) fn notify(&self) {
        self.news.notify();
    }

    /// Whether the cleaner waits for its turn.
    pub(crate) fn are_awaited(&self) -> bool {
        self.wanted.get().is_some()
    }

    fn want(&self, kind: ChoreKind, bytes: u64) -> Chore {
        let chore = Chore { number: self.last.get() + 1, kind, bytes };
        self.last.set(chore.number);
        self.wanted.set(Some(chore));
        self.news.notify();
        chore
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.over.set(self.0.last.get());
        self.0.news.notify();
    }
}

impl<D: Drive> Store<D> {
    /// From now on the cleaner waits for its turn before it reads or writes.
    ///
    /// Whoever attends has to work on every chore sooner or later: clients' records may depend on
    /// it.
    pub fn attend(&self) -> Attendance<'_, D> {
        let turns = &self.turns;
        turns.attendants.set(turns.attendants.get() + 1);
        Attendance(self)
    }

    /// It is a chore's turn: lets the cleaner begin, and waits until it is over, or the store has
    /// stopped.
    pub async fn work_on(&self, chore: Chore) {
        let turns = &self.turns;
        turns.granted.set(turns.granted.get().max(chore.number));
        self.changed.notify();
        let is_over = || turns.over.get() >= chore.number || self.check_running().is_err();
        turns.news.until(|| is_over().then_some(())).await;
    }

    /// Waits until the cleaner may use the drives.
    pub(super) async fn turn(&self, kind: ChoreKind, bytes: u64) -> Turn<'_> {
        let turns = &self.turns;
        let chore = turns.want(kind, bytes);
        self.changed.until(|| self.may_begin(chore).then_some(())).await;
        turns.wanted.set(None);
        Turn(turns)
    }

    fn may_begin(&self, chore: Chore) -> bool {
        let turns = &self.turns;
        let is_free = !turns.are_attended() || turns.granted.get() >= chore.number;
        let is_harmful = || self.is_held_up() && self.readers.get() == 0;
        is_free || self.check_running().is_err() || self.is_checkpoint_wanted() || is_harmful()
    }
}

impl<D: Drive> Attendance<'_, D> {
    /// The next chore behind this one that waits for its turn; none once the store has stopped.
    pub async fn next(&self, behind: u64) -> Option<Chore> {
        let Self(store) = self;
        let wanted = || store.turns.wanted.get().filter(|chore| chore.number > behind);
        let next = || if store.check_running().is_err() { Some(None) } else { wanted().map(Some) };
        store.turns.news.until(next).await
    }
}

impl<D: Drive> Drop for Attendance<'_, D> {
    fn drop(&mut self) {
        let turns = &self.0.turns;
        turns.attendants.set(turns.attendants.get() - 1);
        self.0.changed.notify();
    }
}
