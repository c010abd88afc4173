//! An export of an upstream NBD server, over one or several connections that come back.
//!
//! What happens when a connection is lost:
//!
//! - What reads or asks is sent again.
//! - What writes, trims or zeroes is sent again: it is unanswered, so still concurrent with
//!   everything else, and it puts the same bytes in the same place. A server that outlives the
//!   connection may still carry out what it read from it, and the protocol has no means to fence
//!   that off: so newer writes to the same bytes wait in the engine until the server has let go,
//!   unless the [end of the connection](ending) shows that it has.
//! - A FLUSH is sent again if nothing was acknowledged since the last one, or if the policy says
//!   that the server's acknowledged writes survive its death. Otherwise it fails, because what it
//!   should cover may be gone.
//!
//! When such writes may be gone, a loss is counted, and the next FLUSH of every client that was
//! there at the time fails once, as `fsync` does after a lost write-back. A server away for longer
//! than the policy's patience fails what waits for it.

mod calls;
pub(crate) mod connect;
mod conversation;
mod ending;
mod guarded;
mod identity;
pub(crate) mod link;

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::sync::{Arc, LazyLock};

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Span;
use evenkeel_engine::Unit;
use evenkeel_engine::lease::Sending;
use evenkeel_engine::policy::{NbdServer, Upstream};
use evenkeel_wire::nbd::client::ClientSession;
use evenkeel_wire::nbd::proto::{
    BlockSize, Command, CommandFlags, Errno, MAX_PAYLOAD_BYTES, TransmissionFlags,
};
use evenkeel_wire::nbd::request::Request;
use tokio::sync::{Notify, oneshot};

use super::Features;
use crate::buffer::Buf;
use crate::client::Client;
use crate::clock::since_boot;
use crate::domain::Domain;
use crate::lease::Guard;
use crate::op::Op;
use calls::{Call, Own, Purpose, Question};
use connect::Route;
use link::Link;

/// Calls on one link before the next is used: what common servers work on at once per connection.
const LINK_CALLS: usize = 16;

/// How an upstream is to be used; from the policy.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) route: Route,
    /// Connections, if the server allows several.
    pub(crate) connections: u32,
    pub(crate) writes_survive_restart: bool,
    pub(crate) patience: Span,
    /// For so long the server may go on with what it had read from a connection that is gone.
    pub(crate) late: Span,
    /// For so long it may take to answer a read or a write; zero for ever.
    pub(crate) request_timeout: Span,
    pub(crate) server: NbdServer,
}

impl Terms {
    /// For so long the server may take to answer this.
    fn timeout_of(&self, command: Command) -> Option<Span> {
        let factor = match command {
            Command::Flush | Command::Trim | Command::WriteZeroes => {
                Upstream::EFFECT_TIMEOUT_FACTOR
            }
            _ => 1,
        };
        let timeout = Span(self.request_timeout.0.saturating_mul(factor));
        (timeout > Span::ZERO).then_some(timeout)
    }
}

impl From<String> for Trouble {
    fn from(why: String) -> Self {
        Self { why, is_unknown_export: false }
    }
}

/// What became of a backend's connections, over all its exports.
#[derive(Debug, Default)]
pub(crate) struct Health {
    pub(crate) links_up: Cell<u64>,
    pub(crate) reconnects: Cell<u64>,
    pub(crate) replayed: Cell<u64>,
    pub(crate) not_replayed: Cell<u64>,
    pub(crate) timed_out: Cell<u64>,
    pub(crate) resized: Cell<u64>,
}

/// Why an export cannot be used now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) why: String,
    /// The server is there and says that it has no such export.
    pub(crate) is_unknown_export: bool,
}

/// Adds to a counter.
pub(super) fn count(counter: &Cell<u64>, by: u64) {
    counter.set(counter.get() + by);
}

/// An export of an upstream server.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) domain: Weak<Domain>,
    /// Its name at the server.
    export: String,
    /// The number that its name goes by; see [`evenkeel_engine::Request::disk`].
    number: u64,
    terms: Terms,
    /// The right to send, if it is a server of a volume.
    guard: Option<Guard>,
    /// By server of the volume: how each of them is reached.
    routes: Vec<Option<Route>>,
    health: Rc<Health>,
    links: RefCell<Vec<Rc<Link>>>,
    /// What the server said at first; later connections must offer as much.
    session: RefCell<Option<ClientSession>>,
    trouble: RefCell<Option<Trouble>>,
    /// Told whenever `session` or `trouble` changes.
    news: Notify,
    /// How its size changed last: before, and now.
    resized: Cell<Option<(u64, u64)>>,
    /// Writes acknowledged so far, and how many of them a flush has covered.
    acknowledged: Cell<u64>,
    flushed: Cell<u64>,
    /// How often acknowledged writes may have been lost.
    losses: Cell<u64>,
}

