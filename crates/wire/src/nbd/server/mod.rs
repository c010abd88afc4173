//! The server's side of the handshake, as a state machine.
//!
//! The driver loop:
//!
//! ```text
//! loop {
//!     let (consumed, event) = handshake.handle(&input)?;     drop `consumed` bytes of input
//!     write handshake.output() to the peer and clear it
//!     match event {
//!         NeedInput  => read more,
//!         SendOutput => {}                                   (call again with what is left)
//!         StartTls   => run TLS on the transport; handshake.tls_established(),
//!         List       => handshake.reply_list(..),
//!         Lookup(..) => handshake.reply_lookup(..),          (may take its time)
//!         Ready(session) => go on to the transmission phase with the input that is left,
//!         Closed(reason) => close,
//!     }
//! }
//! ```
//!
//! On an error the driver drops the connection; what is in `output()` may be sent or not.
//!
//! Bounded: one option's data ([`MAX_OPTION_DATA_BYTES`]), the replies to one option, and in all
//! [`MAX_OPTIONS`] options with [`MAX_HANDSHAKE_BYTES`] of data.
//!
//! [`MAX_OPTION_DATA_BYTES`]: super::proto::MAX_OPTION_DATA_BYTES
//! [`MAX_OPTIONS`]: super::proto::MAX_OPTIONS
//! [`MAX_HANDSHAKE_BYTES`]: super::proto::MAX_HANDSHAKE_BYTES

mod handshake;
mod lookup;

pub use handshake::ServerHandshake;

use super::proto::{BlockSize, Context, ReplyStyle, TransmissionFlags};
use std::fmt;

/// Whether the server does TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsOffer {
    /// No.
    #[default]
    Off,
    /// If the client likes; the driver may insist on it per export by [`Refusal::TlsRequired`].
    Optional,
    /// Nothing else is answered before it.
    Required,
}

/// What the server offers on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// TLS.
    pub tls: TlsOffer,
    /// Structured replies.
    pub structured: bool,
    /// Extended headers.
    pub extended: bool,
}

impl Default for ServerOptions {
    /// Every framing, no TLS.
    fn default() -> Self {
        Self { tls: TlsOffer::Off, structured: true, extended: true }
    }
}

/// What the driver has to do next. In every case it first sends what is in the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// All input is used up: feed more.
    NeedInput,
    /// An option was answered: call again with the input that is left.
    SendOutput,
    /// Send the output, run the TLS handshake on the transport, then call
    /// [`ServerHandshake::tls_established`]. All input is used up: had the client sent anything
    /// behind its request for TLS, the handshake would have failed.
    StartTls,
    /// The client wants to see the exports: call [`ServerHandshake::reply_list`], or
    /// [`ServerHandshake::list_entry`] for each and [`ServerHandshake::list_end`] at last.
    List,
    /// The client names an export: find it and call [`ServerHandshake::reply_lookup`].
    Lookup(Lookup),
    /// The handshake is over. The input that is left belongs to the transmission phase.
    Ready(Box<ServerSession>),
    /// The handshake ended without a session: send the output, then close.
    Closed(CloseReason),
}

/// The question about an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Its name as the client gave it; empty for the default export.
    pub export: String,
    /// What the client wants of it.
    pub purpose: Purpose,
    /// The client promises to obey the size constraints that it will be told.
    pub obeys_block_size: bool,
}

/// Why a client names an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To use it: on success the transmission phase begins.
    Enter,
    /// To read its description.
    Info,
    /// To see or select its metadata contexts.
    Contexts,
}

/// An export, as the driver describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportInfo {
    /// Size, at most [`super::proto::MAX_EXPORT_BYTES`].
    pub size_bytes: u64,
    /// What it can do. The handshake takes out what the session's framing does not carry.
    pub flags: TransmissionFlags,
    /// Its proper name, where the client used another.
    pub canonical_name: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// Size constraints.
    pub block_size: BlockSize,
    /// Names of the metadata contexts that it offers.
    pub contexts: Vec<String>,
}

/// Why the driver does not let the client have an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is none of that name.
    Unknown,
    /// This client may not; the text is sent to it.
    Policy(String),
    /// Not without TLS.
    TlsRequired,
    /// Not unless the client promises to obey these constraints.
    BlockSizeRequired(BlockSize),
    /// Not without extended headers.
    ExtendedHeadersRequired,
    /// The server is going down.
    Shutdown,
}

/// What was agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSession {
    /// The export's name as the client gave it.
    pub export: String,
    /// Its size as the client was told.
    pub size_bytes: u64,
    /// Transmission flags as the client was told them.
    pub flags: TransmissionFlags,
    /// Size constraints that the driver gave.
    pub block_size: BlockSize,
    /// Whether the client promised to obey them.
    pub obeys_block_size: bool,
    /// Framing of requests and replies.
    pub style: ReplyStyle,
    /// Selected metadata contexts.
    pub contexts: Vec<Context>,
    /// Whether the connection is under TLS.
    pub tls: bool,
}

/// How a handshake ended without a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client said goodbye.
    Aborted,
    /// `EXPORT_NAME` asked for what it may not have, and that option has no other answer.
    ExportNameRefused(Refusal),
}

/// A client that broke the protocol: drop the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// Client flags that the server did not offer.
    UnknownClientFlags(u32),
    /// An option does not start with the magic number.
    BadOptionMagic(u64),
    /// An option from a client that did not ask for fixed newstyle.
    NotFixedNewstyle {
        /// Its number.
        option: u32,
    },
    /// Too many options in one handshake.
    TooManyOptions,
    /// Too much option data in one handshake.
    TooMuchData {
        /// Length of the option that broke the limit.
        length: u32,
    },
    /// `EXPORT_NAME` with a name that is none, or where it is forbidden: it has no error reply.
    BadExportName(&'static str),
    /// Plain text behind the request for TLS: somebody tries to slip it into the session.
    PlaintextBehindStartTls,
    /// Bytes after the handshake has ended.
    Finished,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UnknownClientFlags(flags) => {
                write!(f, "client flags {flags:#010x} were not offered")
            }
            Self::BadOptionMagic(found) => {
                write!(f, "option starts with {found:#018x}: this is no NBD client, or out of step")
            }
            Self::NotFixedNewstyle { option } => {
                write!(f, "option {option} from a client that did not ask for fixed newstyle")
            }
            Self::TooManyOptions => f.write_str("too many options in one handshake"),
            Self::TooMuchData { length } => {
                write!(f, "too much option data in one handshake (an option of {length} bytes)")
            }
            Self::BadExportName(why) => write!(f, "EXPORT_NAME cannot be answered: {why}"),
            Self::PlaintextBehindStartTls => {
                f.write_str("plain text behind STARTTLS: possible injection")
            }
            Self::Finished => f.write_str("bytes after the end of the handshake"),
        }
    }
}

impl std::error::Error for HandshakeError {}
