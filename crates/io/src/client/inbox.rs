//! From bytes to requests: what has been read of a connection and not yet handed on.
//!
//! Reads go into the worker's scratch buffer, which all its connections share, so an idle
//! connection holds no memory. Only what cannot be used yet is kept here: an incomplete header, a
//! payload under way, or requests that must wait because the connection's window is full.

use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::Arc;

use evenkeel_core::time::Nanos;
use evenkeel_wire::nbd::check::{Fault, check_request};
use evenkeel_wire::nbd::proto::Command;
use evenkeel_wire::nbd::reply::ReplyTo;
use evenkeel_wire::nbd::request::{Request, decode_request};

use super::{ANSWER_BYTES, Client, SLACK_BYTES, Standing};
use crate::buffer::Buf;

/// What is asked for at first for a body, and at most at a time as it comes.
const STEP_BYTES: RangeInclusive<usize> = 16 << 10..=1 << 20;

/// A payload of which part has come.
#[derive(Debug)]
pub(super) struct Receiving {
    request: Request,
    /// As long as what was granted: so much may come before more is asked for.
    buf: Buf,
    filled: usize,
    /// What the request takes beside its payload.
    beside_bytes: usize,
}

impl Receiving {
    /// What has not come yet.
    pub(super) fn missing(&self) -> usize {
        payload_bytes(&self.request) - self.filled
    }

    /// What was granted for the request so far.
    pub(super) fn granted_bytes(&self) -> usize {
        self.beside_bytes + self.buf.len()
    }

    /// Where the next bytes go, as many as were granted.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.buf[self.filled..]
    }

    /// Asks for more memory where there is none left: as much again as has come. False if the
    /// body must wait.
    pub(super) fn find_room(&mut self, client: &Client) -> bool {
        if self.filled == self.buf.len() && self.missing() > 0 {
            let rest_bytes = self.missing();
            let step_bytes = step(self.filled).min(rest_bytes);
            let Some(bytes) = client.ask([step_bytes, rest_bytes], true) else {
                return false;
            };
            client.reserve_more(bytes);
            self.buf.grow(self.buf.len() + bytes);
        }
        true
    }

    /// Notes that `bytes` more have come.
    pub(super) fn fill(&mut self, bytes: usize) {
        self.filled += bytes;
    }
}

fn payload_bytes(request: &Request) -> usize {
    usize::try_from(request.payload_bytes).expect("payloads are checked")
}

fn step(filled: usize) -> usize {
    filled.clamp(*STEP_BYTES.start(), *STEP_BYTES.end())
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
            self.receiving.take_if(|receiving| receiving.missing() == 0)
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
        let mut input = input;
        while let Some(body) = &mut self.receiving
            && !input.is_empty()
        {
            if !body.find_room(client) {
                self.blocked = true;
                break;
            }
            let room = body.room();
            let (now_here, later) = input.split_at(room.len().min(input.len()));
            room[..now_here.len()].copy_from_slice(now_here);
            body.fill(now_here.len());
            input = later;
            self.complete(client, now);
        }
        input
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
        if !client.has_window() {
            return Ok(false);
        }
        let refusal = match check_request(&request, &client.promise) {
            Ok(()) => None,
            Err(Fault::Disconnect { reason }) => return Err(OutOfStep(reason.to_owned())),
            Err(Fault::Refuse { errno, reason }) => {
                tracing::debug!(?request, reason, "request refused");
                Some((errno, reason))
            }
        };
        if let Some((errno, reason)) = refusal {
            if client.ask([ANSWER_BYTES; 2], false).is_none() {
                return Ok(false);
            }
            self.skip_bytes = request.payload_bytes;
            client.answer_refusal(ReplyTo::from(&request), errno, reason);
            client.give_back(SLACK_BYTES);
            return Ok(true);
        }
        Ok(self.admit(client, now, request))
    }

    /// Takes a request in; false if there is no memory for it.
    fn admit(&mut self, client: &Rc<Client>, now: Nanos, request: Request) -> bool {
        let rest_bytes = client.room_of(&request);
        let payload_bytes = payload_bytes(&request);
        let beside_bytes = rest_bytes - payload_bytes;
        let step_bytes = beside_bytes + payload_bytes.min(step(0));
        let Some(granted) = client.ask([step_bytes, rest_bytes], false) else {
            return false;
        };
        client.reserve(granted);
        if payload_bytes == 0 {
            client.domain.arrive(client, now, request, None);
        } else {
            let buf = Buf::take(granted - beside_bytes);
            self.receiving = Some(Receiving { request, buf, filled: 0, beside_bytes });
        }
        true
    }
}
