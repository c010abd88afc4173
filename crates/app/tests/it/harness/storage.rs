//! Other people's NBD servers, as upstreams of the gate or, without it, as the yardstick.

use std::path::{Path, PathBuf};

use super::certificates::Certificates;
use super::process::Process;
use super::target::{Address, Target};
use super::{Scratch, free_port};

/// A running server.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) target: Target,
}

/// How the two ends of a test talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Over a unix socket.
    Plain,
    /// Over TCP, both sides showing certificates.
    Tls,
}

impl Server {
    /// nbdkit with a source such as `["memory", "64M"]`, logging what it is asked to `nbdkit.txt`.
    pub(crate) fn nbdkit(scratch: &Scratch, wire: Wire, source: &[&str]) -> Self {
        let target = target(scratch, wire, "nbdkit.sock", "");
        Self::nbdkit_at(scratch, target, &log_of(scratch), source)
    }

    /// One of several: nbdkit on the unix socket `NAME.sock`, with its log in `NAME.txt`.
    pub(crate) fn nbdkit_named(scratch: &Scratch, name: &str, source: &[&str]) -> Self {
        let target = target(scratch, Wire::Plain, &format!("{name}.sock"), "");
        Self::nbdkit_at(scratch, target, &scratch.join(format!("{name}.txt")), source)
    }

    /// The same without a log, for much.
    pub(crate) fn nbdkit_without_log(scratch: &Scratch, name: &str, source: &[&str]) -> Self {
        let target = target(scratch, Wire::Plain, &format!("{name}.sock"), "");
        let Address::Unix(path) = &target.address else { unreachable!("it was made plain") };
        let mut arguments = words(&["--foreground", "--threads=4"]);
        arguments.extend(["--unix".into(), text(path)]);
        arguments.extend(words(source));
        Self::start(scratch, "nbdkit", &arguments, target)
    }

    fn nbdkit_at(scratch: &Scratch, target: Target, log: &Path, source: &[&str]) -> Self {
        let mut arguments = words(&["--foreground", "--threads=4", "--filter=log"]);
        match (&target.address, &target.certificates) {
            (Address::Unix(path), _) => arguments.extend(["--unix".into(), text(path)]),
            (Address::Tcp(port), None) => arguments.push(format!("--port={port}")),
            (Address::Tcp(port), Some(certificates)) => arguments.extend([
                format!("--port={port}"),
                "--ipaddr=127.0.0.1".into(),
                "--tls=require".into(),
                "--tls-verify-peer".into(),
                format!("--tls-certificates={}", text(certificates.folder())),
            ]),
        }
        arguments.extend(words(source));
        arguments.push(format!("logfile={}", text(log)));
        Self::start(scratch, "nbdkit", &arguments, target)
    }

    /// qemu-nbd on a raw file.
    pub(crate) fn qemu_nbd(scratch: &Scratch, wire: Wire, file: &Path) -> Self {
        Self::qemu_nbd_at(scratch, target(scratch, wire, "qemu-nbd.sock", "disk"), file)
    }

    /// One of several: qemu-nbd on the unix socket `NAME.sock`, with an export without a name.
    pub(crate) fn qemu_nbd_named(scratch: &Scratch, name: &str, file: &Path) -> Self {
        let target = target(scratch, Wire::Plain, &format!("{name}.sock"), "");
        Self::qemu_nbd_at(scratch, target, file)
    }

    fn qemu_nbd_at(scratch: &Scratch, target: Target, file: &Path) -> Self {
        let mut arguments = words(&["--persistent", "--shared=16", "--format=raw"]);
        arguments.push(format!("--export-name={}", target.export));
        match (&target.address, &target.certificates) {
            (Address::Unix(path), _) => arguments.push(format!("--socket={}", text(path))),
            (Address::Tcp(port), _) => {
                arguments.extend(["--bind=127.0.0.1".into(), format!("--port={port}")]);
            }
        }
        if let Some(certificates) = &target.certificates {
            let folder = text(certificates.folder());
            let object =
                format!("tls-creds-x509,id=tls0,endpoint=server,verify-peer=on,dir={folder}");
            arguments.extend(["--object".into(), object, "--tls-creds=tls0".into()]);
        }
        arguments.push(text(file));
        Self::start(scratch, "qemu-nbd", &arguments, target)
    }

    fn start(scratch: &Scratch, program: &str, arguments: &[String], target: Target) -> Self {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut process = Process::start(scratch.path(), program, &arguments);
        process.wait_until("answers on its socket", || target.address.answers());
        Self { process, target }
    }
}

/// Where nbdkit tells what it was asked.
pub(crate) fn log_of(scratch: &Scratch) -> PathBuf {
    scratch.join("nbdkit.txt")
}

fn target(scratch: &Scratch, wire: Wire, socket: &str, export: &str) -> Target {
    let (address, certificates) = match wire {
        Wire::Plain => (Address::Unix(scratch.join(socket)), None),
        Wire::Tls => (Address::Tcp(free_port()), Some(Certificates::of(scratch))),
    };
    Target { address, export: export.to_owned(), certificates }
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().expect("a path of ours is UTF-8").to_owned()
}
