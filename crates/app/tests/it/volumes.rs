//! Volumes and snapshots of a store, by `evenkeel store` while nobody has it open and by `evenkeel
//! ctl` while clients write.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use crate::faults::reconnect;
use crate::harness::client::{fio_verify, qemu_img};
use crate::harness::gate::{EVENKEEL, Gate, store_policy};
use crate::harness::nbd::Client;
use crate::harness::process::Process;
use crate::harness::skip::needs;
use crate::harness::{Scratch, noise, wait_for};

const MIB: u64 = 1 << 20;
const BLOCK_BYTES: usize = 4096;

/// Blocks of a MiB, which one client of a test writes in turn.
const BLOCKS: u64 = 256;

/// Bytes of each of the three drives, and of the volume: with room for snapshots of it.
const FILE_BYTES: u64 = 160 * MIB;
const VOLUME_BYTES: u64 = 48 * MIB;

const DRIVES: &str = "a.img b.img c.img";

/// Runs `evenkeel store` on the three drives: `COMMAND DRIVES OPTIONS`.
fn store(scratch: &Scratch, command: &str, options: &str) -> (Option<i32>, String) {
    let line = format!("store {command} {DRIVES} {options}");
    let mut evenkeel = Command::new(EVENKEEL);
    evenkeel.args(line.split_whitespace()).current_dir(scratch.path());
    let output = evenkeel.output().expect("run evenkeel");
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&printed).into_owned())
}

fn json(scratch: &Scratch, command: &str, options: &str) -> Value {
    let (code, printed) = store(scratch, command, &format!("{options} --json"));
    assert_eq!(code, Some(0), "{command}:\n{printed}");
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}:\n{printed}"))
}

/// What a command says that ends with this code.
fn refused(scratch: &Scratch, code: i32, command: &str, options: &str) -> String {
    let (found, printed) = store(scratch, command, options);
    assert_eq!(found, Some(code), "{command} {options}:\n{printed}");
    printed
}

fn numbers(list: &Value) -> Vec<u64> {
    let rows = list.as_array().expect("a list").iter();
    rows.map(|row| row["volume"].as_u64().expect("a number")).collect()
}

/// A policy with one export more for each volume given.
fn with_exports(policy: &str, volumes: &[u64]) -> String {
    let export = |number: &u64| {
        format!("[[export]]\nname = \"v{number}\"\nbackend = \"log\"\nsource = \"{number}\"\n")
    };
    policy.to_owned() + &volumes.iter().map(export).collect::<String>()
}

fn ctl_json(gate: &Gate, words: &str) -> Value {
    let mut line: Vec<&str> = words.split_whitespace().collect();
    line.push("--json");
    serde_json::from_str(&gate.ctl(&line)).expect("ctl prints JSON")
}

/// What `ctl` says when the gate refuses.
fn ctl_refused(gate: &Gate, code: i32, words: &str) -> String {
    let line: Vec<&str> = words.split_whitespace().collect();
    let (status, output) = gate.try_ctl(&line);
    assert_eq!(status.code(), Some(code), "{words}:\n{output}");
    output
}

fn open(gate: &Gate, export: &str) -> Client {
    wait_for("the store", || reconnect(&gate.plain(export)))
}

#[test]
fn volumes_come_and_go_on_a_store_that_is_closed() {
    let scratch = Scratch::new();
    store_policy(&scratch, FILE_BYTES, VOLUME_BYTES);
    let made = json(&scratch, "volume create", "--size 8MiB");
    assert_eq!((&made["volume"], &made["kind"]), (&1.into(), &"provisioned".into()));
    let thin = json(&scratch, "volume create", "--size 1TiB --thin");
    assert_eq!((&thin["kind"], &thin["size_bytes"]), (&"thin".into(), &(1_u64 << 40).into()));
    assert_eq!(numbers(&json(&scratch, "volume list", "")), [0, 1, 2]);

    assert_eq!(json(&scratch, "volume resize", "--volume 1 --size 16MiB")["size_bytes"], 16 * MIB);
    let told = refused(&scratch, 3, "volume resize", "--volume 1 --size 4MiB");
    assert!(told.contains("16 MiB") && told.contains("--yes"), "{told}");
    json(&scratch, "volume resize", "--volume 1 --size 4MiB --yes");

    let snapshot = json(&scratch, "snapshot create", "--volume 1");
    assert_eq!((&snapshot["volume"], &snapshot["of"]), (&3.into(), &1.into()));
    let clone = json(&scratch, "snapshot clone", "--snapshot 3");
    assert_eq!((&clone["volume"], &clone["kind"]), (&4.into(), &"thin".into()));
    assert_eq!(numbers(&json(&scratch, "snapshot list", "--volume 1")), [3]);
    assert_eq!(numbers(&json(&scratch, "snapshot list", "--volume 0")), [] as [u64; 0]);
    let (_, text) = store(&scratch, "snapshot list", "");
    assert!(text.starts_with("VOLUME") && text.contains("snapshot"), "{text}");

    for (command, options) in [
        ("volume delete", "--volume 1"),
        ("snapshot delete", "--snapshot 3"),
        ("snapshot roll-back", "--volume 1 --to 3"),
    ] {
        let told = refused(&scratch, 3, command, options);
        assert!(told.contains("nothing was done") && told.contains("--yes"), "{told}");
    }
    json(&scratch, "snapshot roll-back", "--volume 1 --to 3 --yes");
    json(&scratch, "volume delete", "--volume 1 --yes");
    json(&scratch, "snapshot delete", "--snapshot 3 --yes");
    assert_eq!(numbers(&json(&scratch, "volume list", "")), [0, 2, 4]);
    let (code, printed) = store(&scratch, "check", "");
    assert_eq!(code, Some(0), "{printed}");
}

