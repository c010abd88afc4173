//! Writes the native format. A record costs a few bytes and no allocation; a block goes out when it
//! is full or flushed.

use super::layout::{
    BLOCK_BYTES, BlockHead, Class, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX, push_file_head, push_varint,
};
use super::policy::{self, Written};
use super::record::{Places, Told, push};
use crate::codec::Encoder;
use crate::format::checked::check;
use crate::format::names::printable;
use crate::{Record, Sources};
use evenkeel_core::crc32c::crc32c;
use evenkeel_core::time::Nanos;

/// The encoder of the native format.
///
/// It keeps at most a block of 64 KiB; what [`Encoder::encode`] has not appended yet comes with
/// [`Encoder::flush`].
#[derive(Debug)]
pub struct NativeEncoder {
    origin_ns: u64,
    is_endless: bool,
    has_head: bool,
    payload: Vec<u8>,
    payload_records: u32,
    first: Nanos,
    last: Nanos,
    told: Told,
    places: Places,
    blocks: u32,
    records: u64,
    policies: Written,
}

impl NativeEncoder {
    /// For a file whose `at = 0` is this instant, in nanoseconds since 1970; zero if it is not
    /// known.
    pub fn new(origin_ns: u64) -> Self {
        Self {
            origin_ns,
            is_endless: false,
            has_head: false,
            payload: Vec::with_capacity(PAYLOAD_BYTES_MAX),
            payload_records: 0,
            first: Nanos::ZERO,
            last: Nanos::ZERO,
            told: Told::default(),
            places: Places::default(),
            blocks: 0,
            records: 0,
            policies: Written::default(),
        }
    }

    /// For a [`Recent`](super::Recent), which gives blocks and policies other numbers: there may be
    /// more policies than a file holds.
    pub fn endless() -> Self {
        Self { is_endless: true, ..Self::new(0) }
    }

    fn push_head_once(&mut self, out: &mut Vec<u8>) {
        if !self.has_head {
            push_file_head(out, self.origin_ns);
            self.has_head = true;
        }
    }

    fn push_block(&mut self, out: &mut Vec<u8>) {
        let head = BlockHead {
            class: Class::Requests,
            payload_bytes: u32::try_from(self.payload.len()).expect("within PAYLOAD_BYTES_MAX"),
            count: self.payload_records,
            number: self.blocks,
            value: self.first.0,
            payload_checksum: crc32c(&self.payload),
        };
        head.push(out);
        out.extend_from_slice(&self.payload);
        self.payload.clear();
        self.payload_records = 0;
        self.blocks = self.blocks.wrapping_add(1);
    }
}

fn check_name(name: &str) -> Result<(), String> {
    if name.len() > NAME_BYTES_MAX || printable("name", name.as_bytes()).is_err() {
        return Err(format!("a source's name has 1 to {NAME_BYTES_MAX} printable bytes"));
    }
    Ok(())
}

impl Encoder for NativeEncoder {
    fn encode(
        &mut self,
        sources: &Sources,
        record: &Record,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let name = sources.name(record.source);
        check(record, self.last)?;
        if self.payload_records == 0 {
            self.first = record.at;
            self.told.restart(record.at);
            self.places.restart();
        }
        if self.places.find(record.source).is_none() {
            check_name(name)?;
        }
        self.push_head_once(out);
        if self.payload_records == 0 {
            push_varint(&mut self.payload, u64::from(self.policies.number));
        }
        push(&mut self.payload, &mut self.told, &mut self.places, name, record);
        self.payload_records += 1;
        self.records += 1;
        self.last = record.at;
        if self.payload.len() >= BLOCK_BYTES {
            self.push_block(out);
        }
        Ok(())
    }

    fn policy(&mut self, at: Nanos, text: Option<&str>, out: &mut Vec<u8>) -> Result<(), String> {
        let last = (self.records > 0).then_some(self.last);
        if self.is_endless {
            self.policies.make_room(text);
        }
        if let Some(number) = self.policies.note(at, text, last)? {
            self.flush(out);
            self.blocks = policy::push(out, self.blocks, number, at, text.unwrap_or_default());
        }
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        self.push_head_once(out);
        if self.payload_records > 0 {
            self.push_block(out);
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.flush(out);
        let end = BlockHead {
            class: Class::End,
            payload_bytes: 0,
            count: self.policies.number,
            number: self.blocks,
            value: self.records,
            payload_checksum: crc32c(&[]),
        };
        end.push(out);
    }
}
