//! The task of one connection: write what waits, read what came, hand it on, repeat.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use evenkeel_core::time::Nanos;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::inbox::{Inbox, OutOfStep};
use super::{Client, SLACK_BYTES, Standing};
use crate::outbox::COPY_BYTES_MAX;
use crate::transport::Transport;
use crate::worker::{READ_BYTES_MAX, READ_BYTES_MIN};

/// Batches that a connection may bring in before others get their turn.
const TURNS_MAX: usize = 8;

/// Payload of which this much is missing is read straight to where it belongs.
const DIRECT_BYTES_MIN: usize = 16 << 10;

/// Drives one client until it has left.
pub(crate) struct ClientTask {
    client: Rc<Client>,
    transport: Transport,
    inbox: Inbox,
    /// How much to read at once: it grows while reads are full and falls for large payloads.
    read_bytes: usize,
}

/// How one attempt to read went.
enum Ingest {
    /// Something came in.
    Some,
    /// Nothing more now; the task will be woken.
    Nothing,
    /// The peer has closed.
    Closed,
}

impl ClientTask {
    /// A task for `client`; `early` are bytes that came behind its handshake.
    pub(crate) fn new(client: Rc<Client>, transport: Transport, early: Vec<u8>) -> Self {
        let inbox = Inbox { carry: early, ..Inbox::default() };
        Self { client, transport, inbox, read_bytes: READ_BYTES_MIN }
    }

