//! Request headers: decoding is total and consistent with encoding, and what passes the check lies
//! within the export.
#![no_main]

use arbitrary::{Arbitrary, Unstructured};
use evenkeel_fuzz::style;
use evenkeel_wire::nbd::check::{Promise, check_request};
use evenkeel_wire::nbd::proto::{
    BlockSize, Command, CommandFlags, Context, MAX_PAYLOAD_BYTES, ReplyStyle, TransmissionFlags,
};
use evenkeel_wire::nbd::request::{Request, decode_request, decode_status_query, encode_request};
use libfuzzer_sys::fuzz_target;

/// A header with the right magic number most of the time.
fn header(u: &mut Unstructured<'_>, style: ReplyStyle) -> arbitrary::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if u.ratio(9, 10)? {
        let magic = if style.is_extended() { 0x21e4_1c71_u32 } else { 0x2560_9513 };
        bytes.extend(magic.to_be_bytes());
        bytes.extend((u16::arbitrary(u)? & 0x7f).to_be_bytes());
        bytes.extend(u.int_in_range(0..=9u16)?.to_be_bytes());
    }
    bytes.extend(u.bytes(u.len().min(40))?);
    Ok(bytes)
}

/// What the encoder would write is read back as it was. Headers whose payload flag contradicts
/// their payload are refused by the check, and never written.
fn check_round_trip(style: ReplyStyle, request: &Request) {
    let announced = request.flags.contains(CommandFlags::PAYLOAD_LEN);
    let has_payload = request.command == Command::Write || request.payload_bytes > 0;
    if announced != (style.is_extended() && has_payload) {
        return;
    }
    let mut out = Vec::new();
    encode_request(&mut out, style, request);
    assert_eq!(decode_request(style, &out), Ok(Some((*request, out.len()))));
}

fn check_bounds(request: &Request, promise: &Promise) {
    if check_request(request, promise).is_err() {
        return;
    }
    assert!(request.payload_bytes <= u64::from(promise.block_size.maximum_payload));
    let ranged = !matches!(request.command, Command::Flush | Command::Disconnect)
        && (request.command == Command::Write || request.payload_bytes == 0);
    if ranged {
        let end = request.offset.checked_add(request.length).expect("a range that wraps passed");
        assert!(request.length > 0 && end <= promise.size_bytes);
        assert!(end.is_multiple_of(u64::from(promise.block_size.minimum)));
    }
    if request.command.writes() {
        assert!(!promise.flags.contains(TransmissionFlags::READ_ONLY));
    }
}

fn run(mut u: Unstructured<'_>) -> arbitrary::Result<()> {
    let style = style(&mut u)?;
    let minimum = 1 << u.int_in_range(0..=16)?;
    let promise = Promise {
        size_bytes: u.arbitrary()?,
        flags: TransmissionFlags(u.arbitrary()?),
        block_size: BlockSize { minimum, preferred: 1 << 16, maximum_payload: MAX_PAYLOAD_BYTES },
        style,
        has_contexts: u.arbitrary()?,
    };
    let bytes = header(&mut u, style)?;
    let whole = decode_request(style, &bytes);
    for cut in 0..bytes.len() {
        let part = decode_request(style, &bytes[..cut]);
        assert!(part == Ok(None) || part == whole);
    }
    if let Ok(Some((request, consumed))) = whole {
        assert!(consumed <= bytes.len());
        check_round_trip(style, &request);
        check_bounds(&request, &promise);
    }
    let negotiated: Vec<Context> = (0..3).map(|id| Context { id, name: String::new() }).collect();
    if let Some(query) = decode_status_query(&bytes, &negotiated) {
        assert!((1..=3).contains(&query.contexts().len()));
    }
    Ok(())
}

fuzz_target!(|data: &[u8]| {
    _ = run(Unstructured::new(data));
});
