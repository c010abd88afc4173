//! What a policy needs of this machine and of the servers behind it, asked for as the gate would.
//!
//! Nothing is changed: files and drives are looked at, ports are bound and given back, servers are
//! greeted and left.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use evenkeel_engine::policy::{Address, Listener, Policy, Source, Upstream};
use serde::Serialize;

/// How long a server may take to greet.
const PATIENCE: Duration = Duration::from_secs(3);

/// What an NBD server begins with, and what of the newer style follows.
const GREETING: &[u8; 8] = b"NBDMAGIC";
const NEWER: &[u8; 8] = b"IHAVEOPT";

/// The answer of a client that leaves at once: its flags, and the option to abort.
const GOODBYE: &[u8] = b"\0\0\0\x01IHAVEOPT\0\0\0\x02\0\0\0\0";

/// One thing that was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Asked {
    /// Of which part of the policy.
    pub(super) what: String,
    /// What is wrong, and what can be done; none if nothing is.
    pub(super) trouble: Option<String>,
    /// What holds of it, where that is not plain from the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
}

impl Asked {
    fn new(what: String, trouble: Option<String>) -> Self {
        Self { what, trouble, note: None }
    }
}

/// Asks for everything that the policy names.
pub(super) fn ask(policy: &Policy) -> Vec<Asked> {
    let mut asked = Vec::new();
    for listener in &policy.listeners {
        let what = format!("listener {}", listener.name);
        asked.push(Asked::new(what, cannot_listen(&listener.address)));
        asked.extend(files_of(listener));
    }
    for backend in &policy.backends {
        let what = format!("backend {}", backend.name);
        match &backend.source {
            Source::Upstream(upstream) => {
                asked.push(Asked::new(what.clone(), cannot_reach(upstream)));
                let tls = upstream.tls.as_ref();
                let identity = tls.and_then(|tls| tls.identity.as_ref());
                let identity = identity.into_iter().flat_map(|(chain, key)| [chain, key]);
                let files = tls.map(|tls| &tls.authority).into_iter().chain(identity);
                asked.extend(files.filter_map(|file| unreadable(&what, file)));
            }
            Source::File { path, .. } => {
                asked.push(Asked::new(what, cannot_use(path, false)));
            }
            Source::Directory { path, .. } => {
                asked.push(Asked::new(what, cannot_use(path, true)));
            }
            Source::Store(store) => asked.extend(store.drives.iter().map(|drive| {
                let what = format!("{what}, drive {}", drive.display());
                Asked::new(what, cannot_use(drive, false))
            })),
            Source::Ceph(ceph) => {
                let files = [Some(&ceph.conf), ceph.keyring.as_ref()];
                asked.push(Asked::new(what.clone(), None));
                asked.extend(files.into_iter().flatten().filter_map(|it| unreadable(&what, it)));
            }
            Source::Memory | Source::Tiered(_) | Source::Spread(_) => {}
        }
    }
    asked
}

fn files_of(listener: &Listener) -> Vec<Asked> {
    let what = format!("listener {}", listener.name);
    let Some(tls) = &listener.tls else { return Vec::new() };
    let files = [Some(&tls.certificate), Some(&tls.key), tls.client_authority.as_ref()];
    files.into_iter().flatten().filter_map(|file| unreadable(&what, file)).collect()
}

/// A file that has to be read.
fn unreadable(what: &str, file: &Path) -> Option<Asked> {
    let error = File::open(file).err()?;
    let trouble = Some(format!("cannot read {}: {error}", file.display()));
    Some(Asked::new(what.to_owned(), trouble))
}

fn cannot_listen(address: &Address) -> Option<String> {
    match address {
        Address::Tcp(address) => {
            let error = TcpListener::bind(address).err()?;
            let remedy = match error.kind() {
                io::ErrorKind::AddrInUse => {
                    "a program listens there already, perhaps this gate: `ss -ltnp` says which"
                }
                io::ErrorKind::PermissionDenied => "ports below 1024 are for root",
                _ => "is it an address of this machine?",
            };
            Some(format!("cannot listen on {address}: {error}; {remedy}"))
        }
        Address::Unix(path) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let place = path.display();
            if folder.is_some_and(|folder| !folder.is_dir()) {
                return Some(format!("cannot listen on {place}: its folder is not there; make it"));
            }
            let there = fs::symlink_metadata(path).ok()?;
            if !there.file_type().is_socket() {
                return Some(format!("{place} is there and is no socket; choose another path"));
            }
            let answers = UnixStream::connect(path).is_ok();
            answers.then(|| format!("a program listens on {place} already, perhaps this gate"))
        }
    }
}

