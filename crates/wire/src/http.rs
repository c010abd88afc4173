//! What an HTTP request says of the server that it means (`Host`, RFC 9110 section 7.2) and of the
//! page that sent it (`Origin`, RFC 6454 section 7).
//!
//! Only what a door has to tell apart is read. A web page may have its own name point at this
//! machine (DNS rebinding), and is then free to read what it is answered; but its name stays in
//! `Host`, and is never an address:
//!
//! ```text
//! 10.0.0.5:9809   [fe80::1]:9809      an address: nobody rebinds that
//! gate.example    localhost:9809      a name: whether it is ours, the caller knows
//! a@b   a/b   a:b:c   a b             nothing that a client sends
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of the longest name of the DNS.
const NAME_BYTES_MAX: usize = 253;

/// A host as a request names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host<'a> {
    /// An address, written as browsers write it.
    Address(IpAddr),
    /// A name of letters, digits, `-`, `_` and single dots, without the dot at its end. Its last
    /// part is no number.
    Name(&'a str),
}

impl<'a> Host<'a> {
    /// Reads a host; an address of IPv6 is in brackets, and may have a zone.
    pub fn parse(text: &'a str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix('[') {
            let address = rest.strip_suffix(']')?;
            let address = address.split_once('%').map_or(address, |(address, _zone)| address);
            return address.parse::<Ipv6Addr>().ok().map(|it| Self::Address(it.into()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_fine);
        let is_name = name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label);
        // Whatever ends in a number is an address to browsers, in a form that they do not send.
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
        (is_name && !is_number).then_some(Self::Name(name))
    }

    /// Whether both are the same; case plays no part in names.
    pub fn is(self, other: Host<'_>) -> bool {
        match (self, other) {
            (Self::Address(one), Host::Address(other)) => one == other,
            (Self::Name(one), Host::Name(other)) => one.eq_ignore_ascii_case(other),
            _ => false,
        }
    }
}

/// A host with the port that may stand behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    /// The host.
    pub host: Host<'a>,
    /// The port, if one is written.
    pub port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// Reads the value of `Host`. None if it is not well formed.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let text = str::from_utf8(value).ok()?;
        // The colons of an address of IPv6 are in brackets.
        let after_address = text.rfind(']').map_or(0, |bracket| bracket + 1);
        let Some(colon) = text[after_address..].find(':') else {
            return Some(Self { host: Host::parse(text)?, port: None });
        };
        let (host, port) = text.split_at(after_address + colon);
        let port = &port[1..];
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = match port {
            "" => None,
            number if is_number => Some(number.parse().ok()?),
            _ => return None,
        };
        Some(Self { host: Host::parse(host)?, port })
    }
}

/// The page that sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// Where it came from.
    pub authority: Authority<'a>,
    /// The port that is meant where none is written.
    default_port: u16,
}

impl<'a> Origin<'a> {
    /// Reads the value of `Origin`. None for whatever is no page of a web server, such as `null`.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let schemes = [(&b"http://"[..], 80), (b"https://", 443)];
        schemes.into_iter().find_map(|(scheme, default_port)| {
            let authority = Authority::parse(value.strip_prefix(scheme)?)?;
            Some(Self { authority, default_port })
        })
    }

    /// Whether the page came from the server that the request is for.
    pub fn is_of(self, server: Authority<'_>) -> bool {
        let port = |authority: Authority<'_>| authority.port.unwrap_or(self.default_port);
        self.authority.host.is(server.host) && port(self.authority) == port(server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(value: &str) -> Option<(Host<'_>, Option<u16>)> {
        Authority::parse(value.as_bytes()).map(|it| (it.host, it.port))
    }

    #[test]
    fn addresses_are_told_from_names() {
        let address = |text: &str| Host::Address(text.parse().expect("an address"));
        assert_eq!(host("127.0.0.1:9809"), Some((address("127.0.0.1"), Some(9809))));
        assert_eq!(host("10.0.0.5"), Some((address("10.0.0.5"), None)));
        assert_eq!(host("[::1]:9809"), Some((address("::1"), Some(9809))));
        assert_eq!(host("[fe80::1%eth0]"), Some((address("fe80::1"), None)));
        assert_eq!(host("Gate.Example.:80"), Some((Host::Name("Gate.Example"), Some(80))));
        assert_eq!(host("localhost:"), Some((Host::Name("localhost"), None)));
        let name = "127.0.0.1.evil.example";
        assert_eq!(host(name), Some((Host::Name(name), None)));
    }

    #[test]
    fn what_is_no_host_is_none() {
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        for bad in [
            "",
            ":80",
            ".",
            "a..b",
            ".a",
            "a:b",
            "a:1:2",
            "a:65536",
            "a:+1",
            "a@b",
            "a/b",
            "a b",
            "a,b",
            "::1",
            "[::1",
            "::1]",
            "[::1]x",
            "[127.0.0.1]",
            "[::1]:x",
            "[]",
            "caf\u{e9}",
            "*",
            &long,
            "127.1",
            "2130706433",
            "0x7f.0.0.1",
            "127.0.0.1.",
            "010.0.0.1",
        ] {
            assert_eq!(host(bad), None, "{bad}");
        }
        assert_eq!(Authority::parse(b"\xff"), None);
    }

    #[test]
    fn a_page_is_of_the_server_whose_host_and_port_it_has() {
        let is_of = |origin: &str, server: &str| {
            let server = Authority::parse(server.as_bytes()).expect("well formed");
            Origin::parse(origin.as_bytes()).is_some_and(|origin| origin.is_of(server))
        };
        assert!(is_of("http://localhost:9809", "LOCALHOST:9809"));
        assert!(is_of("http://[::1]:9809", "[0::1]:9809"));
        assert!(is_of("https://gate.example", "gate.example"));
        assert!(is_of("https://gate.example", "gate.example:443"));
        assert!(is_of("http://gate.example:80", "gate.example"));
        for (origin, server) in [
            ("http://localhost:3000", "localhost:9809"),
            ("http://localhost", "localhost:9809"),
            ("http://127.0.0.1:9809", "localhost:9809"),
            ("http://evil.example:9809", "127.0.0.1:9809"),
            ("null", "localhost:9809"),
            ("file://", "localhost:9809"),
            ("http://localhost:9809/", "localhost:9809"),
            ("http://localhost:9809 http://evil.example", "localhost:9809"),
            ("", "localhost"),
        ] {
            assert!(!is_of(origin, server), "{origin} of {server}");
        }
    }
}
