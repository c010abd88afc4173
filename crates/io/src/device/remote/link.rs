//! One connection to an upstream: the calls on it, and the task that keeps it up.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::task::Waker;
use std::time::Duration;

use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::lease::Sending;
use evenkeel_wire::nbd::client::{ClientOptions, ClientSession, ContextsWanted};
use evenkeel_wire::nbd::proto::{Command, Errno, MAX_CONTEXTS, ReplyStyle};
use evenkeel_wire::nbd::request::encode_request;
use tokio::time::Instant;

use super::calls::{Call, Calls, Purpose};
use super::connect::{Connected, Route};
use super::conversation::Conversation;
use super::guarded::Guarded;
use super::{Health, Remote, Trouble, count, identity};
use crate::clock::since_boot;
use crate::domain::Domain;
use crate::lease::Guard;
use crate::outbox::Outbox;

/// Pauses between attempts to connect.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How often a link looks for requests that the server takes too long to answer.
const TIMEOUT_LOOKS: Duration = Duration::from_secs(1);

/// The longest range that a compact header can name, in whole 64 KiB blocks.
const COMPACT_LENGTH_MAX: u64 = u32::MAX as u64 & !0xffff;

/// One connection to an upstream, up or not.
#[derive(Debug)]
pub(crate) struct Link {
    remote: Weak<Remote>,
    pub(super) calls: RefCell<Calls>,
    pub(super) outbox: RefCell<Outbox>,
    /// What right it takes to write what waits in the outbox.
    needs: Cell<Sending>,
    /// The framing of the connection that stands.
    pub(super) style: Cell<Option<ReplyStyle>>,
    /// The size that the export had when the last connection was made.
    size_bytes: Cell<u64>,
    pub(super) waker: RefCell<Option<Waker>>,
    /// Patience has run out; cleared by the next connection.
    given_up: Cell<bool>,
    pub(super) closing: Cell<bool>,
    /// The connection that stands is to be given up.
    is_cut: Cell<bool>,
    /// Nothing may be sent any more, for good.
    is_barred: Cell<bool>,
    /// The right to send to a server of a volume; none if the server is nobody else's concern.
    guard: Option<Guard>,
    health: Rc<Health>,
}

impl Link {
    pub(super) fn start(remote: &Rc<Remote>) -> Rc<Self> {
        let link = Self::down_yet(Rc::downgrade(remote), remote.guard.clone());
        let link = Rc::new(Self { health: Rc::clone(&remote.health), ..link });
        if let Some(guard) = &link.guard {
            guard.enlist(&link);
        }
        tokio::task::spawn_local(keep_up(Rc::clone(&link)));
        link
    }

    /// Without a connection yet.
    fn down_yet(remote: Weak<Remote>, guard: Option<Guard>) -> Self {
        Self {
            remote,
            calls: RefCell::default(),
            outbox: RefCell::default(),
            needs: Cell::new(Sending::Look),
            style: Cell::new(None),
            size_bytes: Cell::new(0),
            waker: RefCell::default(),
            given_up: Cell::new(false),
            closing: Cell::new(false),
            is_cut: Cell::new(false),
            is_barred: Cell::new(false),
            guard,
            health: Rc::default(),
        }
    }

    /// Lets the task look again.
    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Calls not answered yet; a link that is down counts as full.
    pub(super) fn load(&self) -> (bool, usize) {
        (self.style.get().is_none(), self.calls.borrow().len())
    }

    /// Whether the connection that stands knows of bytes up to there; one that does not stand will.
    pub(super) fn reaches(&self, end_bytes: u64) -> bool {
        self.style.get().is_none() || end_bytes <= self.size_bytes.get()
    }

    /// Of several links, the one with the least rank takes a call that ends there. One that is
    /// given up would fail it, while another one's patience may last.
    pub(super) fn rank(&self, end_bytes: u64) -> (bool, bool, (bool, usize)) {
        (!self.reaches(end_bytes), self.is_given_up(), self.load())
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.get()
    }

    /// Says goodbye and ends the task.
    pub(super) fn close(&self) {
        self.closing.set(true);
        self.wake();
    }

    /// Takes a call; it goes out at once if the link is up and there is a right to send it, else
    /// when that is so.
    pub(super) fn place(&self, call: Call) {
        let mut calls = self.calls.borrow_mut();
        let cookie = calls.insert(call);
        if let Some(style) = self.style.get() {
            let call = calls.find(cookie).expect("just placed");
            let now = call.placed_at;
            self.send(call, style, now);
        }
    }

