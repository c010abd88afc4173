//! One client connection in its transmission phase.
//!
//! [`Client`] is what the rest of the worker sees of it: who it is, what waits to be sent to it,
//! what it holds. Its [`task`] owns the socket: it reads requests, hands them to the domain, and
//! writes the answers that have gathered meanwhile, many per system call.

mod answer;
mod inbox;
pub(crate) mod task;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use evenkeel_core::id::TenantId;
use evenkeel_core::time::Nanos;
use evenkeel_wire::nbd::check::Promise;
use evenkeel_wire::nbd::proto::{Command, Context, TransmissionFlags};
use evenkeel_wire::nbd::request::Request;

use crate::device::Device;
use crate::domain::Domain;
use crate::op::LossesHeard;
use crate::outbox::Outbox;
use crate::plan::Peer;
use crate::record::RecordedAs;

/// Requests that one connection may have in the gate. Their payload is bounded by its tenant's
/// share of the memory alone: a bound of its own for each connection kept requests in sequence
/// from reaching all servers of a volume at once.
const WINDOW_REQUESTS: usize = 1024;

/// Answers that wait to be read by a client before it is listened to again.
const UNREAD_BYTES_MAX: usize = 16 << 20;

/// The virtual disk that a client uses: a slice of a device.
#[derive(Clone, Debug)]
pub(crate) struct Export {
    pub(crate) name: String,
    pub(crate) backend: String,
    pub(crate) device: Rc<Device>,
    /// Where it starts on the device.
    pub(crate) base_bytes: u64,
}

/// How a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// In use.
    Open,
    /// No more requests; what is under way will be answered.
    Leaving,
    /// The socket is gone; answers have nowhere to go.
    Lost,
}

/// A connection, as the worker sees it.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) domain: Rc<Domain>,
    pub(crate) export: Export,
    pub(crate) peer: Peer,
    pub(crate) tenant: Cell<TenantId>,
    /// What it is called in a recording.
    pub(crate) recorded_as: Cell<Option<RecordedAs>>,
    pub(crate) standing: Cell<Standing>,
    /// Losses of acknowledged writes that this client's flushes have reported.
    pub(crate) losses_heard: LossesHeard,
    pub(crate) promise: Promise,
    pub(crate) contexts: Vec<Context>,
    outbox: RefCell<Outbox>,
    /// Requests in the gate, and the payload that they reserve.
    requests: Cell<usize>,
    reserved_bytes: Cell<usize>,
    /// What the budget was told that this connection holds.
    charged_bytes: Cell<usize>,
    /// A payload has begun and not ended.
    awaits_payload: Cell<bool>,
    /// When bytes last moved over the socket.
    moved_at: Cell<Nanos>,
    waker: RefCell<Option<Waker>>,
    /// Set while the task runs: it will look again by itself.
    running: Cell<bool>,
}

/// Payload that a request brings or asks for.
fn reserve_bytes(request: &Request) -> usize {
    let bytes = match request.command {
        Command::Read => request.length,
        _ => request.payload_bytes,
    };
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl Client {
    pub(crate) fn new(
        domain: Rc<Domain>,
        export: Export,
        peer: Peer,
        tenant: TenantId,
        promise: Promise,
        contexts: Vec<Context>,
    ) -> Rc<Self> {
        let losses_heard = LossesHeard::new(export.device.losses());
        Rc::new(Self {
            moved_at: Cell::new(domain.worker.clock.now()),
            domain,
            export,
            peer,
            tenant: Cell::new(tenant),
            recorded_as: Cell::new(None),
            standing: Cell::new(Standing::Open),
            losses_heard,
            promise,
            contexts,
            outbox: RefCell::default(),
            requests: Cell::new(0),
            reserved_bytes: Cell::new(0),
            charged_bytes: Cell::new(0),
            awaits_payload: Cell::new(false),
            waker: RefCell::default(),
            running: Cell::new(false),
        })
    }

    /// When bytes last moved over its socket.
    pub(crate) fn moved_at(&self) -> Nanos {
        self.moved_at.get()
    }

    /// Whether it is the client that keeps payload from moving: answers wait to be read, or the
    /// rest of a payload to be sent.
    pub(crate) fn is_stalling(&self) -> bool {
        self.awaits_payload.get() || !self.outbox.borrow().is_empty()
    }

    /// Gives back memory that a connection at rest does not need.
    pub(crate) fn shrink_if_idle(&self) {
        if self.requests.get() == 0 {
            self.outbox.borrow_mut().shrink();
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.promise.flags.contains(TransmissionFlags::READ_ONLY)
    }

    /// The contexts that a question is about: the ones it names, or all that were negotiated.
    pub(crate) fn selected<'a>(
        &'a self,
        wanted: Option<&'a [u32]>,
    ) -> impl Iterator<Item = &'a Context> {
        self.contexts
            .iter()
            .filter(move |context| wanted.is_none_or(|wanted| wanted.contains(&context.id)))
    }

    /// Lets the task look again.
    pub(crate) fn wake(&self) {
        if !self.running.get()
            && let Some(waker) = &*self.waker.borrow()
        {
            waker.wake_by_ref();
        }
    }

    /// The socket is gone, in peace or not: nothing more will be sent, and what is still queued
    /// for this client is given up.
    fn leave(self: &Rc<Self>) {
        self.standing.set(Standing::Lost);
        self.outbox.borrow_mut().clear();
        self.waker.borrow_mut().take();
        self.recharge();
        self.domain.leave(self);
    }

    fn remember_waker(&self, waker: &Waker) {
        let mut known = self.waker.borrow_mut();
        match &mut *known {
            Some(known) if known.will_wake(waker) => {}
            known => *known = Some(waker.clone()),
        }
    }

    /// Whether `request` may come in now. If not, the task is woken when it is worth asking again.
    fn admits(self: &Rc<Self>, request: &Request) -> bool {
        let bytes = reserve_bytes(request);
        if self.requests.get() >= WINDOW_REQUESTS {
            return false;
        }
        let budget = &self.domain.worker.budget;
        let admitted = bytes == 0 || budget.admits(self.tenant.get(), bytes);
        if !admitted {
            budget.wait(self);
        }
        admitted
    }

    /// Takes a request in: from now on its payload is on this connection's account.
    fn reserve(&self, request: &Request) {
        self.requests.set(self.requests.get() + 1);
        self.reserved_bytes.set(self.reserved_bytes.get() + reserve_bytes(request));
        self.recharge();
    }

    /// A request is answered or given up.
    pub(crate) fn released(&self, request: &Request) {
        self.requests.set(self.requests.get() - 1);
        self.reserved_bytes.set(self.reserved_bytes.get() - reserve_bytes(request));
        self.recharge();
        self.wake();
    }

    /// The tenant changed by a new policy.
    pub(crate) fn set_tenant(&self, tenant: TenantId) {
        let budget = &self.domain.worker.budget;
        budget.change(self.tenant.get(), self.charged_bytes.get(), 0);
        self.tenant.set(tenant);
        budget.change(tenant, 0, self.charged_bytes.get());
    }

    fn held_bytes(&self) -> usize {
        self.reserved_bytes.get() + self.outbox.borrow().len()
    }

    fn recharge(&self) {
        let (before, after) = (self.charged_bytes.get(), self.held_bytes());
        if before != after {
            self.charged_bytes.set(after);
            self.domain.worker.budget.change(self.tenant.get(), before, after);
        }
    }
}