fn cannot_reach(upstream: &Upstream) -> Option<String> {
    let place = match &upstream.address {
        Address::Tcp(host) => format!("nbd://{host}"),
        Address::Unix(path) => path.display().to_string(),
    };
    match greeting(&upstream.address) {
        Ok(bytes) if &bytes == GREETING => None,
        Ok(_) => Some(format!("what answers at {place} is no NBD server")),
        Err(error) => {
            Some(format!("{place} does not answer: {error}; is the server up, and the port open?"))
        }
    }
}

fn greeting(address: &Address) -> io::Result<[u8; 8]> {
    match address {
        Address::Tcp(host) => {
            let mut stream = Err(io::Error::other("no such host"));
            for address in host.to_socket_addrs()? {
                stream = TcpStream::connect_timeout(&address, PATIENCE);
                if stream.is_ok() {
                    break;
                }
            }
            let stream = stream?;
            stream.set_read_timeout(Some(PATIENCE))?;
            greet(stream)
        }
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            greet(stream)
        }
    }
}

/// What a server begins with. It is left politely.
fn greet(mut stream: impl Read + Write) -> io::Result<[u8; 8]> {
    let (mut first, mut second) = ([0; 8], [0; 8]);
    stream.read_exact(&mut first)?;
    if &first == GREETING {
        let is_newer = stream.read_exact(&mut second).is_ok() && &second == NEWER;
        if is_newer && stream.read_exact(&mut [0; 2]).is_ok() {
            // Whether the server takes leave is its own affair.
            let _ = stream.write_all(GOODBYE).and_then(|()| stream.read(&mut [0; 64]));
        }
    }
    Ok(first)
}

/// A file, block device or folder that the gate serves from.
fn cannot_use(path: &Path, is_folder: bool) -> Option<String> {
    let place = path.display();
    let metadata = match fs::metadata(path) {
        // The gate makes it.
        Err(error) if is_folder && error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => return Some(format!("cannot use {place}: {error}")),
        Ok(metadata) => metadata,
    };
    if is_folder != metadata.is_dir() {
        let kind = if is_folder { "no folder" } else { "a folder" };
        return Some(format!("{place} is {kind}"));
    }
    let error = if is_folder {
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        rustix::fs::access(path, access).err().map(io::Error::from)
    } else {
        // What cannot be written is served read-only.
        File::options().read(true).write(true).open(path).or_else(|_| File::open(path)).err()
    };
    error.map(|error| format!("cannot use {place}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn troubles(text: &str, folder: &Path) -> Vec<String> {
        let file = folder.join("policy.toml");
        fs::write(&file, text).unwrap();
        let parsed = crate::config::load(&file).unwrap();
        let policy = parsed.policy.unwrap_or_else(|| panic!("{}", parsed.diagnostics));
        ask(&policy).into_iter().filter_map(|asked| asked.trouble).collect()
    }

    #[test]
    fn a_policy_whose_parts_are_there_has_no_trouble() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("disk"), [0; 4096]).unwrap();
        let server = UnixListener::bind(folder.path().join("server.sock")).unwrap();
        let greeter = std::thread::spawn(move || {
            let mut stream = server.accept().unwrap().0;
            stream.write_all(b"NBDMAGICIHAVEOPT\0\x03").unwrap();
            let mut said = [0; 20];
            stream.read_exact(&mut said).unwrap();
            assert_eq!(&said, GOODBYE);
        });
        let found = troubles(
            "listen = [\"unix:gate.sock\"]\n\
             [[backend]]\nname = \"array\"\nupstream = \"nbd+unix:///?socket=server.sock\"\n\
             passthrough = true\n\
             [[backend]]\nname = \"file\"\nfile = \"disk\"\n\
             [[export]]\nname = \"disk\"\nbackend = \"file\"\n",
            folder.path(),
        );
        greeter.join().unwrap();
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn what_is_missing_is_told_at_once_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let found = troubles(
            &format!(
                "listen = [\"{}\"]\n\
                 [[backend]]\nname = \"array\"\nupstream = \"nbd+unix:///?socket=no.sock\"\n\
                 passthrough = true\n\
                 [[backend]]\nname = \"file\"\nfile = \"missing\"\n\
                 [[export]]\nname = \"disk\"\nbackend = \"file\"\nsize = \"1 MiB\"\n",
                taken.local_addr().unwrap()
            ),
            folder.path(),
        );
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("a program listens there already"), "{}", found[0]);
        assert!(found[1].contains("does not answer") && found[1].contains("is the server up"));
        assert!(found[2].contains("missing"), "{}", found[2]);
    }
}
