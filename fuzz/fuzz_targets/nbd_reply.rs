//! Reply streams: decoding is total, needs a bounded window, does not care how the bytes are cut,
//! and understands whatever the encoder writes.
#![no_main]

use arbitrary::{Arbitrary, Unstructured};
use evenkeel_fuzz::style;
use evenkeel_wire::nbd::proto::{Errno, Extent, ReplyStyle};
use evenkeel_wire::nbd::reply::{
    Chunk, MAX_REPLY_HEADER_BYTES, ReadCoverage, ReplyTo, decode_block_status, decode_reply,
};
use libfuzzer_sys::fuzz_target;

/// A message with the right magic number most of the time.
fn message(u: &mut Unstructured<'_>, style: ReplyStyle) -> arbitrary::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if u.ratio(9, 10)? {
        let magic: u32 = match style {
            ReplyStyle::Simple => 0x6744_6698,
            ReplyStyle::Structured => *u.choose(&[0x668e_33ef, 0x6744_6698])?,
            ReplyStyle::Extended => 0x6e8a_278c,
        };
        bytes.extend(magic.to_be_bytes());
        bytes.extend([0, u8::arbitrary(u)?]);
        bytes.extend(u.choose(&[0u16, 1, 2, 5, 6, 9, 0x8001, 0x8002, 0x8003])?.to_be_bytes());
        bytes.extend(u.bytes(u.len().min(8))?);
        if style.is_extended() {
            bytes.extend(u64::arbitrary(u)?.to_be_bytes());
            bytes.extend([0; 4]);
        }
        if u.ratio(7, 8)? {
            bytes.extend((u32::from(u16::arbitrary(u)?) & 0x1fff).to_be_bytes());
        }
    }
    bytes.extend(u.bytes(u.len().min(6000))?);
    Ok(bytes)
}

fn check_decode(u: &mut Unstructured<'_>, style: ReplyStyle) -> arbitrary::Result<()> {
    let (start, length) = (u64::arbitrary(u)?, u64::arbitrary(u)?);
    let cut = usize::from(u16::arbitrary(u)?);
    let bytes = message(u, style)?;
    let whole = decode_reply(style, &bytes);
    let part = decode_reply(style, &bytes[..cut.min(bytes.len())]);
    assert!(part == Ok(None) || part == whole);
    let Ok(Some((header, consumed))) = whole else {
        assert!(whole.is_err() || bytes.len() < MAX_REPLY_HEADER_BYTES);
        return Ok(());
    };
    assert!(consumed > 0 && consumed <= bytes.len());
    let mut coverage = ReadCoverage::new(start, length);
    match header.chunk {
        Chunk::Data { offset, length } | Chunk::Hole { offset, length } => {
            assert!(length > 0);
            if coverage.add(offset, length).is_ok() {
                assert!(coverage.add(offset, length).is_err(), "the same bytes twice");
            }
        }
        Chunk::Error { message, .. } => assert!(message.len() <= 4096),
        _ => {}
    }
    if let Ok(extents) = decode_block_status(style, &bytes[consumed..]) {
        assert!(extents.inspect(|extent| assert!(extent.length > 0)).count() > 0);
    }
    Ok(())
}

/// Extents as a server may have them, told in either style.
fn check_status(u: &mut Unstructured<'_>, style: ReplyStyle) -> arbitrary::Result<()> {
    let extents: Vec<(u64, u64)> = u.arbitrary()?;
    let extents: Vec<Extent> =
        extents.iter().map(|&(length, flags)| Extent { length: length.max(1), flags }).collect();
    if extents.is_empty() || !style.is_chunked() {
        return Ok(());
    }
    let mut out = Vec::new();
    let to = ReplyTo { cookie: 7, offset: 9 };
    style.block_status(&mut out, to, 3, &extents, true);
    let (header, consumed) = decode_reply(style, &out).expect("our own").expect("all of it");
    match header.chunk {
        Chunk::BlockStatus { context: 3, payload_bytes } => {
            assert_eq!(payload_bytes as usize, out.len() - consumed);
            let told = decode_block_status(style, &out[consumed..]).expect("our own");
            for (told, known) in told.zip(&extents) {
                assert!(told.length <= known.length && told.flags == known.flags);
            }
        }
        Chunk::Error { errno: Errno::Overflow, .. } => assert!(!style.is_extended()),
        other => panic!("{other:?}"),
    }
    Ok(())
}

fn run(mut u: Unstructured<'_>) -> arbitrary::Result<()> {
    let style = style(&mut u)?;
    if u.ratio(1, 4)? { check_status(&mut u, style) } else { check_decode(&mut u, style) }
}

fuzz_target!(|data: &[u8]| {
    _ = run(Unstructured::new(data));
});
