//! Gates that this user runs, so that commands find them from any folder.
//!
//! Each gate puts a symbolic link to its control socket into a folder that only its user can write,
//! the first of these that can be had: `evenkeel` in `$XDG_RUNTIME_DIR` or in `/run/user/UID`,
//! `/run/evenkeel/gates` for root, and `/tmp/evenkeel-UID`. Commands look in all of them, and
//! remove links to sockets on which nobody answers.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// A gate that can be found, until this is dropped.
#[derive(Debug)]
pub struct Announced(PathBuf);

impl Announced {
    /// Announces the gate whose control socket is at `socket`. None where that cannot be done: the
    /// gate is then found by its folder or its name alone.
    pub fn new(socket: &Path) -> Option<Self> {
        Self::within(folders().first()?, socket)
    }

    fn within(folder: &Path, socket: &Path) -> Option<Self> {
        let socket = std::path::absolute(socket).ok()?;
        let link = folder.join(std::process::id().to_string());
        // Of a process before this one that had its number.
        let _ = fs::remove_file(&link);
        symlink(&socket, &link).ok()?;
        Some(Self(link))
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The control sockets of all gates that this user runs and that answer.
pub fn gates() -> Vec<PathBuf> {
    let mut sockets: Vec<PathBuf> = folders().iter().flat_map(|folder| within(folder)).collect();
    sockets.sort();
    sockets.dedup();
    sockets
}

fn within(folder: &Path) -> Vec<PathBuf> {
    let Ok(links) = fs::read_dir(folder) else { return Vec::new() };
    let mut sockets = Vec::new();
    for link in links.flatten().map(|link| link.path()) {
        let Ok(socket) = fs::read_link(&link) else { continue };
        match UnixStream::connect(&socket).map_err(|error| error.kind()) {
            Ok(_) => sockets.push(socket),
            Err(io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => {
                let _ = fs::remove_file(&link);
            }
            Err(_) => {}
        }
    }
    sockets.sort();
    sockets
}

/// Where links may be, that which is to be used first: a gate that was started before its user
/// logged in has put its link elsewhere than one that is started later.
fn folders() -> Vec<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let of_session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let of_session = of_session.filter(|folder| folder.is_absolute());
    let of_user = PathBuf::from(format!("/run/user/{user}"));
    let of_users = of_session.into_iter().chain([of_user]).filter(|folder| folder.is_dir());
    let of_root = (user == 0).then(|| PathBuf::from("/run/evenkeel/gates"));
    let anywhere = std::env::temp_dir().join(format!("evenkeel-{user}"));
    let all = of_users.map(|folder| folder.join("evenkeel")).chain(of_root).chain([anywhere]);
    all.filter(|folder| private(folder, user)).collect()
}

/// Makes a folder that only this user can use. False if it is there and another could.
fn private(folder: &Path, user: u32) -> bool {
    let _ = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let Ok(metadata) = fs::symlink_metadata(folder) else { return false };
    metadata.is_dir() && metadata.uid() == user && metadata.mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_gate_is_found_while_it_answers() {
        let scratch = tempfile::tempdir().unwrap();
        let (folder, socket) = (scratch.path().join("gates"), scratch.path().join("control.sock"));
        fs::create_dir(&folder).unwrap();
        let listener = UnixListener::bind(&socket).unwrap();
        let announced = Announced::within(&folder, &socket).unwrap();
        assert_eq!(within(&folder), std::slice::from_ref(&socket));
        drop(listener);
        assert!(within(&folder).is_empty(), "it was killed");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "and its link is gone");
        fs::remove_file(&socket).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        drop(announced);
        let announced = Announced::within(&folder, &socket).unwrap();
        assert_eq!(within(&folder), [socket]);
        drop(announced);
        assert!(within(&folder).is_empty(), "it has ended");
    }

    #[test]
    fn a_folder_that_others_can_write_is_not_believed() {
        let scratch = tempfile::tempdir().unwrap();
        let user = fs::metadata(scratch.path()).unwrap().uid();
        let folder = scratch.path().join("gates");
        assert!(private(&folder, user));
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        assert!(!private(&folder, user + 1), "it is another's");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!private(&folder, user));
    }
}
