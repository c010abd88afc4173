//! What a store does for itself is scheduled and booked like a tenant's requests.

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::faults::reconnect;
use crate::harness::gate::{Gate, store_policy};
use crate::harness::nbd::Client;
use crate::harness::{Scratch, noise, wait_for};

const MIB: u64 = 1 << 20;
const FILE_BYTES: u64 = 72 * MIB;
const VOLUME_BYTES: u64 = 64 * MIB;

fn open(gate: &Gate) -> Client {
    wait_for("the store", || reconnect(&gate.plain("disk")))
}

/// The account on which the store is looked after.
fn upkeep(gate: &Gate) -> Value {
    let status = gate.status();
    let tenants = status["domains"][0]["tenants"].as_array().expect("a list").clone();
    let upkeep = tenants.into_iter().find(|tenant| tenant["name"] == "upkeep");
    upkeep.expect("every policy with a store has it")
}

/// Writes the volume full, and then all over again in small pieces.
fn overwrite(client: &mut Client, times: u64) {
    let data = noise(7, 1 << 20);
    for at in 0..VOLUME_BYTES / MIB {
        assert_eq!(client.write(at * MIB, &data), Ok(()));
    }
    let pieces = VOLUME_BYTES >> 14;
    for index in 0..times * pieces {
        // Odd, so that every piece has its turn, far from the one before.
        let piece = index * 1_237 % pieces;
        assert_eq!(client.write(piece << 14, &data[..1 << 14]), Ok(()));
    }
}

/// With one place at the device a write that waits for room holds the only one, and the cleaner
/// that makes the room cannot wait behind it.
#[test]
fn cleaning_is_booked_on_its_account_and_never_waits_for_those_who_wait_for_it() {
    let scratch = Scratch::new();
    let policy = store_policy(&scratch, FILE_BYTES, VOLUME_BYTES);
    let policy = policy.replace("store =", "depth = 1\nunit = \"64 KiB\"\nstore =");
    let policy = format!("mode = \"enforce\"\n{policy}[[tenant]]\nname = \"upkeep\"\nshare = 2\n");
    let mut gate = Gate::start(&scratch, &policy);
    let mut client = open(&gate);
    overwrite(&mut client, 2);
    let store = gate.status()["backends"][0]["store"].clone();
    let amplification = store["write_amplification"].as_f64().expect("a number");
    assert!(amplification > 1.05, "nothing was cleaned: {store}");
    let account = upkeep(&gate);
    assert_eq!(account["share"], 2.0, "{account}");
    for op in ["read", "write"] {
        assert!(account["by_op"][op]["delivered"]["bytes"].as_u64() > Some(MIB), "{account}");
    }
    assert_eq!(account["failed_requests"], 0, "{account}");
    assert!(gate.stop().success());
}

/// Disks that take their time, full: many a write waits tens of milliseconds for the cleaner. With
/// fewer places than writers, a read would wait for one of them to end.
#[test]
fn reads_go_on_while_writes_wait_for_room() {
    let scratch = Scratch::new();
    let policy = store_policy(&scratch, FILE_BYTES, VOLUME_BYTES);
    let policy = policy.replace("store =", "depth = 2\nstore =");
    let mut gate = Gate::start(&scratch, &format!("mode = \"enforce\"\n{policy}"));
    overwrite(&mut open(&gate), 1);
    assert!(gate.stop().success());
    let policy = policy.replace("store =", "emulate = \"sata-10k-2013\"\nstore =");
    let gate = Gate::start(&scratch, &format!("mode = \"enforce\"\n{policy}{TENANTS}"));
    let target = gate.plain("disk");
    drop(open(&gate));
    let is_over = AtomicBool::new(false);
    let (reads, writes) = std::thread::scope(|scope| {
        let busy: Vec<_> = (0..4)
            .map(|writer| {
                scope.spawn({
                    let (is_over, target) = (&is_over, &target);
                    move || write_until(is_over, Client::open(target), writer)
                })
            })
            .collect();
        let reads = read_for(Duration::from_secs(4), Client::open(&gate.plain("reader")));
        is_over.store(true, Ordering::Relaxed);
        let writes = busy.into_iter().flat_map(|writer| writer.join().expect("a writer"));
        (reads, writes.collect::<Vec<_>>())
    });
    let [read, write] = [reads, writes].map(|mut took| {
        took.sort_unstable();
        took[took.len() * 9 / 10]
    });
    eprintln!("of ten reads nine took at most {read:?}, of ten writes {write:?}");
    assert!(read * 3 < write, "reads {read:?}, writes {write:?}");
}

