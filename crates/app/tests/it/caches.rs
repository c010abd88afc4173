//! The cache of a store, in memory and on a file that stands for an SSD: what it saves the drives,
//! and that nothing is lost with it.

use std::os::unix::fs::FileExt;
use std::process::Command;

use serde_json::Value;

use crate::faults::reconnect;
use crate::harness::gate::{EVENKEEL, Gate, store_policy};
use crate::harness::nbd::Client;
use crate::harness::{Scratch, noise, wait_for};

const MIB: u64 = 1 << 20;
const FILE_BYTES: u64 = 96 * MIB;
const VOLUME_BYTES: u64 = 64 * MIB;

/// What is written: more than the memory of the cache, less than its SSD.
const DATA_BYTES: usize = 40 << 20;

/// The same in blocks.
const DATA_BLOCKS: u64 = 40 * 256;

/// Runs `evenkeel store`; gives how it ended and what it printed.
fn store(scratch: &Scratch, line: &str) -> (Option<i32>, String) {
    let mut evenkeel = Command::new(EVENKEEL);
    evenkeel.arg("store").args(line.split_whitespace()).current_dir(scratch.path());
    let output = evenkeel.output().expect("run evenkeel");
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&printed).into_owned())
}

/// A policy with a cache of 16 MiB of memory and these keys more.
fn policy(scratch: &Scratch, keys: &str) -> String {
    let policy = store_policy(scratch, FILE_BYTES, VOLUME_BYTES);
    let cache = format!("cache = {{ memory = \"16 MiB\"{keys} }}\nstore =");
    policy.replace("store =", &cache)
}

const WITH_SSD: &str = ", drive = \"ssd.img\", endurance = \"1 TB\", daily_writes = \"900 GB\"";

/// A gate on a store with an SSD that the store knows.
fn start(scratch: &Scratch) -> Gate {
    let policy = policy(scratch, WITH_SSD);
    let (code, printed) =
        store(scratch, "format-cache a.img b.img c.img --drive ssd.img --size 128MiB");
    assert_eq!(code, Some(0), "{printed}");
    Gate::start(scratch, &policy)
}

fn open(gate: &Gate) -> Client {
    wait_for("the store", || reconnect(&gate.plain("disk")))
}

fn backend(gate: &Gate) -> Value {
    gate.status()["backends"][0].clone()
}

fn trouble(gate: &Gate) -> String {
    backend(gate)["trouble"].as_str().unwrap_or_default().to_owned()
}

fn write_all(client: &mut Client, data: &[u8]) {
    for (index, piece) in (0..).zip(data.chunks(1 << 20)) {
        assert_eq!(client.write(index << 20, piece), Ok(()));
    }
}

fn assert_reads(client: &mut Client, data: &[u8]) {
    for (index, piece) in (0..).zip(data.chunks(1 << 20)) {
        assert!(client.read(index << 20, 1 << 20).as_deref() == Ok(piece), "piece {index}");
    }
}

#[test]
fn what_the_memory_cannot_hold_comes_from_the_ssd_and_its_wear_is_told() {
    let scratch = Scratch::new();
    let mut gate = start(&scratch);
    let data = noise(1, DATA_BYTES);
    let mut client = open(&gate);
    write_all(&mut client, &data);
    let before = backend(&gate)["store"]["drive_read_bytes"].as_u64().expect("a number");
    for _ in 0..2 {
        assert_reads(&mut client, &data);
    }
    let store_status = backend(&gate)["store"].clone();
    let cache = &store_status["cache"];
    let hits = |found: &str| {
        ["tail", "body"].iter().map(|side| cache[side][found].as_u64().expect("a count")).sum()
    };
    let [memory, ssd, missed]: [u64; 3] = ["memory", "ssd", "missed"].map(hits);
    assert_eq!(memory + ssd + missed, 2 * DATA_BLOCKS, "{cache}");
    assert!(ssd > missed && ssd > DATA_BLOCKS / 2, "{cache}");
    let read = store_status["drive_read_bytes"].as_u64().expect("a number") - before;
    assert!(read < DATA_BLOCKS * 4096, "{read} bytes read from the drives");
    assert!(cache["ssd_written_bytes"].as_u64() > Some(DATA_BLOCKS * 2048), "{cache}");
    assert_eq!(cache["ssd_endurance_bytes"], 1_000_000_000_000_u64);
    let life = || backend(&gate)["store"]["cache"]["ssd_lifetime_days"].as_u64();
    wait_for("the forecast", life);
    let text = gate.ctl(&["status"]);
    for word in ["STORE", "CACHE", "16 MiB", "LIFE"] {
        assert!(text.contains(word), "no {word} in:\n{text}");
    }
    assert!(gate.stop().success());
    let (code, printed) = store(&scratch, "status a.img b.img c.img --cache ssd.img");
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("ssd.img") && printed.contains("in its life"), "{printed}");
}

