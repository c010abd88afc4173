//! NBD URIs, as `nbdinfo`, `nbdcopy` and `qemu-img` take them.
//!
//! ```text
//! nbd://host[:port]/export             TCP
//! nbds://host[:port]/export            TCP with TLS
//! nbd+unix:///export?socket=PATH       unix socket
//! nbds+unix:///export?socket=PATH      unix socket with TLS
//! ```
//!
//! The slash between host and export does not belong to the name. Special characters are written as
//! percent escapes. TLS takes the parameters `tls-hostname` and `tls-certificates`.

use super::option::string;
use super::proto::{DEFAULT_PORT, MAX_STRING_BYTES};
use super::text::Escaped;
use std::fmt;
use std::fmt::Write as _;
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

fn fail<T>(message: impl Into<String>) -> Result<T, UriError> {
    Err(UriError { message: message.into() })
}

fn shown(text: &str) -> String {
    Escaped(text.as_bytes()).to_string()
}

impl FromStr for NbdUri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return fail(format!(
                "\"{}\" is no NBD URI: write nbd://host/export or \
                 nbd+unix:///export?socket=/path",
                shown(text)
            ));
        };
        let (tls, unix) = parse_scheme(scheme)?;
        if rest.contains('#') {
            return fail("an NBD URI has no fragment: write \"#\" in a name as %23");
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        let export = decode(path)?;
        if string(export.as_bytes()).is_none() {
            return fail(format!("an export name has at most {MAX_STRING_BYTES} bytes and no NUL"));
        }
        let parameters = Parameters::parse(query)?;
        if !tls && (parameters.tls_hostname.is_some() || parameters.tls_certificates.is_some()) {
            return fail("tls-... parameters take one of the schemes nbds:// and nbds+unix://");
        }
        let transport = match (unix, parameters.socket) {
            (true, Some(socket)) if authority.is_empty() => Transport::Unix { socket },
            (true, Some(_)) => {
                return fail(
                    "a unix-socket URI has no host: write three slashes, nbd+unix:///name",
                );
            }
            (true, None) => return fail("a unix-socket URI takes ?socket=/path/to/socket"),
            (false, Some(_)) => {
                return fail("socket=... takes the scheme nbd+unix:// or nbds+unix://");
            }
            (false, None) => parse_authority(authority)?,
        };
        let Parameters { tls_hostname, tls_certificates, .. } = parameters;
        Ok(Self { transport, tls, export, tls_hostname, tls_certificates })
    }
}

/// Whether a scheme means TLS, and whether it means a unix socket.
fn parse_scheme(scheme: &str) -> Result<(bool, bool), UriError> {
    match scheme.to_ascii_lowercase().as_str() {
        "nbd" => Ok((false, false)),
        "nbds" => Ok((true, false)),
        "nbd+unix" => Ok((false, true)),
        "nbds+unix" => Ok((true, true)),
        _ => fail(format!(
            "scheme \"{}\" is not supported: use nbd, nbds, nbd+unix or nbds+unix",
            shown(scheme)
        )),
    }
}

fn parse_authority(authority: &str) -> Result<Transport, UriError> {
    if authority.contains('@') {
        return fail(
            "user names in NBD URIs are not supported: identity comes from the certificate",
        );
    }
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let Some((host, after)) = rest.split_once(']') else {
            return fail("an IPv6 address has no closing bracket: write nbd://[::1]:10809/export");
        };
        if host.parse::<std::net::Ipv6Addr>().is_err() {
            return fail(format!("\"{}\" is no IPv6 address", shown(host)));
        }
        match after.strip_prefix(':') {
            None if after.is_empty() => (host.to_owned(), None),
            None => return fail("only a port may follow an IPv6 address"),
            Some(port) => (host.to_owned(), Some(port)),
        }
    } else {
        match authority.split_once(':') {
            None => (parse_host(authority)?, None),
            Some((_, port)) if port.contains(':') => {
                return fail("an IPv6 address takes brackets: write nbd://[::1]:10809/export");
            }
            Some((host, port)) => (parse_host(host)?, Some(port)),
        }
    };
    let port = match port {
        None | Some("") => DEFAULT_PORT,
        Some(port) => match port.parse() {
            Ok(number) if number > 0 && port.bytes().all(|byte| byte.is_ascii_digit()) => number,
            _ => return fail(format!("\"{}\" is no port: use 1 to 65535", shown(port))),
        },
    };
    Ok(Transport::Tcp { host, port })
}

