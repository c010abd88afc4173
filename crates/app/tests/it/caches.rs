//! The cache of a store, in memory and on a file that stands for an SSD: what it saves the drives,
//! and that nothing is lost with it.

use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_core::prng::Prng;
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

/// A store on slow disks and a small SSD, of which `hot` fits into the cache and `cold` does not.
fn two_kinds(scratch: &Scratch) -> String {
    let cache = "{ memory = \"16 MiB\", drive = \"ssd.img\", depth = 8 }";
    let keys = format!(
        "emulate = \"sata-10k-2013\"\ndepth = 4\ncost.read = {{ fixed = \"6 ms\", \
         rate = \"100 MiB/s\" }}\ncache = {cache}\nstore ="
    );
    let policy = store_policy(scratch, FILE_BYTES, VOLUME_BYTES).replace("store =", &keys);
    let (backend, _) = policy.split_once("[[export]]").expect("a backend, then its export");
    let tenants = ["hot", "cold"]
        .map(|name| format!("[[tenant]]\nname = \"{name}\"\nmatch = {{ export = \"{name}\" }}\n"));
    format!(
        "mode = \"enforce\"\n{backend}\
         [[export]]\nname = \"hot\"\nbackend = \"log\"\nsize = \"4 MiB\"\n\
         [[export]]\nname = \"cold\"\nbackend = \"log\"\noffset = \"4 MiB\"\n{}",
        tenants.concat()
    )
}

/// Reads here and there, one at a time, until told to stop; how many.
fn read_around(gate: &Gate, export: &str, blocks: u64, is_over: &AtomicBool) -> u64 {
    let mut client = Client::open(&gate.plain(export));
    let mut prng = Prng::new(blocks);
    let mut reads = 0;
    while !is_over.load(Ordering::Relaxed) {
        assert!(client.read(prng.below(blocks) * 4096, 4096).is_ok());
        reads += 1;
    }
    reads
}

/// Reads of the hot part in two seconds, beside six clients that read the cold one.
fn hot_beside_cold(gate: &Gate) -> u64 {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let cold = || read_around(gate, "cold", 40 * 256, &is_over);
        let cold: Vec<_> = (0..6).map(|_| scope.spawn(cold)).collect();
        let hot = scope.spawn(|| read_around(gate, "hot", 1024, &is_over));
        std::thread::sleep(Duration::from_secs(2));
        is_over.store(true, Ordering::Relaxed);
        assert!(cold.into_iter().map(|one| one.join().expect("no error")).sum::<u64>() > 0);
        hot.join().expect("no error")
    })
}

#[test]
fn what_the_cache_answers_does_not_queue_for_the_drives_where_both_are_ordered_together() {
    let scratch = Scratch::new();
    let policy = two_kinds(&scratch);
    let format = "format-cache a.img b.img c.img --drive ssd.img --size 24MiB";
    assert_eq!(store(&scratch, format).0, Some(0));
    let gate = Gate::start(&scratch, &policy);
    let mut client = wait_for("the store", || reconnect(&gate.plain("cold")));
    write_all(&mut client, &noise(7, DATA_BYTES));
    let mut client = Client::open(&gate.plain("hot"));
    write_all(&mut client, &noise(8, 4 << 20));
    let behind = hot_beside_cold(&gate);

    let together = policy.replace("depth = 4\n", "discipline = \"baa\"\ndepth = 4\n");
    let (status, printed) = gate.reload(&together);
    assert!(status.success(), "{printed}");
    let beside = hot_beside_cold(&gate);
    assert!(beside > 4 * behind, "{beside} reads beside the drives, {behind} behind them");
    let allocation = gate.status()["domains"][0]["allocation"].clone();
    let bound = |index: usize| {
        let tenant = &allocation["tenants"][index];
        (tenant["tenant"].clone(), tenant["bound_by"].clone())
    };
    let mut bounds = [bound(0), bound(1)].map(|(tenant, by)| format!("{tenant} {by}"));
    bounds.sort();
    assert_eq!(bounds, ["\"cold\" \"log\"", "\"hot\" \"log.cache\""], "{allocation}");
    let printed = gate.ctl(&["policy"]);
    assert!(printed.contains("cache.depth = 8"), "{printed}");
    let printed = gate.ctl(&["status"]);
    assert!(printed.contains("log, queued by baa\n"), "{printed}");
}