/// A server's part in a volume.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) guard: Guard,
    /// For so long its server may go on with what it had read from a connection that is gone.
    pub(crate) late: Span,
    /// How each server of the volume is reached, in the order of the policy; none where that is no
    /// upstream.
    pub(crate) routes: Vec<Option<Route>>,
}

/// A request of the gate's own.
fn own_request(command: Command, offset: u64, length: u64) -> Request {
    let payload_bytes = if command == Command::Write { length } else { 0 };
    Request { flags: CommandFlags::NONE, command, cookie: 0, offset, length, payload_bytes }
}

/// A server may take more than anybody here will ever send it.
fn within_our_limits(theirs: BlockSize) -> BlockSize {
    BlockSize {
        preferred: theirs.preferred.min(MAX_PAYLOAD_BYTES),
        maximum_payload: theirs.maximum_payload.min(MAX_PAYLOAD_BYTES),
        ..theirs
    }
}

/// The number of an export: always the same for a name, and one that no client can foresee, so that
/// nobody finds a second name for it.
fn number_of(export: &str) -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEYS.hash_one(export)
}

impl Remote {
    /// Starts to connect.
    pub(crate) fn new(
        domain: &Rc<Domain>,
        export: String,
        mut terms: Terms,
        membership: Option<Membership>,
        health: Rc<Health>,
    ) -> Rc<Self> {
        if let Some(membership) = &membership {
            terms.late = membership.late;
        }
        let (guard, routes) = membership.map(|one| (one.guard, one.routes)).unzip();
        let remote = Rc::new(Self {
            domain: Rc::downgrade(domain),
            number: number_of(&export),
            export,
            terms,
            guard,
            routes: routes.unwrap_or_default(),
            health,
            links: RefCell::default(),
            session: RefCell::default(),
            trouble: RefCell::default(),
            news: Notify::new(),
            resized: Cell::new(None),
            acknowledged: Cell::new(0),
            flushed: Cell::new(0),
            losses: Cell::new(0),
        });
        remote.links.borrow_mut().push(Link::start(&remote));
        remote
    }

    /// What the server said of the export, once it has.
    pub(crate) fn features(&self) -> Option<Features> {
        let session = self.session.borrow();
        let session = session.as_ref()?;
        let ours = TransmissionFlags::SEND_DF | TransmissionFlags::CAN_MULTI_CONN;
        let theirs = session.flags.without(TransmissionFlags::SEND_RESIZE);
        Some(Features {
            size_bytes: session.size_bytes,
            flags: theirs | ours | TransmissionFlags::BLOCK_STATUS_PAYLOAD,
            block_size: within_our_limits(session.block_size),
            contexts: session.contexts.iter().map(|context| context.name.clone()).collect(),
            description: session.description.clone(),
        })
    }

    /// Waits until the server has described the export or has given a reason why not.
    pub(crate) async fn described(&self) -> Result<Features, Trouble> {
        loop {
            let news = self.news.notified();
            if let Some(features) = self.features() {
                return Ok(features);
            }
            if let Some(trouble) = self.trouble_now() {
                return Err(trouble);
            }
            news.await;
        }
    }

    /// Whether the server takes flushes; not while it has not told yet.
    pub(crate) fn can_flush(&self) -> bool {
        let session = self.session.borrow();
        session.as_ref().is_some_and(|it| it.flags.contains(TransmissionFlags::SEND_FLUSH))
    }

    /// What the server calls it.
    pub(super) fn export(&self) -> &str {
        &self.export
    }

    /// Gives all its connections up: those that come next have to show what they are.
    pub(super) fn cut_all(&self) {
        self.links.borrow().iter().for_each(|link| link.cut());
    }

    /// The number that the engine knows it by among the disks of its server.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// How long it is waited for.
    pub(crate) fn patience(&self) -> Span {
        self.terms.patience
    }