/// A tenant of its own for who reads, on the same volume.
const TENANTS: &str = "[[export]]\nname = \"reader\"\nbackend = \"log\"\n\
                       [[tenant]]\nname = \"reader\"\nmatch = [{ export = \"reader\" }]\n";

/// Overwrites pieces here and there; how long each took.
fn write_until(is_over: &AtomicBool, mut client: Client, writer: u64) -> Vec<Duration> {
    let (data, pieces) = (noise(writer, 1 << 14), VOLUME_BYTES >> 14);
    let mut took = Vec::new();
    let mut index = writer * 997;
    while !is_over.load(Ordering::Relaxed) {
        // The first piece is the reader's.
        let begin = Instant::now();
        assert_eq!(client.write((1 + index * 1_237 % (pieces - 1)) << 14, &data), Ok(()));
        took.push(begin.elapsed());
        index += 1;
    }
    took
}

/// Reads what is cached, again and again; how long that took each time.
fn read_for(time: Duration, mut client: Client) -> Vec<Duration> {
    let (begin, mut took) = (Instant::now(), Vec::new());
    while begin.elapsed() < time {
        let asked = Instant::now();
        assert!(client.read(0, 4096).is_ok());
        took.push(asked.elapsed());
        std::thread::sleep(Duration::from_millis(2));
    }
    took
}

#[test]
fn a_scrub_under_clients_finds_what_rots_and_has_it_mended() {
    let scratch = Scratch::new();
    let gate = Gate::start(&scratch, &store_policy(&scratch, FILE_BYTES, VOLUME_BYTES));
    let mut client = open(&gate);
    overwrite(&mut client, 0);
    let scrub = |line: &str| {
        let words: Vec<&str> = ["scrub"].into_iter().chain(line.split_whitespace()).collect();
        let (status, said) = gate.try_ctl(&words);
        (status.code(), said)
    };
    let (code, said) = scrub("start --wait");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("complete") && said.contains("0 blocks lost"), "{said}");

    // Most of one drive rots; the mirror has everything.
    let drive = std::fs::File::options().write(true).open(scratch.join("b.img"));
    let drive = drive.expect("a drive in scratch");
    drive.write_all_at(&vec![0xa5; 16 << 20], 8 << 20).expect("write to scratch");
    let (code, said) = scrub("start --wait --json");
    assert_eq!(code, Some(0), "{said}");
    let found: Value = serde_json::from_str(&said).expect("a document");
    assert!(found["bad_blocks"].as_u64() > Some(1000), "{found}");
    assert_eq!(found["lost_blocks"], 0, "{found}");
    let mended = || {
        let (code, said) = scrub("start --wait --json");
        let found: Value = serde_json::from_str(&said).expect("a document");
        (code == Some(0) && found["bad_blocks"] == 0).then_some(())
    };
    wait_for("everything to be written anew", mended);
    assert!(upkeep(&gate)["by_op"]["read"]["delivered"]["bytes"].as_u64() > Some(64 * MIB));
    let text = gate.ctl(&["status"]);
    assert!(text.contains("SCRUB") && text.contains("complete"), "{text}");

    let (code, said) = scrub("stop");
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("not being scrubbed"), "{said}");
    let (code, said) = scrub("start --store disk");
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("no store `disk`"), "{said}");
}
