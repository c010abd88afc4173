//! An NBD server that misbehaves as told, to stand behind the gate.
//!
//! It greets and negotiates well by itself; then a script takes over the connection.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::Scratch;
use super::nbd::{
    self, ACK, ERROR_UNSUPPORTED, EXPORT_NAME, GO, INFO, OPTION_MAGIC, REQUEST_MAGIC,
    SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY, STRUCTURED_REPLY_MAGIC, be32, be64,
};

const HAS_FLAGS: u16 = 1;
const SEND_FLUSH: u16 = 4;
/// Of `Offer::flags`: several connections see the same disk.
pub(crate) const MULTIPLE: u16 = 1 << 8;

/// What the server offers in the handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) size_bytes: u64,
    /// Agrees to structured replies.
    pub(crate) structured: bool,
    /// Transmission flags beside flushes.
    pub(crate) flags: u16,
}

/// A request that reached the server.
pub(crate) use super::nbd::Request;

/// A server in threads of this process; its socket closes with the test.
pub(crate) struct FakeServer {
    pub(crate) path: PathBuf,
    connections: Arc<AtomicU32>,
}

impl FakeServer {
    /// Serves each connection by `script`, from its first byte on.
    pub(crate) fn start<F>(scratch: &Scratch, script: F) -> Self
    where
        F: Fn(&mut UnixStream) -> io::Result<()> + Send + Sync + 'static,
    {
        let path = scratch.join("fake.sock");
        let listener = UnixListener::bind(&path).expect("bind in scratch");
        let connections = Arc::new(AtomicU32::new(0));
        let (script, count) = (Arc::new(script), Arc::clone(&connections));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Ordering::Relaxed);
                let (script, mut stream) = (Arc::clone(&script), stream.expect("accept"));
                // The gate hangs up on a server that misbehaves: an error here is its good right.
                std::thread::spawn(move || drop(script(&mut stream)));
            }
        });
        Self { path, connections }
    }

    /// Negotiates well, then answers each request by `answer`.
    pub(crate) fn answering<F>(scratch: &Scratch, offer: Offer, answer: F) -> Self
    where
        F: Fn(&mut UnixStream, Request) -> io::Result<()> + Send + Sync + 'static,
    {
        Self::start(scratch, move |stream| {
            negotiate(stream, offer)?;
            loop {
                let request = read_request(stream)?;
                answer(stream, request)?;
            }
        })
    }

    /// Connections taken so far.
    pub(crate) fn connections(&self) -> u32 {
        self.connections.load(Ordering::Relaxed)
    }
}

pub(crate) fn greet(stream: &mut UnixStream) -> io::Result<()> {
    let mut greeting = b"NBDMAGIC".to_vec();
    greeting.extend(OPTION_MAGIC.to_be_bytes());
    greeting.extend(3_u16.to_be_bytes());
    stream.write_all(&greeting)?;
    stream.read_exact(&mut [0; 4])
}

/// Plays the handshake up to transmission; returns the export that was asked for.
pub(crate) fn negotiate(stream: &mut UnixStream, offer: Offer) -> io::Result<String> {
    greet(stream)?;
    loop {
        let (option, data) = read_option_and_data(stream)?;
        match option {
            GO | INFO => {
                let mut info = vec![0, 0];
                info.extend(offer.size_bytes.to_be_bytes());
                info.extend((HAS_FLAGS | SEND_FLUSH | offer.flags).to_be_bytes());
                stream.write_all(&option_reply(option, 3, &info))?;
                stream.write_all(&option_reply(option, ACK, &[]))?;
                if option == GO {
                    let name = data.get(4..4 + be32(&data[..4]) as usize).unwrap_or_default();
                    return Ok(String::from_utf8_lossy(name).into_owned());
                }
            }
            STRUCTURED_REPLY if offer.structured => {
                stream.write_all(&option_reply(option, ACK, &[]))?;
            }
            EXPORT_NAME => return Err(io::Error::other("the gate should use GO")),
            _ => stream.write_all(&option_reply(option, ERROR_UNSUPPORTED, &[]))?,
        }
    }
}

/// Takes one option off the stream; its data does not matter here.
pub(crate) fn read_option(stream: &mut UnixStream) -> io::Result<u32> {
    Ok(read_option_and_data(stream)?.0)
}

fn read_option_and_data(stream: &mut UnixStream) -> io::Result<(u32, Vec<u8>)> {
    let mut header = [0; 16];
    stream.read_exact(&mut header)?;
    let mut data = vec![0; be32(&header[12..]) as usize];
    stream.read_exact(&mut data)?;
    Ok((be32(&header[8..12]), data))
}

pub(crate) fn option_reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).expect("replies are short").to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// Takes one request off the stream, and the payload of a write with it.
pub(crate) fn read_request(stream: &mut UnixStream) -> io::Result<Request> {
    Ok(read_request_and_data(stream)?.0)
}

/// The same with the payload.
pub(crate) fn read_request_and_data(stream: &mut UnixStream) -> io::Result<(Request, Vec<u8>)> {
    let mut header = [0; 28];
    stream.read_exact(&mut header)?;
    if be32(&header[..4]) != REQUEST_MAGIC {
        return Err(io::Error::other("no request"));
    }
    let request = Request {
        flags: u16::from_be_bytes([header[4], header[5]]),
        command: u16::from_be_bytes([header[6], header[7]]),
        cookie: be64(&header[8..16]),
        offset: be64(&header[16..24]),
        length: be32(&header[24..]),
    };
    let mut data = Vec::new();
    if request.command == nbd::WRITE {
        data.resize(request.length as usize, 0);
        stream.read_exact(&mut data)?;
    }
    Ok((request, data))
}

/// A simple reply; `data` follows for reads.
pub(crate) fn simple(cookie: u64, error: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = SIMPLE_REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend(error.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// A chunk of a structured reply with the length that its header claims.
pub(crate) fn chunk(flags: u16, kind: u16, cookie: u64, claims: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = STRUCTURED_REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(claims.to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// The good answer of a server without structured replies whose disk holds `fill` everywhere.
pub(crate) fn honest(request: Request, fill: u8) -> Vec<u8> {
    let size = if request.command == nbd::READ { request.length as usize } else { 0 };
    simple(request.cookie, 0, &vec![fill; size])
}
