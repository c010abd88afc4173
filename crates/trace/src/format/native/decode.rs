//! Reads the native format, and goes on behind damage.
//!
//! ```text
//!        head ok            head ok, payload ok -> its records
//! Head --------> Block ---> head or payload bad -> a defect, then Seek: on to the next whole head
//!                  `------> end block -> Ended: anything behind it is a defect
//! ```
//!
//! Which policy holds is known from block to block; see [`policy`](super::policy).

use super::layout::{
    BLOCK_HEAD_BYTES, BLOCK_MARK, BlockHead, Class, FILE_HEAD_BYTES, HeadError, UNKNOWN_CLASS,
    read_file_head, take_varint,
};
use super::policy::{Policies, PolicyDefect};
use super::record::{Told, pass_over, take};
use crate::codec::{Decoder, Defect, DefectAt, Place, RecordedPolicy};
use crate::format::trouble::Trouble;
use crate::{Record, Sources};
use evenkeel_core::crc32c::crc32c;
use evenkeel_core::time::Nanos;

/// The decoder of the native format.
#[derive(Debug, Default)]
pub struct NativeDecoder {
    state: State,
    byte: u64,
    origin_ns: Option<u64>,
    sources: Sources,
    told: Told,
    /// The instant of the last request.
    last: Option<Nanos>,
    policies: Policies,
    next_block: u32,
    /// Requests, and records of other classes.
    records: u64,
    passed_over: u64,
    is_damaged: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Block,
    /// Behind a damaged head: on to the next that is whole.
    Seek,
    Ended,
    /// What had to be said of the end was said.
    Done,
}

/// Where in its block something is wrong, and what.
type At = (usize, String);

/// What a step came to: so many bytes are used, and a defect may end with them.
enum Step {
    Used(usize),
    /// The defect shows so many bytes from here.
    Defect {
        at: usize,
        used: usize,
        reason: String,
    },
    /// More bytes are needed, or nothing is left.
    Wait,
}

impl NativeDecoder {
    /// At the start of a file.
    pub fn new() -> Self {
        Self::default()
    }

    fn step(&mut self, rest: &[u8], end: bool, records: &mut Vec<Record>) -> Step {
        match self.state {
            State::Head => self.head(rest, end),
            State::Block => self.block(rest, end, records),
            State::Seek => self.seek(rest, end),
            State::Ended | State::Done => self.behind_the_end(rest),
        }
    }

    fn head(&mut self, rest: &[u8], end: bool) -> Step {
        let Some(head) = rest.first_chunk() else {
            return self.cut_short(rest, end, "the file ends within its head");
        };
        self.state = State::Block;
        match read_file_head(head) {
            Ok(origin_ns) => {
                self.origin_ns = (origin_ns > 0).then_some(origin_ns);
                Step::Used(FILE_HEAD_BYTES)
            }
            Err(HeadError::Damaged(reason)) => self.lost(0, 1, reason.to_owned()),
            Err(HeadError::Foreign(reason)) => {
                self.state = State::Done;
                Step::Defect { at: 0, used: rest.len(), reason }
            }
        }
    }

    fn block(&mut self, rest: &[u8], end: bool, records: &mut Vec<Record>) -> Step {
        let Some(head) = rest.first_chunk::<BLOCK_HEAD_BYTES>() else {
            let reason = if rest.is_empty() {
                "the file has no end mark: it was cut here, or is still being written"
            } else {
                "the file ends within the head of a block"
            };
            return self.cut_short(rest, end, reason);
        };
        let Some(head) = BlockHead::read(head) else {
            let reason = "the head of a block is damaged; going on with the next that is whole";
            return self.lost(0, 1, reason.to_owned());
        };
        if head.number != self.next_block {
            let reason = format!("expected block {}, found block {}", self.next_block, head.number);
            self.next_block = head.number;
            return Step::Defect { at: 0, used: 0, reason };
        }
        if head.class == Class::End {
            return self.end_block(&head);
        }
        let payload = &rest[BLOCK_HEAD_BYTES..];
        match payload.get(..head.payload_bytes as usize) {
            Some(payload) => self.payload(&head, payload, records),
            None if end => {
                let reason = format!("the file ends within {}", described(&head));
                self.lost(rest.len(), BLOCK_HEAD_BYTES, reason)
            }
            None => Step::Wait,
        }
    }

