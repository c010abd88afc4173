//! A volume in a pool of Ceph, as a device.
//!
//! ```text
//! policy has it -> connected -> lock -> head, predecessor shut out, choices -> open -> let go
//!       ^                         |                                             |
//!       +--------- pause ---------+                          over: taken by another gate, EIO
//! ```
//!
//! What is decided stands in [`evenkeel_engine::pooled`]; here it is carried out.

mod failed;
mod hold;
mod opened;
mod opening;
mod osds;

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::policy;
use evenkeel_wire::nbd::proto::{Errno, Extent};
use tokio::sync::Notify;

use crate::buffer::Buf;
use crate::clock::Clock;
use crate::device::Features;
use crate::rados::{Pool, RadosError, aside};
use crate::report::PoolReport;
use failed::Failed;
use opened::Opened;

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
    pool: RefCell<Option<Arc<Pool>>>,
    standing: RefCell<Standing>,
    /// Told whenever `standing` changes.
    news: Notify,
    is_closing: Cell<bool>,
}

#[derive(Debug)]
enum Standing {
    /// It is being opened; with what stands in the way, if that is known.
    Opening(Option<String>),
    Open(Rc<Opened>),
    /// It is not ours any more, for this reason, or closed.
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
    /// A volume that [`Self::keep`] opens.
    pub(crate) fn new(name: &str, source: policy::Ceph, clock: Clock) -> Rc<Self> {
        Rc::new(Self {
            name: name.to_owned(),
            source: RefCell::new(source),
            clock,
            pool: RefCell::new(None),
            standing: RefCell::new(Standing::Opening(None)),
            news: Notify::new(),
            is_closing: Cell::new(false),
        })
    }

    /// Opens the volume, as often as that takes, and looks after it until it is over.
    pub(crate) async fn keep(self: Rc<Self>) {
        let mut pause = PAUSE_MIN;
        while !self.is_closing.get() {
            match self.attempt().await {
                Ok(opened) if self.is_closing.get() => return self.release(&opened).await,
                Ok(opened) => {
                    tracing::info!(volume = self.name, "open");
                    self.stand(Standing::Open(Rc::clone(&opened)));
                    let why = opened.look_after(&self.name).await;
                    if !self.is_closing.get() {
                        tracing::error!(volume = self.name, why, "not ours any more");
                        self.stand(Standing::Over(why));
                    }
                    return;
                }
                Err(why) => self.note(why),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn note(&self, why: String) {
        let is_news = !matches!(
            &*self.standing.borrow(),
            Standing::Opening(Some(known)) if *known == why
        );
        if is_news {
            tracing::warn!(volume = self.name, why, "volume not open");
        }
        self.stand(Standing::Opening(Some(why)));
    }

    fn stand(&self, standing: Standing) {
        self.standing.replace(standing);
        self.news.notify_waiters();
    }

    /// Whether it is the volume of this policy, whatever the ceiling.
    pub(crate) fn is_of(&self, source: &policy::Ceph) -> bool {
        let own = self.source.borrow();
        policy::Ceph { ceiling_milli: source.ceiling_milli, ..own.clone() } == *source
    }

    /// Puts another ceiling in force.
    pub(crate) fn set_ceiling(&self, milli: u32) {
        self.source.borrow_mut().ceiling_milli = milli;
        if let Standing::Open(opened) = &*self.standing.borrow() {
            opened.set_ceiling(milli);
        }
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
            Standing::Opening(Some(why)) | Standing::Over(why) => Some(why.clone()),
            Standing::Opening(None) => Some("it is being opened".to_owned()),
        }
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
        let outcome = tokio::time::timeout(patience, opened.perform(offset, request)).await;
        let outcome = outcome.unwrap_or(Err(Failed::Late));
        outcome.map_err(|error| error.told(&self.name, &opened, offset, length))
    }

    /// Which parts of a range were written.
    pub(crate) fn extents(&self, offset: u64, length: u64) -> Result<Vec<Extent>, Errno> {
        let opened = self.open().ok_or(Errno::Io)?;
        let extent = |(length, is_hole): (u64, bool)| {
            let flags = if is_hole { Extent::HOLE | Extent::ZERO } else { 0 };
            Extent { length, flags }
        };
        Ok(opened.extents(offset, length).into_iter().map(extent).collect())
    }
}

/// Does what waits for the cluster on a thread that may.
async fn blocking<T: Send + 'static>(
    pool: &Arc<Pool>,
    work: impl FnOnce(&Pool) -> Result<T, RadosError> + Send + 'static,
) -> Result<T, RadosError> {
    let pool = Arc::clone(pool);
    aside(move || work(&pool)).await
}