    fn turns(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        for _ in 0..TURNS_MAX {
            if self.client.standing.get() == Standing::Lost {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            let written = self.write(cx)?;
            if self.client.standing.get() == Standing::Leaving {
                self.give_up_payload();
                if written.is_ready() && self.client.requests.get() == 0 {
                    self.read_away(cx);
                    return Pin::new(&mut self.transport).poll_shutdown(cx);
                }
                return Poll::Pending;
            }
            let now = self.client.domain.worker.clock.now();
            let ingest = self.ingest(cx, now)?;
            self.client.awaits_payload.set(self.inbox.receiving.is_some());
            match ingest {
                Ingest::Some => self.client.domain.pump(),
                Ingest::Nothing => return Poll::Pending,
                Ingest::Closed => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Writes what waits; ready if nothing is left.
    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        let mut outbox = self.client.outbox.borrow_mut();
        if outbox.is_empty() {
            return Ok(Poll::Ready(()));
        }
        let before = outbox.len();
        let written = outbox.poll_write(&mut self.transport, cx)?;
        let moved = before - outbox.len();
        drop(outbox);
        if moved > 0 {
            self.client.moved(moved);
            self.client.give_back(SLACK_BYTES);
        }
        Ok(written)
    }

    fn ingest(&mut self, cx: &mut Context<'_>, now: Nanos) -> io::Result<Ingest> {
        if self.inbox.blocked || (self.inbox.receiving.is_none() && !self.inbox.carry.is_empty()) {
            let carry = std::mem::take(&mut self.inbox.carry);
            let used = self.take(now, &carry)?;
            self.keep(carry, used);
            if used > 0 {
                return Ok(Ingest::Some);
            }
            if self.inbox.blocked {
                return Ok(Ingest::Nothing);
            }
        }
        self.read(cx, now)
    }

    fn read(&mut self, cx: &mut Context<'_>, now: Nanos) -> io::Result<Ingest> {
        if self.inbox.receiving.as_ref().is_some_and(|body| body.missing() >= DIRECT_BYTES_MIN) {
            return self.read_body(cx, now);
        }
        let worker = Rc::clone(&self.client.domain.worker);
        let mut scratch = worker.scratch.borrow_mut();
        let carried = self.inbox.carry.len();
        scratch[..carried].copy_from_slice(&self.inbox.carry);
        self.inbox.carry.clear();
        // What cannot be used yet is kept: little, where memory is short.
        let is_short = worker.shared.memory.is_contended();
        let most = if is_short { READ_BYTES_MIN } else { self.read_bytes };
        let end = (carried + most).min(scratch.len());
        let mut buf = ReadBuf::new(&mut scratch[carried..end]);
        let poll = Pin::new(&mut self.transport).poll_read(cx, &mut buf)?;
        let full = buf.remaining() == 0;
        let bytes = buf.filled().len();
        let here = carried + bytes;
        if poll.is_pending() || bytes == 0 {
            self.inbox.carry.extend_from_slice(&scratch[..carried]);
            return Ok(if poll.is_pending() { Ingest::Nothing } else { Ingest::Closed });
        }
        self.client.moved(bytes);
        if full && !is_short {
            self.read_bytes = (self.read_bytes * 4).min(READ_BYTES_MAX);
        }
        let used = self.take(now, &scratch[..here])?;
        if self.inbox.receiving.as_ref().is_some_and(|body| body.missing() > COPY_BYTES_MAX) {
            self.read_bytes = READ_BYTES_MIN;
        }
        self.inbox.carry.extend_from_slice(&scratch[used..here]);
        Ok(Ingest::Some)
    }

    /// Reads a body to where it belongs.
    fn read_body(&mut self, cx: &mut Context<'_>, now: Nanos) -> io::Result<Ingest> {
        debug_assert!(self.inbox.carry.is_empty(), "a payload takes all that came before");
        let body = self.inbox.receiving.as_mut().expect("a body is under way");
        if !body.find_room(&self.client) {
            self.inbox.blocked = true;
            return Ok(Ingest::Nothing);
        }
        let mut buf = ReadBuf::new(body.room());
        let bytes = match Pin::new(&mut self.transport).poll_read(cx, &mut buf)? {
            Poll::Pending => return Ok(Ingest::Nothing),
            Poll::Ready(()) => buf.filled().len(),
        };
        if bytes == 0 {
            return Ok(Ingest::Closed);
        }
        body.fill(bytes);
        self.client.moved(bytes);
        self.inbox.complete(&self.client, now);
        Ok(Ingest::Some)
    }

    fn take(&mut self, now: Nanos, input: &[u8]) -> io::Result<usize> {
        self.inbox
            .take(&self.client, now, input)
            .map_err(|OutOfStep(reason)| io::Error::new(io::ErrorKind::InvalidData, reason))
    }

    fn keep(&mut self, mut carry: Vec<u8>, used: usize) {
        carry.drain(..used);
        self.inbox.carry = carry;
    }

    /// Reads what has come and will not be answered: a socket that is closed with something to read
    /// is reset, and takes answers with it that the client has not read.
    fn read_away(&mut self, cx: &mut Context<'_>) {
        let worker = Rc::clone(&self.client.domain.worker);
        let mut scratch = worker.scratch.borrow_mut();
        for _ in 0..TURNS_MAX {
            let mut buf = ReadBuf::new(&mut scratch[..]);
            let poll = Pin::new(&mut self.transport).poll_read(cx, &mut buf);
            if !matches!(poll, Poll::Ready(Ok(()))) || buf.filled().is_empty() {
                return;
            }
        }
    }

    /// Gives up a payload of which the rest will not be read.
    fn give_up_payload(&mut self) {
        if let Some(body) = self.inbox.receiving.take() {
            self.client.release(body.granted_bytes());
            self.client.wait_no_more();
        }
    }

    fn close(&mut self, result: &io::Result<()>) {
        self.give_up_payload();
        let client = &self.client;
        if let Err(error) = result {
            let worker = &client.domain.worker;
            if error.kind() == io::ErrorKind::InvalidData {
                worker.shared.count_protocol_error();
                tracing::warn!(export = client.export.name, %error, "client broke the protocol");
            } else {
                tracing::debug!(export = client.export.name, %error, "client lost");
            }
        }
        client.leave();
    }
}

impl Future for ClientTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.client.running.set(true);
        this.client.remember_waker(cx.waker());
        let turned = this.turns(cx);
        this.client.running.set(false);
        match turned {
            Poll::Pending => Poll::Pending,
            Poll::Ready(result) => {
                this.close(&result);
                Poll::Ready(())
            }
        }
    }
}
