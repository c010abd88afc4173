//! Options and their replies: headers and data layouts of the handshake, for both sides.
//!
//! ```text
//! option  magic u64 | option u32 | length u32 | data
//! reply   magic u64 | option u32 | type u32   | length u32 | data
//! ```
//!
//! An option has any number of replies, the last of which is an acknowledgement or an error.

use super::fields::Fields;
use super::proto::{MAX_STRING_BYTES, OPTION_MAGIC, OPTION_REPLY_MAGIC};
use std::fmt;

/// Size of an option's header.
pub const OPTION_HEADER_BYTES: usize = 16;
/// Size of an option reply's header.
pub const OPTION_REPLY_HEADER_BYTES: usize = 20;

/// What an option is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// Use this export; the answer is not an option reply.
    ExportName,
    /// Goodbye.
    Abort,
    /// Name the exports.
    List,
    /// Go over to TLS.
    StartTls,
    /// Describe this export.
    Info,
    /// Describe this export and use it.
    Go,
    /// Use structured replies.
    StructuredReply,
    /// Name the metadata contexts of this export.
    ListMetaContext,
    /// Select metadata contexts of this export.
    SetMetaContext,
    /// Use extended headers.
    ExtendedHeaders,
    /// A number that is not known here.
    Unknown(u32),
}

impl OptionKind {
    /// The option of a number on the wire.
    pub const fn from_code(code: u32) -> Self {
        match code {
            1 => Self::ExportName,
            2 => Self::Abort,
            3 => Self::List,
            5 => Self::StartTls,
            6 => Self::Info,
            7 => Self::Go,
            8 => Self::StructuredReply,
            9 => Self::ListMetaContext,
            10 => Self::SetMetaContext,
            11 => Self::ExtendedHeaders,
            other => Self::Unknown(other),
        }
    }

    /// The number on the wire.
    pub const fn code(self) -> u32 {
        match self {
            Self::ExportName => 1,
            Self::Abort => 2,
            Self::List => 3,
            Self::StartTls => 5,
            Self::Info => 6,
            Self::Go => 7,
            Self::StructuredReply => 8,
            Self::ListMetaContext => 9,
            Self::SetMetaContext => 10,
            Self::ExtendedHeaders => 11,
            Self::Unknown(code) => code,
        }
    }

    /// The name in the protocol text, without its prefix.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ExportName => "EXPORT_NAME",
            Self::Abort => "ABORT",
            Self::List => "LIST",
            Self::StartTls => "STARTTLS",
            Self::Info => "INFO",
            Self::Go => "GO",
            Self::StructuredReply => "STRUCTURED_REPLY",
            Self::ListMetaContext => "LIST_META_CONTEXT",
            Self::SetMetaContext => "SET_META_CONTEXT",
            Self::ExtendedHeaders => "EXTENDED_HEADERS",
            Self::Unknown(_) => "an unknown option",
        }
    }

    /// Whether its data means anything to a server.
    pub const fn has_data(self) -> bool {
        matches!(
            self,
            Self::ExportName | Self::Info | Self::Go | Self::ListMetaContext | Self::SetMetaContext
        )
    }
}

/// Error replies of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedReason {
    /// The server does not know the option.
    Unsupported,
    /// Its policy forbids it.
    Policy,
    /// It takes the option for malformed.
    Invalid,
    /// Its platform lacks something.
    Platform,
    /// Not without TLS.
    TlsRequired,
    /// There is no such export.
    UnknownExport,
    /// It is going down.
    Shutdown,
    /// Not unless block sizes are asked for.
    BlockSizeRequired,
    /// Too much was asked.
    TooBig,
    /// Not without extended headers.
    ExtendedHeadersRequired,
    /// An error that the protocol does not define.
    Other(u32),
}

/// Set in the type of every error reply.
const IS_ERROR: u32 = 1 << 31;

impl RefusedReason {
    const fn from_code(code: u32) -> Self {
        match code & !IS_ERROR {
            1 => Self::Unsupported,
            2 => Self::Policy,
            3 => Self::Invalid,
            4 => Self::Platform,
            5 => Self::TlsRequired,
            6 => Self::UnknownExport,
            7 => Self::Shutdown,
            8 => Self::BlockSizeRequired,
            9 => Self::TooBig,
            10 => Self::ExtendedHeadersRequired,
            _ => Self::Other(code),
        }
    }

