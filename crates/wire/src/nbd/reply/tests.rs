//! Byte-exact vectors of every message, what a hostile server may send, and round trips.

use super::*;
use crate::nbd::proto::{Errno, Extent, ReplyStyle};
use proptest::prelude::*;

const TO: ReplyTo = ReplyTo { cookie: 0x1122_3344_5566_7788, offset: 0x1000 };
const COOKIE: [u8; 8] = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88];
const CHUNKED: [ReplyStyle; 2] = [ReplyStyle::Structured, ReplyStyle::Extended];

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

fn structured(flags: u8, kind: [u8; 2], length: u32, payload: &[u8]) -> Vec<u8> {
    let head = [0x66, 0x8e, 0x33, 0xef, 0, flags, kind[0], kind[1]];
    [&head, COOKIE.as_slice(), &length.to_be_bytes(), payload].concat()
}

/// Decodes a message that is complete, after seeing that no prefix of it is.
fn decode_whole(style: ReplyStyle, bytes: &[u8]) -> ReplyHeader<'_> {
    for cut in 0..bytes.len() {
        assert_eq!(decode_reply(style, &bytes[..cut]), Ok(None), "at {cut}");
    }
    let (header, consumed) = decode_reply(style, bytes).unwrap().unwrap();
    assert_eq!(consumed, bytes.len());
    assert_eq!(header.cookie, TO.cookie);
    assert_eq!(header.request_offset, style.is_extended().then_some(TO.offset));
    header
}

#[test]
fn simple_replies_have_the_documented_bytes() {
    let done = encoded(|out| ReplyStyle::Simple.done(out, TO));
    assert_eq!(done, [&[0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0], COOKIE.as_slice()].concat());
    let data = encoded(|out| ReplyStyle::Simple.read_data_header(out, TO, TO.offset, 512, true));
    assert_eq!(data, done);
    let error = encoded(|out| ReplyStyle::Simple.error(out, TO, Errno::NoSpace, "full"));
    assert_eq!(error, [&[0x67, 0x44, 0x66, 0x98, 0, 0, 0, 28], COOKIE.as_slice()].concat());
    for style in [ReplyStyle::Simple, ReplyStyle::Structured] {
        assert_eq!(decode_whole(style, &done).chunk, Chunk::Simple { error: None });
        let chunk = Chunk::Simple { error: Some(Errno::NoSpace) };
        assert_eq!(decode_whole(style, &error).chunk, chunk);
    }
}

#[test]
fn structured_chunks_have_the_documented_bytes() {
    let style = ReplyStyle::Structured;
    assert_eq!(encoded(|out| style.done(out, TO)), structured(1, [0, 0], 0, &[]));
    assert_eq!(
        encoded(|out| style.read_data_header(out, TO, 0x1200, 512, false)),
        structured(0, [0, 1], 520, &[0, 0, 0, 0, 0, 0, 0x12, 0])
    );
    assert_eq!(
        encoded(|out| style.read_hole(out, TO, 0x1200, 512, true)),
        structured(1, [0, 2], 12, &[0, 0, 0, 0, 0, 0, 0x12, 0, 0, 0, 2, 0])
    );
    assert_eq!(
        encoded(|out| style.error(out, TO, Errno::Io, "no")),
        structured(1, [0x80, 1], 8, &[0, 0, 0, 5, 0, 2, b'n', b'o'])
    );
    assert_eq!(
        encoded(|out| style.error_at(out, TO, Errno::Io, 0x1201, "")),
        structured(1, [0x80, 2], 14, &[0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 1])
    );
    let extents = [Extent { length: 0x200, flags: 3 }];
    assert_eq!(
        encoded(|out| style.block_status(out, TO, 9, &extents, true)),
        structured(1, [0, 5], 12, &[0, 0, 0, 9, 0, 0, 2, 0, 0, 0, 0, 3])
    );
}

#[test]
fn an_extended_chunk_repeats_the_offset_of_the_request() {
    let out = encoded(|out| ReplyStyle::Extended.read_data_header(out, TO, 0x1200, 512, true));
    let head = [0x6e, 0x8a, 0x27, 0x8c, 0, 1, 0, 1];
    let tail = [0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 2, 8, 0, 0, 0, 0, 0, 0, 0x12, 0];
    assert_eq!(out, [&head, COOKIE.as_slice(), &tail].concat());
}