#[test]
fn an_order_that_makes_no_sense_to_a_store_says_why() {
    let scratch = Scratch::new();
    store_policy(&scratch, FILE_BYTES, VOLUME_BYTES);
    json(&scratch, "snapshot create", "--volume 0");
    for (code, command, options, word) in [
        (2, "snapshot create", "--volume 7", "`volume list`"),
        (2, "snapshot create", "--volume 1", "is a snapshot"),
        (2, "snapshot clone", "--snapshot 0", "is no snapshot"),
        (2, "volume delete", "--volume 1 --yes", "is a snapshot, not a volume"),
        (2, "snapshot delete", "--snapshot 0 --yes", "is a volume, not a snapshot"),
        (2, "volume create", "--size 5000B", "multiple of 4 KiB"),
        (2, "volume create", "", "--size"),
        (1, "volume create", "--size 150MiB", "or make it thin"),
        (1, "volume create", "--size 1GiB", "or make it thin"),
    ] {
        let told = refused(&scratch, code, command, options);
        assert!(told.contains(word), "no `{word}` for {command} {options}:\n{told}");
    }
    assert_eq!(numbers(&json(&scratch, "volume list", "")), [0]);
}

#[test]
fn a_store_that_a_gate_has_open_is_asked_by_way_of_the_gate() {
    let scratch = Scratch::new();
    let gate = Gate::start(&scratch, &store_policy(&scratch, FILE_BYTES, VOLUME_BYTES));
    drop(open(&gate, "disk"));
    for (command, options) in [
        ("snapshot create", "--volume 0"),
        ("volume delete", "--volume 0 --yes"),
        ("volume list", ""),
    ] {
        let told = refused(&scratch, 5, command, options);
        let words = format!("`evenkeel ctl {command} {options}").trim_end().to_owned() + "`";
        assert!(told.contains(&words), "no {words} in:\n{told}");
    }
    let listed = ctl_json(&gate, "volume list");
    assert_eq!((&listed[0]["store"], numbers(&listed[0]["volumes"])), (&"log".into(), vec![0]));
    assert!(gate.ctl(&["snapshot", "create", "--volume", "0"]).contains("snapshot 1 of volume 0"));
    assert!(gate.ctl(&["snapshot", "list"]).contains("log\nVOLUME"));
}

/// One client writes the numbers 1, 2, 3, .. to the blocks of a MiB in turn, another one (fio)
/// writes elsewhere on the same volume, deep. A snapshot must then hold, in the first MiB, exactly
/// what some prefix of the first client's writes makes of it: all that was acknowledged before it
/// was asked for, nothing that was sent after it was there.
#[test]
fn a_snapshot_under_writes_holds_what_was_acknowledged_and_nothing_later() {
    needs!("fio", "qemu-img");
    let scratch = Scratch::new();
    let policy = store_policy(&scratch, FILE_BYTES, VOLUME_BYTES);
    let gate = Gate::start(&scratch, &policy);
    let mut writer = open(&gate, "disk");
    let mut arguments = fio_verify(&gate.plain("disk"), "16m");
    arguments.extend(["--offset=16m", "--loops=3"].map(str::to_owned));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut fio = Process::start(scratch.path(), "fio", &arguments);

    let (sent, acknowledged) = (AtomicU64::new(0), AtomicU64::new(0));
    let is_over = AtomicU64::new(0);
    let mut taken = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1_u64.. {
                if is_over.load(Ordering::SeqCst) == 1 {
                    break;
                }
                sent.store(number, Ordering::SeqCst);
                let data = number.to_le_bytes().repeat(BLOCK_BYTES / 8);
                assert_eq!(writer.write(number % BLOCKS * BLOCK_BYTES as u64, &data), Ok(()));
                acknowledged.store(number, Ordering::SeqCst);
            }
        });
        for round in 1..=3 {
            let goal = round * 700;
            wait_for("writes", || (acknowledged.load(Ordering::SeqCst) > goal).then_some(()));
            let before = acknowledged.load(Ordering::SeqCst);
            let made = ctl_json(&gate, "snapshot create --volume 0");
            let after = sent.load(Ordering::SeqCst);
            taken.push((made["volume"].as_u64().expect("a number"), before, after));
        }
        is_over.store(1, Ordering::SeqCst);
    });
    assert!(fio.wait().success(), "fio says:\n{}", fio.log());

    let clone =
        ctl_json(&gate, "snapshot clone --snapshot 2")["volume"].as_u64().expect("a number");
    let (status, output) = gate.reload(&with_exports(&policy, &[1, 2, 3, clone]));
    assert!(status.success(), "{output}");
    assert_eq!(taken.iter().map(|it| it.0).collect::<Vec<_>>(), [1, 2, 3]);
    for (snapshot, before, after) in taken {
        let data = open(&gate, &format!("v{snapshot}")).read(0, 1 << 20).expect("a snapshot");
        let last = assert_is_prefix(&data);
        assert!((before..=after).contains(&last), "{last} is not within {before}..={after}");
    }
    let disk = |export: &str| format!("nbd:unix:{}:exportname={export}", gate.socket().display());
    qemu_img(&scratch, &gate.plain("v2"), "compare", &[&disk("v2"), &disk(&format!("v{clone}"))]);
    let data = noise(3, 8192);
    assert_eq!(open(&gate, "v2").write(0, &data), Err(1), "a snapshot is written to");
    assert_eq!(open(&gate, &format!("v{clone}")).write(0, &data), Ok(()));
}

