//! The client's side of the handshake, as a state machine.
//!
//! The driver loop is the server's, with fewer events: send the output, feed input, run TLS when
//! told, stop at a final event. On an error the output may hold a polite goodbye: send it if the
//! transport still works, then close.

mod handshake;
mod replies;

pub use handshake::ClientHandshake;

pub use super::option::RefusedReason;

use super::proto::{BlockSize, Context, ReplyStyle, TransmissionFlags};
use super::text::Escaped;
use std::fmt;

/// What the client wants of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// What the handshake is for.
    pub goal: Goal,
    /// The export, empty for the default one; unused for [`Goal::List`].
    pub export: String,
    /// Insist on TLS.
    pub tls: bool,
    /// Ask for structured replies; without them if the server has none.
    pub structured: bool,
    /// Ask for extended headers; without them if the server has none.
    pub extended: bool,
    /// Which metadata contexts to select, if the server has structured replies.
    pub contexts: ContextsWanted,
}

impl Default for ClientOptions {
    /// The default export with every framing, no TLS and no contexts.
    fn default() -> Self {
        Self {
            goal: Goal::Go,
            export: String::new(),
            tls: false,
            structured: true,
            extended: true,
            contexts: ContextsWanted::None,
        }
    }
}

/// What a handshake is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// To use the export.
    Go,
    /// To read its description.
    Info,
    /// To see what exports there are.
    List,
}

/// Which metadata contexts the client selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ContextsWanted {
    /// None.
    #[default]
    None,
    /// Whatever the server lists, up to `max` (and [`super::proto::MAX_CONTEXTS`]).
    All {
        /// The most to select.
        max: usize,
    },
    /// These; what the server does not have is left out. At most [`super::proto::MAX_CONTEXTS`].
    Named(Vec<String>),
}

/// What the driver has to do next. In every case it first sends what is in the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// All input is used up: feed more.
    NeedInput,
    /// Send the output, run TLS on the transport, then call [`ClientHandshake::tls_established`].
    /// All input is used up: had the server sent anything behind its consent, the handshake would
    /// have failed.
    StartTls,
    /// [`Goal::Go`] is reached. The input that is left belongs to the transmission phase.
    Ready(Box<ClientSession>),
    /// [`Goal::Info`] is reached: send the output, then close.
    Info(Box<ClientSession>),
    /// One export of the list; call again with the input that is left.
    Listed(ListedExport),
    /// [`Goal::List`] is reached: send the output, then close.
    ListEnd,
}

/// One export of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedExport {
    /// Its name.
    pub name: String,
    /// The server's words on it, often none.
    pub description: String,
}

/// What was agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientSession {
    /// Size of the export.
    pub size_bytes: u64,
    /// What it can do.
    pub flags: TransmissionFlags,
    /// Size constraints; the defaults if the server gave none.
    pub block_size: BlockSize,
    /// Whether the server gave any.
    pub block_size_given: bool,
    /// The export's proper name, if the server told.
    pub canonical_name: Option<String>,
    /// For people, if the server told.
    pub description: Option<String>,
    /// Framing of requests and replies.
    pub style: ReplyStyle,
    /// Selected metadata contexts.
    pub contexts: Vec<Context>,
    /// Whether the connection is under TLS.
    pub tls: bool,
}

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// The peer does not greet as an NBD server does.
    NotNbd,
    /// The server speaks the oldstyle protocol only.
    Oldstyle,
    /// The server knows no options, but what is wanted takes one.
    NotFixedNewstyle {
        /// What is wanted.
        wanted: &'static str,
    },
    /// The server refused an option that the goal needs.
    Refused {
        /// The option.
        option: &'static str,
        /// The server's reason.
        reason: RefusedReason,
        /// The server's words, as they came.
        message: Vec<u8>,
    },
    /// The server broke the protocol.
    Protocol {
        /// The option it was answering.
        option: &'static str,
        /// How.
        what: &'static str,
    },
    /// Plain text behind the server's consent to TLS: somebody tries to slip it into the session.
    PlaintextBehindStartTls,
    /// Bytes after the handshake has ended.
    Finished,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNbd => f.write_str("the peer is no NBD server (check address and port)"),
            Self::Oldstyle => f.write_str(
                "the server speaks only the oldstyle protocol, which was withdrawn; \
                 use one that does fixed newstyle",
            ),
            Self::NotFixedNewstyle { wanted } => {
                write!(f, "the server is too old to negotiate {wanted} (no fixed newstyle)")
            }
            Self::Refused { option, reason, message } => {
                write!(f, "the server refused {option}: {reason}")?;
                if message.is_empty() {
                    return Ok(());
                }
                write!(f, "; it says \"{}\"", Escaped(message))
            }
            Self::Protocol { option, what } => {
                write!(f, "the server broke the protocol in its answer to {option}: {what}")
            }
            Self::PlaintextBehindStartTls => {
                f.write_str("plain text behind STARTTLS: possible injection")
            }
            Self::Finished => f.write_str("bytes after the end of the handshake"),
        }
    }
}

impl std::error::Error for ClientError {}
