//! From bytes to requests: what has been read of a connection and not yet handed on.
//!
//! Reads go into the worker's scratch buffer, which all its connections share, so an idle
//! connection holds no memory. Only what cannot be used yet is kept here: an incomplete header, a
//! payload under way, or requests that must wait because the connection's window is full.

use std::rc::Rc;
use std::sync::Arc;

use evenkeel_core::time::Nanos;
use evenkeel_wire::nbd::check::{Fault, check_request};
use evenkeel_wire::nbd::proto::{Command, Errno};
use evenkeel_wire::nbd::reply::ReplyTo;
use evenkeel_wire::nbd::request::{Request, decode_request};

use super::{Client, Standing};
use crate::buffer::Buf;

/// A payload of which part has come.
#[derive(Debug)]
pub(super) struct Receiving {
    request: Request,
    buf: Buf,
    filled: usize,
}

impl Receiving {
    /// The request that it belongs to.
    pub(super) fn request(&self) -> &Request {
        &self.request
    }

    /// The part that has not come yet.
    pub(super) fn rest(&mut self) -> &mut [u8] {
        &mut self.buf[self.filled..]
    }

    /// Notes that `bytes` more have come.
    pub(super) fn fill(&mut self, bytes: usize) {
        self.filled += bytes;
    }
}

/// What one connection has read and not handed on.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// Bytes behind the last request that was taken.
    pub(super) carry: Vec<u8>,
    pub(super) receiving: Option<Receiving>,
    /// Payload of a refused request that is still to come.
    pub(super) skip_bytes: u64,
    /// The next request must wait; there is no sense in reading more.
    pub(super) blocked: bool,
}

/// The connection cannot go on.
#[derive(Debug)]
pub(super) struct OutOfStep(pub(super) String);

impl Inbox {
    /// Takes requests from the front of `input` until it is used up or one must wait. Returns how
    /// many bytes it used.
    pub(super) fn take(
        &mut self,
        client: &Rc<Client>,
        now: Nanos,
        input: &[u8],
    ) -> Result<usize, OutOfStep> {
        self.blocked = false;
        let mut rest = input;
        while !rest.is_empty() && client.standing.get() == Standing::Open {
            rest = self.skip(rest);
            rest = self.receive(client, now, rest);
            if self.receiving.is_some() || self.skip_bytes > 0 {
                break;
            }
            let decoded = decode_request(client.promise.style, rest)
                .map_err(|error| OutOfStep(error.to_string()))?;
            let Some((request, header_bytes)) = decoded else { break };
            if !self.begin(client, now, request)? {
                self.blocked = true;
                break;
            }
            rest = &rest[header_bytes..];
        }
        if client.standing.get() != Standing::Open {
            rest = &[];
        }
        Ok(input.len() - rest.len())
    }

    /// Hands on a payload that is complete.
    pub(super) fn complete(&mut self, client: &Rc<Client>, now: Nanos) {
        if let Some(Receiving { request, buf, .. }) =
            self.receiving.take_if(|receiving| receiving.filled == receiving.buf.len())
        {
            client.domain.arrive(client, now, request, Some(Arc::new(buf)));
        }
    }

    fn skip<'a>(&mut self, input: &'a [u8]) -> &'a [u8] {
        let skipped = usize::try_from(self.skip_bytes).unwrap_or(usize::MAX).min(input.len());
        self.skip_bytes -= skipped as u64;
        &input[skipped..]
    }

    fn receive<'a>(&mut self, client: &Rc<Client>, now: Nanos, input: &'a [u8]) -> &'a [u8] {
        let Some(receiving) = &mut self.receiving else { return input };
        let rest = receiving.rest();
        let (now_here, later) = input.split_at(rest.len().min(input.len()));
        rest[..now_here.len()].copy_from_slice(now_here);
        receiving.fill(now_here.len());
        self.complete(client, now);
        later
    }

    /// Starts on a request; false if it must wait.
    fn begin(
        &mut self,
        client: &Rc<Client>,
        now: Nanos,
        request: Request,
    ) -> Result<bool, OutOfStep> {
        if request.command == Command::Disconnect {
            client.standing.set(Standing::Leaving);
            return Ok(true);
        }
        match check_request(&request, &client.promise) {
            Ok(()) => {}
            Err(Fault::Disconnect { reason }) => return Err(OutOfStep(reason.to_owned())),
            Err(Fault::Refuse { errno, reason }) => {
                tracing::debug!(?request, reason, "request refused");
                self.skip_bytes = request.payload_bytes;
                client.answer_refusal(ReplyTo::from(&request), errno, reason);
                return Ok(true);
            }
        }
        if client.domain.worker.stopping.get() {
            self.skip_bytes = request.payload_bytes;
            client.answer_refusal(ReplyTo::from(&request), Errno::Shutdown, "the gate is stopping");
            return Ok(true);
        }
        if !client.admits(&request) {
            return Ok(false);
        }
        client.reserve(&request);
        if request.payload_bytes == 0 {
            client.domain.arrive(client, now, request, None);
        } else {
            let bytes = usize::try_from(request.payload_bytes).expect("payloads are checked");
            self.receiving = Some(Receiving { request, buf: Buf::take(bytes), filled: 0 });
        }
        Ok(true)
    }
}
