//! The last requests of a recording that never ends, in memory that is bounded.
//!
//! [`Recent`] takes the bytes that [`NativeEncoder::endless`](super::NativeEncoder::endless)
//! writes, cut anywhere, and drops the oldest blocks. At any time it makes a whole file of the
//! rest:
//!
//! ```text
//! taken   head  P1 R R R R P2 R R P3 R R R ..
//! kept                  P1 R  P2 R R P3 R R R      P1 was in force at the oldest request kept
//! file    head  P1 R P2 R R P3 R R R end           numbers from 0 and 1, instants from about 0
//! ```
//!
//! A block stands for itself but for three numbers: its own, its first instant, and that of the
//! policy told last. Those are written anew, with the checksums; the records behind them are
//! copied as they are. Nothing is decoded, neither while requests come in nor for the file.
//!
//! What is dropped goes from the front, so that a policy is kept as long as a request is that was
//! served under it. One that is too large to be kept is recorded as not known, never left out: the
//! requests behind it are not taken to have been served under the one before.

use std::collections::VecDeque;

use evenkeel_core::crc32c::crc32c;
use evenkeel_core::time::{Nanos, Span};

use super::layout::{
    BLOCK_HEAD_BYTES, BlockHead, Class, FILE_HEAD_BYTES, VARINT_BYTES_MAX, push_file_head,
    push_varint, read_file_head, take_varint,
};
use super::policy;
use crate::codec::RecordedPolicy;

/// Policies that are kept at most; far fewer than a file may have.
const POLICIES_KEPT_MAX: usize = 4096;

/// What a block takes beside its payload: its place in the queue, which may be twice as long as
/// what it holds, and what an allocation costs.
const KEPT_BYTES: usize = 2 * size_of::<Kept>() + 16;

/// How much a [`Recent`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecentBounds {
    /// Bytes of what is kept, encoded; beside them there is one block of at most 72 KiB that is
    /// coming in. A policy of more than a quarter of this is recorded as not known.
    pub bytes_max: usize,
    /// How far a request may lie behind the newest block. With no request coming in, nothing gets
    /// older.
    pub age_max: Span,
}

/// The last requests of an endless recording, and the policies that they were served under.
#[derive(Debug)]
pub struct Recent {
    bounds: RecentBounds,
    next: Next,
    /// What has come of it.
    coming: Vec<u8>,
    /// A policy whose last part is still to come.
    gathering: Option<Gathering>,
    /// The policy in force at the oldest request that is kept.
    in_force: Option<RecordedPolicy>,
    /// Oldest first. The first one is no policy.
    kept: VecDeque<Kept>,
    /// What all that is kept takes, policies that are being gathered included.
    bytes: usize,
    /// Policies among `kept`.
    policies: usize,
}

/// What the bytes that come in next are.
#[derive(Clone, Copy, Debug)]
enum Next {
    FileHead,
    BlockHead,
    Payload(BlockHead),
}

#[derive(Debug)]
enum Kept {
    Requests(Requests),
    Policy(RecordedPolicy),
}

/// A block of requests.
#[derive(Debug)]
struct Requests {
    first: Nanos,
    count: u32,
    payload: Vec<u8>,
    /// Where the records begin in the payload.
    records_at: usize,
}

#[derive(Debug)]
struct Gathering {
    at: Nanos,
    /// Bytes of the text that have come.
    come: usize,
    /// The text so far; none if it is too long to be kept.
    text: Option<Vec<u8>>,
}

/// A file in the making.
struct File {
    out: Vec<u8>,
    /// The instant that becomes zero.
    base: Nanos,
    blocks: u32,
    policies: u32,
    records: u64,
}

impl Recent {
    /// Nothing yet.
    pub fn new(bounds: RecentBounds) -> Self {
        Self {
            bounds,
            next: Next::FileHead,
            coming: Vec::new(),
            gathering: None,
            in_force: None,
            kept: VecDeque::new(),
            bytes: 0,
            policies: 0,
        }
    }

