//! `evenkeel volume check` and `repair`, on volumes over real servers: what is damaged is found,
//! the gate refuses it and names the remedy, and after that it serves all that was written.

use std::fmt::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::harness::gate::{EVENKEEL, Gate, store_policy};
use crate::harness::nbd::Client;
use crate::harness::process::finish;
use crate::harness::skip::needs;
use crate::harness::storage::{Server, text};
use crate::harness::target::Address;
use crate::harness::{Scratch, noise, wait_for};

const MIB: u64 = 1 << 20;
const BLOCK_BYTES: usize = 4096;

/// A volume over nbdkit's servers of files.
struct Stage {
    scratch: Scratch,
    files: Vec<PathBuf>,
    servers: Vec<Server>,
    policy: String,
}

impl Stage {
    /// Servers of these sizes; `volume` is what the policy says of a volume over them.
    fn new(sizes: &[(&str, u64)], volume: &str) -> Self {
        let scratch = Scratch::new();
        let (mut files, mut servers, mut policy) = (Vec::new(), Vec::new(), String::new());
        policy.push_str("mode = \"enforce\"\n");
        for (name, size_bytes) in sizes {
            let file = scratch.join(format!("{name}.raw"));
            let made = std::fs::File::create(&file).and_then(|file| file.set_len(*size_bytes));
            made.expect("a file in scratch");
            let server = Server::nbdkit_named(&scratch, name, &["file", &text(&file)]);
            let Address::Unix(socket) = &server.target.address else { panic!("it is local") };
            let uri = format!("nbd+unix:///?socket={}", socket.display());
            write!(
                policy,
                "[[backend]]\nname = \"{name}\"\nupstream = \"{uri}\"\nconnections = 1\n\
                 writes_survive_restart = true\n"
            )
            .expect("a string takes it");
            files.push(file);
            servers.push(server);
        }
        write!(
            policy,
            "[[backend]]\nname = \"shelf\"\nlease = \"500 ms\"\n{volume}\
             [[export]]\nname = \"disk\"\nbackend = \"shelf\"\n"
        )
        .expect("a string takes it");
        Self { scratch, files, servers, policy }
    }

    fn volume(&self, command: &str, more: &[&str]) -> (Option<i32>, String) {
        let mut line = vec!["volume", command, "policy.toml", "shelf"];
        line.extend(more);
        let (status, output) = finish(self.scratch.path(), EVENKEEL, &line, Duration::from_mins(1));
        (status.code(), output)
    }

    /// Overwrites blocks of a member's file.
    fn damage(&self, member: usize, first: u64, blocks: usize) {
        let file = std::fs::OpenOptions::new().write(true).open(&self.files[member]);
        let bytes = noise(first + 7, blocks * BLOCK_BYTES);
        let offset = first * BLOCK_BYTES as u64;
        file.and_then(|file| file.write_all_at(&bytes, offset)).expect("the file is there");
    }
}

fn trouble(gate: &Gate) -> String {
    let status = gate.status();
    let backends = status["backends"].as_array().expect("a list of backends");
    let shelf = backends.iter().find(|backend| backend["name"] == "shelf");
    shelf.expect("the volume is a backend")["trouble"].as_str().unwrap_or_default().to_owned()
}

/// Places all over the disk, with what was written there.
fn contents(size_bytes: u64) -> Vec<(u64, Vec<u8>)> {
    let places = (0..8).map(|part| part * size_bytes / 8 / 65_536 * 65_536);
    places.map(|at| (at, noise(at + 1, 65_536))).collect()
}

fn write_all(gate: &Gate, contents: &[(u64, Vec<u8>)]) {
    let mut client = wait_for("the volume", || Client::try_open(&gate.plain("disk")));
    for (at, data) in contents {
        assert_eq!(client.write(*at, data), Ok(()));
    }
    assert_eq!(client.flush(), Ok(()));
}

fn assert_holds(gate: &Gate, contents: &[(u64, Vec<u8>)]) {
    let mut client = wait_for("the volume", || Client::try_open(&gate.plain("disk")));
    for (at, data) in contents {
        assert!(client.read(*at, 65_536).as_ref() == Ok(data), "what was written at {at}");
    }
}

/// Damages both heads of a member, and mends them.
fn lose_heads_and_mend(stage: &Stage, member: usize, size_bytes: u64) {
    let mut gate = Gate::start(&stage.scratch, &stage.policy);
    let contents = contents(size_bytes);
    write_all(&gate, &contents);
    let (code, output) = stage.volume("check", &[]);
    assert_eq!(code, Some(0), "beside a gate that serves it:\n{output}");
    assert!(output.contains("it is at work"), "the owner is named:\n{output}");
    gate.stop();
    let (code, output) = stage.volume("check", &[]);
    assert_eq!(code, Some(0), "{output}");

    stage.damage(member, 0, 2);
    let before = std::fs::read(&stage.files[member]).expect("the file is there");
    let (code, output) = stage.volume("check", &[]);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("heads") && output.contains("evenkeel volume repair"), "{output}");
    let after = std::fs::read(&stage.files[member]).expect("the file is there");
    assert!(before == after, "a check writes nothing");
    gate.restart();
    wait_for("the refusal", || trouble(&gate).contains("evenkeel volume repair").then_some(()));
    gate.stop();

    let (code, output) = stage.volume("repair", &[]);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("mended:"), "{output}");
    let (code, output) = stage.volume("check", &["--json"]);
    assert_eq!(code, Some(0), "{output}");
    gate.restart();
    assert_holds(&gate, &contents);

    // One copy of a head, under a gate that is at work.
    stage.damage(member, 1, 1);
    let (code, output) = stage.volume("check", &[]);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("head B, at byte 4096"), "{output}");
    let (code, output) = stage.volume("repair", &[]);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("stop that gate first"), "{output}");
    gate.kill();
    let (code, output) = stage.volume("repair", &[]);
    assert_eq!(code, Some(0), "the data folder tells that the gate is gone:\n{output}");
    gate.restart();
    assert_holds(&gate, &contents);
}