#[test]
fn extents_are_told_in_the_width_of_the_style() {
    let extents = [Extent { length: 4096, flags: 3 }, Extent { length: 1 << 40, flags: 1 << 33 }];
    let out = encoded(|out| ReplyStyle::Extended.block_status(out, TO, 1, &extents, true));
    let decoded = decode_block_status(ReplyStyle::Extended, &out[40..]).unwrap();
    assert_eq!(decoded.collect::<Vec<_>>(), extents);
    let out = encoded(|out| ReplyStyle::Structured.block_status(out, TO, 1, &extents, true));
    let decoded = decode_block_status(ReplyStyle::Structured, &out[24..]).unwrap();
    assert_eq!(decoded.collect::<Vec<_>>(), extents[..1]);
}

/// CVE-2025-47711 and -47712: servers that lost their way at extents close to 4 GiB.
#[test]
fn an_extent_close_to_four_gib_is_cut_and_ends_the_list() {
    let style = ReplyStyle::Structured;
    let status = |length| {
        let extents = [Extent { length, flags: 0 }, Extent { length: 512, flags: 1 }];
        let out = encoded(|out| style.block_status(out, TO, 1, &extents, true));
        let lengths = decode_block_status(style, &out[24..]).unwrap().map(|extent| extent.length);
        lengths.collect::<Vec<_>>()
    };
    assert_eq!(status(0xffff_fe00), [0xffff_fe00, 512]);
    assert_eq!(status(0xffff_ffff), [0xffff_ffff, 512]);
    assert_eq!(status(0x1_0000_0000), [0xffff_0000]);
    assert_eq!(status(u64::MAX), [0xffff_0000]);
}

#[test]
fn a_status_too_wide_for_the_client_is_an_error_not_a_lie() {
    let extents = [Extent { length: 512, flags: 1 << 32 }];
    let out = encoded(|out| ReplyStyle::Structured.block_status(out, TO, 1, &extents, false));
    let header = decode_whole(ReplyStyle::Structured, &out);
    assert!(matches!(header.chunk, Chunk::Error { errno: Errno::Overflow, .. }));
}

/// CVE-2020-10761: an error text beyond the limit brought the server down.
#[test]
fn an_over_long_error_text_is_cut_to_what_the_protocol_allows() {
    for style in CHUNKED {
        let text = "\u{e9}".repeat(5000);
        let out = encoded(|out| style.error(out, TO, Errno::Invalid, &text));
        let Chunk::Error { message, .. } = decode_whole(style, &out).chunk else { panic!() };
        assert_eq!(message.len(), 4096);
    }
}

#[test]
fn errors_are_decoded_with_text_and_place() {
    for style in CHUNKED {
        let out = encoded(|out| style.error_at(out, TO, Errno::Io, 77, "bad sector"));
        let header = decode_whole(style, &out);
        let chunk = Chunk::Error { errno: Errno::Io, offset: Some(77), message: b"bad sector" };
        assert_eq!((header.chunk, header.last), (chunk, true));
    }
}

#[test]
fn an_unknown_error_type_is_still_an_error_but_an_unknown_chunk_ends_the_session() {
    let style = ReplyStyle::Structured;
    let payload = [0, 0, 0, 5, 0, 1, b'x', 9, 9, 9];
    let unknown = structured(1, [0x80, 99], 10, &payload);
    let chunk = Chunk::Error { errno: Errno::Io, offset: None, message: b"x" };
    assert_eq!(decode_whole(style, &unknown).chunk, chunk);
    let unknown = structured(1, [0, 99], 0, &[]);
    assert_eq!(decode_reply(style, &unknown), Err(ReplyError::UnknownChunk { kind: 99 }));
}

#[test]
fn an_undefined_error_number_counts_as_invalid() {
    let bytes = [&[0x67, 0x44, 0x66, 0x98, 0xff, 0, 0, 28], COOKIE.as_slice()].concat();
    let chunk = Chunk::Simple { error: Some(Errno::Invalid) };
    assert_eq!(decode_whole(ReplyStyle::Simple, &bytes).chunk, chunk);
}

