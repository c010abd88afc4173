//! The URI of an upstream: an NBD URI as far as it names a server. The export is not part of it:
//! the policy names exports on their own, and TLS has keys of its own.

use std::fmt;
use std::path::PathBuf;

use evenkeel_engine::policy::Address;
use evenkeel_wire::nbd::uri::{NbdUri, Transport};

/// A server, as a URI names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerUri {
    /// Where it is.
    pub(super) address: Address,
    /// Whether TLS is wanted.
    pub(super) tls: bool,
}

impl ServerUri {
    /// Parses a URI; an error is a sentence that says what is wrong.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let uri: NbdUri = text.parse().map_err(|error| format!("{error}"))?;
        if !uri.export.is_empty() {
            return Err("it names an export; put that in `source` of the [[export]]".to_owned());
        }
        if uri.tls_hostname.is_some() || uri.tls_certificates.is_some() {
            return Err("TLS parameters have their own place, `tls` of the backend".to_owned());
        }
        let address = match uri.transport {
            Transport::Unix { socket } => Address::Unix(PathBuf::from(socket)),
            Transport::Tcp { host, port } if host.contains(':') => {
                Address::Tcp(format!("[{host}]:{port}"))
            }
            Transport::Tcp { host, port } => Address::Tcp(format!("{host}:{port}")),
        };
        Ok(Self { address, tls: uri.tls })
    }
}

impl fmt::Display for ServerUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match &self.address {
            Address::Unix(path) => Transport::Unix { socket: path.to_string_lossy().into_owned() },
            Address::Tcp(address) => {
                let scheme = if self.tls { "nbds" } else { "nbd" };
                return write!(f, "{scheme}://{address}");
            }
        };
        let uri = NbdUri {
            transport,
            tls: self.tls,
            export: String::new(),
            tls_hostname: None,
            tls_certificates: None,
        };
        write!(f, "{uri}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(Address, bool)> {
        ServerUri::parse(text).ok().map(|uri| (uri.address, uri.tls))
    }

    #[test]
    fn servers_are_named_by_host_or_by_socket() {
        let tcp = |host: &str| Address::Tcp(host.to_owned());
        assert_eq!(parsed("nbd://array"), Some((tcp("array:10809"), false)));
        assert_eq!(parsed("nbds://[::1]:9/"), Some((tcp("[::1]:9"), true)));
        let unix = Address::Unix("/run/a b".into());
        assert_eq!(parsed("nbd+unix:///?socket=/run/a%20b"), Some((unix, false)));
    }

    #[test]
    fn what_names_more_than_a_server_is_refused() {
        let reason = |text| ServerUri::parse(text).unwrap_err();
        assert!(reason("nbd://a/export").contains("`source` of the [[export]]"));
        assert!(reason("nbds://a/?tls-hostname=b").contains("`tls` of the backend"));
        assert!(reason("array:10809").contains("nbd://"));
    }

    #[test]
    fn a_printed_uri_reads_back() {
        for text in ["nbd://a:1", "nbds://[::1]:10809", "nbds+unix:///?socket=/a%3Fb%25"] {
            let uri = ServerUri::parse(text).unwrap();
            assert_eq!(ServerUri::parse(&uri.to_string()), Ok(uri), "{text}");
        }
    }
}