/// The last of the writes that made this of a MiB; panics unless it is what they make of it.
fn assert_is_prefix(data: &[u8]) -> u64 {
    let number = |block: &[u8]| {
        let number = u64::from_le_bytes(block[..8].try_into().expect("8 bytes"));
        assert!(block.chunks(8).all(|part| part == &block[..8]), "a block is torn");
        number
    };
    let found: Vec<u64> = data.chunks(BLOCK_BYTES).map(number).collect();
    let (last, blocks) = (*found.iter().max().expect("blocks"), found.len() as u64);
    for (block, &number) in (0..).zip(&found) {
        let age = (last % blocks + blocks - block) % blocks;
        assert_eq!(
            number,
            last.saturating_sub(age),
            "block {block} where {last} is the last write"
        );
    }
    last
}

#[test]
fn a_volume_is_made_and_served_without_a_restart_and_not_taken_away_from_its_users() {
    let scratch = Scratch::new();
    let policy = store_policy(&scratch, FILE_BYTES, VOLUME_BYTES);
    let gate = Gate::start(&scratch, &policy);
    let mut other = open(&gate, "disk");
    let data = noise(1, 1 << 20);
    assert_eq!(ctl_json(&gate, "volume create --size 8MiB --store log")["volume"], 1);
    let (status, output) = gate.reload(&with_exports(&policy, &[1]));
    assert!(status.success(), "{output}");
    let mut user = open(&gate, "v1");
    assert_eq!(user.write(MIB, &data), Ok(()));
    assert_eq!(other.write(MIB, &data), Ok(()), "the other connection was dropped");

    assert_eq!(ctl_json(&gate, "snapshot create --volume 1")["volume"], 2);
    assert_eq!(user.write(MIB, &noise(2, 1 << 20)), Ok(()));
    let told = ctl_refused(&gate, 5, "snapshot roll-back --volume 1 --to 2 --yes");
    assert!(told.contains("1 connections use it"), "{told}");
    let told = ctl_refused(&gate, 5, "volume delete --volume 1 --yes");
    assert!(told.contains("export \"v1\" stands on it"), "{told}");
    let told = ctl_refused(&gate, 5, "volume resize --volume 1 --size 4MiB --yes");
    assert!(told.contains("connections use it"), "{told}");
    assert_eq!(ctl_json(&gate, "volume resize --volume 1 --size 12MiB")["size_bytes"], 12 * MIB);
    ctl_refused(&gate, 3, "volume delete --volume 1");
    ctl_refused(&gate, 5, "snapshot create --volume 9");

    drop(user);
    let roll_back = "snapshot roll-back --volume 1 --to 2 --yes";
    let line: Vec<&str> = roll_back.split(' ').collect();
    wait_for("the connection to end", || gate.try_ctl(&line).0.success().then_some(()));
    assert!(open(&gate, "v1").read(MIB, 1 << 20).as_ref() == Ok(&data), "not what it was");
    let (status, output) = gate.reload(&policy);
    assert!(status.success(), "{output}");
    let delete: Vec<&str> = "volume delete --volume 1 --yes".split(' ').collect();
    wait_for("the connection to end", || gate.try_ctl(&delete).0.success().then_some(()));
    let listed = ctl_json(&gate, "volume list");
    assert_eq!(numbers(&listed[0]["volumes"]), [0]);
    gate.assert_serves("disk");
}
