//! NBD URIs, as `nbdinfo`, `nbdcopy` and `qemu-img` take them.
//!
//! ```text
//! nbd://host[:port]/export             TCP
//! nbds://host[:port]/export            TCP with TLS
//! nbd+unix:///export?socket=PATH       unix socket
//! nbds+unix:///export?socket=PATH      unix socket with TLS
//! ```

use std::fmt;
use std::str::FromStr;

/// Where a server is and which export is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdUri {
    /// Where.
    pub transport: Transport,
    /// Whether TLS is insisted on.
    pub tls: bool,
    /// Name of the export; empty for the default one.
    pub export: String,
    /// The name that the server's certificate must carry, if not the host's.
    pub tls_hostname: Option<String>,
    /// Folder with the certificates to use.
    pub tls_certificates: Option<String>,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Over TCP.
    Tcp {
        /// Host name or address, an IPv6 address without its brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// Over a unix socket.
    Unix {
        /// Its path.
        socket: String,
    },
}

/// What is wrong with a URI, and how to put it right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriError {
    message: String,
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for UriError {}

impl FromStr for NbdUri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        unimplemented!("{text}")
    }
}

impl fmt::Display for NbdUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.transport)
    }
}
