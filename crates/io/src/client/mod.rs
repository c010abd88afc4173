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
use std::sync::Arc;
use std::task::Waker;

use evenkeel_core::id::TenantId;
use evenkeel_core::time::Nanos;
use evenkeel_engine::policy::access::Access;
use evenkeel_wire::nbd::check::Promise;
use evenkeel_wire::nbd::proto::{Command, Context, TransmissionFlags};
use evenkeel_wire::nbd::request::Request;

use crate::device::Device;
use crate::domain::Domain;
use crate::memory::{Ask, Asker, Pace, Place, Pool, Second, Wanted};
use crate::op::LossesHeard;
use crate::outbox::Outbox;
use crate::plan::{Peer, Plan};
use crate::record::{Both, RecordedAs};

/// Requests that one connection may have in the gate. Their payload is bounded by its tenant's
/// share of the memory alone: a bound of its own for each connection kept requests in sequence
/// from reaching all servers of a volume at once.
const WINDOW_REQUESTS: usize = 1024;

/// What the answer to a request holds at most beside data.
pub(crate) const ANSWER_BYTES: usize = 256;

/// The longest message beside an error.
const REASON_BYTES_MAX: usize = 160;

/// Extents that an answer tells at most for each context; a client asks again for the rest.
const EXTENTS_MAX: usize = 4096;

/// What an answer takes for each context: its extents, of 16 bytes in the wider form, and a header.
const STATUS_BYTES: usize = 16 * EXTENTS_MAX + ANSWER_BYTES;

/// What a connection may keep of the pool without holding it, rather than give it back each time.
const SLACK_BYTES: usize = ANSWER_BYTES;

/// The virtual disk that a client uses: a slice of a device.
#[derive(Clone, Debug)]
pub(crate) struct Export {
    pub(crate) name: String,
    pub(crate) backend: String,
    pub(crate) device: Rc<Device>,
    /// Where it starts on the device.
    pub(crate) base_bytes: u64,
    /// What the policy says of its size.
    pub(crate) declared_bytes: Option<u64>,
}

impl Export {
    /// Its size for a client that comes now.
    pub(crate) fn size_bytes(&self) -> Option<u64> {
        let of_device = || Some(self.device.features()?.size_bytes.saturating_sub(self.base_bytes));
        self.declared_bytes.or_else(of_device)
    }
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
    /// What it is called in recordings.
    pub(crate) recorded_as: Cell<Both<Option<RecordedAs>>>,
    pub(crate) standing: Cell<Standing>,
    /// Losses of acknowledged writes that this client's flushes have reported.
    pub(crate) losses_heard: LossesHeard,
    pub(crate) promise: Promise,
    pub(crate) contexts: Vec<Context>,
    outbox: RefCell<Outbox>,
    /// Requests in the gate, and what they and their answers take.
    requests: Cell<usize>,
    reserved_bytes: Cell<usize>,
    /// What this connection has of the pool.
    charged_bytes: Cell<usize>,
    place: Arc<Place>,
    /// It waits for memory.
    is_waiting: Cell<bool>,
    /// It had to wait since that was asked last.
    has_waited: Cell<bool>,
    pace: Cell<Pace>,
    /// A payload has begun and not ended.
    awaits_payload: Cell<bool>,
    /// When bytes last moved over the socket, and how many have.
    moved_at: Cell<Nanos>,
    moved_bytes: Cell<u64>,
    waker: RefCell<Option<Waker>>,
    /// Set while the task runs: it will look again by itself.
    running: Cell<bool>,
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
            moved_bytes: Cell::new(0),
            place: domain.worker.shared.memory.place(),
            is_waiting: Cell::new(false),
            has_waited: Cell::new(false),
            pace: Cell::default(),
            domain,
            export,
            peer,
            tenant: Cell::new(tenant),
            recorded_as: Cell::default(),
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

    /// Bytes moved over its socket.
    fn moved(&self, bytes: usize) {
        self.moved_at.set(self.domain.worker.clock.now());
        self.moved_bytes.set(self.moved_bytes.get() + bytes as u64);
    }

    /// A second has passed: whether the client is too slow with memory that others wait for.
    pub(crate) fn is_too_slow(&self, wanted: &Wanted, min_rate_bytes: u64) -> bool {
        let has_waited = self.has_waited.replace(self.is_waiting.get());
        let has_unread = !self.outbox.borrow().is_empty();
        let second = Second {
            moved_bytes: self.moved_bytes.get(),
            is_due: has_unread || self.awaits_payload.get(),
            is_excused: !wanted.is_of(self.tenant.get()) || !has_unread && has_waited,
        };
        let mut pace = self.pace.get();
        let is_too_slow = pace.is_too_slow(second, min_rate_bytes);
        self.pace.set(pace);
        is_too_slow
    }

