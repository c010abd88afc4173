//! The beats that keep a volume this gate's.
//!
//! ```text
//! Pulse --- look, beat, pause; one for each member ---> Input::Held
//!    ^
//!  Leave: let go, when the gate stops
//! ```
//!
//! A member of this machine, such as a file, is locked: it needs no beats to stay ours. It is let
//! go of all the same, so that whoever finds it elsewhere knows; and while the volume is written
//! to, its mark is kept current.
//!
//! Marks are flushed now and then, so that a member that comes back with older content is detected
//! by the marks of the others.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_engine::Input;
use evenkeel_engine::lease::{Fenced, Lease};
use evenkeel_wire::nbd::proto::Errno;
use tokio::sync::Notify;
use tokio::task::spawn_local;

use super::Domain;
use super::errand::Task;
use super::moves::Clerk;
use crate::buffer::Buf;
use crate::clock::duration;
use crate::device::Medium;
use crate::lease::VolumeLease;

/// Between two looks whether all that was asked for is over.
const LOOK: Duration = Duration::from_millis(2);

/// Keeps the volume this gate's, as far as one of its servers is concerned.
pub(crate) struct Pulse {
    pub(crate) clerk: Clerk,
    pub(crate) server: ServerId,
    /// Its place in the order of the policy.
    pub(crate) index: usize,
    pub(crate) lease: Rc<VolumeLease>,
    /// On whose account, where the server is none that others reach.
    pub(crate) tenant: TenantId,
    /// Whether it beats, or is marked after changes and let go of.
    pub(crate) beats: bool,
    pub(crate) marks: Rc<Marks>,
}

/// The last mark of a member, and whether that is being flushed.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    noted: Cell<u64>,
    is_flushing: Cell<bool>,
}

/// After so many beats a mark is flushed, unless a client has flushed it.
const FLUSH_BEATS: u64 = 10;

/// Why there was no beat.
enum NoBeat {
    Failed(Errno),
    Fenced(Fenced),
}

impl From<Errno> for NoBeat {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

/// When the pulses of a domain are to let go of its volume.
#[derive(Debug, Default)]
pub(crate) struct Leave {
    pub(super) is_wanted: Cell<bool>,
    /// Pulses end without a word: the volume is opened anew, or another gate's.
    pub(super) is_over: Cell<bool>,
    /// Pulses that have not ended.
    pub(super) pulses: Cell<usize>,
    /// Told of every change.
    pub(super) news: Notify,
}

impl Leave {
    /// Ends all pulses, without letting go.
    pub(super) fn end(&self) {
        self.is_over.set(true);
        self.news.notify_waiters();
    }
}

/// A pulse that has not ended.
struct Beating(Rc<Domain>);

impl Beating {
    fn of(domain: &Rc<Domain>) -> Self {
        domain.leave.pulses.set(domain.leave.pulses.get() + 1);
        Self(Rc::clone(domain))
    }
}

impl Drop for Beating {
    fn drop(&mut self) {
        let leave = &self.0.leave;
        leave.pulses.set(leave.pulses.get() - 1);
        leave.news.notify_waiters();
    }
}

impl Pulse {
    /// Beats until the volume is another gate's, or this one stops.
    pub(crate) async fn run(self) {
        let domain = Rc::clone(&self.clerk.domain);
        let _beating = Beating::of(&domain);
        let pause = duration(self.lease.times().beat());
        loop {
            match self.beat_if_due().await {
                Ok(true) => domain.held(self.lease.held_until()),
                Ok(false) => {}
                Err(NoBeat::Fenced(why)) => self.lease.guard(self.index).judged(&why),
                // Requests to the server tell the same, with what stands in the way.
                Err(NoBeat::Failed(errno)) => {
                    tracing::debug!(server = ?self.server, ?errno, "no beat");
                }
            }
            if self.lease.is_out() {
                return;
            }
            let news = domain.leave.news.notified();
            if !domain.leave.is_wanted.get() && !domain.leave.is_over.get() {
                tokio::select! {
                    () = news => {}
                    () = self.lease.news.notified() => {}
                    () = tokio::time::sleep(pause) => {}
                }
            }
            if domain.leave.is_over.get() {
                return;
            }
            if domain.leave.is_wanted.get() {
                return self.let_go().await;
            }
        }
    }

