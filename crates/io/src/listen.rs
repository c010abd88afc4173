//! Accepting connections.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::policy::Address;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::spawn_local;

use crate::admission::Origin;
use crate::gate::{GateError, Shared};
use crate::handshake;
use crate::transport::{self, Socket};

/// Connections that the kernel holds for us.
const BACKLOG: i32 = 4096;

/// How long to wait when the system is out of descriptors.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// A bound socket on its way to the worker that will accept from it.
#[derive(Debug)]
pub(crate) struct Ears {
    pub(crate) address: Address,
    pub(crate) socket: BoundSocket,
    /// Closed when the listener is to end.
    pub(crate) closing: watch::Receiver<()>,
}

/// A bound socket, off every runtime.
#[derive(Debug)]
pub(crate) enum BoundSocket {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener, SocketFile),
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, #[expect(dead_code, reason = "removes the file in the end")] SocketFile),
}

/// Binds an address, or says why it cannot be.
pub(crate) fn bind(name: &str, address: &Address) -> Result<BoundSocket, GateError> {
    let bound = match address {
        Address::Tcp(host) => bind_tcp(host),
        Address::Unix(path) => bind_unix(path),
    };
    bound.map_err(|error| {
        let shown = match address {
            Address::Tcp(host) => host.clone(),
            Address::Unix(path) => path.display().to_string(),
        };
        let remedy = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "; another program (perhaps another gate) listens there: stop it or choose \
                 another address"
            }
            io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
            io::ErrorKind::PermissionDenied => "; low ports and others' folders need privileges",
            _ => "",
        };
        GateError { what: format!("listener {name:?} on {shown}"), why: format!("{error}{remedy}") }
    })
}

fn bind_tcp(host: &str) -> io::Result<BoundSocket> {
    use std::net::ToSocketAddrs;
    let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "the name has no address");
    for address in host.to_socket_addrs()? {
        let bound = || {
            let domain = socket2::Domain::for_address(address);
            let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            socket.listen(BACKLOG)?;
            socket.set_nonblocking(true)?;
            Ok(BoundSocket::Tcp(socket.into()))
        };
        match bound() {
            Ok(bound) => return Ok(bound),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn bind_unix(path: &Path) -> io::Result<BoundSocket> {
    use std::os::unix::net::{UnixListener, UnixStream};
    let bound = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            // A socket that nobody answers is left over from a process that was killed.
            match UnixStream::connect(path) {
                Err(refused)
                    if refused.kind() == io::ErrorKind::ConnectionRefused && is_socket(path) =>
                {
                    std::fs::remove_file(path)?;
                    UnixListener::bind(path)?
                }
                _ => return Err(error),
            }
        }
        bound => bound?,
    };
    bound.set_nonblocking(true)?;
    Ok(BoundSocket::Unix(bound, SocketFile::of(path)?))
}

/// Whether a path leads to a socket; nothing else is ever removed to make room.
fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

impl Listener {
    fn attach(socket: BoundSocket) -> io::Result<Self> {
        Ok(match socket {
            BoundSocket::Tcp(socket) => Self::Tcp(TcpListener::from_std(socket)?),
            BoundSocket::Unix(socket, file) => Self::Unix(UnixListener::from_std(socket)?, file),
        })
    }

    async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                transport::tune(&stream)?;
                Ok(Socket::Tcp(stream))
            }
            Self::Unix(listener, _) => Ok(Socket::Unix(listener.accept().await?.0)),
        }
    }
}

/// Accepts until told to end.
pub(crate) async fn listen(shared: Arc<Shared>, ears: Ears) {
    let Ears { address, socket, mut closing } = ears;
    let listener = match Listener::attach(socket) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, ?address, "a listener cannot be used"),
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // The sender never sends; it is dropped when the listener is to end.
            _ = closing.changed() => break,
        };
        match accepted {
            Ok(socket) => {
                let origin = Origin::of(socket.peer(), socket.process());
                let most = shared.plan().policy.memory.connections;
                while let Some(pause) = shared.door.pause(origin, most) {
                    tokio::time::sleep(Duration::from_nanos(pause.0)).await;
                }
                admit(&shared, &address, socket, origin);
            }
            Err(error) => {
                tracing::warn!(%error, ?address, "a connection could not be accepted");
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

/// What a unix socket leaves in the file system; removed with this, unless something else has taken
/// its place.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        let (device, inode) = identity(path)?;
        Ok(Self { path: path.to_owned(), device, inode })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|there| there == (self.device, self.inode)) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// What a path leads to, as device and inode.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

fn admit(shared: &Arc<Shared>, address: &Address, socket: Socket, origin: Origin) {
    let plan = shared.plan();
    let listener = plan.listeners.iter().find(|listener| listener.address == *address);
    let Some(listener) = listener.cloned() else { return };
    let most = plan.policy.memory.connections;
    let (permit, goes) = shared.door.begin(origin, most);
    let shared = Arc::clone(shared);
    spawn_local(async move {
        let welcome = handshake::welcome(Arc::clone(&shared), socket, listener, permit);
        tokio::select! {
            () = welcome => {}
            _ = goes => {
                if shared.door.logs() {
                    let refused = shared.door.refused();
                    tracing::warn!(refused, "too many handshakes at once: one was ended");
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_listener_takes_its_own_socket_away_and_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gate.sock");
        let first = bind_unix(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = bind_unix(&path).unwrap();
        drop(first);
        assert!(UnixStream::connect(&path).is_ok(), "the second listener's socket is gone");
        drop(second);
        assert!(!path.exists(), "the second listener left its socket");
    }

    #[test]
    fn a_dead_socket_gives_way_and_any_other_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gate.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        drop(bind_unix(&path).unwrap());
        std::fs::write(&path, "somebody's").unwrap();
        assert!(bind_unix(&path).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"somebody's");
    }
}
