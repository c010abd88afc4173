//! One client request on its way through the gate, with its payload and what came back.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use evenkeel_core::ticket::Kind;
use evenkeel_engine::Unit;
use evenkeel_wire::nbd::proto::{CommandFlags, Errno};
use evenkeel_wire::nbd::reply::ReplyTo;
use evenkeel_wire::nbd::request::Request;

use crate::buffer::Buf;
use crate::client::Client;
use crate::device::Device;
use crate::record::Started;

/// A request under way. The engine knows it by its slot.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) client: Rc<Client>,
    pub(crate) device: Rc<Device>,
    pub(crate) request: Request,
    pub(crate) kind: Kind,
    /// First byte on the device; the client's own addressing starts where its export does.
    pub(crate) device_offset: u64,
    /// What a write brought.
    pub(crate) payload: Option<Arc<Buf>>,
    /// Set if its end is to be recorded.
    pub(crate) recorded: Option<Started>,
    gather: Option<Gather>,
    error: Option<Errno>,
    answered: bool,
}

/// Holes of one read that are passed on as such; more are sent as the zeroes that they are.
const HOLES_MAX: usize = 64;

/// A read whose data comes in parts.
#[derive(Debug)]
struct Gather {
    buf: Buf,
    /// Parts that read as zeroes, relative to the request, in order of arrival.
    holes: Vec<Range<u64>>,
}

/// Data of a read, wherever it lies.
#[derive(Debug)]
pub(crate) enum Data<'a> {
    /// In a buffer that will be used again.
    Slice(&'a [u8]),
    /// In a part of a buffer that nobody will change while this is held.
    Shared(Arc<Buf>, Range<usize>),
    /// Nowhere: so many zeroes.
    Zeroes(u64),
}

impl From<Buf> for Data<'_> {
    fn from(buf: Buf) -> Self {
        let all = 0..buf.len();
        Self::Shared(Arc::new(buf), all)
    }
}

impl Data<'_> {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Slice(bytes) => bytes.len() as u64,
            Self::Shared(_, range) => range.len() as u64,
            Self::Zeroes(len) => *len,
        }
    }
}

impl Op {
    pub(crate) fn new(
        client: Rc<Client>,
        device: Rc<Device>,
        request: Request,
        kind: Kind,
        payload: Option<Arc<Buf>>,
    ) -> Self {
        let device_offset = client.export.base_bytes + request.offset;
        Self {
            client,
            device,
            request,
            kind,
            device_offset,
            payload,
            recorded: None,
            gather: None,
            error: None,
            answered: false,
        }
    }

    /// Whether the effect must be durable before it is answered.
    pub(crate) fn is_durable(&self) -> bool {
        self.request.flags.contains(CommandFlags::FUA)
    }

    /// The part of the payload that a unit writes.
    pub(crate) fn payload_of(&self, unit: &Unit) -> (Arc<Buf>, Range<usize>) {
        let payload = self.payload.as_ref().expect("a write has a payload");
        let start = usize::try_from(unit.offset - self.device_offset).expect("payloads fit memory");
        let length = usize::try_from(unit.length).expect("payloads fit memory");
        (Arc::clone(payload), start..start + length)
    }

    /// Notes that a unit failed; the first error is the one that the client sees.
    pub(crate) fn fail(&mut self, errno: Errno) {
        self.error.get_or_insert(errno);
    }

    /// Takes data of a read that starts at `device_offset`. If it is all that was asked for, and
    /// `last`, the client is answered at once.
    pub(crate) fn take(&mut self, device_offset: u64, data: Data<'_>, last: bool) {
        if last && self.gather.is_none() && data.len() == self.request.length {
            self.client.answer_read(&self.request, data);
            self.answered = true;
            return;
        }
        let gather = self.gather.get_or_insert_with(|| Gather {
            buf: Buf::take(usize::try_from(self.request.length).expect("reads fit memory")),
            holes: Vec::new(),
        });
        let from = device_offset - self.device_offset;
        let to = from + data.len();
        let range =
            usize::try_from(from).expect("in the read")..usize::try_from(to).expect("in it");
        match data {
            Data::Slice(bytes) => gather.buf[range].copy_from_slice(bytes),
            Data::Shared(buf, part) => gather.buf[range].copy_from_slice(&buf[part]),
            Data::Zeroes(_) => {
                gather.buf[range].fill(0);
                if gather.holes.len() < HOLES_MAX {
                    gather.holes.push(from..to);
                }
            }
        }
    }

    /// Forgets what came of a unit that is asked for again.
    pub(crate) fn forget(&mut self, unit: &Unit) {
        if let Some(gather) = &mut self.gather {
            let from = unit.offset - self.device_offset;
            gather.holes.retain(|hole| hole.end <= from || hole.start >= from + unit.length);
        }
    }

    /// Everything is done: answers the client, unless data has done so already.
    pub(crate) fn finish(mut self, ok: bool) {
        let client = Rc::clone(&self.client);
        let error = if ok { self.error } else { self.error.or(Some(Errno::Io)) };
        match (error, self.gather.take()) {
            _ if self.answered => {}
            (Some(errno), _) => client.answer_error(ReplyTo::from(&self.request), errno),
            (None, Some(gather)) => {
                client.answer_gathered(&self.request, gather.buf, gather.holes);
            }
            (None, None) => client.answer_done(ReplyTo::from(&self.request)),
        }
        client.released(&self.request);
    }
}
