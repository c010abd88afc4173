//! A standing connection to an upstream: writes calls, reads answers, hands them on.
//!
//! Answers are decoded in the worker's scratch buffer. Data that lies there whole goes straight
//! into the client's outbox; data of which a part is missing is read into a buffer of its own,
//! which is then passed on without another copy.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as Task, Poll};

use evenkeel_wire::nbd::client::ClientSession;
use evenkeel_wire::nbd::proto::{Command, CommandFlags, Context, Errno, Extent, ReplyStyle};
use evenkeel_wire::nbd::reply::{
    Chunk, ReadCoverage, ReplyHeader, decode_block_status, decode_reply,
};
use evenkeel_wire::nbd::request::{Request, encode_request};
use tokio::io::{AsyncRead, ReadBuf};

use super::Remote;
use super::calls::{Call, Purpose, Question};
use super::ending::End;
use super::guarded::Guarded;
use super::link::Link;
use crate::buffer::Buf;
use crate::domain::Domain;
use crate::op::Data;
use crate::outbox::COPY_BYTES_MAX;
use crate::worker::{READ_BYTES_MAX, READ_BYTES_MIN};

/// The most that a server may say about allocation in one chunk.
const STATUS_BYTES_MAX: u32 = 1 << 20;

/// Batches of answers before others get their turn.
const TURNS_MAX: usize = 8;

/// Data of an answer, under way.
struct Receiving {
    cookie: u64,
    what: Payload,
    last: bool,
    buf: Buf,
    filled: usize,
}

/// What follows a header.
#[derive(Clone, Copy)]
enum Payload {
    /// Data of a read, from this byte of the device.
    Data(u64),
    /// Extents of this metadata context.
    Extents(u32),
}

/// A connection in its transmission phase.
pub(super) struct Conversation {
    domain: Rc<Domain>,
    remote: std::rc::Weak<Remote>,
    link: Rc<Link>,
    transport: Guarded,
    style: ReplyStyle,
    contexts: Vec<Context>,
    carry: Vec<u8>,
    receiving: Option<Receiving>,
    /// The server has ended the connection.
    is_ended: bool,
    /// How much to read at once: little while large payloads come, so that most of each is read
    /// straight to where it belongs.
    read_bytes: usize,
}

/// The server cannot be followed.
fn broken(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}

impl Conversation {
    pub(super) fn new(
        domain: Rc<Domain>,
        remote: &Rc<Remote>,
        link: Rc<Link>,
        transport: Guarded,
        session: &ClientSession,
        early: Vec<u8>,
    ) -> Self {
        Self {
            domain,
            remote: Rc::downgrade(remote),
            link,
            transport,
            style: session.style,
            contexts: session.contexts.clone(),
            carry: early,
            receiving: None,
            is_ended: false,
            read_bytes: READ_BYTES_MAX,
        }
    }

