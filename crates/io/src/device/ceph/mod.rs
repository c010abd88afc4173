//! A volume in a pool of Ceph, as a device.
//!
//! ```text
//! policy has it -> connected -> lock -> head, predecessor shut out, choices -> open -> let go
//!       ^                         |                                             |
//!       +--------- pause ---------+                          over: taken by another gate, EIO
//!       |                                                                       |
//!       +-------- the operator's word, and a connection of its own again -------+
//! ```
//!
//! Once another gate has had the volume, everything stops at once: what is under way is given up
//! with the connection, requests end with EIO, and clients are let go, since they may hold what is
//! not so any more.
//!
//! What is decided stands in [`evenkeel_engine::pooled`]; here it is carried out.

mod failed;
mod fence;
mod guarded;
mod hold;
mod lease;
mod loss;
mod opened;
mod opening;
mod osds;
mod pages;
mod remembered;
mod resizing;
mod rights;
mod said;

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::policy;
use evenkeel_wire::nbd::proto::{Errno, Extent};
use tokio::sync::Notify;

use crate::buffer::Buf;
use crate::clock::Clock;
use crate::device::Features;
use crate::report::PoolReport;
use crate::resize::ResizeError;
use crate::word::Word;
use failed::Failed;
use guarded::Connection;
use loss::Loss;
use opened::Opened;
use opening::NotOpened;
use pages::Progress;
use remembered::Remembered;
use said::Said;

/// Between two attempts to open a volume, shorter at first.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The volume of a backend.
#[derive(Debug)]
pub(crate) struct CephVolume {
    /// The backend's name.
    name: String,
    source: RefCell<policy::Ceph>,
    clock: Clock,
    /// The pool, once it was connected to.
    connection: RefCell<Option<Connection>>,
    /// Whether the connection's user was found to have the right to shut others out.
    may_shut_out: Cell<bool>,
    /// The line of the head that said that the volume was ours, while we try to have it again: if
    /// it says anything else by then, clients may hold what they have read before.
    returning: RefCell<Option<String>>,
    /// Which pool it was in when it was last open.
    remembered: Remembered,
    /// What the operator says.
    word: Rc<Word>,
    standing: RefCell<Standing>,
    /// How far an opening has come with what it reads.
    progress: Progress,
    /// Told whenever `standing` changes.
    news: Notify,
    is_closing: Cell<bool>,
    said: Said,
}

#[derive(Debug)]
enum Standing {
    /// It is being opened; with what stands in the way, if that is known.
    Opening(Option<String>),
    Open(Rc<Opened>),
    /// Another gate had it, for this reason it was noticed; or it is closed.
    Over(String),
}

/// What is asked of a volume.
#[derive(Debug)]
pub(crate) enum Request {
    Read { length: u64 },
    Write { data: Arc<Buf>, range: Range<usize> },
    Zero { length: u64 },
}

impl Request {
    fn length(&self) -> u64 {
        match self {
            Self::Read { length } | Self::Zero { length } => *length,
            Self::Write { range, .. } => range.len() as u64,
        }
    }
}

impl CephVolume {
    /// A volume that [`Self::keep`] opens. The folder is the gate's own, if it has one.
    pub(crate) fn new(
        name: &str,
        source: policy::Ceph,
        folder: Option<&Path>,
        clock: Clock,
        word: Rc<Word>,
    ) -> Rc<Self> {
        Rc::new(Self {
            name: name.to_owned(),
            remembered: Remembered::new(folder, &source),
            source: RefCell::new(source),
            clock,
            connection: RefCell::new(None),
            may_shut_out: Cell::new(false),
            returning: RefCell::new(None),
            word,
            standing: RefCell::new(Standing::Opening(None)),
            progress: Progress::default(),
            news: Notify::new(),
            is_closing: Cell::new(false),
            said: Said::default(),
        })
    }

