//! Transmission requests: the compact header of 28 bytes and the extended one of 32.
//!
//! ```text
//! compact   magic u32 | flags u16 | type u16 | cookie u64 | offset u64 | length u32
//! extended  magic u32 | flags u16 | type u16 | cookie u64 | offset u64 | length u64
//! ```
//!
//! The length field means one of two things. Where a payload follows the header it counts the
//! payload: always for a WRITE, and in the extended form wherever else the flag `PAYLOAD_LEN` is
//! set. Everywhere else it counts the bytes of the export that the command affects. [`Request`]
//! keeps the two apart.

use super::proto::{
    Command, CommandFlags, Context, EXTENDED_REQUEST_MAGIC, MAX_CONTEXTS, REQUEST_MAGIC, ReplyStyle,
};
use std::fmt;

/// Size of a compact request header.
pub const COMPACT_REQUEST_BYTES: usize = 28;
/// Size of an extended request header.
pub const EXTENDED_REQUEST_BYTES: usize = 32;
/// The longest payload of a `BLOCK_STATUS` request that can be valid.
pub const MAX_STATUS_QUERY_BYTES: u64 = 8 + 4 * MAX_CONTEXTS as u64;

/// Size of the fields that both headers share.
const SHARED_BYTES: usize = 24;

/// One request header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Modifiers.
    pub flags: CommandFlags,
    /// What is asked.
    pub command: Command,
    /// The client's name for the request; the reply carries it back.
    pub cookie: u64,
    /// First byte of the export affected.
    pub offset: u64,
    /// Bytes of the export affected. Zero where only the payload tells (see
    /// [`decode_status_query`]).
    pub length: u64,
    /// Bytes that follow the header on the wire.
    pub payload_bytes: u64,
}

/// A stream that is not a sequence of requests: there is no way back into step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRequestMagic {
    /// What stood in place of the magic number.
    pub found: u32,
    /// What the session's style asks for.
    pub expected: u32,
}

impl fmt::Display for BadRequestMagic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "request starts with {:#010x} instead of {:#010x}: the client's stream is out of step",
            self.found, self.expected
        )
    }
}

impl std::error::Error for BadRequestMagic {}

/// Reads one request header from the front of `input`. Returns it with the number of bytes it took,
/// or `None` if `input` is too short to hold one; the payload, if any, follows.
///
/// # Errors
/// If the magic number is wrong. The connection cannot go on.
#[inline]
pub fn decode_request(
    style: ReplyStyle,
    input: &[u8],
) -> Result<Option<(Request, usize)>, BadRequestMagic> {
    let (header_bytes, magic) = if style.is_extended() {
        (EXTENDED_REQUEST_BYTES, EXTENDED_REQUEST_MAGIC)
    } else {
        (COMPACT_REQUEST_BYTES, REQUEST_MAGIC)
    };
    let Some((shared, rest)) = input.split_first_chunk::<SHARED_BYTES>() else { return Ok(None) };
    let length = if style.is_extended() {
        rest.first_chunk().map(|&bytes| u64::from_be_bytes(bytes))
    } else {
        rest.first_chunk().map(|&bytes| u64::from(u32::from_be_bytes(bytes)))
    };
    let Some(length) = length else { return Ok(None) };
    let request = decode_shared(shared, magic, length, style.is_extended())?;
    Ok(Some((request, header_bytes)))
}

/// Decodes the part that both headers share, and gives the length field its meaning.
#[inline]
fn decode_shared(
    shared: &[u8; SHARED_BYTES],
    expected: u32,
    length: u64,
    extended: bool,
) -> Result<Request, BadRequestMagic> {
    let [m0, m1, m2, m3, f0, f1, t0, t1, cookie_and_offset @ ..] = *shared;
    let found = u32::from_be_bytes([m0, m1, m2, m3]);
    if found != expected {
        return Err(BadRequestMagic { found, expected });
    }
    let [c0, c1, c2, c3, c4, c5, c6, c7, o0, o1, o2, o3, o4, o5, o6, o7] = cookie_and_offset;
    let flags = CommandFlags(u16::from_be_bytes([f0, f1]));
    let command = Command::from_code(u16::from_be_bytes([t0, t1]));
    let is_write = command == Command::Write;
    // An extended WRITE ought to set the flag, but QEMU's client (10.0) leaves it out; a WRITE that
    // brought no payload would make no sense, so it always counts as bringing one.
    let has_payload = is_write || (extended && flags.contains(CommandFlags::PAYLOAD_LEN));
    Ok(Request {
        flags,
        command,
        cookie: u64::from_be_bytes([c0, c1, c2, c3, c4, c5, c6, c7]),
        offset: u64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
        length: if has_payload && !is_write { 0 } else { length },
        payload_bytes: if has_payload { length } else { 0 },
    })
}