    fn payload(&mut self, head: &BlockHead, payload: &[u8], records: &mut Vec<Record>) -> Step {
        if crc32c(payload) != head.payload_checksum {
            if head.class == Class::Policy {
                self.policies.lose(self.free());
            }
            let reason = format!("{} fails its checksum", described(head));
            return self.lost(0, BLOCK_HEAD_BYTES, reason);
        }
        self.next_block = head.number.wrapping_add(1);
        let used = BLOCK_HEAD_BYTES + payload.len();
        let outcome = match head.class {
            Class::RequestsOfVersion1 => self.requests(head, payload, records, false),
            Class::Requests => self.numbered_requests(head, payload, records),
            Class::Policy => {
                let outcome = self.policies.take(head, payload, self.free());
                self.judged(outcome).map_err(|reason| (0, reason))
            }
            Class::Unknown(letter) if letter.is_ascii_lowercase() => {
                self.passed_over += 1;
                Ok(())
            }
            Class::Unknown(_) | Class::End => {
                Err((0, format!("{}, {UNKNOWN_CLASS}", described(head))))
            }
        };
        match outcome {
            Ok(()) => Step::Used(used),
            Err((at, reason)) => Step::Defect { at, used, reason },
        }
    }

    /// A block of requests, which begins with the number of the policy told last.
    fn numbered_requests(
        &mut self,
        head: &BlockHead,
        payload: &[u8],
        records: &mut Vec<Record>,
    ) -> Result<(), At> {
        let mut rest = payload;
        let number = take_varint(&mut rest).and_then(|number| u32::try_from(number).ok());
        let Some(number) = number else {
            return Err((0, "a block of requests without the number of its policy".to_owned()));
        };
        let reached = self.policies.reach(number, self.free());
        let reached = self.judged(reached).map_err(|reason| (0, reason));
        // They are there, whatever they were served under.
        self.requests(head, rest, records, true).and(reached)
    }

    /// What damage took away was said where it began.
    fn judged(&self, outcome: Result<(), PolicyDefect>) -> Result<(), String> {
        match outcome {
            Ok(()) => Ok(()),
            Err(PolicyDefect::Missed(_)) if self.is_damaged => Ok(()),
            Err(PolicyDefect::Missed(reason) | PolicyDefect::Wrong(reason)) => Err(reason),
        }
    }

    /// The first instant behind the requests so far: no policy told later may begin before it.
    fn free(&self) -> Nanos {
        self.last.map_or(Nanos::ZERO, |last| Nanos(last.0.saturating_add(1)))
    }

    /// Takes the records of a block; `payload` is what the block ends with.
    fn requests(
        &mut self,
        head: &BlockHead,
        payload: &[u8],
        records: &mut Vec<Record>,
        has_classes: bool,
    ) -> Result<(), At> {
        let mut rest = payload;
        let whole = BLOCK_HEAD_BYTES + head.payload_bytes as usize;
        self.take_records(head, &mut rest, records, has_classes)
            .map_err(|reason| (whole - rest.len(), reason))
    }

    fn take_records(
        &mut self,
        head: &BlockHead,
        rest: &mut &[u8],
        records: &mut Vec<Record>,
        has_classes: bool,
    ) -> Result<(), String> {
        if self.last.is_some_and(|last| Nanos(head.value) < last) {
            return Err("a block starts before the last one ended".to_owned());
        }
        self.told.restart(Nanos(head.value));
        for _ in 0..head.count {
            self.records += 1;
            if has_classes && pass_over(rest).map_err(Trouble::in_words)? {
                self.passed_over += 1;
                continue;
            }
            let record =
                take(rest, &mut self.told, &mut self.sources).map_err(Trouble::in_words)?;
            self.last = Some(record.at);
            records.push(record);
        }
        if rest.is_empty() { Ok(()) } else { Err("bytes behind a block's last record".to_owned()) }
    }

