//! The Network Block Device protocol: fixed newstyle handshake, compact, structured and extended
//! transmission, server side and client side.
//!
//! Source: `doc/proto.md` of the `NetworkBlockDevice` project, with the extended-header extension.
//! Every integer on the wire is big-endian; every length in this module is in bytes.
//!
//! ```text
//!            bytes in                                   bytes in
//!               |                                          |
//!     server::ServerHandshake                    client::ClientHandshake
//!               | Ready(ServerSession)                     | Ready(ClientSession)
//!     request::decode_request                    reply::decode_reply
//!     check::check_request                       reply::ReadCoverage
//!     reply::ReplyStyle::{done, error, ...}      request::encode_request
//! ```
//!
//! In the transmission phase payload bytes never pass through this module. The decoders say how
//! many follow, and the driver moves them.

pub mod check;
pub mod client;
mod fields;
pub mod option;
pub mod proto;
pub mod reply;
pub mod request;
pub mod server;
pub mod text;
pub mod uri;
