//! Listeners: somewhere to connect, each address once.

use std::path::Path;

use super::{Findings, Place, check_names};
use crate::policy::{Address, Policy, Source};

/// Bytes of the longest unix socket path that the kernel takes, the terminating zero excluded.
const UNIX_PATH_BYTES: usize = 107;

pub(super) fn check(policy: &Policy, found: &mut Findings) {
    let place = |index, field| Place::Listener { index, field };
    if policy.listeners.is_empty() {
        found.error(
            Place::Policy { field: "listeners" },
            "no listener: no client could connect",
            "declare at least one listener",
        );
    }
    let names = policy.listeners.iter().map(|listener| listener.name.as_str());
    check_names("listener", names, false, |index| place(index, "name"), found);
    for (index, listener) in policy.listeners.iter().enumerate() {
        check_address(&listener.address, place(index, "address"), found);
        if policy.listeners[..index].iter().any(|other| other.address == listener.address) {
            found.error(
                place(index, "address"),
                "another listener has this address already",
                "give each listener an address of its own",
            );
        }
        if policy.backends.iter().any(|backend| reaches(&backend.source, &listener.address)) {
            found.error(
                place(index, "address"),
                "a backend has this address as its upstream: the gate would be its own client",
                "let the gate listen elsewhere than the server behind it",
            );
        }
        check_tls(policy, index, found);
    }
}

fn check_tls(policy: &Policy, index: usize, found: &mut Findings) {
    let Some(tls) = &policy.listeners[index].tls else { return };
    let files = [
        ("tls.certificate", Some(&tls.certificate)),
        ("tls.key", Some(&tls.key)),
        ("tls.client_authority", tls.client_authority.as_ref()),
    ];
    for (field, path) in files {
        if path.is_some_and(|path| path.as_os_str().is_empty()) {
            let place = Place::Listener { index, field };
            found.error(place, "an empty path", "name a PEM file");
        }
    }
    if tls.client_authority.is_some() && !tls.required {
        found.warning(
            Place::Listener { index, field: "tls.required" },
            "clients must prove who they are if they use TLS, but may do without TLS",
            "require TLS on this listener",
        );
    }
}

/// Reports an address that cannot be listened on or connected to.
pub(super) fn check_address(address: &Address, place: Place, found: &mut Findings) {
    match address {
        Address::Tcp(text) if host_and_port(text).is_none() => found.error(
            place,
            format!("{text:?} is not an address and port"),
            "write host:port, or [address]:port for IPv6, as in 127.0.0.1:10809",
        ),
        Address::Unix(path) if path.as_os_str().is_empty() => {
            found.error(place, "an empty socket path", "name the socket's path");
        }
        Address::Unix(path) if path.as_os_str().len() > UNIX_PATH_BYTES => found.error(
            place,
            format!("a socket path of {} bytes", path.as_os_str().len()),
            format!("use at most {UNIX_PATH_BYTES} bytes, which is all that the kernel takes"),
        ),
        Address::Tcp(_) | Address::Unix(_) => {}
    }
}

/// The host (without brackets) and port of an address, if it has that form.
pub(super) fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = is_number.then(|| port.parse().ok())??;
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let host = match bracketed {
        Some(v6) => v6.parse::<std::net::Ipv6Addr>().is_ok().then_some(v6)?,
        None => host,
    };
    let is_host = !host.is_empty() && !host.contains(char::is_whitespace);
    (is_host && (bracketed.is_some() || !host.contains(':'))).then_some((host, port))
}

/// Whether connecting to this source would end at this listener of the same machine.
fn reaches(source: &Source, listener: &Address) -> bool {
    let Source::Upstream(upstream) = source else { return false };
    match (&upstream.address, listener) {
        (Address::Unix(to), Address::Unix(at)) => to.as_path() == AsRef::<Path>::as_ref(at),
        (Address::Tcp(to), Address::Tcp(at)) => {
            let (Some(to), Some(at)) = (host_and_port(to), host_and_port(at)) else { return false };
            let is_everywhere = matches!(at.0, "0.0.0.0" | "::");
            let is_here = matches!(to.0, "localhost" | "127.0.0.1" | "::1");
            to.1 == at.1 && at.1 != 0 && (to.0 == at.0 || is_everywhere && is_here)
        }
        _ => false,
    }
}