    /// Takes a call of the gate's own. It goes out at once or not at all: what a look has seen is
    /// not to be relied on later.
    pub(super) fn place_own(&self, call: Call) {
        if self.style.get().is_some() && self.has_right(call.purpose.sending()) {
            self.place(call);
        } else if let Purpose::Own(own) = call.purpose {
            let _ = own.done.send(Err(Errno::Io));
        }
    }

    fn has_right(&self, what: Sending) -> bool {
        self.guard.as_ref().is_none_or(|guard| guard.may_send(what))
    }

    /// Whether what waits in the outbox may be written to the socket now.
    pub(super) fn may_write(&self) -> bool {
        !self.is_cut.get() && self.has_right(self.needs.get())
    }

    /// The outbox has been written.
    pub(super) fn written(&self) {
        self.needs.set(Sending::Look);
    }

    /// Whether the connection that stands is to be given up.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.get()
    }

    /// Gives the connection up: whatever comes next has to show what it is.
    pub(crate) fn cut(&self) {
        self.is_cut.set(true);
        self.wake();
    }

    /// Gives the connection up if it is one to this server of a volume.
    pub(crate) fn cut_if(&self, server: usize) {
        if self.guard.as_ref().is_some_and(|guard| guard.index() == server) {
            self.cut();
        }
    }

    /// Another gate has the volume: the connection is given up, whatever waits fails, and nothing
    /// is sent any more.
    pub(crate) fn bar(&self) {
        self.is_barred.set(true);
        self.given_up.set(true);
        self.cut();
        if let Some(remote) = self.remote.upgrade() {
            self.style.set(None);
            self.outbox.borrow_mut().clear();
            self.fail(&remote, |_| true);
        }
    }

    /// The right to send is back: what has waited for it is sent.
    pub(crate) fn go_on(&self) {
        if let (Some(remote), Some(style)) = (self.remote.upgrade(), self.style.get()) {
            self.send_waiting(&remote, style);
            self.wake();
        }
    }

    fn send(&self, call: &mut Call, style: ReplyStyle, now: Nanos) {
        let sending = call.purpose.sending();
        if !self.has_right(sending) {
            return;
        }
        self.needs.set(self.needs.get().max(sending));
        if let (None, Some(guard), Some(range)) = (&call.noted, &self.guard, call.changes()) {
            call.noted = guard.note_underway(&range);
        }
        call.sent_on = call.sent_on.saturating_add(1);
        call.sent_at = Some(now);
        if !style.is_extended() {
            // Only a question about allocation can be this long, and it may be answered in part.
            call.request.length = call.request.length.min(COMPACT_LENGTH_MAX);
        }
        let mut outbox = self.outbox.borrow_mut();
        outbox.append(|run| encode_request(run, style, &call.request));
        if let Some((payload, range)) = &call.payload {
            outbox.payload(payload, range.clone());
        }
    }

    /// A connection stands: everything that is not answered is sent, again or for the first time,
    /// as soon as there is a right to.
    fn up(&self, remote: &Remote, session: &ClientSession) {
        let style = session.style;
        self.style.set(Some(style));
        self.size_bytes.set(session.size_bytes);
        self.given_up.set(false);
        self.is_cut.set(false);
        count(&remote.health.links_up, 1);
        self.fail_beyond_end(remote);
        self.send_waiting(remote, style);
    }

    /// Fails what lies beyond the end of an export that has shrunk.
    fn fail_beyond_end(&self, remote: &Remote) {
        let Some(domain) = remote.domain.upgrade() else { return };
        let is_beyond = |call: &Call| remote.beyond_end(&call.request).is_some();
        let beyond = self.calls.borrow_mut().take(is_beyond);
        if !beyond.is_empty() {
            self.end(&domain, beyond, |call| remote.beyond_end(&call.request).unwrap_or(Errno::Io));
        }
    }

    /// Sends whatever is not on its way on the connection that stands, and fails what comes too
    /// late for that.
    fn send_waiting(&self, remote: &Remote, style: ReplyStyle) {
        let Some(domain) = remote.domain.upgrade() else { return };
        if !self.has_right(Sending::Data) {
            return;
        }
        let patience = remote.terms.patience;
        let is_late = |call: &Call| call.is_forsaken() || call.is_older_than(patience);
        let late = self.calls.borrow_mut().take(|call| !call.is_sent() && is_late(call));
        self.send_all(remote, &domain, style);
        if !late.is_empty() {
            self.end(&domain, late, |_| Errno::Io);
        }
    }

    fn send_all(&self, remote: &Remote, domain: &Domain, style: ReplyStyle) {
        let mut calls = self.calls.borrow_mut();
        for cookie in calls.in_order() {
            let call = calls.find(cookie).expect("listed just now");
            if call.is_sent() {
                continue;
            }
            let is_replay = call.sent_on > 0;
            count(&remote.health.replayed, u64::from(is_replay));
            call.error = None;
            call.coverage = None;
            call.answered_whole = false;
            if let (true, Purpose::Unit(unit)) = (is_replay, &call.purpose) {
                domain.forget(unit);
            }
            self.send(call, style, since_boot());
        }
    }

    /// The connection is gone: what may not be sent again fails. Unless all that the server had
    /// read from it has ended, it may carry out the rest later.
    fn down(&self, remote: &Remote, has_ended: bool) {
        self.style.set(None);
        if !has_ended {
            self.report_late(remote);
        }
        self.outbox.borrow_mut().clear();
        count(&remote.health.reconnects, 1);
        if remote.note_loss() {
            self.fail(remote, |call| call.sent_on > 0 && call.request.command == Command::Flush);
        }
        // What a look has seen before does not count any more.
        self.fail(remote, |call| matches!(call.purpose, Purpose::Own(_)));
        // A request that breaks every connection it is sent on must not do so for ever.
        self.calls.borrow_mut().note_loss(!has_ended);
        self.fail(remote, |call| call.has_timed_out);
        self.fail(remote, |call| call.is_older_than(remote.terms.patience));
    }

    /// Cuts the connection if the server has taken too long to answer something sent on it.
    fn cut_if_timed_out(&self) {
        let Some(remote) = self.remote.upgrade() else { return };
        let timed_out =
            self.calls.borrow_mut().time_out(|command| remote.terms.timeout_of(command));
        if timed_out > 0 {
            count(&remote.health.timed_out, timed_out as u64);
            tracing::warn!(
                export = remote.export,
                requests = timed_out,
                "no answer within `request_timeout`: they fail, and the connection is cut"
            );
            self.cut();
        }
    }

    /// The server may still carry out what it was asked for on the connection that is gone.
    fn report_late(&self, remote: &Remote) {
        let Some(domain) = remote.domain.upgrade() else { return };
        let late = self.calls.borrow().late();
        if !late.is_empty() && remote.terms.late > Span::ZERO {
            let (export, writes, wait) = (&remote.export, late.len(), remote.terms.late);
            tracing::warn!(
                export,
                writes,
                ?wait,
                "unanswered writes are in doubt: newer ones to the same bytes wait"
            );
        }
        for (server, range) in late {
            domain.may_come_late((server, remote.number()), range, remote.terms.late);
        }
    }

    /// Fails the calls that `which` picks.
    fn fail(&self, remote: &Remote, which: impl Fn(&Call) -> bool) {
        let Some(domain) = remote.domain.upgrade() else { return };
        let failed = self.calls.borrow_mut().take(which);
        self.end(&domain, failed, |_| Errno::Io);
    }

    /// Fails these calls, which are not here any more. What was sent of them the server may still
    /// carry out.
    fn end(&self, domain: &Rc<Domain>, failed: Vec<Call>, why: impl Fn(&Call) -> Errno) {
        let is_own = |call: &&Call| matches!(call.purpose, Purpose::Own(_));
        let own = failed.iter().filter(is_own).count();
        count(&self.health.not_replayed, (failed.len() - own) as u64);
        for call in failed {
            let errno = why(&call);
            match call.purpose {
                Purpose::Unit(unit) => domain.done(&unit, Err(errno)),
                Purpose::Question(question) => {
                    question.client.answer_error((&question.request).into(), errno);
                    question.client.released(&question.request);
                }
                Purpose::Own(own) => {
                    let _ = own.done.send(Err(errno));
                }
            }
        }
        domain.pump();
    }
}

