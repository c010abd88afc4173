//! A small NBD client that says exactly what a test wants said, right or wrong. It shares no code
//! with the gate, so that a mistake in one does not hide a mistake in the other.
//!
//! Panics mean that the gate broke the protocol; whatever a test may want to see comes as a value.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::target::{Address, Target};

pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(crate) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
pub(crate) const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

pub(crate) const EXPORT_NAME: u32 = 1;
pub(crate) const LIST: u32 = 3;
pub(crate) const STARTTLS: u32 = 5;
pub(crate) const INFO: u32 = 6;
pub(crate) const GO: u32 = 7;
pub(crate) const STRUCTURED_REPLY: u32 = 8;
pub(crate) const LIST_META_CONTEXT: u32 = 9;
pub(crate) const SET_META_CONTEXT: u32 = 10;

pub(crate) const ACK: u32 = 1;
pub(crate) const ERROR_UNSUPPORTED: u32 = 0x8000_0001;
pub(crate) const ERROR_TLS_REQUIRED: u32 = 0x8000_0005;

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const BLOCK_STATUS: u16 = 7;

pub(crate) const EIO: u32 = 5;
pub(crate) const EINVAL: u32 = 22;
pub(crate) const ENOSPC: u32 = 28;

/// A two-way stream, whatever lies under it.
pub(crate) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: Box<dyn Stream>,
    next_cookie: u64,
}

/// What the server said to an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OptionReply {
    pub(crate) option: u32,
    pub(crate) kind: u32,
    pub(crate) data: Vec<u8>,
}

/// What the server told of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Export {
    pub(crate) size_bytes: u64,
    pub(crate) flags: u16,
}

/// A request's header.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Request {
    pub(crate) flags: u16,
    pub(crate) command: u16,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

impl Request {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend(self.flags.to_be_bytes());
        bytes.extend(self.command.to_be_bytes());
        bytes.extend(self.cookie.to_be_bytes());
        bytes.extend(self.offset.to_be_bytes());
        bytes.extend(self.length.to_be_bytes());
        bytes
    }
}

/// How long a read or write of a client waits.
const LIMIT: Duration = Duration::from_secs(15);

/// Connects without a word; reads and writes give up after some seconds.
pub(crate) fn dial(address: &Address) -> Box<dyn Stream> {
    try_dial(address, LIMIT).expect("connect")
}

pub(crate) fn try_dial(address: &Address, limit: Duration) -> io::Result<Box<dyn Stream>> {
    let limit = Some(limit);
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(limit)?;
            stream.set_write_timeout(limit)?;
            Ok(Box::new(stream))
        }
        Address::Tcp(port) => {
            let stream = TcpStream::connect(("127.0.0.1", *port))?;
            stream.set_read_timeout(limit)?;
            stream.set_write_timeout(limit)?;
            Ok(Box::new(stream))
        }
    }
}

impl Client {
    pub(crate) fn over(stream: Box<dyn Stream>) -> Self {
        Self { stream, next_cookie: 1 }
    }

    /// Connects and exchanges greetings.
    pub(crate) fn greet(address: &Address) -> Self {
        Self::greet_over(dial(address))
    }

    fn greet_over(stream: Box<dyn Stream>) -> Self {
        let mut client = Self::over(stream);
        client.read_greeting();
        client.send(&3_u32.to_be_bytes());
        client
    }

    /// As [`open`](Self::open), with a patience of its own for each read and write.
    pub(crate) fn open_for(target: &Target, limit: Duration) -> Self {
        let mut client = Self::greet_over(try_dial(&target.address, limit).expect("connect"));
        client.go(&target.export);
        client
    }

    /// Connects, greets and enters transmission with simple replies.
    pub(crate) fn open(target: &Target) -> Self {
        let mut client = Self::greet(&target.address);
        client.go(&target.export);
        client
    }

    /// The same by `EXPORT_NAME`, from a server that may be gone at any moment.
    pub(crate) fn try_open(target: &Target) -> Option<Self> {
        Self::try_open_for(target, LIMIT)
    }

    /// As [`try_open`](Self::try_open), with a patience of its own for each read and write.
    pub(crate) fn try_open_for(target: &Target, limit: Duration) -> Option<Self> {
        let mut client = Self::over(try_dial(&target.address, limit).ok()?);
        client.try_enter(&target.export)?;
        Some(client)
    }

    /// Exchanges greetings and enters transmission by `EXPORT_NAME`, if the server agrees.
    pub(crate) fn try_enter(&mut self, export: &str) -> Option<()> {
        self.try_take(18).ok()?;
        let length = u32::try_from(export.len()).expect("names are short");
        let mut bytes = 3_u32.to_be_bytes().to_vec();
        bytes.extend(option_header(EXPORT_NAME, length));
        bytes.extend_from_slice(export.as_bytes());
        self.stream.write_all(&bytes).ok()?;
        self.try_take(10).ok().map(drop)
    }

    pub(crate) fn read_greeting(&mut self) -> u16 {
        let greeting = self.take(18);
        assert_eq!(&greeting[..8], b"NBDMAGIC");
        assert_eq!(be64(&greeting[8..16]), OPTION_MAGIC);
        u16::from_be_bytes([greeting[16], greeting[17]])
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the gate takes what we send");
    }