    /// Gives back memory that a connection at rest does not need.
    pub(crate) fn shrink_if_idle(&self) {
        if self.requests.get() == 0 {
            self.outbox.borrow_mut().shrink();
            self.give_back(0);
        }
    }

    /// Whether a policy lets it go on as it is. NBD sends the flags once, so that one that may only
    /// read from now on has to connect anew.
    pub(crate) fn may_stay(&self, plan: &Plan) -> bool {
        match plan.access(&self.peer, &self.export.name, &self.export.backend) {
            Access::None => false,
            Access::Read => self.is_read_only(),
            Access::Write => true,
        }
    }

    /// Ends the connection.
    pub(crate) fn cut(&self) {
        self.standing.set(Standing::Lost);
        self.wake();
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
        self.wait_no_more();
        self.waker.borrow_mut().take();
        self.give_back(0);
        self.domain.leave(self);
    }

    fn remember_waker(&self, waker: &Waker) {
        let mut known = self.waker.borrow_mut();
        match &mut *known {
            Some(known) if known.will_wake(waker) => {}
            known => *known = Some(waker.clone()),
        }
    }

    fn pool(&self) -> &Pool {
        &self.domain.worker.shared.memory
    }

    /// Whether another request may come in, as far as their number goes. If not, the task is woken
    /// when one is answered.
    fn has_window(&self) -> bool {
        self.requests.get() < WINDOW_REQUESTS
    }

    /// What a request and its answer take in all.
    fn room_of(&self, request: &Request) -> usize {
        let bytes = match request.command {
            // Data that comes in parts has a header for each.
            Command::Read => request.length + request.length / 512,
            Command::BlockStatus => (self.contexts.len() * STATUS_BYTES) as u64,
            _ => 0,
        };
        let bytes = bytes.saturating_add(request.payload_bytes);
        usize::try_from(bytes).unwrap_or(usize::MAX).saturating_add(ANSWER_BYTES)
    }

    /// Asks for memory, by the step and for all of a request: how much there is. If none, the task
    /// is woken when it is worth asking the same again.
    fn ask(&self, [step_bytes, rest_bytes]: [usize; 2], has_begun: bool) -> Option<usize> {
        let ask = Ask { step_bytes, rest_bytes, is_first: self.charged_bytes.get() == 0 };
        let granted = if self.is_waiting.get() {
            Pool::granted(&self.place)
        } else {
            let waker = self.waker.borrow();
            let tenant = self.tenant.get();
            let place = &self.place;
            self.pool().ask(Asker { tenant, place, has_begun, waker: waker.as_ref() }, ask)
        };
        self.is_waiting.set(granted.is_none());
        self.has_waited.set(self.has_waited.get() || granted.is_none());
        let bytes = granted?;
        self.charged_bytes.set(self.charged_bytes.get() + bytes);
        Some(bytes)
    }

    /// What it waited for is not needed any more.
    fn wait_no_more(&self) {
        self.is_waiting.set(false);
        self.pool().forget(self.tenant.get(), &self.place);
    }

    /// Takes a request in, for which so much was granted.
    fn reserve(&self, bytes: usize) {
        self.requests.set(self.requests.get() + 1);
        self.reserve_more(bytes);
    }

    /// More of a request has come.
    fn reserve_more(&self, bytes: usize) {
        self.reserved_bytes.set(self.reserved_bytes.get() + bytes);
    }

    /// A request is answered or given up.
    pub(crate) fn released(&self, request: &Request) {
        self.release(self.room_of(request));
        self.wake();
    }

    fn release(&self, bytes: usize) {
        self.requests.set(self.requests.get() - 1);
        self.reserved_bytes.set(self.reserved_bytes.get() - bytes);
        self.give_back(SLACK_BYTES);
    }

    /// The tenant changed by a new policy.
    pub(crate) fn set_tenant(&self, tenant: TenantId) {
        let was_waiting = self.is_waiting.get();
        if was_waiting {
            self.wait_no_more();
        }
        let tenants = [self.tenant.replace(tenant), tenant];
        self.pool().pass_on(tenants, &self.place, self.charged_bytes.get());
        if was_waiting {
            self.wake();
        }
    }

    /// Gives back what it has of the pool and does not hold, if it is more than that or it holds
    /// nothing.
    fn give_back(&self, slack_bytes: usize) {
        let held = self.reserved_bytes.get() + self.outbox.borrow().len();
        let charged = self.charged_bytes.get();
        // Parts of an answer that are in the outbox already are reserved with all of it.
        let excess = charged.saturating_sub(held);
        if excess > slack_bytes || (held == 0 && excess > 0) {
            self.charged_bytes.set(charged - excess);
            self.pool().give(self.tenant.get(), &self.place, excess);
        }
    }
}