    /// How often acknowledged writes may have been lost so far.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.get()
    }

    /// Where the server is: behind its own address, or behind that of another server of its volume
    /// where it was found.
    fn route(&self) -> Route {
        let found = self.guard.as_ref().and_then(|guard| self.routes.get(guard.route())?.clone());
        found.unwrap_or_else(|| self.terms.route.clone())
    }

    /// Whether acknowledged writes outlive the server's process.
    pub(crate) fn keeps_writes(&self) -> bool {
        self.terms.writes_survive_restart
    }

    /// Reads the front of a server of a volume, past the engine; no right to send is needed.
    ///
    /// # Errors
    /// What the server says, or that no connection stands.
    pub(crate) async fn look(&self, offset: u64, length: u64) -> Result<Buf, Errno> {
        let mut data = Buf::take(usize::try_from(length).expect("fronts are small"));
        data.fill(0);
        let request = own_request(Command::Read, offset, length);
        let own = |done| Own { sending: Sending::Look, data: Some(data), done };
        let data = self.call_own(request, None, own).await?;
        Ok(data.expect("it was made above"))
    }

    /// Writes a claim or a beat, past the engine, if what was looked at may still be relied on.
    ///
    /// # Errors
    /// What the server says, that no connection stands, or that the look is too old.
    pub(crate) async fn claim(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let payload = (Arc::new(Buf::copy_of(bytes)), 0..bytes.len());
        let request = own_request(Command::Write, offset, bytes.len() as u64);
        let own = |done| Own { sending: Sending::Claim, data: None, done };
        self.call_own(request, Some(payload), own).await.map(drop)
    }

    /// Flushes claims, past the engine; no right to send is needed, since it changes nothing.
    ///
    /// # Errors
    /// What the server says, or that no connection stands.
    pub(crate) async fn flush_claim(&self) -> Result<(), Errno> {
        if !self.can_flush() {
            return Ok(());
        }
        let own = |done| Own { sending: Sending::Look, data: None, done };
        self.call_own(own_request(Command::Flush, 0, 0), None, own).await.map(drop)
    }

    async fn call_own(
        &self,
        request: Request,
        payload: Option<(Arc<Buf>, Range<usize>)>,
        own: impl FnOnce(oneshot::Sender<Result<Option<Buf>, Errno>>) -> Own,
    ) -> Result<Option<Buf>, Errno> {
        let (done, end) = oneshot::channel();
        let call = self.new_call((Purpose::Own(own(done)), None), request, payload);
        let link = {
            let links = self.links.borrow();
            let least = links.iter().min_by_key(|link| link.load());
            Rc::clone(least.expect("there is one at least"))
        };
        link.place_own(call);
        link.wake();
        end.await.unwrap_or(Err(Errno::Io))
    }

    /// Passes a unit on; the link that carries it is to be woken after the batch.
    pub(crate) fn call(&self, op: &Op, unit: &Unit) -> Result<Rc<Link>, Errno> {
        if unit.kind == Kind::Flush && op.origin.heard().hear(unit.server, self.losses.get()) {
            return Err(Errno::Io);
        }
        let payload = (unit.kind == Kind::Write).then(|| op.payload_of(unit));
        let kept = CommandFlags::FUA | CommandFlags::NO_HOLE | CommandFlags::FAST_ZERO;
        let request = Request {
            flags: op.request.flags & kept,
            command: op.request.command,
            cookie: 0,
            offset: unit.offset,
            length: unit.length,
            payload_bytes: payload.as_ref().map_or(0, |(_, range)| range.len() as u64),
        };
        self.place((Purpose::Unit(*unit), op.origin.client()), request, payload)
    }

    /// Passes a client's question about allocation on, past the scheduler.
    pub(crate) fn ask(
        &self,
        client: &Rc<Client>,
        asked: Request,
        length: u64,
        wanted: Option<Vec<u32>>,
    ) {
        let request = Request {
            flags: asked.flags & CommandFlags::REQ_ONE,
            command: Command::BlockStatus,
            cookie: 0,
            offset: client.export.base_bytes + asked.offset,
            length,
            payload_bytes: 0,
        };
        let question =
            Question { client: Rc::clone(client), request: asked, wanted, found: Vec::new() };
        match self.place((Purpose::Question(question), Some(client)), request, None) {
            Ok(link) => link.wake(),
            Err(errno) => {
                client.answer_error((&asked).into(), errno);
                client.released(&asked);
            }
        }
    }

    fn place(
        &self,
        on_behalf: (Purpose, Option<&Rc<Client>>),
        request: Request,
        payload: Option<(Arc<Buf>, Range<usize>)>,
    ) -> Result<Rc<Link>, Errno> {
        if let Some(errno) = self.beyond_end(&request) {
            return Err(errno);
        }
        let links = self.links.borrow();
        // Calls that go together are sent together: a link is filled before the next is used.
        let end = request.offset.saturating_add(request.length);
        let fits = |link: &&Rc<Link>| link.reaches(end) && link.load() < (false, LINK_CALLS);
        let open = links.iter().find(fits);
        let least = || links.iter().min_by_key(|link| link.rank(end));
        let link = open.or_else(least).expect("there is one at least");
        if link.is_given_up() {
            count(&self.health.not_replayed, 1);
            return Err(Errno::Io);
        }
        link.place(self.new_call(on_behalf, request, payload));
        Ok(Rc::clone(link))
    }

    fn new_call(
        &self,
        (purpose, requester): (Purpose, Option<&Rc<Client>>),
        request: Request,
        payload: Option<(Arc<Buf>, Range<usize>)>,
    ) -> Call {
        Call {
            purpose,
            requester: requester.cloned(),
            placed_at: since_boot(),
            request,
            payload,
            sent_at: None,
            has_timed_out: false,
            sent_on: 0,
            may_come_late: false,
            noted: None,
            covers: self.acknowledged.get(),
            covers_beats: if request.command == Command::Flush { self.beats() } else { 0 },
            losses: self.losses.get(),
            error: None,
            answered_whole: false,
            coverage: None,
        }
    }

    /// A connection stands. Says no if the export is not what it was.
    fn adopt(self: &Rc<Self>, session: &ClientSession) -> Result<(), Trouble> {
        let mut known = self.session.borrow_mut();
        if let Some(known) = &mut *known {
            if session.flags & known.flags != known.flags {
                let why = format!("export {:?} can do less than it could", self.export);
                return Err(Trouble::from(why));
            }
            if session.size_bytes != known.size_bytes {
                self.resize(known.size_bytes, session.size_bytes)?;
                known.size_bytes = session.size_bytes;
            }
        } else {
            *known = Some(session.clone());
            let more = session.flags.contains(TransmissionFlags::CAN_MULTI_CONN);
            let mut links = self.links.borrow_mut();
            for _ in 1..if more { self.terms.connections } else { 1 } {
                links.push(Link::start(self));
            }
        }
        drop(known);
        self.note_trouble(None);
        Ok(())
    }

    /// The export has another size than it had. A volume's servers may not.
    fn resize(&self, before: u64, now: u64) -> Result<(), Trouble> {
        let export = &self.export;
        if self.guard.is_some() {
            return Err(Trouble::from(format!(
                "export {export:?} changed its size from {before} to {now} bytes; restart the gate \
                 to accept that"
            )));
        }
        let why = if now < before {
            "requests beyond its end fail"
        } else {
            "clients that come from now on see it"
        };
        tracing::warn!(export, before, now, "the upstream's export changed its size: {why}");
        self.resized.set(Some((before, now)));
        count(&self.health.resized, 1);
        Ok(())
    }

    /// How the size of the export changed last: its name, before, and now.
    pub(crate) fn resized(&self) -> Option<(&str, u64, u64)> {
        self.resized.get().map(|(before, now)| (self.export.as_str(), before, now))
    }

    /// The error of a request that lies beyond the end of an export that has shrunk.
    fn beyond_end(&self, request: &Request) -> Option<Errno> {
        let session = self.session.borrow();
        let end = request.offset.checked_add(request.length);
        let is_within = |size| end.is_some_and(|end| end <= size);
        if session.as_ref().is_none_or(|session| is_within(session.size_bytes)) {
            return None;
        }
        let takes_room = matches!(request.command, Command::Write | Command::WriteZeroes);
        Some(if takes_room { Errno::NoSpace } else { Errno::Invalid })
    }

    /// Why it cannot be used now, if it cannot.
    pub(crate) fn trouble_now(&self) -> Option<Trouble> {
        self.trouble.borrow().clone()
    }

    fn note_trouble(&self, trouble: Option<Trouble>) {
        self.trouble.replace(trouble);
        self.news.notify_waiters();
    }

    /// Draws the conclusions of an answered call. A flush may turn into a failure: what it covers
    /// was lost meanwhile, with this connection or with another.
    fn note(&self, call: &mut Call) {
        let is_lost = call.request.command == Command::Flush && call.losses != self.losses.get();
        match (call.request.command, call.error) {
            // Nobody misses beats that are lost.
            (Command::Write | Command::Trim | Command::WriteZeroes, None)
                if !call.request.flags.contains(CommandFlags::FUA)
                    && !matches!(call.purpose, Purpose::Own(_)) =>
            {
                count(&self.acknowledged, 1);
            }
            (Command::Flush, _) if is_lost => {
                call.error.get_or_insert(Errno::Io);
            }
            (Command::Flush, None) => {
                self.flushed.set(self.flushed.get().max(call.covers));
                if let Some(lease) = self.guard.as_ref().and_then(Guard::lease) {
                    lease.borrow_mut().flushed(call.covers_beats);
                }
            }
            // A server tells of a failed write-back once; every client must hear of it.
            (Command::Flush, Some(_)) => count(&self.losses, 1),
            _ => {}
        }
    }

    /// The number of the last beat on the server, if it is a volume's.
    fn beats(&self) -> u64 {
        self.guard.as_ref().and_then(Guard::lease).map_or(0, |lease| lease.borrow().beats())
    }

    /// A connection broke. Whether acknowledged writes may be gone with it.
    fn note_loss(&self) -> bool {
        let unflushed = self.acknowledged.get() > self.flushed.get();
        let lossy = unflushed && !self.terms.writes_survive_restart;
        if lossy {
            count(&self.losses, 1);
            // Reported from here on by the flushes of those who were there.
            self.flushed.set(self.acknowledged.get());
        }
        lossy
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.links.borrow().iter().for_each(|link| link.close());
    }
}