#[test]
fn a_tier_that_has_lost_its_heads_is_mended() {
    needs!("nbdkit");
    let tiers = "tiers = [\"slow\", \"fast\"]\nextent = \"64 KiB\"\nlate = \"0 s\"\n";
    let stage = Stage::new(&[("slow", 64 * MIB), ("fast", 8 * MIB)], tiers);
    lose_heads_and_mend(&stage, 1, 64 * MIB);
}

#[test]
fn a_server_that_has_lost_its_heads_is_mended() {
    needs!("nbdkit");
    let servers = "choices = [\"a\", \"b\", \"c\"]\nobject = \"64 KiB\"\nlate = \"0 s\"\n";
    let sizes = [("a", 32 * MIB), ("b", 32 * MIB), ("c", 32 * MIB)];
    let stage = Stage::new(&sizes, servers);
    lose_heads_and_mend(&stage, 2, 64 * MIB);
}

#[test]
fn what_cannot_be_mended_is_named_and_left_alone() {
    needs!("nbdkit");
    let tiers = "tiers = [\"slow\", \"fast\"]\nextent = \"64 KiB\"\nlate = \"0 s\"\n";
    let stage = Stage::new(&[("slow", 64 * MIB), ("fast", 8 * MIB)], tiers);
    let mut gate = Gate::start(&stage.scratch, &stage.policy);
    write_all(&gate, &contents(64 * MIB));
    gate.stop();
    // Heads and owner: nothing is left that says what it was.
    stage.damage(0, 0, 3);
    let before = std::fs::read(&stage.files[0]).expect("the file is there");
    let (code, output) = stage.volume("repair", &[]);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("nothing was written"), "{output}");
    let after = std::fs::read(&stage.files[0]).expect("the file is there");
    assert!(before == after, "{output}");

    let (status, output) = finish(
        stage.scratch.path(),
        EVENKEEL,
        &["volume", "check", "policy.toml", "disk"],
        Duration::from_secs(20),
    );
    assert_eq!(status.code(), Some(3), "there is no such volume:\n{output}");
}

#[test]
fn a_member_that_cannot_be_reached_is_named() {
    needs!("nbdkit");
    let tiers = "tiers = [\"slow\", \"fast\"]\nextent = \"64 KiB\"\n";
    let mut stage = Stage::new(&[("slow", 64 * MIB), ("fast", 8 * MIB)], tiers);
    let mut gate = Gate::start(&stage.scratch, &stage.policy);
    write_all(&gate, &contents(64 * MIB));
    gate.stop();
    stage.servers[0].process.kill();
    for command in ["check", "repair"] {
        let (code, output) = stage.volume(command, &[]);
        assert_eq!(code, Some(4), "{output}");
        assert!(output.contains("slow: tier: it cannot be reached"), "{output}");
    }
}

/// A volume over a volume of a store and a file in a folder.
#[test]
fn a_tier_in_a_store_is_looked_at_where_that_is_wanted() {
    let scratch = Scratch::new();
    let store = store_policy(&scratch, 64 * MIB, 16 * MIB);
    let store = store.split("[[export]]").next().expect("a backend comes first").to_owned();
    let policy = format!(
        "mode = \"enforce\"\n{store}[[backend]]\nname = \"disks\"\ndirectory = \"disks\"\n\
         [[backend]]\nname = \"shelf\"\nextent = \"64 KiB\"\n\
         tiers = [\"log\", {{ backend = \"disks\", device = \"fast\", size = \"8 MiB\" }}]\n\
         [[export]]\nname = \"disk\"\nbackend = \"shelf\"\n"
    );
    let mut gate = Gate::start(&scratch, &policy);
    let contents = contents(16 * MIB);
    write_all(&gate, &contents);
    gate.stop();
    let fast = scratch.join("disks").join("fast");
    let stage = Stage { scratch, files: vec![fast], servers: Vec::new(), policy };
    let (code, output) = stage.volume("check", &[]);
    assert_eq!(code, Some(4), "{output}");
    assert!(output.contains("--open-stores"), "{output}");
    let (code, output) = stage.volume("check", &["--open-stores"]);
    assert_eq!(code, Some(0), "{output}");
    stage.damage(0, 0, 2);
    let (code, output) = stage.volume("repair", &[]);
    assert_eq!(code, Some(0), "{output}");
    gate.restart();
    assert_holds(&gate, &contents);
}