    /// Takes the next bytes of what was encoded.
    ///
    /// # Errors
    /// Says what is wrong if these are not the encoder's bytes. What was kept stays, and nothing
    /// more can be taken.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let wanted = self.next.bytes();
            self.coming.reserve_exact(wanted - self.coming.len());
            let (piece, behind) = rest.split_at(rest.len().min(wanted - self.coming.len()));
            self.coming.extend_from_slice(piece);
            rest = behind;
            if self.coming.len() == wanted {
                let whole = std::mem::take(&mut self.coming);
                self.next = self.whole(whole)?;
            }
        }
        Ok(())
    }

    /// How many requests are kept.
    pub fn requests(&self) -> u64 {
        let blocks = self.kept.iter().filter_map(|kept| match kept {
            Kept::Requests(block) => Some(u64::from(block.count)),
            Kept::Policy(_) => None,
        });
        blocks.sum()
    }

    /// What is kept takes so many bytes; never more than the bound.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A whole file of what is kept, which a decoder reads without a defect. `zero_ns` is the
    /// instant from which the encoder's records count, in nanoseconds since 1970, or zero if it is
    /// not known; the file counts from the first request that it has.
    pub fn file(&self, zero_ns: u64) -> Vec<u8> {
        let base = match (self.kept.front(), &self.in_force) {
            (Some(Kept::Requests(block)), _) => block.first,
            (_, Some(policy)) => policy.at,
            _ => Nanos::ZERO,
        };
        let heads = FILE_HEAD_BYTES + (self.kept.len() + 2) * BLOCK_HEAD_BYTES;
        let out = Vec::with_capacity(self.bytes + heads);
        let mut file = File { out, base, blocks: 0, policies: 0, records: 0 };
        let origin_ns = if zero_ns == 0 { 0 } else { zero_ns.saturating_add(base.0) };
        push_file_head(&mut file.out, origin_ns);
        if let Some(policy) = &self.in_force {
            file.push_policy(policy);
        }
        for kept in &self.kept {
            match kept {
                Kept::Requests(block) => file.push_requests(block),
                Kept::Policy(policy) => file.push_policy(policy),
            }
        }
        file.end()
    }

    /// Takes what has come whole; returns what comes next.
    fn whole(&mut self, bytes: Vec<u8>) -> Result<Next, String> {
        let head = match self.next {
            Next::FileHead => {
                let head = bytes.first_chunk().expect("so many were wanted");
                read_file_head(head).map_err(|_| wrong("the head of a file"))?;
                return Ok(Next::BlockHead);
            }
            Next::BlockHead => {
                let head = bytes.first_chunk().expect("so many were wanted");
                let head = BlockHead::read(head).ok_or_else(|| wrong("the head of a block"))?;
                match head.class {
                    Class::End => return Ok(Next::FileHead),
                    Class::Requests | Class::Policy if head.payload_bytes > 0 => {}
                    _ => return Err(wrong("a block of this version")),
                }
                return Ok(Next::Payload(head));
            }
            Next::Payload(head) => head,
        };
        if head.class == Class::Policy {
            self.take_policy(&head, &bytes)?;
        } else {
            self.take_requests(&head, bytes)?;
        }
        self.drop_old(Nanos(head.value));
        Ok(Next::BlockHead)
    }

    fn take_requests(&mut self, head: &BlockHead, payload: Vec<u8>) -> Result<(), String> {
        let mut records = &payload[..];
        take_varint(&mut records).ok_or_else(|| wrong("the number of a policy"))?;
        let records_at = payload.len() - records.len();
        let (first, count) = (Nanos(head.value), head.count);
        self.bytes += KEPT_BYTES + payload.len();
        self.kept.push_back(Kept::Requests(Requests { first, count, payload, records_at }));
        Ok(())
    }

    /// Takes a part of a policy. Parts come one behind the other.
    fn take_policy(&mut self, head: &BlockHead, payload: &[u8]) -> Result<(), String> {
        let mut part = payload;
        take_varint(&mut part).ok_or_else(|| wrong("the number of a policy"))?;
        let place = take_varint(&mut part).ok_or_else(|| wrong("the place in a policy"))?;
        let whole = head.count as usize;
        if place == 0 {
            let is_kept = whole > 0 && whole <= self.bounds.bytes_max / 4;
            let text = is_kept.then(|| Vec::with_capacity(whole));
            self.gathering = Some(Gathering { at: Nanos(head.value), come: 0, text });
        }
        let known = self.gathering.as_mut().ok_or_else(|| wrong("the first part of a policy"))?;
        known.come += part.len();
        if let Some(text) = &mut known.text {
            text.extend_from_slice(part);
            self.bytes += part.len();
        }
        if known.come < whole {
            return Ok(());
        }
        let Gathering { at, text, .. } = self.gathering.take().expect("looked at above");
        let text = text.map(String::from_utf8).transpose().map_err(|_| wrong("a text"))?;
        self.bytes += KEPT_BYTES;
        let policy = RecordedPolicy { at, text };
        if self.kept.is_empty() {
            self.put_in_force(policy);
        } else {
            self.policies += 1;
            self.kept.push_back(Kept::Policy(policy));
        }
        Ok(())
    }

    /// The oldest request that is kept was served under this, or one that is to come.
    fn put_in_force(&mut self, policy: RecordedPolicy) {
        if let Some(before) = self.in_force.replace(policy) {
            self.bytes -= policy_bytes(&before);
        }
    }

    /// Keeps to the bounds, now that a block of this instant has come.
    fn drop_old(&mut self, newest: Nanos) {
        let RecentBounds { bytes_max, age_max } = self.bounds;
        let oldest = Nanos(newest.0.saturating_sub(age_max.0));
        while let Some(Kept::Requests(block)) = self.kept.front() {
            let is_too_much = self.bytes > bytes_max || self.policies > POLICIES_KEPT_MAX;
            if !is_too_much && block.first >= oldest {
                return;
            }
            self.bytes -= KEPT_BYTES + block.payload.len();
            self.kept.pop_front();
            while let Some(Kept::Policy(policy)) =
                self.kept.pop_front_if(|kept| matches!(kept, Kept::Policy(_)))
            {
                self.policies -= 1;
                self.put_in_force(policy);
            }
        }
    }
}