    /// Sends, not minding if the gate has hung up.
    pub(crate) fn throw(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// In one go: the gate may hang up as soon as it has seen the header.
    pub(crate) fn option(&mut self, option: u32, data: &[u8]) {
        let length = u32::try_from(data.len()).expect("options are short");
        self.send(&[&option_header(option, length), data].concat());
    }

    /// Only the header, which may promise what never comes.
    pub(crate) fn option_header(&mut self, option: u32, length: u32) {
        self.send(&option_header(option, length));
    }

    pub(crate) fn option_reply(&mut self) -> OptionReply {
        let header = self.take(20);
        assert_eq!(be64(&header[..8]), OPTION_REPLY_MAGIC);
        let (option, kind) = (be32(&header[8..12]), be32(&header[12..16]));
        let length = be32(&header[16..20]) as usize;
        assert!(length <= 1 << 20, "a reply of {length} bytes to option {option}");
        OptionReply { option, kind, data: self.take(length) }
    }

    /// Replies up to and with the one that ends the exchange.
    pub(crate) fn option_replies(&mut self) -> Vec<OptionReply> {
        let mut replies = vec![self.option_reply()];
        while replies.last().is_some_and(|last| last.kind != ACK && last.kind < 0x8000_0000) {
            replies.push(self.option_reply());
        }
        replies
    }

    /// Enters transmission; panics if the gate refuses.
    pub(crate) fn go(&mut self, export: &str) -> Export {
        self.option(GO, &go_data(export));
        let replies = self.option_replies();
        assert_eq!(replies.last().map(|last| last.kind), Some(ACK), "GO `{export}`: {replies:x?}");
        let info = replies.iter().find(|reply| reply.kind == 3 && reply.data[..2] == [0, 0]);
        let data = &info.expect("GO tells the size").data;
        Export { size_bytes: be64(&data[2..10]), flags: u16::from_be_bytes([data[10], data[11]]) }
    }

    /// Sends a request with a cookie of its own, which it returns.
    pub(crate) fn ask(&mut self, request: Request, payload: &[u8]) -> u64 {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let mut bytes = Request { cookie, ..request }.bytes();
        bytes.extend_from_slice(payload);
        self.send(&bytes);
        cookie
    }

    /// The next simple reply: its error and cookie.
    pub(crate) fn simple_reply(&mut self) -> (u32, u64) {
        let reply = self.take(16);
        assert_eq!(be32(&reply[..4]), SIMPLE_REPLY_MAGIC);
        (be32(&reply[4..8]), be64(&reply[8..16]))
    }

    /// Reads and waits for the answer; an NBD error number if there is one.
    pub(crate) fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, u32> {
        self.ask(Request { command: READ, offset, length, ..Request::default() }, &[]);
        match self.simple_reply().0 {
            0 => Ok(self.take(length as usize)),
            error => Err(error),
        }
    }

    /// The same; none once the gate has hung up.
    pub(crate) fn read_if_there(
        &mut self,
        offset: u64,
        length: u32,
    ) -> Option<Result<Vec<u8>, u32>> {
        let request = Request { command: READ, offset, length, ..Request::default() };
        self.stream.write_all(&request.bytes()).ok()?;
        let reply = self.try_take(16).ok()?;
        match be32(&reply[4..8]) {
            0 => self.try_take(length as usize).ok().map(Ok),
            error => Some(Err(error)),
        }
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), u32> {
        let length = u32::try_from(data.len()).expect("writes are short");
        self.ask(Request { command: WRITE, offset, length, ..Request::default() }, data);
        self.acknowledgement()
    }

    pub(crate) fn flush(&mut self) -> Result<(), u32> {
        self.ask(Request { command: FLUSH, ..Request::default() }, &[]);
        self.acknowledgement()
    }

    pub(crate) fn trim(&mut self, offset: u64, length: u32) -> Result<(), u32> {
        self.ask(Request { command: TRIM, offset, length, ..Request::default() }, &[]);
        self.acknowledgement()
    }

    /// The outcome of a request without data in its answer.
    pub(crate) fn acknowledgement(&mut self) -> Result<(), u32> {
        match self.simple_reply().0 {
            0 => Ok(()),
            error => Err(error),
        }
    }

    /// Exactly so many bytes.
    pub(crate) fn take(&mut self, count: usize) -> Vec<u8> {
        self.try_take(count).expect("the gate answers")
    }

    pub(crate) fn try_take(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Waits until the gate hangs up; false if it does not in time. What it says before is dropped.
    pub(crate) fn is_hung_up(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let waited =
                        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                    return !waited;
                }
            }
        }
    }
}

pub(crate) fn option_header(option: u32, length: u32) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// The data of GO and INFO: a name, and no requests for more information.
pub(crate) fn go_data(export: &str) -> Vec<u8> {
    let length = u32::try_from(export.len()).expect("names are short");
    let mut data = length.to_be_bytes().to_vec();
    data.extend_from_slice(export.as_bytes());
    data.extend([0, 0]);
    data
}

pub(crate) fn be32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

pub(crate) fn be64(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
}
