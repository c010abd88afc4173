//! Tells the service manager that the gate is ready: the datagram protocol of `Type=notify` units.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Names the manager's socket: a path, or an abstract name after `@`.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Sends a state such as `READY=1`, if there is a manager to tell.
///
/// # Errors
/// A manager that cannot be told; the gate runs all the same.
pub(super) fn notify(state: &str) -> io::Result<()> {
    match std::env::var(VARIABLE) {
        Ok(socket) if !socket.is_empty() => send(&socket, state),
        _ => Ok(()),
    }
}

fn send(socket: &str, state: &str) -> io::Result<()> {
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_hears_the_state_on_both_kinds_of_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let abstract_name = format!("evenkeel-test-{}", std::process::id());
        let sockets = [
            (UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned()),
            (
                UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&abstract_name).unwrap())
                    .unwrap(),
                format!("@{abstract_name}"),
            ),
        ];
        for (manager, name) in sockets {
            send(&name, "READY=1").unwrap();
            let mut heard = [0; 16];
            let length = manager.recv(&mut heard).unwrap();
            assert_eq!(&heard[..length], b"READY=1");
        }
    }
}
