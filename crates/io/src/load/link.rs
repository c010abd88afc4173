//! One connection of a load client: the handshake, then batches of requests out and replies in.
//!
//! Requests gather in an outbox and leave with one vectored write; replies are taken from one large
//! buffer with as few reads as the kernel allows. Data of reads is looked at only for verification;
//! otherwise it is skipped where it lies, having been copied out of the kernel as any client must.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use evenkeel_core::ticket::Kind;
use evenkeel_core::workload::Draw;
use evenkeel_engine::policy::Address;
use evenkeel_wire::nbd::client::{ClientEvent, ClientHandshake, ClientOptions, ClientSession};
use evenkeel_wire::nbd::proto::{Command, CommandFlags};
use evenkeel_wire::nbd::reply::{Chunk, MAX_REPLY_HEADER_BYTES, ReadCoverage, decode_reply};
use evenkeel_wire::nbd::request::{Request, encode_request};
use evenkeel_wire::nbd::uri::{NbdUri, Transport as UriTransport};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};

use super::LoadError;
use crate::buffer::Buf;
use crate::outbox::Outbox;
use crate::transport::{Socket, Transport};

/// Room for replies: several of the customary 64 KiB reads.
const INPUT_BYTES: usize = 256 << 10;
const _: () = assert!(INPUT_BYTES > MAX_REPLY_HEADER_BYTES);

/// A connection in its transmission phase.
#[derive(Debug)]
pub(super) struct Link {
    target: String,
    transport: Transport,
    pub(super) session: ClientSession,
    outbox: Outbox,
    input: Vec<u8>,
    filled: Range<usize>,
    /// Data of a read that is still to come.
    stream: Option<Stream>,
    /// By slot: what is expected.
    parts: Vec<Option<Part>>,
}

/// One request as far as this connection serves it.
#[derive(Debug)]
struct Part {
    kind: Kind,
    offset: u64,
    length: u32,
    coverage: ReadCoverage,
    error: Option<String>,
    /// The data of a read, if it is wanted.
    data: Option<Vec<u8>>,
}

/// The rest of a data chunk.
#[derive(Clone, Copy, Debug)]
struct Stream {
    slot: usize,
    /// Where the next byte belongs, relative to the request.
    at: usize,
    remaining: usize,
    last: bool,
}

/// What a write carries.
#[derive(Clone, Copy, Debug)]
pub(super) enum Payload<'a> {
    /// Nothing: the request does not write.
    None,
    /// Any bytes: those of the buffer from here on, and again from its start if they run out.
    Filler(&'a Arc<Buf>, usize),
    /// These bytes.
    Exact(&'a [u8]),
}

/// Where a server is.
pub(super) fn address(target: &NbdUri) -> Address {
    match &target.transport {
        UriTransport::Tcp { host, port } if host.contains(':') => {
            Address::Tcp(format!("[{host}]:{port}"))
        }
        UriTransport::Tcp { host, port } => Address::Tcp(format!("{host}:{port}")),
        UriTransport::Unix { socket } => Address::Unix(socket.into()),
    }
}

/// A part that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) slot: usize,
    pub(super) kind: Kind,
    pub(super) length: u32,
    pub(super) result: Result<Option<Vec<u8>>, String>,
}

impl Link {
    /// Connects and negotiates.
    pub(super) async fn connect(target: &NbdUri, depth: u32) -> Result<Self, LoadError> {
        let failed = |what: String| LoadError::Connect { target: target.to_string(), what };
        let socket =
            Socket::connect(&address(target)).await.map_err(|error| failed(error.to_string()))?;
        let mut link = Self {
            target: target.to_string(),
            transport: Transport::Plain(socket),
            session: ClientSession::default(),
            outbox: Outbox::default(),
            input: vec![0; INPUT_BYTES],
            filled: 0..0,
            stream: None,
            parts: (0..depth).map(|_| None).collect(),
        };
        link.session = link.negotiate(target).await.map_err(failed)?;
        Ok(link)
    }