/// Appends the header of `request`; the caller sends `payload_bytes` bytes behind it. The flag
/// `PAYLOAD_LEN` is set or cleared as the style and the payload demand.
///
/// # Panics
/// If the style cannot express the request: a length of more than 32 bits, or a payload of anything
/// but a WRITE, in a compact header. The caller has to cut or to refuse such a request.
#[inline]
pub fn encode_request(out: &mut Vec<u8>, style: ReplyStyle, request: &Request) {
    let has_payload = request.command == Command::Write || request.payload_bytes > 0;
    let length = if has_payload { request.payload_bytes } else { request.length };
    let plain = request.flags.without(CommandFlags::PAYLOAD_LEN);
    let extended = style.is_extended();
    let (magic, flags) = match (extended, has_payload) {
        (true, true) => (EXTENDED_REQUEST_MAGIC, plain.with(CommandFlags::PAYLOAD_LEN)),
        (true, false) => (EXTENDED_REQUEST_MAGIC, plain),
        (false, _) => (REQUEST_MAGIC, plain),
    };
    let mut header = [0; EXTENDED_REQUEST_BYTES];
    header[..4].copy_from_slice(&magic.to_be_bytes());
    header[4..6].copy_from_slice(&flags.0.to_be_bytes());
    header[6..8].copy_from_slice(&request.command.code().to_be_bytes());
    header[8..16].copy_from_slice(&request.cookie.to_be_bytes());
    header[16..24].copy_from_slice(&request.offset.to_be_bytes());
    if extended {
        header[24..].copy_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&header);
    } else {
        assert!(
            request.command == Command::Write || request.payload_bytes == 0,
            "a compact header announces the payload of a WRITE only"
        );
        let length = u32::try_from(length).expect("the caller cuts requests to 32-bit lengths");
        header[24..28].copy_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&header[..COMPACT_REQUEST_BYTES]);
    }
}

/// What the payload of a `BLOCK_STATUS` request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusQuery {
    /// Bytes of the export asked about, from the request's offset on.
    pub length: u64,
    ids: [u32; MAX_CONTEXTS],
    count: usize,
}

impl StatusQuery {
    /// Numbers of the contexts asked for.
    pub fn contexts(&self) -> &[u32] {
        &self.ids[..self.count]
    }
}

/// Reads the payload of a `BLOCK_STATUS` request, checked against the session's contexts. `None` if
/// it is malformed or names a context twice or one that was not negotiated; the answer is then
/// [`super::proto::Errno::Invalid`].
pub fn decode_status_query(payload: &[u8], negotiated: &[Context]) -> Option<StatusQuery> {
    let (length, ids) = payload.split_first_chunk::<8>()?;
    let (ids, tail) = ids.as_chunks::<4>();
    if !tail.is_empty() || ids.is_empty() || ids.len() > MAX_CONTEXTS {
        return None;
    }
    let mut query =
        StatusQuery { length: u64::from_be_bytes(*length), ids: [0; MAX_CONTEXTS], count: 0 };
    for id in ids.iter().map(|&bytes| u32::from_be_bytes(bytes)) {
        let known = negotiated.iter().any(|context| context.id == id);
        if !known || query.contexts().contains(&id) {
            return None;
        }
        query.ids[query.count] = id;
        query.count += 1;
    }
    Some(query)
}