    fn turns(&mut self, cx: &mut Task<'_>) -> Poll<io::Result<()>> {
        for _ in 0..TURNS_MAX {
            if self.link.closing.get() {
                let said = self.say_goodbye(cx);
                if matches!(said, Poll::Ready(Ok(()))) {
                    self.transport.let_linger();
                }
                return said;
            }
            if self.link.is_cut() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            let mut outbox = self.link.outbox.borrow_mut();
            if !outbox.is_empty() && outbox.poll_write(&mut self.transport, cx)?.is_ready() {
                self.link.written();
            }
            drop(outbox);
            match self.read(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => {
                    // What came before it may have ended units.
                    self.domain.pump();
                    return Poll::Ready(Err(error));
                }
                Poll::Ready(Ok(())) => self.domain.pump(),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn closed(&mut self) -> io::Error {
        self.is_ended = true;
        io::ErrorKind::UnexpectedEof.into()
    }

    /// How it came to its end, of which that is what it said.
    pub(super) fn end(self, said: &io::Result<()>) -> End {
        let Self { link, transport, is_ended, .. } = self;
        match said.as_ref().map_err(io::Error::kind) {
            _ if is_ended => End::ByServer,
            _ if link.is_cut() => End::ByGate(transport),
            Err(io::ErrorKind::InvalidData | io::ErrorKind::ConnectionAborted) => {
                End::ByGate(transport)
            }
            Err(io::ErrorKind::BrokenPipe) => End::Refused(transport),
            _ => End::Lost,
        }
    }

    fn say_goodbye(&mut self, cx: &mut Task<'_>) -> Poll<io::Result<()>> {
        let mut outbox = self.link.outbox.borrow_mut();
        if self.link.style.take().is_some() {
            let goodbye = Request {
                flags: CommandFlags::NONE,
                command: Command::Disconnect,
                cookie: 0,
                offset: 0,
                length: 0,
                payload_bytes: 0,
            };
            outbox.append(|run| encode_request(run, self.style, &goodbye));
        }
        outbox.poll_write(&mut self.transport, cx)
    }

    fn read(&mut self, cx: &mut Task<'_>) -> Poll<io::Result<()>> {
        if let Some(receiving) = &mut self.receiving {
            let mut buf = ReadBuf::new(&mut receiving.buf[receiving.filled..]);
            std::task::ready!(Pin::new(&mut self.transport).poll_read(cx, &mut buf))?;
            let bytes = buf.filled().len();
            if bytes == 0 {
                return Poll::Ready(Err(self.closed()));
            }
            receiving.filled += bytes;
            return Poll::Ready(self.complete());
        }
        let worker = Rc::clone(&self.domain.worker);
        let mut scratch = worker.scratch.borrow_mut();
        let carried = self.carry.len();
        scratch[..carried].copy_from_slice(&self.carry);
        let end = (carried + self.read_bytes).min(scratch.len());
        let mut buf = ReadBuf::new(&mut scratch[carried..end]);
        std::task::ready!(Pin::new(&mut self.transport).poll_read(cx, &mut buf))?;
        let here = carried + buf.filled().len();
        if here == carried {
            return Poll::Ready(Err(self.closed()));
        }
        self.carry.clear();
        let used = self.take(&scratch[..here])?;
        self.carry.extend_from_slice(&scratch[used..here]);
        Poll::Ready(Ok(()))
    }

    /// Takes answers from the front of `input`; returns how many bytes it used.
    fn take(&mut self, input: &[u8]) -> io::Result<usize> {
        let mut at = 0;
        while self.receiving.is_none() {
            let decoded = decode_reply(self.style, &input[at..]).map_err(broken)?;
            let Some((header, header_bytes)) = decoded else { break };
            at += header_bytes;
            if let Chunk::Simple { error: Some(Errno::Shutdown) }
            | Chunk::Error { errno: Errno::Shutdown, .. } = header.chunk
            {
                return Err(self.server_stops());
            }
            at += self.answer(&header, &input[at..])?;
        }
        Ok(at)
    }

    /// Takes one message; returns how much of its payload it used.
    fn answer(&mut self, header: &ReplyHeader<'_>, rest: &[u8]) -> io::Result<usize> {
        let ReplyHeader { cookie, last, .. } = *header;
        let link = Rc::clone(&self.link);
        let mut calls = link.calls.borrow_mut();
        let call = calls.find(cookie).filter(|call| call.is_sent());
        let call = call.ok_or_else(|| broken("the server answered what was not asked"))?;
        if header.request_offset.is_some_and(|offset| offset != call.request.offset) {
            return Err(broken("the server answered with another request's offset"));
        }
        let is_read = call.request.command == Command::Read;
        let payload = match header.chunk {
            Chunk::Simple { error: None } if is_read && self.style.is_chunked() => {
                return Err(broken("the server answered a read without structure"));
            }
            Chunk::Simple { error: None } if is_read => {
                Some((Payload::Data(call.request.offset), call.request.length))
            }
            Chunk::Simple { error } => {
                call.error = error;
                None
            }
            Chunk::Data { offset, length } if is_read => {
                cover(call, offset, length, last)?;
                Some((Payload::Data(offset), u64::from(length)))
            }
            Chunk::Hole { offset, length } if is_read => {
                cover(call, offset, length, last)?;
                self.deliver(call, offset, Data::Zeroes(length.into()), last);
                None
            }
            Chunk::BlockStatus { context, payload_bytes }
                if call.request.command == Command::BlockStatus
                    && payload_bytes <= STATUS_BYTES_MAX =>
            {
                Some((Payload::Extents(context), u64::from(payload_bytes)))
            }
            Chunk::Error { errno, .. } => {
                call.error.get_or_insert(errno);
                None
            }
            Chunk::None => None,
            _ => return Err(broken("the server answered with what does not fit the request")),
        };
        let Some((what, length)) = payload else {
            drop(calls);
            if last {
                self.over(cookie);
            }
            return Ok(0);
        };
        let length = usize::try_from(length).expect("payloads fit memory");
        self.read_bytes = if length > COPY_BYTES_MAX { READ_BYTES_MIN } else { READ_BYTES_MAX };
        if let Some(whole) = rest.get(..length) {
            self.payload(call, what, Data::Slice(whole), last)?;
            drop(calls);
            if last {
                self.over(cookie);
            }
            return Ok(length);
        }
        let mut buf = Buf::take(length);
        buf[..rest.len()].copy_from_slice(rest);
        self.receiving = Some(Receiving { cookie, what, last, buf, filled: rest.len() });
        Ok(rest.len())
    }

    /// The server has not carried out a request, since it is about to end: the connection counts as
    /// lost, and so do all others to it, which it may be waiting for. What is not answered is sent
    /// on the next connection.
    fn server_stops(&self) -> io::Error {
        if let Some(remote) = self.remote.upgrade() {
            tracing::info!(export = remote.export(), "the upstream server is shutting down");
            remote.cut_all();
        }
        io::ErrorKind::ConnectionAborted.into()
    }

    /// Hands on a payload that has come in full.
    fn complete(&mut self) -> io::Result<()> {
        let whole = |receiving: &mut Receiving| receiving.filled == receiving.buf.len();
        let Some(receiving) = self.receiving.take_if(whole) else { return Ok(()) };
        let Receiving { cookie, what, last, buf, .. } = receiving;
        let link = Rc::clone(&self.link);
        let mut calls = link.calls.borrow_mut();
        let call = calls.find(cookie).expect("it was found with the header, and is not over");
        self.payload(call, what, buf.into(), last)?;
        drop(calls);
        if last {
            self.over(cookie);
        }
        Ok(())
    }

    fn payload(
        &self,
        call: &mut Call,
        what: Payload,
        data: Data<'_>,
        last: bool,
    ) -> io::Result<()> {
        match what {
            Payload::Data(offset) => {
                self.deliver(call, offset, data, last);
                Ok(())
            }
            Payload::Extents(context) => {
                let bytes = match &data {
                    Data::Slice(bytes) => bytes,
                    Data::Shared(buf, range) => &buf[range.clone()],
                    Data::Zeroes(_) => unreachable!("extents are bytes"),
                };
                let extents = decode_block_status(self.style, bytes).map_err(broken)?;
                let is_known = self.contexts.iter().any(|known| known.id == context);
                if let Purpose::Question(question) = &mut call.purpose {
                    if !is_known || question.found.iter().any(|(id, _)| *id == context) {
                        return Err(broken("the server told of a context twice, or unasked"));
                    }
                    question.found.push((context, extents.collect()));
                }
                Ok(())
            }
        }
    }

    fn deliver(&self, call: &mut Call, offset: u64, data: Data<'_>, last: bool) {
        match &mut call.purpose {
            Purpose::Unit(unit) => {
                self.domain.data(unit, offset, data, last && call.error.is_none());
            }
            Purpose::Own(own) => {
                let at = usize::try_from(offset - call.request.offset).expect("it was checked");
                own.take(at, &data);
            }
            Purpose::Question(_) => {}
        }
    }

    /// The last message of an answer has come.
    fn over(&self, cookie: u64) {
        let mut call = self.link.calls.borrow_mut().remove(cookie).expect("found before");
        call.answered();
        let complete = call.coverage.as_ref().is_none_or(|coverage| coverage.is_complete());
        let untold = self.style.is_chunked()
            && call.request.command == Command::Read
            && call.coverage.is_none()
            && !call.answered_whole;
        if call.error.is_none() && (!complete || untold) {
            // The stream is in step; it is this answer alone that is of no use.
            tracing::warn!(offset = call.request.offset, "upstream left out a part of a read");
            call.error = Some(Errno::Io);
        }
        if let Some(remote) = self.remote.upgrade() {
            remote.note(&mut call);
            if let (Purpose::Unit(unit), Command::Flush) = (&call.purpose, call.request.command) {
                self.domain.report_losses(unit, remote.losses());
            }
        }
        match call.purpose {
            Purpose::Unit(unit) => {
                self.domain.done(&unit, call.error.map_or(Ok(()), Err));
            }
            Purpose::Question(question) => self.told(question, call.error),
            Purpose::Own(own) => {
                // The volume may have been let go meanwhile.
                let _ = own.done.send(call.error.map_or(Ok(own.data), Err));
            }
        }
    }

    /// Answers a client's question with what it negotiated, under its own numbers.
    fn told(&self, question: Question, error: Option<Errno>) {
        let Question { client, request, wanted, found } = question;
        let end_bytes = client.promise.size_bytes - request.offset;
        let status: Vec<_> = client
            .selected(wanted.as_deref())
            .filter_map(|ours| {
                let theirs = self.contexts.iter().find(|theirs| theirs.name == ours.name)?;
                let (_, extents) = found.iter().find(|(id, _)| *id == theirs.id)?;
                Some((ours.id, within(extents, end_bytes)))
            })
            .collect();
        match error {
            Some(errno) => client.answer_error((&request).into(), errno),
            None => client.answer_status(&request, &status),
        }
        client.released(&request);
    }
}

/// The extents up to the end of the client's export, which may lie before the end of the server's.
fn within(extents: &[Extent], mut left_bytes: u64) -> Vec<Extent> {
    let clip = |extent: &Extent| {
        let length = extent.length.min(left_bytes);
        left_bytes -= length;
        (length > 0).then_some(Extent { length, ..*extent })
    };
    extents.iter().map_while(clip).collect()
}

/// Notes a chunk of a read. One that is the whole answer needs no account.
fn cover(call: &mut Call, offset: u64, length: u32, last: bool) -> io::Result<()> {
    let whole = offset == call.request.offset && u64::from(length) == call.request.length;
    if whole && last && call.coverage.is_none() {
        call.answered_whole = true;
        return Ok(());
    }
    let Request { offset: from, length: all, .. } = call.request;
    let coverage = call.coverage.get_or_insert_with(|| Box::new(ReadCoverage::new(from, all)));
    coverage.add(offset, length).map_err(broken)
}

impl Future for Conversation {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Task<'_>) -> Poll<io::Result<()>> {
        let mut waker = self.link.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        drop(waker);
        self.turns(cx)
    }
}
