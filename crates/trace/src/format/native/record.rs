//! One record within a block, as the difference from what its block has told so far.
//!
//! ```text
//! tag 1 | instant | source? [length name]? | offset? | length? | response?
//!
//! tag   bit 7      6           5             4             3             2..0
//!       sectors    response    same length   sequential    same source   kind
//! ```
//!
//! - The instant is nanoseconds since the record before; the block's head has the first.
//! - "Same source" means that of the record before. Otherwise its number follows: sources of a
//!   block are numbered as they appear, and the next free number brings the name with it.
//! - The offset is counted from where the source's last request ended, zigzag, and left out when it
//!   starts right there; the length is left out when it is that of the source's last request. Both
//!   are in sectors of 512 bytes if the tag says so.
//! - All numbers are varints. Arithmetic on offsets wraps, so that any range can be told.
//!
//! A tag of 7 begins a record of another class, of which this code knows none: `7 | class | length
//! | so many bytes`. It changes nothing of what the block has told. An even class may be left out.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::layout::{NAME_BYTES_MAX, UNKNOWN_CLASS, push_varint, take_varint, unzigzag, zigzag};
use crate::format::names::{intern, printable};
use crate::format::trouble::Trouble;
use crate::{Record, SourceId, Sources};

const KIND_BITS: u8 = 0b111;
/// The tag of a record that is no request.
const OTHER_CLASS: u8 = 7;
const SAME_SOURCE: u8 = 1 << 3;
const SEQUENTIAL: u8 = 1 << 4;
const SAME_LENGTH: u8 = 1 << 5;
const HAS_RESPONSE: u8 = 1 << 6;
const IN_SECTORS: u8 = 1 << 7;
const SECTOR_BYTES: u64 = 512;

/// What is remembered of a source within a block.
#[derive(Clone, Copy, Debug)]
struct Last {
    source: SourceId,
    end: u64,
    length: u64,
}

/// What a block has told so far; writer and reader keep the same.
#[derive(Debug, Default)]
pub(super) struct Told {
    at: Nanos,
    sources: Vec<Last>,
    /// Which of them the last record had.
    current: usize,
}

impl Told {
    /// Forgets everything: a block stands for itself.
    pub(super) fn restart(&mut self, first: Nanos) {
        self.sources.clear();
        self.current = usize::MAX;
        self.at = first;
    }

    fn push_source(&mut self, source: SourceId) -> usize {
        self.sources.push(Last { source, end: 0, length: 0 });
        self.sources.len() - 1
    }

    #[inline]
    fn remember(&mut self, place: usize, record: &Record) {
        self.at = record.at;
        self.current = place;
        let last = &mut self.sources[place];
        last.end = record.offset.wrapping_add(record.length);
        last.length = record.length;
    }
}

/// Where in the block each source of the trace is, by its id.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The block that last named the source, and its number there.
    by_id: Vec<(u64, usize)>,
    block: u64,
}

impl Places {
    /// Another block, which knows no source.
    pub(super) fn restart(&mut self) {
        self.block += 1;
    }

    /// The number of a source that the block has named.
    pub(super) fn find(&self, source: SourceId) -> Option<usize> {
        let &(block, place) = self.by_id.get(source.0 as usize)?;
        (block == self.block).then_some(place)
    }

    fn insert(&mut self, source: SourceId, place: usize) {
        let index = source.0 as usize;
        if self.by_id.len() <= index {
            self.by_id.resize(index + 1, (0, 0));
        }
        self.by_id[index] = (self.block, place);
    }
}

/// Appends a record that does not arrive before the last.
pub(super) fn push(
    out: &mut Vec<u8>,
    told: &mut Told,
    places: &mut Places,
    name: &str,
    record: &Record,
) {
    debug_assert!(record.at >= told.at && name.len() <= NAME_BYTES_MAX, "checked by the encoder");
    let known = places.find(record.source);
    let place = known.unwrap_or_else(|| told.push_source(record.source));
    let last = told.sources[place];
    let distance = record.offset.wrapping_sub(last.end).cast_signed();
    let in_sectors = distance % 512 == 0 && record.length.is_multiple_of(SECTOR_BYTES);
    let flag = |flag: u8, set: bool| if set { flag } else { 0 };
    out.push(
        kind_code(record.kind)
            | flag(SAME_SOURCE, place == told.current)
            | flag(SEQUENTIAL, distance == 0)
            | flag(SAME_LENGTH, record.length == last.length)
            | flag(HAS_RESPONSE, record.response.is_some())
            | flag(IN_SECTORS, in_sectors),
    );
    push_varint(out, record.at.since(told.at).0);
    if place != told.current {
        push_varint(out, place as u64);
    }
    if known.is_none() {
        places.insert(record.source, place);
        push_varint(out, name.len() as u64);
        out.extend_from_slice(name.as_bytes());
    }
    if distance != 0 {
        push_varint(out, zigzag(if in_sectors { distance / 512 } else { distance }));
    }
    if record.length != last.length {
        push_varint(out, if in_sectors { record.length / SECTOR_BYTES } else { record.length });
    }
    if let Some(Span(response_ns)) = record.response {
        push_varint(out, response_ns);
    }
    told.remember(place, record);
}