    const fn code(self) -> u32 {
        IS_ERROR
            | match self {
                Self::Unsupported => 1,
                Self::Policy => 2,
                Self::Invalid => 3,
                Self::Platform => 4,
                Self::TlsRequired => 5,
                Self::UnknownExport => 6,
                Self::Shutdown => 7,
                Self::BlockSizeRequired => 8,
                Self::TooBig => 9,
                Self::ExtendedHeadersRequired => 10,
                Self::Other(code) => code,
            }
    }
}

impl fmt::Display for RefusedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsupported => "it does not know this option",
            Self::Policy => "its policy forbids it",
            Self::Invalid => "it takes the request for malformed",
            Self::Platform => "its platform does not support it",
            Self::TlsRequired => "it insists on TLS (use nbds:// or nbds+unix://)",
            Self::UnknownExport => "it has no such export (list them to see the names)",
            Self::Shutdown => "it is shutting down",
            Self::BlockSizeRequired => "it insists that block sizes be negotiated",
            Self::TooBig => "the request is too big for it",
            Self::ExtendedHeadersRequired => "it insists on extended headers",
            Self::Other(code) => return write!(f, "error {code:#010x}"),
        })
    }
}

/// What an option reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionReply {
    /// Done.
    Ack,
    /// One export of a list.
    Server,
    /// One fact about an export.
    Info,
    /// One metadata context.
    MetaContext,
    /// No.
    Error(RefusedReason),
    /// A number that is not known here and is no error.
    Unknown(u32),
}

impl OptionReply {
    /// The reply of a number on the wire.
    pub const fn from_code(code: u32) -> Self {
        match code {
            1 => Self::Ack,
            2 => Self::Server,
            3 => Self::Info,
            4 => Self::MetaContext,
            code if code & IS_ERROR != 0 => Self::Error(RefusedReason::from_code(code)),
            code => Self::Unknown(code),
        }
    }

    /// The number on the wire.
    pub const fn code(self) -> u32 {
        match self {
            Self::Ack => 1,
            Self::Server => 2,
            Self::Info => 3,
            Self::MetaContext => 4,
            Self::Error(reason) => reason.code(),
            Self::Unknown(code) => code,
        }
    }
}

/// Numbers of the facts about an export in INFO and GO.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// The proper name.
    pub const NAME: u16 = 1;
    /// Words for people.
    pub const DESCRIPTION: u16 = 2;
    /// Size constraints.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Reads an option's header: the option and the length of its data, or the wrong magic number.
pub(super) fn decode_option(header: &[u8]) -> Result<(OptionKind, u32), u64> {
    let mut fields = Fields(header);
    let decoded = (fields.u64(), fields.u32(), fields.u32());
    match decoded {
        (Some(OPTION_MAGIC), Some(option), Some(length)) => {
            Ok((OptionKind::from_code(option), length))
        }
        (magic, ..) => Err(magic.unwrap_or(0)),
    }
}

/// Appends an option.
pub(super) fn encode_option(out: &mut Vec<u8>, option: OptionKind, data: &[u8]) {
    out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.code().to_be_bytes());
    out.extend_from_slice(&length_u32(data.len()).to_be_bytes());
    out.extend_from_slice(data);
}

/// An option reply's header.
#[derive(Clone, Copy, Debug)]
pub(super) struct OptionReplyHeader {
    pub(super) option: OptionKind,
    pub(super) reply: OptionReply,
    pub(super) length: u32,
}

/// Reads an option reply's header, or nothing if the magic number is wrong.
pub(super) fn decode_option_reply(header: &[u8]) -> Option<OptionReplyHeader> {
    let mut fields = Fields(header);
    if fields.u64()? != OPTION_REPLY_MAGIC {
        return None;
    }
    Some(OptionReplyHeader {
        option: OptionKind::from_code(fields.u32()?),
        reply: OptionReply::from_code(fields.u32()?),
        length: fields.u32()?,
    })
}

