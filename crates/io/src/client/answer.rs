//! Answers to one client, in the framing that it negotiated.

use std::ops::Range;
use std::sync::Arc;

use evenkeel_wire::nbd::proto::{Command, CommandFlags, Errno, Extent};
use evenkeel_wire::nbd::reply::ReplyTo;
use evenkeel_wire::nbd::request::Request;

use super::{Client, EXTENTS_MAX, REASON_BYTES_MAX, Standing};
use crate::buffer::Buf;
use crate::op::Data;

impl Client {
    /// Success without data.
    pub(crate) fn answer_done(&self, to: ReplyTo) {
        self.answer(|run| self.promise.style.done(run, to));
    }

    /// Failure.
    pub(crate) fn answer_error(&self, to: ReplyTo, errno: Errno) {
        self.answer_refusal(to, errno, "");
    }

    /// Failure, with words for the client's user.
    pub(super) fn answer_refusal(&self, to: ReplyTo, errno: Errno, reason: &str) {
        let reason = &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)];
        self.answer(|run| self.promise.style.error(run, to, errno, reason));
    }

    /// All data of a read at once.
    pub(crate) fn answer_read(&self, request: &Request, data: Data<'_>) {
        if self.standing.get() == Standing::Lost {
            return;
        }
        let to = ReplyTo::from(request);
        let style = self.promise.style;
        let length = u32::try_from(request.length).expect("reads are checked to be short");
        let mut outbox = self.outbox.borrow_mut();
        if matches!(data, Data::Zeroes(_)) && self.may_have_holes(request) {
            outbox.append(|run| style.read_hole(run, to, request.offset, length, true));
            return;
        }
        outbox.append(|run| {
            style.read_data_header(run, to, request.offset, length, true);
            if let Data::Zeroes(_) = data {
                run.resize(run.len() + length as usize, 0);
            }
        });
        match data {
            Data::Slice(bytes) => outbox.bytes(bytes),
            Data::Shared(buf, range) => outbox.payload(&buf, range),
            Data::Zeroes(_) => {}
        }
    }

    /// Data of a read that came in parts; holes are passed on to clients that understand them.
    pub(crate) fn answer_gathered(&self, request: &Request, buf: Buf, mut holes: Vec<Range<u64>>) {
        if holes.is_empty() || !self.may_have_holes(request) {
            self.answer_read(request, buf.into());
            return;
        }
        holes.sort_by_key(|hole| hole.start);
        let to = ReplyTo::from(request);
        let style = self.promise.style;
        let buf = Arc::new(buf);
        let mut at = 0;
        let chunk = |range: Range<u64>, hole: bool, last: bool| {
            if range.is_empty() {
                return;
            }
            let offset = request.offset + range.start;
            let length = u32::try_from(range.end - range.start).expect("in the read");
            if hole {
                self.answer(|run| style.read_hole(run, to, offset, length, last));
            } else {
                self.answer(|run| style.read_data_header(run, to, offset, length, last));
                let bytes = |at| usize::try_from(at).expect("in the read");
                if self.standing.get() != Standing::Lost {
                    self.outbox.borrow_mut().payload(&buf, bytes(range.start)..bytes(range.end));
                }
            }
        };
        for hole in holes {
            let hole = hole.start.max(at)..hole.end;
            chunk(at..hole.start, false, false);
            at = hole.end;
            chunk(hole, true, at == request.length);
        }
        chunk(at..request.length, false, true);
    }

    /// What the negotiated contexts say of a range; an empty answer is an error.
    pub(crate) fn answer_status(&self, request: &Request, status: &[(u32, Vec<Extent>)]) {
        let to = ReplyTo::from(request);
        let Some((last, others)) = status.split_last() else {
            return self.answer_error(to, Errno::Invalid);
        };
        let style = self.promise.style;
        let is_wide = |(_, extents): &(u32, Vec<Extent>)| extents[0].flags > u64::from(u32::MAX);
        if !style.is_extended() && status.iter().any(is_wide) {
            // Said here for all contexts: an error in one chunk would end the answer.
            return self.answer_error(to, Errno::Overflow);
        }
        let count = |extents: &[Extent]| {
            let is_one = request.flags.contains(CommandFlags::REQ_ONE);
            if is_one { 1 } else { extents.len().min(EXTENTS_MAX) }
        };
        for (context, extents) in others {
            let extents = &extents[..count(extents)];
            self.answer(|run| style.block_status(run, to, *context, extents, false));
        }
        let extents = &last.1[..count(&last.1)];
        self.answer(|run| style.block_status(run, to, last.0, extents, true));
    }

    fn may_have_holes(&self, request: &Request) -> bool {
        debug_assert_eq!(request.command, Command::Read);
        self.promise.style.is_chunked() && !request.flags.contains(CommandFlags::DF)
    }

    fn answer(&self, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.standing.get() != Standing::Lost {
            self.outbox.borrow_mut().append(encode);
        }
    }
}
