//! The control socket: made so that only its owner can use it, and so that a socket left behind by
//! a gate that died is taken over, but never one that a living gate answers on.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A bound socket; its file goes when this is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    listener: UnixListener,
}

/// Why the socket cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// A gate runs there.
    #[error(
        "another gate answers at {}: stop it, or choose another socket with --control",
        .0.display()
    )]
    InUse(PathBuf),
    /// Something else is there.
    #[error("{} is there and is no socket: choose another path with --control", .0.display())]
    NoSocket(PathBuf),
    /// The system refuses.
    #[error("cannot make the control socket {}: {error}", path.display())]
    Refused {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl ControlSocket {
    /// Binds the socket at `path`, mode 0600.
    ///
    /// It is bound beside its place, given its mode, and then moved there: at no moment could
    /// another user connect, and at no moment is the place empty while a gate runs.
    ///
    /// # Errors
    /// [`SocketError`].
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let refused = |error| SocketError::Refused { path: path.to_owned(), error };
        free_place(path)?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(refused)?;
        }
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}", std::process::id()));
        let beside = PathBuf::from(beside);
        let listener = UnixListener::bind(&beside).map_err(refused)?;
        let placed = fs::set_permissions(&beside, Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&beside, path))
            .and_then(|()| listener.set_nonblocking(true));
        if let Err(error) = placed {
            let _ = fs::remove_file(&beside);
            return Err(refused(error));
        }
        Ok(Self { path: path.to_owned(), listener })
    }

    /// The listener, for the runtime that serves it.
    ///
    /// # Errors
    /// When the system cannot duplicate it, or there is no runtime.
    pub fn listener(&self) -> io::Result<tokio::net::UnixListener> {
        tokio::net::UnixListener::from_std(self.listener.try_clone()?)
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Accepts a place that is empty or holds a socket on which nobody answers.
fn free_place(path: &Path) -> Result<(), SocketError> {
    use std::os::unix::fs::FileTypeExt;
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(SocketError::NoSocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(SocketError::InUse(path.to_owned())),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_may_connect_and_the_file_goes_with_the_gate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/control.sock");
        let socket = ControlSocket::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_living_gate_is_left_alone_and_a_dead_one_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let living = UnixListener::bind(&path).unwrap();
        assert!(matches!(ControlSocket::bind(&path), Err(SocketError::InUse(_))));
        drop(living);
        assert!(path.exists(), "a dead gate leaves its socket behind");
        let socket = ControlSocket::bind(&path).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        drop(socket);
    }

    #[test]
    fn a_file_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        fs::write(&path, "data").unwrap();
        assert!(matches!(ControlSocket::bind(&path), Err(SocketError::NoSocket(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
    }
}