    /// Tells the next gate that it need not watch. What was asked for before is over by then.
    async fn let_go(&self) {
        while !self.clerk.domain.state.borrow().ops.is_empty() {
            tokio::time::sleep(LOOK).await;
        }
        let released = async {
            let lease = self.look().await?;
            let mark = self.lease.mark(self.clerk.domain.noted());
            lease.borrow_mut().mark(mark);
            let (offset, bytes) = lease.borrow().release();
            Ok(self.write(offset, &bytes).await?)
        };
        if let Err(why) = released.await {
            // The next gate watches for a while, as if this one had been killed.
            let server = self.clerk.domain.server_name(self.server);
            let why = match why {
                NoBeat::Failed(errno) => format!("{errno:?}"),
                NoBeat::Fenced(why) => why.to_string(),
            };
            tracing::warn!(server, why, "a volume is not let go of");
        }
    }

    async fn beat_if_due(&self) -> Result<bool, NoBeat> {
        let domain = &self.clerk.domain;
        let has_news = domain.take_change(self.server) | (domain.noted() > self.marks.noted.get());
        if self.beats || has_news {
            self.beat().await?;
        }
        Ok(self.beats)
    }

    async fn beat(&self) -> Result<(), NoBeat> {
        let lease = self.look().await?;
        let mark = self.lease.mark(self.clerk.domain.noted());
        let (offset, bytes) = {
            let mut lease = lease.borrow_mut();
            lease.mark(mark);
            lease.beat()
        };
        let sent_at = self.clerk.domain.worker.clock.now();
        self.write(offset, &bytes).await?;
        lease.borrow_mut().beaten();
        self.lease.beaten(self.index, sent_at);
        self.marks.noted.set(mark.noted());
        self.make_durable(lease);
        Ok(())
    }

    /// Flushes the mark, if that is due, beside the beats.
    fn make_durable(&self, lease: Rc<RefCell<Lease>>) {
        let is_due = lease.borrow().counts_behind() >= FLUSH_BEATS;
        if !is_due || self.marks.is_flushing.replace(true) {
            return;
        }
        let (clerk, marks) = (self.clerk.clone(), Rc::clone(&self.marks));
        let (server, tenant, beats) = (self.server, self.tenant, lease.borrow().beats());
        spawn_local(async move {
            if clerk.run_errand(server, tenant, Task::Flush).await.is_ok() {
                lease.borrow_mut().flushed(beats);
            }
            marks.is_flushing.set(false);
        });
    }

    /// Looks whether the server is what this gate has left.
    async fn look(&self) -> Result<Rc<RefCell<Lease>>, NoBeat> {
        let lease = self.lease.guard(self.index).lease().ok_or(Errno::Io)?;
        let sent_at = self.clerk.domain.worker.clock.now();
        let front = if let Medium::Remote(remote) = &self.clerk.device.tier(self.server).medium {
            remote.look(0, Lease::front_bytes()).await?
        } else {
            let look = Task::Read { offset: 0, length: Lease::front_bytes() };
            let front = self.clerk.run_errand(self.server, self.tenant, look).await?;
            front.expect("a read brings its data")
        };
        let now = self.clerk.domain.worker.clock.now();
        let (server, latency) = (self.server, now.since(sent_at));
        self.clerk.domain.tell(Input::Looked { server, latency });
        lease.borrow().look(&front).map_err(NoBeat::Fenced)?;
        self.lease.looked(self.index, sent_at);
        Ok(lease)
    }

    /// Writes this gate's name; past all queues where others may want the volume.
    async fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        if let Medium::Remote(remote) = &self.clerk.device.tier(self.server).medium {
            return remote.claim(offset, bytes).await;
        }
        let task = Task::Write { offset, data: Arc::new(Buf::copy_of(bytes)) };
        self.clerk.run_errand(self.server, self.tenant, task).await.map(drop)
    }
}