    fn end_block(&mut self, head: &BlockHead) -> Step {
        self.state = State::Ended;
        let outcome = self.policies.reach(head.count, self.free());
        if head.value != self.records && !self.is_damaged {
            let reason = format!("{} records were read of {}", self.records, head.value);
            return Step::Defect { at: 0, used: BLOCK_HEAD_BYTES, reason };
        }
        match self.judged(outcome) {
            Ok(()) => Step::Used(BLOCK_HEAD_BYTES),
            Err(reason) => Step::Defect { at: 0, used: BLOCK_HEAD_BYTES, reason },
        }
    }

    /// On to the next mark with a whole head; what cannot be one is used.
    fn seek(&mut self, rest: &[u8], end: bool) -> Step {
        let marks = rest.windows(BLOCK_MARK.len()).position(|mark| mark == BLOCK_MARK);
        let Some(place) = marks else {
            // The first bytes of a mark may stand at the end.
            let kept = if end { 0 } else { rest.len().min(BLOCK_MARK.len() - 1) };
            return used_or_wait(rest.len() - kept);
        };
        match rest[place..].first_chunk().map(BlockHead::read) {
            Some(Some(head)) => {
                self.state = State::Block;
                // That blocks are missing was said where the damage began.
                self.next_block = head.number;
                Step::Used(place)
            }
            Some(None) => Step::Used(place + 1),
            None if end => Step::Used(rest.len()),
            None => used_or_wait(place),
        }
    }

    fn behind_the_end(&mut self, rest: &[u8]) -> Step {
        if rest.is_empty() {
            return Step::Wait;
        }
        if self.state == State::Done {
            return Step::Used(rest.len());
        }
        self.state = State::Done;
        let reason = "bytes behind the end mark: two files in one? Convert them one by one";
        Step::Defect { at: 0, used: rest.len(), reason: reason.to_owned() }
    }

    fn cut_short(&mut self, rest: &[u8], end: bool, reason: &str) -> Step {
        if !end {
            return Step::Wait;
        }
        self.state = State::Done;
        Step::Defect { at: rest.len(), used: rest.len(), reason: reason.to_owned() }
    }

    /// From here on heads must be sought.
    fn lost(&mut self, at: usize, used: usize, reason: String) -> Step {
        self.state = State::Seek;
        Step::Defect { at, used, reason }
    }
}

/// A block, for people.
fn described(head: &BlockHead) -> String {
    match head.class {
        Class::RequestsOfVersion1 | Class::Requests => format!("a block of {} records", head.count),
        Class::Policy => "a block of a policy".to_owned(),
        Class::End => "the end mark".to_owned(),
        Class::Unknown(letter) => format!("a block of class {}", char::from(letter)),
    }
}

fn used_or_wait(used: usize) -> Step {
    if used == 0 { Step::Wait } else { Step::Used(used) }
}

impl Decoder for NativeDecoder {
    fn decode(
        &mut self,
        input: &[u8],
        end: bool,
        records: &mut Vec<Record>,
    ) -> Result<usize, DefectAt> {
        let mut used = 0;
        loop {
            match self.step(&input[used..], end, records) {
                Step::Wait => return Ok(used),
                Step::Used(bytes) => {
                    used += bytes;
                    self.byte += bytes as u64;
                }
                Step::Defect { at, used: bytes, reason } => {
                    let place = Place::Byte(self.byte + at as u64);
                    used += bytes;
                    self.byte += bytes as u64;
                    self.is_damaged = true;
                    return Err(DefectAt { defect: Defect { place, reason }, used });
                }
            }
        }
    }

    fn sources(&self) -> &Sources {
        &self.sources
    }

    fn origin_ns(&self) -> Option<u64> {
        self.origin_ns
    }

    fn policies(&self) -> &[RecordedPolicy] {
        self.policies.told()
    }

    fn passed_over(&self) -> u64 {
        self.passed_over
    }
}
