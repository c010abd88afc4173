//! The policies of a trace: how one is cut into blocks, and what a reader knows of them.
//!
//! Every policy has a number, from 1, and every block of requests says how many were told before
//! it. That tells a reader behind damage whether it has missed one:
//!
//! ```text
//! file      P1  R(1)  P2  R(2)  R(2)            a block of a policy, and blocks of requests
//! damaged   P1  R(1)  --  R(2)  R(2)     2 was lost: not known from the last request of R(1) on
//! damaged   P1  --    P2  R(2)  R(2)     none was lost
//! ```
//!
//! A policy that is not known costs no request: only what was meant by whoever ran the gate.

use evenkeel_core::crc32c::crc32c;
use evenkeel_core::time::Nanos;

use super::layout::{BlockHead, Class, POLICY_PART_BYTES, push_varint, take_varint};
use crate::codec::RecordedPolicy;

/// The most bytes of a policy's text: as many as a policy file may have.
pub const POLICY_BYTES_MAX: usize = 4 << 20;

/// The most policies of a trace.
pub const POLICIES_MAX: u32 = 1 << 16;

/// The most bytes that the texts of all policies of a trace may take together.
pub const POLICIES_BYTES_MAX: usize = 64 << 20;

/// Appends a policy as blocks, the first of which has the number `block`; returns the number of the
/// next. An empty text says that the policy is not known.
pub(super) fn push(out: &mut Vec<u8>, block: u32, number: u32, at: Nanos, text: &str) -> u32 {
    let whole_bytes = u32::try_from(text.len()).expect("checked by the encoder");
    let (mut block, mut place) = (block, 0);
    loop {
        let part = &text.as_bytes()[place..];
        let part = &part[..part.len().min(POLICY_PART_BYTES)];
        let mut payload = Vec::with_capacity(part.len() + 10);
        push_varint(&mut payload, u64::from(number));
        push_varint(&mut payload, place as u64);
        payload.extend_from_slice(part);
        let head = BlockHead {
            class: Class::Policy,
            payload_bytes: u32::try_from(payload.len()).expect("within PAYLOAD_BYTES_MAX"),
            count: whole_bytes,
            number: block,
            value: at.0,
            payload_checksum: crc32c(&payload),
        };
        head.push(out);
        out.extend_from_slice(&payload);
        block = block.wrapping_add(1);
        place += part.len();
        if place == text.len() {
            return block;
        }
    }
}

/// What a writer has told of policies.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The number of the last one, known or not.
    pub(super) number: u32,
    /// Bytes of their texts.
    bytes: usize,
    /// The instant of the last one, and whether it is known.
    last: Option<(Nanos, bool)>,
}

impl Written {
    /// Takes note of another policy, and gives the number it has; none if there is nothing to tell.
    /// `record` is the instant of the last request.
    ///
    /// # Errors
    /// Says why the format cannot hold it. Nothing is noted then.
    pub(super) fn note(
        &mut self,
        at: Nanos,
        text: Option<&str>,
        record: Option<Nanos>,
    ) -> Result<Option<u32>, String> {
        if text.is_none() && self.last.is_none_or(|(_, is_known)| !is_known) {
            return Ok(None);
        }
        if record.is_some_and(|record| at <= record) || self.last.is_some_and(|(last, _)| at < last)
        {
            return Err(format!(
                "the policy of {} ns is in force no later than what was told before it; give \
                 policies in order, and before the requests that they apply to",
                at.0
            ));
        }
        let length = text.map_or(0, str::len);
        if text.is_some_and(str::is_empty) || length > POLICY_BYTES_MAX {
            return Err(format!("a policy has 1 to {POLICY_BYTES_MAX} bytes, this one {length}"));
        }
        if !self.has_room(text) {
            return Err(format!(
                "a trace holds {POLICIES_MAX} policies with {POLICIES_BYTES_MAX} bytes in all; \
                 begin another trace"
            ));
        }
        self.number += 1;
        self.bytes += length;
        self.last = Some((at, text.is_some()));
        Ok(Some(self.number))
    }

    /// Numbers what follows from 1 again if a file could not hold this text beside the ones before:
    /// for a stream that is no file.
    pub(super) fn make_room(&mut self, text: Option<&str>) {
        if !self.has_room(text) {
            (self.number, self.bytes) = (0, 0);
        }
    }

    fn has_room(&self, text: Option<&str>) -> bool {
        // The last number is kept for saying that the policy is not known any more.
        let is_full = self.number + 1 + u32::from(text.is_some()) > POLICIES_MAX;
        !is_full && self.bytes + text.map_or(0, str::len) <= POLICIES_BYTES_MAX
    }
}

/// What a reader knows of the policies so far.
#[derive(Debug, Default)]
pub(super) struct Policies {
    told: Vec<RecordedPolicy>,
    /// The number of the last policy, known or lost.
    number: u32,
    /// Bytes of the texts in `told`.
    bytes: usize,
    gathering: Option<Gathering>,
}

/// What is wrong with a policy, or with the number of those that were told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PolicyDefect {
    /// One was not read, or not all of it: what damage does, and was named where that began.
    Missed(String),
    /// A block says what cannot be.
    Wrong(String),
}

