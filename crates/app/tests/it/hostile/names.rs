//! Names that lead out of the folder of a `directory`. Whoever can write there, as another
//! service may, has the gate open nothing else.

use std::os::unix::fs::symlink;
use std::path::Path;

use crate::harness::gate::Gate;
use crate::harness::nbd::{ACK, Client, GO, go_data};
use crate::harness::{Scratch, noise};

const BYTES: u64 = 1 << 20;

/// A policy with these exports on a folder that a link leads to.
fn policy(exports: &[&str]) -> String {
    let export = |name: &&str| format!("[[export]]\nname = \"{name}\"\nbackend = \"folder\"\n");
    let exports: String = exports.iter().map(export).collect();
    format!("[[backend]]\nname = \"folder\"\ndirectory = \"link\"\n{exports}")
}

fn file(path: &Path) {
    std::fs::File::create(path).and_then(|file| file.set_len(BYTES)).expect("make a file");
}

#[test]
fn what_leads_out_of_a_directory_is_answered_like_what_is_not_there() {
    let scratch = Scratch::new();
    let folder = scratch.join("disks");
    std::fs::create_dir(&folder).expect("make a folder");
    symlink("disks", scratch.join("link")).expect("link");
    file(&folder.join("disk"));
    file(&scratch.join("secret"));
    symlink("disk", folder.join("alias")).expect("link");
    symlink(scratch.join("secret"), folder.join("absolute")).expect("link");
    symlink("../secret", folder.join("relative")).expect("link");
    symlink("/proc/self/exe", folder.join("magic")).expect("link");
    symlink("/dev/zero", folder.join("device")).expect("link");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, folder.join("pipe"), kind, mode, 0).expect("make a pipe");
    let bad = ["absolute", "relative", "magic", "device", "pipe"];
    let mut exports = vec!["disk", "alias", "missing"];
    exports.extend(bad);
    let gate = Gate::start(&scratch, &policy(&exports));

    // Kind and text of the answer.
    let refusal = |name: &str| {
        let mut client = Client::greet(&gate.plain(name).address);
        client.option(GO, &go_data(name));
        let last = client.option_replies().pop().expect("an answer");
        assert_ne!(last.kind, ACK, "{name} was opened");
        (last.kind, last.data)
    };
    let missing = refusal("missing");
    for name in bad {
        assert_eq!(refusal(name), missing, "{name} has another answer than what is not there");
    }
    gate.assert_serves("disk");
    let data = noise(7, 4096);
    let mut client = Client::open(&gate.plain("alias"));
    assert_eq!(client.write(0, &data), Ok(()));
    assert_eq!(client.flush(), Ok(()));
    drop(client);
    assert_eq!(Client::open(&gate.plain("disk")).read(0, 4096), Ok(data));
    let secret = std::fs::read(scratch.join("secret")).expect("read");
    assert!(secret.iter().all(|byte| *byte == 0), "something was written outside");

    let log = gate.process.log();
    assert!(log.contains("it leads out of the folder"), "{log}");
    assert!(log.contains("it is not a regular file"), "{log}");
}
