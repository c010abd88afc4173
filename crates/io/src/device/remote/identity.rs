//! What is behind a new connection: the front of the server is read before anything else is read
//! or written, and has to be what the volume knows of it.

use std::time::Duration;

use evenkeel_engine::lease::Lease;
use evenkeel_wire::nbd::proto::{Command, CommandFlags, ReplyStyle};
use evenkeel_wire::nbd::reply::{Chunk, ReadCoverage, decode_reply};
use evenkeel_wire::nbd::request::{Request, encode_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Trouble;
use super::connect::Connected;
use crate::clock::since_boot;
use crate::lease::Guard;

/// A server that takes longer than this to show its front counts as unreachable.
const FRONT_TIME: Duration = Duration::from_secs(10);

/// Bytes of an answer's headers at most, besides the front itself.
const HEADERS_BYTES_MAX: usize = 64 << 10;

/// Has the server behind a connection to the address of this server of the volume show what it is.
///
/// # Errors
/// That it does not, or is not what belongs there.
pub(super) async fn prove(
    connected: &mut Connected,
    guard: &Guard,
    address: usize,
) -> Result<(), Trouble> {
    if let Some(address) = connected.transport.local() {
        guard.note_address(address);
    }
    if !guard.is_judging() {
        return Ok(());
    }
    let sent_at = guard.now();
    let front = tokio::time::timeout(FRONT_TIME, read_front(connected)).await;
    let front = front.unwrap_or_else(|_| Err("the server does not show its front".to_owned()))?;
    guard.prove(&front, (address, sent_at)).map_err(|why| Trouble::from(why.to_string()))
}

/// Reads the front over a connection on which nothing else was asked.
async fn read_front(connected: &mut Connected) -> Result<Vec<u8>, String> {
    let length = Lease::front_bytes();
    let request = Request {
        flags: CommandFlags::NONE,
        command: Command::Read,
        cookie: since_boot().0,
        offset: 0,
        length,
        payload_bytes: 0,
    };
    let style = connected.session.style;
    let mut bytes = Vec::new();
    encode_request(&mut bytes, style, &request);
    let lost = |error: std::io::Error| format!("connection lost: {error}");
    connected.transport.write_all(&bytes).await.map_err(lost)?;
    connected.transport.flush().await.map_err(lost)?;
    let mut front = vec![0; usize::try_from(length).expect("fronts are small")];
    let mut coverage = ReadCoverage::new(0, length);
    while !take(connected, style, &request, &mut front, &mut coverage)? {
        if connected.early.len() > front.len() + HEADERS_BYTES_MAX {
            return Err("the server answers with more than was asked".to_owned());
        }
        match connected.transport.read_buf(&mut connected.early).await {
            Ok(0) => return Err("the server hung up".to_owned()),
            Ok(_) => {}
            Err(error) => return Err(lost(error)),
        }
    }
    Ok(front)
}

/// Takes what has come of the answer; true once it is whole.
fn take(
    connected: &mut Connected,
    style: ReplyStyle,
    request: &Request,
    front: &mut [u8],
    coverage: &mut ReadCoverage,
) -> Result<bool, String> {
    loop {
        let input = &connected.early;
        let decoded = decode_reply(style, input).map_err(|error| error.to_string())?;
        let Some((header, header_bytes)) = decoded else { return Ok(false) };
        if header.cookie != request.cookie {
            return Err("the server answered what was not asked".to_owned());
        }
        let (offset, length, has_data) = match header.chunk {
            Chunk::Simple { error: None } if !style.is_chunked() => (0, request.length, true),
            Chunk::Data { offset, length } => (offset, length.into(), true),
            Chunk::Hole { offset, length } => (offset, length.into(), false),
            Chunk::None => (0, 0, false),
            _ => return Err("the server does not let its front be read".to_owned()),
        };
        if length > request.length {
            return Err("the server answers with more than was asked".to_owned());
        }
        let [at, count] = [offset, length].map(|it| usize::try_from(it).unwrap_or(usize::MAX));
        let whole = header_bytes + if has_data { count } else { 0 };
        if input.len() < whole {
            return Ok(false);
        }
        if count > 0 {
            let length = u32::try_from(length).expect("a front is short");
            coverage.add(offset, length).map_err(|error| error.to_string())?;
        }
        if has_data {
            front[at..at + count].copy_from_slice(&input[header_bytes..whole]);
        }
        let is_last = header.last;
        connected.early.drain(..whole);
        if is_last {
            let is_whole = coverage.is_complete();
            return if is_whole { Ok(true) } else { Err("the answer is not whole".to_owned()) };
        }
    }
}