/// A host name or IPv4 address. An escaped colon does not make it an IPv6 address: those take
/// brackets.
fn parse_host(text: &str) -> Result<String, UriError> {
    let host = decode(text)?;
    if host.is_empty() || !host.bytes().all(is_host_byte) {
        return fail(format!("\"{}\" is no host name", shown(&host)));
    }
    Ok(host)
}

/// Letters and digits, and what separates them in names and addresses.
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')
}

#[derive(Default)]
struct Parameters {
    socket: Option<String>,
    tls_hostname: Option<String>,
    tls_certificates: Option<String>,
}

impl Parameters {
    fn parse(query: &str) -> Result<Self, UriError> {
        let mut parameters = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let slot = match key {
                "socket" => &mut parameters.socket,
                "tls-hostname" => &mut parameters.tls_hostname,
                "tls-certificates" => &mut parameters.tls_certificates,
                _ => {
                    return fail(format!(
                        "parameter \"{}\" is not supported: there are socket, tls-hostname and \
                         tls-certificates",
                        shown(key)
                    ));
                }
            };
            let value = decode(value)?;
            if value.is_empty() || value.contains('\0') {
                return fail(format!("parameter \"{key}\" needs a value"));
            }
            if slot.replace(value).is_some() {
                return fail(format!("parameter \"{key}\" is given twice"));
            }
        }
        Ok(parameters)
    }
}