/// Connects, converses, and connects again, until the remote is gone.
async fn keep_up(link: Rc<Link>) {
    let mut attempts = Attempts::new();
    while !link.closing.get() && !link.is_barred.get() {
        match connect(&link).await {
            Ok(Some(mut conversation)) => {
                let began = Instant::now();
                let ended = converse(&link, &mut conversation).await;
                link.health.links_up.set(link.health.links_up.get() - 1);
                let Some(remote) = link.remote.upgrade() else { return };
                if link.closing.get() || link.is_barred.get() {
                    return;
                }
                // Nothing is placed on it meanwhile.
                link.style.set(None);
                let (end, server) = (conversation.end(&ended), remote.terms.server);
                drop(remote);
                let has_ended = end.has_ended(server).await;
                let Some(remote) = link.remote.upgrade() else { return };
                link.down(&remote, has_ended);
                let why =
                    ended.err().map_or_else(|| "closed".to_owned(), |error| error.to_string());
                tracing::warn!(export = remote.export, why, "upstream connection lost");
                remote.note_trouble(Some(why.into()));
                attempts.stood_for(began.elapsed());
            }
            Ok(None) => return,
            Err(trouble) => {
                let Some(remote) = link.remote.upgrade() else { return };
                if remote.trouble_now().as_ref() != Some(&trouble) {
                    let upstream = remote.terms.route.name();
                    tracing::warn!(upstream, why = trouble.why, "upstream not reached");
                }
                remote.note_trouble(Some(trouble));
            }
        }
        attempts.pause(&link).await;
    }
}

