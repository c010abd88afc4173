//! Where something listens, or is reached.

use std::net::IpAddr;
use std::path::PathBuf;

/// An address to listen on or to connect to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// Host and port, as `host:port` or `[v6]:port`.
    Tcp(String),
    /// A unix socket.
    Unix(PathBuf),
}

impl Address {
    /// The address, if it means the same on every host.
    pub(super) fn beyond_this_host(&self) -> Option<&str> {
        let Self::Tcp(address) = self else { return None };
        let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_loopback = match host.parse::<IpAddr>() {
            Ok(ip) => ip.is_loopback() || ip.is_unspecified(),
            Err(_) => host == "localhost" || host.ends_with(".localhost"),
        };
        (!is_loopback).then_some(address)
    }
}