/// Takes percent escapes out.
fn decode(text: &str) -> Result<String, UriError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let escape = tail.split_first_chunk::<2>();
        let digits = escape.map(|(&[high, low], tail)| (hex(high), hex(low), tail));
        let Some((Some(high), Some(low), tail)) = digits else {
            return fail("\"%\" starts an escape of two hexadecimal digits: write it as %25");
        };
        bytes.push(high << 4 | low);
        rest = tail;
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(_) => fail("the escapes of a URI must form UTF-8"),
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// A text with percent escapes for whatever has a meaning in a URI.
struct Encoded<'a>(&'a str);

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~/:,@+".contains(&byte) {
                f.write_char(char::from(byte))?;
            } else {
                write!(f, "%{byte:02X}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for NbdUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls { "nbds" } else { "nbd" })?;
        let mut socket = None;
        match &self.transport {
            Transport::Tcp { host, port } => {
                let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
                write!(f, "://{open}{host}{close}")?;
                if *port != DEFAULT_PORT {
                    write!(f, ":{port}")?;
                }
            }
            Transport::Unix { socket: path } => {
                f.write_str("+unix://")?;
                socket = Some(path);
            }
        }
        write!(f, "/{}", Encoded(&self.export))?;
        let parameters = [
            ("socket", socket),
            ("tls-hostname", self.tls_hostname.as_ref()),
            ("tls-certificates", self.tls_certificates.as_ref()),
        ];
        let mut separator = '?';
        for (key, value) in parameters {
            if let Some(value) = value {
                write!(f, "{separator}{key}={}", Encoded(value))?;
                separator = '&';
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> NbdUri {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn tcp(host: &str, port: u16, export: &str) -> NbdUri {
        NbdUri {
            transport: Transport::Tcp { host: host.into(), port },
            tls: false,
            export: export.into(),
            tls_hostname: None,
            tls_certificates: None,
        }
    }

    #[test]
    fn the_usual_forms_are_understood() {
        assert_eq!(parse("nbd://localhost"), tcp("localhost", 10809, ""));
        assert_eq!(parse("nbd://localhost/"), tcp("localhost", 10809, ""));
        assert_eq!(parse("NBD://10.0.0.5:10810/disk"), tcp("10.0.0.5", 10810, "disk"));
        assert_eq!(parse("nbd://[::1]:99/a%20b"), tcp("::1", 99, "a b"));
        assert_eq!(parse("nbd://host//abs/name"), tcp("host", 10809, "/abs/name"));
        assert_eq!(parse("nbds://h/x"), NbdUri { tls: true, ..tcp("h", 10809, "x") });
        let unix = Transport::Unix { socket: "/tmp/nbd.sock".into() };
        assert_eq!(
            parse("nbd+unix:///disk?socket=/tmp/nbd.sock"),
            NbdUri { transport: unix.clone(), ..tcp("", 0, "disk") }
        );
        assert_eq!(
            parse("nbds+unix:///?socket=/tmp/nbd.sock&tls-hostname=a.b&tls-certificates=/pki"),
            NbdUri {
                transport: unix,
                tls: true,
                tls_hostname: Some("a.b".into()),
                tls_certificates: Some("/pki".into()),
                ..tcp("", 0, "")
            }
        );
    }

    #[test]
    fn each_error_says_what_to_write_instead() {
        let cases = [
            ("localhost:10809", "nbd://host/export"),
            ("http://host/", "nbd, nbds"),
            ("nbd+vsock://1/", "nbd+unix"),
            ("nbd:///disk", "no host name"),
            ("nbd://::1/disk", "brackets"),
            ("nbd://%3A%3A1/disk", "no host name"),
            ("nbd://[::1/disk", "closing bracket"),
            ("nbd://[::zz]/disk", "no IPv6"),
            ("nbd://host:0/", "1 to 65535"),
            ("nbd://host:+7/", "1 to 65535"),
            ("nbd://host:70000/", "1 to 65535"),
            ("nbd://me@host/", "user names"),
            ("nbd://host/a%2", "%25"),
            ("nbd://host/a%ff", "UTF-8"),
            ("nbd://host/a%00", "no NUL"),
            ("nbd://host/a#b", "%23"),
            ("nbd://host/?socket=/x", "nbd+unix://"),
            ("nbd+unix:///x", "?socket="),
            ("nbd+unix:///x?socket=", "needs a value"),
            ("nbd+unix:///x?socket=/a&socket=/b", "twice"),
            ("nbd+unix://host/x?socket=/a", "three slashes"),
            ("nbd://host/x?colour=red", "there are socket"),
            ("nbd://host/x?tls-hostname=a", "nbds://"),
        ];
        for (text, expected) in cases {
            let error = text.parse::<NbdUri>().expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn an_error_never_passes_control_characters_on() {
        let error = "ht\x1b[2Jtp://x".parse::<NbdUri>().unwrap_err().to_string();
        assert!(error.bytes().all(|byte| (32..127).contains(&byte)), "{error:?}");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_parsed_back(
            unix: bool, tls: bool, export in "[^\0]{0,40}", name in "[a-z0-9.-]{1,20}",
            port in 1u16..,
            socket in "/[^\0]{0,20}", certificates in prop::option::of("[^\0]{1,10}"),
        ) {
            let transport = if unix {
                Transport::Unix { socket }
            } else {
                Transport::Tcp { host: name.clone(), port }
            };
            let tls_hostname = tls.then_some(name);
            let tls_certificates = certificates.filter(|_| tls);
            let uri = NbdUri { transport, tls, export, tls_hostname, tls_certificates };
            prop_assert_eq!(parse(&uri.to_string()), uri);
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in ".{0,80}") {
            _ = text.parse::<NbdUri>();
        }
    }
}