/// Converses until the connection ends, and cuts it if the server takes too long.
async fn converse(link: &Link, conversation: &mut Conversation) -> std::io::Result<()> {
    let mut looks = tokio::time::interval(TIMEOUT_LOOKS);
    loop {
        tokio::select! {
            ended = &mut *conversation => return ended,
            _ = looks.tick() => link.cut_if_timed_out(),
        }
    }
}

/// Attempts to reach the server since a connection last stood. Pauses grow also where connections
/// break at once; a request that breaks each of them ends with its own patience.
struct Attempts {
    /// By the clock that counts suspended time.
    since: Nanos,
    pause: Duration,
}

impl Attempts {
    fn new() -> Self {
        Self { since: since_boot(), pause: PAUSE_MIN }
    }

    /// A connection has stood for so long.
    fn stood_for(&mut self, time: Duration) {
        self.since = since_boot();
        if time >= PAUSE_MAX {
            self.pause = PAUSE_MIN;
        }
    }

    /// Waits before the next attempt. Once patience is over, nobody else waits any more.
    async fn pause(&mut self, link: &Link) {
        let Some(remote) = link.remote.upgrade() else { return };
        let patience = remote.terms.patience;
        if since_boot().since(self.since) > patience {
            link.given_up.set(true);
            link.fail(&remote, |_| true);
        } else {
            link.fail(&remote, |call| call.is_older_than(patience));
        }
        drop(remote);
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

/// Connects to a server of a volume, which has to show what it is.
async fn connect_guarded(
    route: &Route,
    options: ClientOptions,
    guard: &Guard,
) -> Result<Connected, Trouble> {
    let tried = guard.route();
    let proven = async {
        let mut connected = route.connect(options, Some(guard.times())).await?;
        identity::prove(&mut connected, guard, tried).await?;
        Ok(connected)
    };
    let proven = proven.await;
    if proven.is_err() {
        guard.give_up_route(tried);
    }
    proven
}

/// One attempt; `None` if the remote is gone.
async fn connect(link: &Rc<Link>) -> Result<Option<Conversation>, Trouble> {
    let Some(remote) = link.remote.upgrade() else { return Ok(None) };
    let options = ClientOptions {
        export: remote.export.clone(),
        contexts: ContextsWanted::All { max: MAX_CONTEXTS },
        ..ClientOptions::default()
    };
    let route = remote.route();
    drop(remote);
    let connected = match &link.guard {
        None => route.connect(options, None).await?,
        Some(guard) => connect_guarded(&route, options, guard).await?,
    };
    let Some(remote) = link.remote.upgrade() else { return Ok(None) };
    if link.is_barred.get() {
        return Ok(None);
    }
    remote.adopt(&connected.session)?;
    let Connected { transport, session, early } = connected;
    let Some(domain) = remote.domain.upgrade() else { return Ok(None) };
    link.up(&remote, &session);
    let guarded = Guarded::new(transport, Rc::clone(link));
    Ok(Some(Conversation::new(domain, &remote, Rc::clone(link), guarded, &session, early)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down() -> Link {
        Link::down_yet(Weak::new(), None)
    }

    #[test]
    fn a_link_that_is_given_up_takes_nothing_while_others_wait_or_stand() {
        let (given_up, waiting, standing, short) = (down(), down(), down(), down());
        given_up.given_up.set(true);
        for (link, size_bytes) in [(&standing, 8192), (&short, 4096)] {
            link.style.set(Some(ReplyStyle::Simple));
            link.size_bytes.set(size_bytes);
        }
        let mut links = [&short, &given_up, &waiting, &standing];
        links.sort_by_key(|link| link.rank(8192));
        let order = [&standing, &waiting, &given_up, &short];
        assert!(links.iter().zip(order).all(|(found, expected)| std::ptr::eq(*found, expected)));
    }
}