#[test]
fn an_ssd_that_rots_or_vanishes_under_the_gate_is_no_concern_of_the_clients() {
    let scratch = Scratch::new();
    let gate = start(&scratch);
    let data = noise(2, DATA_BYTES);
    let mut client = open(&gate);
    write_all(&mut client, &data);
    let ssd = std::fs::File::options().write(true).open(scratch.join("ssd.img")).expect("the ssd");
    ssd.write_all_at(&noise(3, 127 << 20), 1 << 20).expect("write to scratch");
    assert_reads(&mut client, &data);
    let failed = backend(&gate)["store"]["cache"]["failed_blocks"].as_u64().expect("a count");
    assert!(failed > 0, "nothing of it was read");

    // A drive whose every command fails from now on, as near as a file comes to that.
    ssd.set_len(0).expect("truncate in scratch");
    assert_reads(&mut client, &data);
    let newer = noise(4, DATA_BYTES);
    write_all(&mut client, &newer);
    assert_eq!(client.flush(), Ok(()));
    assert_reads(&mut client, &newer);
    assert_eq!(backend(&gate)["up"], true);
}

#[test]
fn a_store_goes_on_without_an_ssd_that_is_not_its_own_and_says_how_to_make_it_one() {
    let scratch = Scratch::new();
    let policy = policy(&scratch, WITH_SSD);
    let mut gate = Gate::start(&scratch, &policy);
    gate.assert_serves("disk");
    assert!(trouble(&gate).contains("ssd.img"), "{}", trouble(&gate));
    assert!(gate.stop().success());

    std::fs::write(scratch.join("ssd.img"), vec![7; 32 << 20]).expect("write to scratch");
    let mut gate = Gate::start(&scratch, &policy);
    gate.assert_serves("disk");
    assert!(trouble(&gate).contains("evenkeel store format-cache"), "{}", trouble(&gate));
    assert_eq!(backend(&gate)["store"]["cache"]["ssd_bytes"], 0);
    assert!(gate.stop().success());

    let format = "format-cache a.img b.img c.img --drive ssd.img";
    let (code, printed) = store(&scratch, format);
    assert_eq!(code, Some(3), "{printed}");
    assert!(printed.contains("data of an unknown kind") && printed.contains("--yes"), "{printed}");
    let (code, printed) = store(&scratch, &format!("{format} --yes"));
    assert_eq!(code, Some(0), "{printed}");
    let (code, printed) = store(&scratch, format);
    assert_eq!(code, Some(0), "its own cache drive holds nothing that is needed\n{printed}");
    let (code, printed) = store(&scratch, "create ssd.img");
    assert_eq!(code, Some(3), "{printed}");
    assert!(printed.contains("the cache of store"), "{printed}");
    let gate = Gate::start(&scratch, &policy);
    gate.assert_serves("disk");
    assert_eq!(trouble(&gate), "");
    assert!(backend(&gate)["store"]["cache"]["ssd_bytes"].as_u64() > Some(16 * MIB));
}