/// Appends the payload of a `BLOCK_STATUS` request; returns its size.
pub fn encode_status_query(out: &mut Vec<u8>, length: u64, contexts: &[u32]) -> u64 {
    out.extend_from_slice(&length.to_be_bytes());
    for id in contexts {
        out.extend_from_slice(&id.to_be_bytes());
    }
    8 + 4 * contexts.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WRITE: [u8; 28] = [
        0x25, 0x60, 0x95, 0x13, 0x00, 0x01, 0x00, 0x01, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0,
        0x10, 0x00, 0, 0, 0x02, 0x00,
    ];

    fn write() -> Request {
        Request {
            flags: CommandFlags::FUA,
            command: Command::Write,
            cookie: 0x0102_0304_0506_0708,
            offset: 4096,
            length: 512,
            payload_bytes: 512,
        }
    }

    #[test]
    fn a_compact_write_has_the_documented_bytes() {
        let mut out = Vec::new();
        encode_request(&mut out, ReplyStyle::Structured, &write());
        assert_eq!(out, WRITE);
        assert_eq!(decode_request(ReplyStyle::Simple, &WRITE), Ok(Some((write(), 28))));
    }

    #[test]
    fn an_extended_write_without_its_flag_still_brings_its_payload() {
        let mut bytes = Vec::new();
        let request = Request {
            flags: CommandFlags::FUA,
            command: Command::Write,
            cookie: 7,
            offset: 4096,
            length: 512,
            payload_bytes: 512,
        };
        encode_request(&mut bytes, ReplyStyle::Extended, &request);
        bytes[4..6].copy_from_slice(&CommandFlags::FUA.0.to_be_bytes());
        let decoded = decode_request(ReplyStyle::Extended, &bytes);
        assert_eq!(decoded, Ok(Some((request, EXTENDED_REQUEST_BYTES))));
    }

    #[test]
    fn an_extended_write_carries_the_payload_flag() {
        let mut out = Vec::new();
        encode_request(&mut out, ReplyStyle::Extended, &write());
        assert_eq!(out[..8], [0x21, 0xe4, 0x1c, 0x71, 0x00, 0x21, 0x00, 0x01]);
        assert_eq!(out[24..], [0, 0, 0, 0, 0, 0, 2, 0]);
        let decoded = decode_request(ReplyStyle::Extended, &out);
        let flags = CommandFlags::FUA | CommandFlags::PAYLOAD_LEN;
        assert_eq!(decoded, Ok(Some((Request { flags, ..write() }, 32))));
    }

    #[test]
    fn every_shorter_prefix_asks_for_more() {
        for cut in 0..WRITE.len() {
            assert_eq!(decode_request(ReplyStyle::Simple, &WRITE[..cut]), Ok(None));
        }
    }

    #[test]
    fn a_wrong_magic_number_is_an_error_that_names_it() {
        let error = decode_request(ReplyStyle::Extended, &[WRITE.as_slice(), &[0; 4]].concat());
        assert_eq!(
            error,
            Err(BadRequestMagic { found: REQUEST_MAGIC, expected: EXTENDED_REQUEST_MAGIC })
        );
    }

    #[test]
    fn a_compact_trim_of_the_largest_length_has_no_payload() {
        let mut bytes = WRITE;
        bytes[7] = 4;
        bytes[24..].copy_from_slice(&[0xff; 4]);
        let (request, _) = decode_request(ReplyStyle::Simple, &bytes).unwrap().unwrap();
        assert_eq!((request.command, request.length), (Command::Trim, u64::from(u32::MAX)));
        assert_eq!(request.payload_bytes, 0);
    }

    #[test]
    fn a_status_query_that_repeats_or_invents_contexts_is_refused() {
        let negotiated: Vec<Context> =
            [3, 7].map(|id| Context { id, name: format!("x-test:{id}") }).into();
        let query = |ids: &[u32]| {
            let mut payload = Vec::new();
            let size = encode_status_query(&mut payload, 1 << 40, ids);
            assert_eq!(size, payload.len() as u64);
            decode_status_query(&payload, &negotiated)
        };
        let both = query(&[7, 3]).unwrap();
        assert_eq!((both.length, both.contexts()), (1 << 40, [7, 3].as_slice()));
        assert_eq!(query(&[7, 7]), None);
        assert_eq!(query(&[4]), None);
        assert_eq!(query(&[]), None);
        assert_eq!(query(&[3; 17]), None);
        assert_eq!(decode_status_query(&[0; 11], &negotiated), None);
        assert_eq!(decode_status_query(&[0; 7], &negotiated), None);
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            flags: u16, code in 0u16..10, cookie: u64, offset: u64, length: u32, extended: bool,
        ) {
            let style = if extended { ReplyStyle::Extended } else { ReplyStyle::Simple };
            let command = Command::from_code(code);
            let is_write = command == Command::Write;
            let mut flags = CommandFlags(flags).without(CommandFlags::PAYLOAD_LEN);
            if extended && is_write {
                flags = flags.with(CommandFlags::PAYLOAD_LEN);
            }
            let length = u64::from(length) << if extended { 20 } else { 0 };
            let payload_bytes = if is_write { length } else { 0 };
            let request = Request { flags, command, cookie, offset, length, payload_bytes };
            let mut out = vec![0xaa];
            encode_request(&mut out, style, &request);
            let size = out.len() - 1;
            out.push(0xbb);
            prop_assert_eq!(decode_request(style, &out[1..]), Ok(Some((request, size))));
        }
    }
}