/// Appends an option reply whose data is the concatenation of `parts`.
pub(super) fn encode_option_reply(
    out: &mut Vec<u8>,
    option: OptionKind,
    reply: OptionReply,
    parts: &[&[u8]],
) {
    let length = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.code().to_be_bytes());
    out.extend_from_slice(&reply.code().to_be_bytes());
    out.extend_from_slice(&length_u32(length).to_be_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// The length field of something that is built here from strings of limited length.
pub(super) fn length_u32(length: usize) -> u32 {
    u32::try_from(length).expect("option data is a few strings of at most 4096 bytes")
}

/// A string as the protocol defines it: UTF-8 without NUL, not longer than its limit.
pub(super) fn string(bytes: &[u8]) -> Option<&str> {
    if bytes.len() > MAX_STRING_BYTES || bytes.contains(&0) {
        return None;
    }
    std::str::from_utf8(bytes).ok()
}

/// The data of INFO and GO: a name and the facts asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct InfoQuery<'a> {
    pub(super) export: &'a str,
    requests: &'a [[u8; 2]],
}

impl<'a> InfoQuery<'a> {
    pub(super) fn decode(data: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(data);
        let export = string(fields.string()?)?;
        let count = usize::from(fields.u16()?);
        let (requests, tail) = fields.0.as_chunks::<2>();
        (tail.is_empty() && requests.len() == count).then_some(Self { export, requests })
    }

    pub(super) fn asks_for(&self, item: u16) -> bool {
        self.requests.contains(&item.to_be_bytes())
    }

    pub(super) fn encode(export: &str, requests: &[u16]) -> Vec<u8> {
        let mut data = Vec::with_capacity(6 + export.len() + 2 * requests.len());
        push_string(&mut data, export);
        let count = u16::try_from(requests.len()).expect("there are four facts to ask for");
        data.extend_from_slice(&count.to_be_bytes());
        for request in requests {
            data.extend_from_slice(&request.to_be_bytes());
        }
        data
    }
}

/// The data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`: a name and queries.
#[derive(Clone, Debug)]
pub(super) struct ContextQuery<'a> {
    pub(super) export: &'a str,
    pub(super) queries: Vec<&'a str>,
}

impl<'a> ContextQuery<'a> {
    /// Reads the data, unless it is malformed or has more than `max_queries` queries.
    pub(super) fn decode(data: &'a [u8], max_queries: usize) -> Result<Self, RefusedReason> {
        let mut fields = Fields(data);
        let head = (fields.string().and_then(string), fields.u32());
        let (Some(export), Some(count)) = head else { return Err(RefusedReason::Invalid) };
        // Each query takes four bytes at least, so a count beyond that is a lie, not a wish.
        if count as usize > fields.0.len() / 4 {
            return Err(RefusedReason::Invalid);
        }
        if count as usize > max_queries {
            return Err(RefusedReason::TooBig);
        }
        let queries: Option<Vec<&str>> =
            (0..count).map(|_| fields.string().and_then(string).filter(is_query)).collect();
        match queries {
            Some(queries) if fields.0.is_empty() => Ok(Self { export, queries }),
            _ => Err(RefusedReason::Invalid),
        }
    }

    pub(super) fn encode<'q>(export: &str, queries: impl Iterator<Item = &'q str>) -> Vec<u8> {
        let mut data = Vec::new();
        push_string(&mut data, export);
        let count_at = data.len();
        data.extend_from_slice(&[0; 4]);
        let mut count = 0u32;
        for query in queries {
            push_string(&mut data, query);
            count += 1;
        }
        data[count_at..count_at + 4].copy_from_slice(&count.to_be_bytes());
        data
    }
}

/// A query starts with a namespace and a colon.
fn is_query(query: &&str) -> bool {
    query.find(':').is_some_and(|colon| colon > 0)
}

fn push_string(data: &mut Vec<u8>, string: &str) {
    data.extend_from_slice(&length_u32(string.len()).to_be_bytes());
    data.extend_from_slice(string.as_bytes());
}