/// Takes a record of another class off a block of version 2, if one stands there, and says so. Only
/// those that may be passed over are taken.
pub(super) fn pass_over(bytes: &mut &[u8]) -> Result<bool, Trouble> {
    let Some((&OTHER_CLASS, mut rest)) = bytes.split_first() else { return Ok(false) };
    let class = varint(&mut rest)?;
    let length = usize::try_from(varint(&mut rest)?).map_err(|_| cut())?;
    if class % 2 == 1 {
        return Err(Trouble::Text(format!("a record of class {class}, {UNKNOWN_CLASS}")));
    }
    (_, *bytes) = rest.split_at_checked(length).ok_or_else(cut)?;
    Ok(true)
}

/// Takes the next request of a block, or says what is wrong with it.
pub(super) fn take(
    bytes: &mut &[u8],
    told: &mut Told,
    sources: &mut Sources,
) -> Result<Record, Trouble> {
    let (&tag, rest) = bytes.split_first().ok_or_else(cut)?;
    *bytes = rest;
    let kind = kind_of(tag & KIND_BITS).ok_or_else(|| text("a request of an unknown kind"))?;
    let at = told.at.0.checked_add(varint(bytes)?);
    let at = Nanos(at.ok_or_else(|| text("an instant above 64 bits"))?);
    let place =
        if tag & SAME_SOURCE != 0 { told.current } else { take_source(bytes, told, sources)? };
    let last = *told.sources.get(place).ok_or_else(|| text("a source without a name"))?;
    let unit = if tag & IN_SECTORS != 0 { SECTOR_BYTES } else { 1 };
    let distance = if tag & SEQUENTIAL != 0 { 0 } else { unzigzag(varint(bytes)?) };
    let offset = last.end.wrapping_add(distance.cast_unsigned().wrapping_mul(unit));
    let length = match tag & SAME_LENGTH {
        0 => varint(bytes)?.checked_mul(unit).ok_or_else(|| text("a length above 64 bits"))?,
        _ => last.length,
    };
    if offset.checked_add(length).is_none() {
        return Err(text("a range that ends beyond 64 bits"));
    }
    let response = if tag & HAS_RESPONSE != 0 { Some(Span(varint(bytes)?)) } else { None };
    let record = Record { at, source: last.source, kind, offset, length, response };
    told.remember(place, &record);
    Ok(record)
}

fn take_source(
    bytes: &mut &[u8],
    told: &mut Told,
    sources: &mut Sources,
) -> Result<usize, Trouble> {
    let place = usize::try_from(varint(bytes)?).map_err(|_| text("a source without a name"))?;
    if place != told.sources.len() {
        return Ok(place);
    }
    let length = varint(bytes)?;
    let length = usize::try_from(length).ok().filter(|&length| length <= NAME_BYTES_MAX);
    let length = length.ok_or_else(|| text("a name that is too long"))?;
    let (name, rest) = bytes.split_at_checked(length).ok_or_else(cut)?;
    *bytes = rest;
    let name = printable("name", name).map_err(|_| text("a name that is not printable"))?;
    Ok(told.push_source(intern(sources, &name)?))
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Trouble> {
    take_varint(bytes).ok_or_else(cut)
}

fn cut() -> Trouble {
    text("the records run over the end of their block")
}

fn text(found: &str) -> Trouble {
    Trouble::Text(format!("{found}; whoever wrote the block was wrong"))
}

fn kind_code(kind: Kind) -> u8 {
    match kind {
        Kind::Read => 0,
        Kind::Write => 1,
        Kind::Flush => 2,
        Kind::Trim => 3,
        Kind::Cache => 4,
        Kind::WriteZeroes => 5,
    }
}

fn kind_of(code: u8) -> Option<Kind> {
    Kind::ALL.into_iter().find(|&kind| kind_code(kind) == code)
}
