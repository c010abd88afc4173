//! One request on its way through the gate, with its payload and what came back.
//!
//! Most are clients' requests. The gate's own, for the volumes that it keeps, are made alike and
//! differ in their [`Origin`] alone.

mod losses;
mod origin;

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use evenkeel_core::ticket::Kind;
use evenkeel_engine::Unit;
use evenkeel_wire::nbd::proto::{CommandFlags, Errno};
use evenkeel_wire::nbd::request::Request;

use crate::buffer::Buf;
use crate::device::Device;
use crate::record::{Both, Started};
pub(crate) use losses::LossesHeard;
pub(crate) use origin::{Answer, Errand, Origin};

/// A request under way. The engine knows it by its slot.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) origin: Origin,
    /// What holds the bytes; of a tiered volume, every unit has its own part.
    pub(crate) device: Rc<Device>,
    /// In the addressing of whoever asked.
    pub(crate) request: Request,
    pub(crate) kind: Kind,
    /// What a write brought.
    pub(crate) payload: Option<Arc<Buf>>,
    /// Set where its end is to be recorded.
    pub(crate) recorded: Both<Option<Started>>,
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
        origin: Origin,
        device: Rc<Device>,
        request: Request,
        kind: Kind,
        payload: Option<Arc<Buf>>,
    ) -> Self {
        Self {
            origin,
            device,
            request,
            kind,
            payload,
            recorded: Both::default(),
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
        let start = usize::try_from(unit.at).expect("payloads fit memory");
        let length = usize::try_from(unit.length).expect("payloads fit memory");
        (Arc::clone(payload), start..start + length)
    }

    /// Notes that a unit failed; the first error is the one that is told.
    pub(crate) fn fail(&mut self, errno: Errno) {
        self.error.get_or_insert(errno);
    }

    /// Takes data of a read that begins `from` bytes into it. If it is all that a client asked
    /// for, and `last`, the answer goes out at once.
    pub(crate) fn take(&mut self, from: u64, data: Data<'_>, last: bool) {
        let is_whole = last && self.gather.is_none() && data.len() == self.request.length;
        if is_whole && let Some(client) = self.origin.client() {
            client.answer_read(&self.request, data);
            self.answered = true;
            return;
        }
        let gather = self.gather.get_or_insert_with(|| Gather {
            buf: Buf::take(usize::try_from(self.request.length).expect("reads fit memory")),
            holes: Vec::new(),
        });
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
            let from = unit.at;
            gather.holes.retain(|hole| hole.end <= from || hole.start >= from + unit.length);
        }
    }

    /// Everything is done: answers, unless data has done so already.
    pub(crate) fn finish(self, ok: bool) {
        let error = if ok { self.error } else { self.error.or(Some(Errno::Io)) };
        let answer = match (error, self.gather) {
            _ if self.answered => Answer::Given,
            (Some(errno), _) => Answer::Error(errno),
            (None, Some(Gather { buf, holes })) => Answer::Data(buf, holes),
            (None, None) => Answer::Done,
        };
        self.origin.finish(&self.request, answer);
    }
}