    async fn negotiate(&mut self, target: &NbdUri) -> Result<ClientSession, String> {
        let options = ClientOptions {
            export: target.export.clone(),
            extended: false,
            ..ClientOptions::default()
        };
        let mut handshake = ClientHandshake::new(options);
        loop {
            let input = &self.input[self.filled.clone()];
            let (used, event) = handshake.handle(input).map_err(|error| error.to_string())?;
            self.filled.start += used;
            let output = std::mem::take(handshake.output());
            self.transport.write_all(&output).await.map_err(|error| error.to_string())?;
            match event {
                ClientEvent::Ready(session) => return Ok(*session),
                ClientEvent::NeedInput => {
                    self.make_room();
                    let room = &mut self.input[self.filled.end..];
                    let read =
                        self.transport.read(room).await.map_err(|error| error.to_string())?;
                    if read == 0 {
                        return Err("the server closed the connection in the handshake".to_owned());
                    }
                    self.filled.end += read;
                }
                _ => return Err("the server wants what was not asked for".to_owned()),
            }
        }
    }

    /// Queues one request under `slot`, which must be free.
    pub(super) fn request(&mut self, slot: usize, draw: &Draw, payload: Payload<'_>, keep: bool) {
        let (command, payload_bytes) = match draw.kind {
            Kind::Read => (Command::Read, 0),
            Kind::Flush => (Command::Flush, 0),
            Kind::Trim => (Command::Trim, 0),
            Kind::Cache => (Command::Cache, 0),
            Kind::WriteZeroes => (Command::WriteZeroes, 0),
            Kind::Write => (Command::Write, u64::from(draw.size_bytes)),
        };
        let request = Request {
            flags: if draw.fua { CommandFlags::FUA } else { CommandFlags::NONE },
            command,
            cookie: slot as u64,
            offset: draw.offset,
            length: u64::from(draw.size_bytes),
            payload_bytes,
        };
        let style = self.session.style;
        self.outbox.append(|run| encode_request(run, style, &request));
        match payload {
            Payload::None => {}
            Payload::Filler(filler, start) => {
                let (mut at, mut left) = (start, draw.size_bytes as usize);
                while left > 0 {
                    let piece = left.min(filler.len() - at);
                    self.outbox.payload(filler, at..at + piece);
                    (at, left) = (0, left - piece);
                }
            }
            Payload::Exact(bytes) => self.outbox.append(|run| run.extend_from_slice(bytes)),
        }
        self.parts[slot] = Some(Part {
            kind: draw.kind,
            offset: draw.offset,
            length: draw.size_bytes,
            coverage: ReadCoverage::new(draw.offset, u64::from(draw.size_bytes)),
            error: None,
            data: keep.then(|| vec![0; draw.size_bytes as usize]),
        });
    }

    /// Writes what is queued, as far as the socket takes it.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Result<(), LoadError> {
        match self.outbox.poll_write(&mut self.transport, cx) {
            Poll::Ready(Err(error)) => Err(self.lost(error.to_string())),
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }

    /// Reads once and appends the parts that ended. False if nothing is there.
    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        ended: &mut Vec<Ended>,
    ) -> Result<bool, LoadError> {
        self.make_room();
        let mut room = ReadBuf::new(&mut self.input[self.filled.end..]);
        match Pin::new(&mut self.transport).poll_read(cx, &mut room) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Err(error)) => return Err(self.lost(error.to_string())),
            Poll::Ready(Ok(())) if room.filled().is_empty() => {
                let closed = io::Error::from(io::ErrorKind::UnexpectedEof);
                return Err(self.lost(format!("the server closed the connection ({closed})")));
            }
            Poll::Ready(Ok(())) => self.filled.end += room.filled().len(),
        }
        while self.take_data(ended)? || self.take_header(ended)? {}
        Ok(true)
    }

    /// The server, for people.
    pub(super) fn target(&self) -> &str {
        &self.target
    }

    /// Parts for which the server still owes an answer.
    pub(super) fn unanswered(&self) -> u64 {
        self.parts.iter().flatten().count() as u64
    }

    /// Says goodbye. Whether the server hears it does not matter.
    pub(super) async fn disconnect(mut self) {
        let request = Request {
            flags: CommandFlags::NONE,
            command: Command::Disconnect,
            cookie: 0,
            offset: 0,
            length: 0,
            payload_bytes: 0,
        };
        let mut bytes = Vec::new();
        encode_request(&mut bytes, self.session.style, &request);
        let _ = self.transport.write_all(&bytes).await;
    }

    fn lost(&self, what: String) -> LoadError {
        LoadError::Lost { target: self.target.clone(), what }
    }

    fn make_room(&mut self) {
        if self.filled.is_empty() {
            self.filled = 0..0;
        } else if self.input.len() - self.filled.end < MAX_REPLY_HEADER_BYTES {
            self.input.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
    }

    /// Takes data of the chunk that is streaming. False if there is none, or no input.
    fn take_data(&mut self, ended: &mut Vec<Ended>) -> Result<bool, LoadError> {
        let Some(stream) = &mut self.stream else { return Ok(false) };
        let taken = stream.remaining.min(self.filled.len());
        let bytes = &self.input[self.filled.start..self.filled.start + taken];
        let part = self.parts[stream.slot].as_mut().expect("a part streams until it ends");
        if let Some(data) = &mut part.data {
            data[stream.at..stream.at + taken].copy_from_slice(bytes);
        }
        self.filled.start += taken;
        stream.at += taken;
        stream.remaining -= taken;
        if stream.remaining > 0 {
            return Ok(false);
        }
        let (slot, last) = (stream.slot, stream.last);
        self.stream = None;
        if last {
            self.end(slot, ended)?;
        }
        Ok(true)
    }

    /// Takes one reply header. False if there is no whole one.
    fn take_header(&mut self, ended: &mut Vec<Ended>) -> Result<bool, LoadError> {
        let input = &self.input[self.filled.clone()];
        let decoded = match decode_reply(self.session.style, input) {
            Ok(decoded) => decoded,
            Err(error) => return Err(self.lost(error.to_string())),
        };
        let Some((header, used)) = decoded else { return Ok(false) };
        let slot = usize::try_from(header.cookie).unwrap_or(usize::MAX);
        let Some(part) = self.parts.get_mut(slot).and_then(Option::as_mut) else {
            let what = format!("it answered request {}, which was not asked", header.cookie);
            return Err(self.lost(what));
        };
        let last = header.last;
        let streams = match part.take_chunk(&header.chunk) {
            Ok(streams) => streams,
            Err(what) => return Err(self.lost(what)),
        };
        self.filled.start += used;
        match streams {
            Some((at, remaining)) => self.stream = Some(Stream { slot, at, remaining, last }),
            None if last => self.end(slot, ended)?,
            None => {}
        }
        Ok(true)
    }

    fn end(&mut self, slot: usize, ended: &mut Vec<Ended>) -> Result<(), LoadError> {
        let part = self.parts[slot].take().expect("a part ends once");
        let complete = part.kind != Kind::Read || part.coverage.is_complete();
        let result = match part.error {
            Some(error) => Err(error),
            None if complete => Ok(part.data),
            None => return Err(self.lost("it ended a read before all data had come".to_owned())),
        };
        ended.push(Ended { slot, kind: part.kind, length: part.length, result });
        Ok(())
    }
}

impl Part {
    /// Notes what a chunk says. Returns where the data that follows belongs, and how much it is.
    fn take_chunk(&mut self, chunk: &Chunk<'_>) -> Result<Option<(usize, usize)>, String> {
        let is_read = self.kind == Kind::Read;
        match *chunk {
            Chunk::Simple { error: Some(errno) } | Chunk::Error { errno, .. } => {
                self.error = Some(errno.to_string());
            }
            Chunk::Simple { error: None } if is_read => {
                let (offset, length) = (self.offset, self.length);
                return self.take_range(offset, length);
            }
            Chunk::Data { offset, length } if is_read => return self.take_range(offset, length),
            Chunk::Hole { offset, length } if is_read => {
                let _ = self.take_range(offset, length)?;
            }
            Chunk::Simple { error: None } | Chunk::None => {}
            Chunk::Data { .. } | Chunk::Hole { .. } | Chunk::BlockStatus { .. } => {
                return Err("it sent data that was not asked for".to_owned());
            }
        }
        Ok(None)
    }

    fn take_range(&mut self, offset: u64, length: u32) -> Result<Option<(usize, usize)>, String> {
        self.coverage.add(offset, length).map_err(|error| error.to_string())?;
        let at = usize::try_from(offset - self.offset).expect("within the request");
        Ok(Some((at, length as usize)))
    }
}