/// A policy whose last part is still to come.
#[derive(Debug)]
struct Gathering {
    at: Nanos,
    whole_bytes: u32,
    text: Vec<u8>,
}

impl Policies {
    /// All of them, in the order of their instants.
    pub(super) fn told(&self) -> &[RecordedPolicy] {
        &self.told
    }

    /// Takes a block of a policy. `free` is the earliest instant that it may have: the one behind
    /// the last request.
    ///
    /// # Errors
    /// Says what is wrong. Whatever this leaves open is not known.
    pub(super) fn take(
        &mut self,
        head: &BlockHead,
        payload: &[u8],
        free: Nanos,
    ) -> Result<(), PolicyDefect> {
        let mut text = payload;
        let number = take_varint(&mut text).and_then(|number| u32::try_from(number).ok());
        let place = take_varint(&mut text).and_then(|place| usize::try_from(place).ok());
        let (Some(number), Some(place)) = (number, place) else {
            self.lose(free);
            return Err(wrong("a part of a policy without its number and place"));
        };
        let missed = if place == 0 { self.missed_before(number, free) } else { Ok(()) };
        let begun = match place {
            0 => self.begin(head, number, free),
            _ => self.goes_on(head, number, place),
        };
        let taken = begun.and_then(|()| self.gather(text));
        if taken.is_err() {
            self.number = self.number.max(number);
            self.lose(free);
        }
        taken.and(missed)
    }

    /// A block of requests, or the end, says that so many policies were told before it.
    ///
    /// # Errors
    /// Says so if that is not what was read.
    pub(super) fn reach(&mut self, number: u32, free: Nanos) -> Result<(), PolicyDefect> {
        let missed = self.missed_before(number.saturating_add(1), free);
        let known = std::mem::replace(&mut self.number, number);
        if number < known {
            self.lose(free);
            return Err(wrong(&format!("{known} policies were told of {number}")));
        }
        missed
    }

    /// Says so if one is missing between those that were read and the one of this number.
    fn missed_before(&mut self, number: u32, free: Nanos) -> Result<(), PolicyDefect> {
        let known = self.number;
        let is_cut = self.gathering.is_some();
        if !is_cut && number <= known.saturating_add(1) {
            return Ok(());
        }
        self.lose(free);
        let lost = if is_cut { known } else { known + 1 };
        Err(PolicyDefect::Missed(format!("policy {lost} is missing, or a part of it")))
    }

    /// From `free` on, or from the instant of the policy that was being read, none is known.
    pub(super) fn lose(&mut self, free: Nanos) {
        let at = self.gathering.take().map_or(free, |gathering| gathering.at);
        let last = self.told.last();
        if last.is_none_or(|last| last.text.is_some()) {
            let at = last.map_or(at, |last| at.max(last.at));
            self.told.push(RecordedPolicy { at, text: None });
        }
    }

    /// The first part of a policy.
    fn begin(&mut self, head: &BlockHead, number: u32, free: Nanos) -> Result<(), PolicyDefect> {
        let (at, known) = (Nanos(head.value), self.number);
        if number <= known || number > POLICIES_MAX {
            return Err(wrong(&format!("policy {number} behind policy {known}")));
        }
        if at < free || self.told.last().is_some_and(|last| at < last.at) {
            return Err(wrong(&format!("policy {number} stands behind what it applies to")));
        }
        if head.count as usize > POLICY_BYTES_MAX {
            return Err(wrong(&format!("a policy of {} bytes", head.count)));
        }
        self.number = number;
        self.gathering = Some(Gathering { at, whole_bytes: head.count, text: Vec::new() });
        Ok(())
    }

    /// Another part of the policy that is being read.
    fn goes_on(&self, head: &BlockHead, number: u32, place: usize) -> Result<(), PolicyDefect> {
        let is_next = self.gathering.as_ref().is_some_and(|known| {
            number == self.number
                && known.text.len() == place
                && known.at.0 == head.value
                && known.whole_bytes == head.count
        });
        let missed = || PolicyDefect::Missed(format!("a part of policy {number} is missing"));
        is_next.then_some(()).ok_or_else(missed)
    }

    /// Adds the text of a part; the last one completes the policy.
    fn gather(&mut self, part: &[u8]) -> Result<(), PolicyDefect> {
        let known = self.gathering.as_mut().expect("begun, or it would not continue");
        known.text.extend_from_slice(part);
        let whole_bytes = known.whole_bytes as usize;
        if known.text.len() > whole_bytes || (part.is_empty() && whole_bytes > 0) {
            return Err(wrong("a part of a policy that does not fit the whole"));
        }
        if known.text.len() < whole_bytes {
            return Ok(());
        }
        let Gathering { at, text, .. } = self.gathering.take().expect("looked at above");
        if text.is_empty() {
            self.lose(at);
            return Ok(());
        }
        let text = String::from_utf8(text).map_err(|_| wrong("a policy that is no UTF-8"))?;
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > POLICIES_BYTES_MAX {
            return Err(wrong(&format!("policies of more than {POLICIES_BYTES_MAX} bytes in all")));
        }
        self.told.push(RecordedPolicy { at, text: Some(text) });
        Ok(())
    }
}

fn wrong(found: &str) -> PolicyDefect {
    PolicyDefect::Wrong(format!("{found}; whoever wrote the block was wrong"))
}