impl Next {
    fn bytes(self) -> usize {
        match self {
            Self::FileHead => FILE_HEAD_BYTES,
            Self::BlockHead => BLOCK_HEAD_BYTES,
            Self::Payload(head) => head.payload_bytes as usize,
        }
    }
}

impl File {
    fn push_policy(&mut self, policy: &RecordedPolicy) {
        let at = Nanos(policy.at.since(self.base).0);
        let text = policy.text.as_deref().unwrap_or_default();
        self.policies += 1;
        self.blocks = policy::push(&mut self.out, self.blocks, self.policies, at, text);
    }

    fn push_requests(&mut self, block: &Requests) {
        // The number may take a byte more than it did. There is room: no block has so many sources
        // that the number of one takes the five bytes for which PAYLOAD_BYTES_MAX allows.
        let mut payload = Vec::with_capacity(block.payload.len() + VARINT_BYTES_MAX);
        push_varint(&mut payload, u64::from(self.policies));
        payload.extend_from_slice(&block.payload[block.records_at..]);
        let head = BlockHead {
            class: Class::Requests,
            payload_bytes: u32::try_from(payload.len()).expect("within PAYLOAD_BYTES_MAX"),
            count: block.count,
            number: self.blocks,
            value: block.first.since(self.base).0,
            payload_checksum: crc32c(&payload),
        };
        head.push(&mut self.out);
        self.out.extend_from_slice(&payload);
        self.blocks += 1;
        self.records += u64::from(block.count);
    }

    fn end(mut self) -> Vec<u8> {
        let end = BlockHead {
            class: Class::End,
            payload_bytes: 0,
            count: self.policies,
            number: self.blocks,
            value: self.records,
            payload_checksum: crc32c(&[]),
        };
        end.push(&mut self.out);
        self.out
    }
}

fn policy_bytes(policy: &RecordedPolicy) -> usize {
    KEPT_BYTES + policy.text.as_ref().map_or(0, String::len)
}

fn wrong(what: &str) -> String {
    format!("{what} was expected among the bytes of an encoder; this is a bug")
}