#[test]
fn impossible_lengths_are_errors_before_anything_is_read() {
    let cases: [(u8, [u8; 2], u32); 12] = [
        (1, [0, 0], 1),
        (1, [0, 1], 0),
        (1, [0, 1], 8),
        (1, [0, 2], 11),
        (1, [0, 2], 13),
        (1, [0, 5], 4),
        (1, [0, 5], 11),
        (1, [0, 5], u32::MAX),
        (1, [0x80, 1], 5),
        (1, [0x80, 1], u32::MAX),
        (1, [0x80, 2], 13),
        (1, [0x80, 7], 5),
    ];
    for (flags, kind, length) in cases {
        let bytes = structured(flags, kind, length, &[]);
        let decoded = decode_reply(ReplyStyle::Structured, &bytes);
        let kind = u16::from_be_bytes(kind);
        assert_eq!(decoded, Err(ReplyError::BadLength { kind, length: length.into() }));
    }
}

#[test]
fn contradicting_fields_are_errors() {
    let cases = [
        structured(0, [0, 0], 0, &[]),
        structured(1, [0, 2], 12, &[0; 12]),
        structured(1, [0x80, 1], 6, &[0, 0, 0, 5, 0, 1]),
        structured(1, [0x80, 1], 4200 - 40, &[0, 0, 0, 5, 0x10, 0x01]),
    ];
    for bytes in cases {
        let decoded = decode_reply(ReplyStyle::Structured, &bytes);
        assert!(matches!(decoded, Err(ReplyError::BadField { .. })), "{decoded:?}");
    }
}

/// CVE-2023-5871: a client that believed a server's 64-bit counts.
#[test]
fn an_extended_status_whose_count_contradicts_its_length_is_an_error() {
    let extents = [Extent { length: 512, flags: 0 }];
    let mut out = encoded(|out| ReplyStyle::Extended.block_status(out, TO, 1, &extents, true));
    out[39] = 2;
    let decoded = decode_reply(ReplyStyle::Extended, &out);
    assert!(matches!(decoded, Err(ReplyError::BadField { .. })), "{decoded:?}");
}

#[test]
fn each_style_takes_its_own_magic_numbers_only() {
    let done = |style: ReplyStyle| encoded(|out| style.done(out, TO));
    let [simple, structured] = [ReplyStyle::Simple, ReplyStyle::Structured].map(done);
    let extended = done(ReplyStyle::Extended);
    assert!(decode_reply(ReplyStyle::Simple, &structured).is_err());
    assert!(decode_reply(ReplyStyle::Structured, &extended).is_err());
    assert!(decode_reply(ReplyStyle::Extended, &simple).is_err());
    assert!(decode_reply(ReplyStyle::Extended, &structured).is_err());
}

#[test]
fn extent_lists_that_make_no_progress_are_errors() {
    for style in CHUNKED {
        assert!(decode_block_status(style, &[]).is_err());
        assert!(decode_block_status(style, &[1; 15]).is_err());
        assert!(decode_block_status(style, &[0; 16]).is_err());
    }
}

proptest! {
    #[test]
    fn data_and_holes_round_trip(
        cookie: u64, at: u64, offset: u64, length in 1u32..u32::MAX - 8, last: bool, wide: bool,
    ) {
        let style = CHUNKED[usize::from(wide)];
        let to = ReplyTo { cookie, offset: at };
        let out = encoded(|out| style.read_data_header(out, to, offset, length, last));
        let request_offset = wide.then_some(at);
        let data = Chunk::Data { offset, length };
        let expected = ReplyHeader { cookie, request_offset, last, chunk: data };
        prop_assert_eq!(decode_reply(style, &out), Ok(Some((expected, out.len()))));
        let out = encoded(|out| style.read_hole(out, to, offset, length, last));
        let expected = ReplyHeader { chunk: Chunk::Hole { offset, length }, ..expected };
        prop_assert_eq!(decode_reply(style, &out), Ok(Some((expected, out.len()))));
    }

    #[test]
    fn whatever_comes_is_decoded_within_the_promised_bounds(
        wide: bool, kind: u16, length in 0u32..10_000,
        tail in prop::collection::vec(any::<u8>(), 0..9000),
    ) {
        let style = CHUNKED[usize::from(wide)];
        let mut bytes = structured(1, kind.to_be_bytes(), length, &tail);
        if wide {
            bytes[..4].copy_from_slice(&[0x6e, 0x8a, 0x27, 0x8c]);
            bytes.splice(16..20, [0; 8].into_iter().chain(u64::from(length).to_be_bytes()));
        }
        match decode_reply(style, &bytes) {
            Ok(Some((_, consumed))) => prop_assert!(consumed <= bytes.len()),
            Ok(None) => prop_assert!(bytes.len() < MAX_REPLY_HEADER_BYTES),
            Err(_) => {}
        }
    }
}