    /// Opens the volume, as often as that takes, and looks after it until it is let go of. Should
    /// another gate take it, clients are dismissed, and the operator's word is waited for.
    pub(crate) async fn keep(self: Rc<Self>, dismiss: impl AsyncFn()) {
        let mut pause = PAUSE_MIN;
        while !self.is_closing.get() {
            match self.attempt().await {
                Ok(opened) if self.is_closing.get() => return self.release(&opened).await,
                Ok(opened) => {
                    tracing::info!(volume = self.name, "open");
                    self.said.is_over();
                    self.word.settle();
                    self.returning.take();
                    self.stand(Standing::Open(Rc::clone(&opened)));
                    let why = opened.look_after(&self.name).await;
                    if self.is_closing.get() {
                        return;
                    }
                    let owner = opened.owner();
                    drop(opened);
                    self.lose(why, owner, &dismiss).await;
                    pause = PAUSE_MIN;
                    continue;
                }
                Err(NotOpened::Taken(why)) => {
                    self.wait_for_word(&why, None).await;
                    continue;
                }
                Err(why) => self.note(&why),
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSE_MAX),
                () = self.word.given() => {}
            }
        }
    }

    /// The volume is not ours any more. Gives up all that there is of it here, and waits for the
    /// operator's word: clients may hold what they have read before. It need not wait if it was
    /// shut out, and nobody took the volume: the head still names us.
    async fn lose(&self, loss: Loss, owner: Option<String>, dismiss: &impl AsyncFn()) {
        let why = loss.to_string();
        tracing::error!(
            volume = self.name,
            why,
            "not ours any more: requests fail, and clients are let go"
        );
        self.stand(Standing::Over(why.clone()));
        self.disconnect();
        dismiss().await;
        if let Loss::Gone(_) = loss {
            // Nobody has it. The next attempt tells what it would take to have it again.
            return self.stand(Standing::Opening(Some(why)));
        }
        let who = self.who_has_it().await;
        if who.is_some() && who == owner {
            // Once the lock is ours, the head tells for certain.
            tracing::info!(volume = self.name, "nobody else took the volume so far");
            self.returning.replace(owner);
            return self.stand(Standing::Opening(Some(why)));
        }
        if let Some(who) = &who {
            tracing::error!(volume = self.name, who, "another gate has the volume");
        }
        self.wait_for_word(&why, who).await;
    }

    /// Another gate has had the volume: whether it may be opened here again is for the
    /// operator to say.
    async fn wait_for_word(&self, why: &str, who: Option<String>) {
        let who = who.map(|who| format!(" ({who} has it)")).unwrap_or_default();
        let question = format!(
            "{why}{who}; what clients remember may not be so any more: once that gate has let go, \
             and they have forgotten, `evenkeel ctl claim {}` opens it here again",
            self.name
        );
        self.stand(Standing::Over(question.clone()));
        tokio::select! {
            () = self.word.wait_for(&question) => {
                tracing::warn!(volume = self.name, "opened again at the operator's word");
                self.returning.take();
                self.stand(Standing::Opening(None));
            }
            () = self.closed() => {}
        }
    }

    /// Ends the connection with all that is under way; the next attempt makes another.
    fn disconnect(&self) {
        if let Some(connection) = self.connection.take() {
            connection.abandon();
        }
        self.may_shut_out.set(false);
    }

    /// Who has the volume, as far as a connection of our own can tell.
    async fn who_has_it(&self) -> Option<String> {
        let source = self.source.borrow().clone();
        let connection = self.connected(&source).await.ok()?;
        hold::who_has(&connection, &source.volume).await
    }

    async fn closed(&self) {
        loop {
            let news = self.news.notified();
            if self.is_closing.get() {
                return;
            }
            news.await;
        }
    }

    fn note(&self, why: &NotOpened) {
        match why {
            // That gate is alive: a word that it is gone would be wrong.
            NotOpened::InUse(_) => self.word.settle(),
            NotOpened::ShutOut => self.disconnect(),
            NotOpened::Taken(_) | NotOpened::Forbidden(_) | NotOpened::Other(_) => {}
        }
        let why = why.to_string();
        if self.said.is_news(&why) {
            tracing::warn!(volume = self.name, why, "volume not open");
        }
        self.stand(Standing::Opening(Some(why)));
    }

    fn stand(&self, standing: Standing) {
        self.standing.replace(standing);
        self.news.notify_waiters();
    }

    /// Whether it is the volume of this policy, whatever its size, the ceiling and the fence.
    pub(crate) fn is_of(&self, source: &policy::Ceph) -> bool {
        self.source.borrow().is_volume_of(source)
    }

    /// Puts another ceiling in force, a greater size, and another fence from the next time on that
    /// it is opened.
    pub(crate) fn set_terms(self: &Rc<Self>, source: &policy::Ceph) {
        let policy::Ceph { ceiling_milli, fence, shape, .. } = *source;
        let mut own = self.source.borrow_mut();
        (own.ceiling_milli, own.fence, own.shape) = (ceiling_milli, fence, shape);
        let Some(opened) = self.open() else { return };
        opened.set_ceiling(ceiling_milli);
        opened.set_wanted(shape.size_bytes);
        if shape.size_bytes > opened.size_bytes() {
            let volume = Rc::clone(self);
            tokio::task::spawn_local(async move {
                if let Err(error) = volume.resize(shape.size_bytes).await {
                    tracing::error!(volume = volume.name, %error, "the volume does not grow");
                }
            });
        }
    }

    /// Gives the volume another size; returns it, in whole objects.
    ///
    /// # Errors
    /// Why it keeps the one it has.
    pub(crate) async fn resize(&self, size_bytes: u64) -> Result<u64, ResizeError> {
        let opened = self.open().ok_or_else(|| ResizeError::NotOpen(self.name.clone()))?;
        let before = opened.size_bytes();
        let after = opened.resize(size_bytes).await.map_err(ResizeError::Refused)?;
        tracing::info!(volume = self.name, before, after, "the volume has another size");
        Ok(after)
    }

    /// Waits until the volume is open or something is known to stand in the way.
    ///
    /// # Errors
    /// What stands in the way.
    pub(crate) async fn opened(&self) -> Result<(), String> {
        loop {
            let news = self.news.notified();
            match &*self.standing.borrow() {
                Standing::Open(_) => return Ok(()),
                Standing::Opening(Some(why)) | Standing::Over(why) => return Err(why.clone()),
                Standing::Opening(None) => {}
            }
            news.await;
        }
    }

    /// Lets go of the volume, so that the next gate need not wait.
    pub(crate) async fn close(&self) {
        self.is_closing.set(true);
        self.news.notify_waiters();
        let Some(opened) = self.open() else { return };
        self.stand(Standing::Over("it was let go of".to_owned()));
        self.release(&opened).await;
    }

    async fn release(&self, opened: &Opened) {
        if let Err(error) = opened.let_go().await {
            // The next gate waits for a while, as if this one had been killed.
            tracing::warn!(volume = self.name, %error, "a volume is not let go of");
        }
    }

    fn open(&self) -> Option<Rc<Opened>> {
        match &*self.standing.borrow() {
            Standing::Open(opened) => Some(Rc::clone(opened)),
            Standing::Opening(_) | Standing::Over(_) => None,
        }
    }

    /// What it can do, once it is open.
    pub(crate) fn features(&self) -> Option<Features> {
        let opened = self.open()?;
        Some(Features::local(opened.size_bytes()))
    }

    /// Why it serves nobody, if it does not.
    pub(crate) fn stopped_by(&self) -> Option<String> {
        match &*self.standing.borrow() {
            Standing::Open(opened) => opened.doubt(),
            Standing::Opening(why) => {
                let known = || why.clone().unwrap_or_else(|| "it is being opened".to_owned());
                Some(self.progress_text().unwrap_or_else(known))
            }
            Standing::Over(why) => Some(why.clone()),
        }
    }

    fn progress_text(&self) -> Option<String> {
        let (read, all) = self.progress.get()?;
        Some(format!("it is being opened, {} %", 100 * read / all.max(1)))
    }

    /// What the operator should know of: why it serves nobody, or not all, or that room runs out.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.stopped_by().or_else(|| self.open()?.trouble())
    }

    /// How it is doing, if it is open.
    pub(crate) fn report(&self) -> Option<PoolReport> {
        Some(self.open()?.report())
    }

    /// Does what is asked, or fails when the policy's patience is over; a read brings its data.
    ///
    /// What fails so may still take effect, before whatever is asked of its object later.
    pub(crate) async fn perform(
        &self,
        offset: u64,
        request: Request,
    ) -> Result<Option<Buf>, Errno> {
        let opened = self.open().ok_or(Errno::Io)?;
        let (length, patience) = (request.length(), opened.patience());
        let reaches = offset.saturating_add(length);
        // A client may have come when the volume was larger.
        let beyond =
            if matches!(request, Request::Read { .. }) { Errno::Invalid } else { Errno::NoSpace };
        let _under_way = opened.end.begin(reaches).ok_or(beyond)?;
        let outcome = tokio::select! {
            biased;
            _ = opened.until_lost() => Err(Failed::NotHeld),
            outcome = tokio::time::timeout(patience, opened.perform(offset, request)) => {
                outcome.unwrap_or(Err(Failed::Late))
            }
        };
        outcome.map_err(|error| {
            if error.may_take_effect() {
                opened.end.give_up(reaches);
            }
            error.told(&self.name, &opened, offset, length)
        })
    }

    /// Which parts of a range were written.
    pub(crate) fn extents(&self, offset: u64, length: u64) -> Result<Vec<Extent>, Errno> {
        let opened = self.open().ok_or(Errno::Io)?;
        if offset.saturating_add(length) > opened.size_bytes() {
            return Err(Errno::Invalid);
        }
        let extent = |(length, is_hole): (u64, bool)| {
            let flags = if is_hole { Extent::HOLE | Extent::ZERO } else { 0 };
            Extent { length, flags }
        };
        Ok(opened.extents(offset, length).into_iter().map(extent).collect())
    }
}
