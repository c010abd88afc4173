//! Reads the native format, and goes on behind damage.
//!
//! ```text
//!        head ok            head ok, payload ok -> its records
//! Head --------> Block ---> head or payload bad -> a defect, then Seek: on to the next whole head
//!                  `------> end block -> Ended: anything behind it is a defect
//! ```

use super::layout::{
    BLOCK_HEAD_BYTES, BLOCK_MARK, BlockHead, END_MARK, FILE_HEAD_BYTES, HeadError, read_file_head,
};
use super::record::{Told, take};
use crate::codec::{Decoder, Defect, DefectAt, Place};
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
    last: Nanos,
    next_block: u32,
    records: u64,
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
        if head.mark == END_MARK {
            return self.end_block(&head);
        }
        let payload = &rest[BLOCK_HEAD_BYTES..];
        match payload.get(..head.payload_bytes as usize) {
            Some(payload) => self.payload(&head, payload, records),
            None if end => {
                let reason = format!("the file ends within a block of {} records", head.records);
                self.lost(rest.len(), BLOCK_HEAD_BYTES, reason)
            }
            None => Step::Wait,
        }
    }

    fn payload(&mut self, head: &BlockHead, payload: &[u8], records: &mut Vec<Record>) -> Step {
        if crc32c(payload) != head.payload_checksum {
            let reason = format!("a block of {} records fails its checksum", head.records);
            return self.lost(0, BLOCK_HEAD_BYTES, reason);
        }
        self.next_block = head.number.wrapping_add(1);
        let used = BLOCK_HEAD_BYTES + payload.len();
        let mut rest = payload;
        match self.take_records(head, &mut rest, records) {
            Ok(()) => Step::Used(used),
            Err(reason) => Step::Defect { at: used - rest.len(), used, reason },
        }
    }

    fn take_records(
        &mut self,
        head: &BlockHead,
        rest: &mut &[u8],
        records: &mut Vec<Record>,
    ) -> Result<(), String> {
        if Nanos(head.first) < self.last {
            return Err("a block starts before the last one ended".to_owned());
        }
        self.told.restart(Nanos(head.first));
        for _ in 0..head.records {
            let record =
                take(rest, &mut self.told, &mut self.sources).map_err(Trouble::in_words)?;
            self.last = record.at;
            self.records += 1;
            records.push(record);
        }
        if rest.is_empty() { Ok(()) } else { Err("bytes behind a block's last record".to_owned()) }
    }

    fn end_block(&mut self, head: &BlockHead) -> Step {
        self.state = State::Ended;
        if head.first == self.records || self.is_damaged {
            return Step::Used(BLOCK_HEAD_BYTES);
        }
        let reason = format!("{} records were read of {}", self.records, head.first);
        Step::Defect { at: 0, used: BLOCK_HEAD_BYTES, reason }
    }

    /// On to the next mark with a whole head; what cannot be one is used.
    fn seek(&mut self, rest: &[u8], end: bool) -> Step {
        let marks = rest.windows(4).position(|mark| mark == BLOCK_MARK || mark == END_MARK);
        let Some(place) = marks else {
            // The first bytes of a mark may stand at the end.
            let kept = if end { 0 } else { rest.len().min(3) };
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
}
