//! A store behind the gate keeps what it acknowledged, whatever is killed, damaged or missing.
//!
//! `EVENKEEL_KILLS` says how often the gate is killed under fio; a handful of times without it.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::faults::{kill_the_gate_under_writes, reconnect};
use crate::harness::client::fio_verify;
use crate::harness::gate::{Gate, store_policy, upstream_backend};
use crate::harness::nbd::Client;
use crate::harness::process::Process;
use crate::harness::skip::needs;
use crate::harness::storage::text;
use crate::harness::{Scratch, noise, wait_for};

/// Bytes of each of the three drives, and of the volume on them: little else, so that the store is
/// cleaned while it is written to.
const FILE_BYTES: u64 = 72 << 20;
const VOLUME_BYTES: u64 = 64 << 20;

/// Kills in the usual test run.
const KILLS: u32 = 5;

/// Restarts may take so long. What is measured is printed; the machine may be busy.
const RESTART_MAX: Duration = Duration::from_secs(10);

fn trouble(gate: &Gate) -> String {
    gate.status()["backends"][0]["trouble"].as_str().unwrap_or_default().to_owned()
}

fn open(gate: &Gate) -> Client {
    wait_for("the store", || reconnect(&gate.plain("disk")))
}

/// fio's connection must outlive the gate that is killed, so that it comes by way of another one,
/// which repeats what was not answered. That one is patient beyond all kills together: to it, a
/// connection that stands for less than a second is an attempt that failed.
#[test]
fn a_gate_killed_under_fio_on_its_store_loses_nothing() {
    needs!("fio");
    let kills = std::env::var("EVENKEEL_KILLS").ok().and_then(|text| text.parse().ok());
    let kills: u32 = kills.unwrap_or(KILLS);
    let (scratch, before) = (Scratch::new(), Scratch::new());
    let mut gate = Gate::start(&scratch, &store_policy(&scratch, FILE_BYTES, VOLUME_BYTES));
    let policy = format!(
        "{}patience = \"1 h\"\nwrites_survive_restart = true\n\
         [[export]]\nname = \"disk\"\nbackend = \"upstream\"\n",
        upstream_backend(&gate.plain("disk"))
    );
    let front = Gate::start(&before, &policy);
    let mut arguments = fio_verify(&front.plain("disk"), "48m");
    // Slow enough that kills fall into the writing and the reading back.
    arguments.push("--rate_iops=2500,2500".into());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (mut killed, mut slowest) = (0, Duration::ZERO);
    while killed < kills {
        let mut fio = Process::start(before.path(), "fio", &arguments);
        // A gate that is dead at that moment would be refused, not waited for.
        let is_served = || front.status()["connections"]["open"] != 0;
        wait_for("fio to connect", || is_served().then_some(()));
        while killed < kills && fio.ended().is_none() {
            std::thread::sleep(Duration::from_millis(500 + 70 * u64::from(killed % 7)));
            let start = Instant::now();
            gate.kill_and_restart();
            drop(open(&gate));
            slowest = slowest.max(start.elapsed());
            killed += 1;
        }
        assert!(fio.wait().success(), "after {killed} kills fio says:\n{}", fio.log());
    }
    eprintln!("{killed} kills, the slowest restart took {slowest:?}");
    assert!(slowest < RESTART_MAX, "{slowest:?}");
    let reconnects = front.status()["backends"][0]["reconnects"].as_u64().expect("a number");
    assert!(reconnects >= u64::from(kills), "only {reconnects} connections were lost");
}

#[test]
fn a_gate_killed_on_its_store_loses_nothing_acknowledged() {
    let scratch = Scratch::new();
    let gate = Gate::start(&scratch, &store_policy(&scratch, FILE_BYTES, VOLUME_BYTES));
    kill_the_gate_under_writes(gate, []);
}

#[test]
fn a_drive_that_rots_under_a_mirror_is_not_noticed_by_clients() {
    let scratch = Scratch::new();
    let gate = Gate::start(&scratch, &store_policy(&scratch, FILE_BYTES, VOLUME_BYTES));
    let data = noise(1, 16 << 20);
    let mut client = open(&gate);
    for (index, piece) in (0..).zip(data.chunks(1 << 20)) {
        assert_eq!(client.write(index << 20, piece), Ok(()));
    }
    assert_eq!(client.flush(), Ok(()));
    // All of it but the superblocks at both ends.
    let drive = std::fs::File::options().write(true).open(scratch.join("b.img"));
    let drive = drive.expect("a drive in scratch");
    drive.write_all_at(&vec![0xa5; 70 << 20], 1 << 20).expect("write to scratch");
    for (index, piece) in (0..).zip(data.chunks(1 << 20)) {
        assert!(client.read(index << 20, 1 << 20).as_deref() == Ok(piece), "piece {index}");
    }
}

#[test]
fn a_second_gate_on_the_same_drives_is_refused() {
    let [scratch, other] = [Scratch::new(), Scratch::new()];
    let policy = store_policy(&scratch, FILE_BYTES, VOLUME_BYTES);
    let gate = Gate::start(&scratch, &policy);
    gate.assert_serves("disk");
    let folder = text(scratch.path());
    let second = ["a.img", "b.img", "c.img"].into_iter().fold(policy, |policy, name| {
        policy.replace(&format!("\"{name}\""), &format!("\"{folder}/{name}\""))
    });
    let second = Gate::start(&other, &second);
    let refused = || trouble(&second).contains("another program is using it").then_some(());
    wait_for("the refusal", refused);
    assert!(trouble(&second).contains("a.img"), "{}", trouble(&second));
    gate.assert_serves("disk");
    drop(gate);
    wait_for("the store at the second gate", || reconnect(&second.plain("disk")));
    second.assert_serves("disk");
}

#[test]
fn a_drive_of_a_store_is_no_plain_disk_meanwhile() {
    let [scratch, other] = [Scratch::new(), Scratch::new()];
    let mut gate = Gate::start(&scratch, &store_policy(&scratch, FILE_BYTES, VOLUME_BYTES));
    gate.assert_serves("disk");
    let second = Gate::start(&other, &file_policy(&scratch.join("a.img")));
    assert!(Client::try_open(&second.plain("disk")).is_none(), "it would overwrite the store");
    let log = second.process.log();
    assert!(log.contains("a.img: another program has locked it"), "{log}");
    gate.assert_serves("disk");
    assert!(gate.stop().success());
    second.assert_serves("disk");
    let third = Gate::start(&scratch, &file_policy(&scratch.join("a.img")));
    third.assert_serves("disk");
    second.assert_serves("disk");
}

/// A policy with one export `disk` on a file.
fn file_policy(file: &Path) -> String {
    format!(
        "[[backend]]\nname = \"plain\"\nfile = \"{}\"\n\
         [[export]]\nname = \"disk\"\nbackend = \"plain\"\n",
        text(file)
    )
}

#[test]
fn a_store_can_be_a_tier() {
    let scratch = Scratch::new();
    let policy = store_policy(&scratch, FILE_BYTES, VOLUME_BYTES);
    let tiers = "[[backend]]\nname = \"fast\"\ndirectory = \"disks\"\n\
                 [[backend]]\nname = \"shelf\"\nextent = \"64 KiB\"\ntiers = [\"log\", \
                 { backend = \"fast\", device = \"fast\", size = \"4 MiB\" }]\n[[export]]";
    let policy = policy.replace("[[export]]", tiers);
    let policy = policy.replace("backend = \"log\"\n", "backend = \"shelf\"\n");
    let mut gate = Gate::start(&scratch, &policy);
    let data = noise(4, 1 << 20);
    assert_eq!(open(&gate).write(40 << 20, &data), Ok(()));
    assert!(gate.stop().success());
    let gate = Gate::start(&scratch, &policy);
    assert!(open(&gate).read(40 << 20, 1 << 20) == Ok(data));
}

#[test]
fn a_mirror_is_opened_without_a_drive_when_the_policy_allows_it() {
    let scratch = Scratch::new();
    let policy = store_policy(&scratch, FILE_BYTES, VOLUME_BYTES);
    let mut gate = Gate::start(&scratch, &policy);
    let data = noise(2, 1 << 20);
    assert_eq!(open(&gate).write(3 << 20, &data), Ok(()));
    assert!(gate.stop().success());
    std::fs::rename(scratch.join("c.img"), scratch.join("away")).expect("rename in scratch");

    let mut gate = Gate::start(&scratch, &policy);
    wait_for("the refusal", || trouble(&gate).contains("c.img").then_some(()));
    assert!(Client::try_open(&gate.plain("disk")).is_none(), "clients are refused");
    assert!(gate.stop().success());

    let degraded = policy.replace("store =", "degraded = true\nstore =");
    let mut gate = Gate::start(&scratch, &degraded);
    assert!(open(&gate).read(3 << 20, 1 << 20).as_ref() == Ok(&data));
    let newer = noise(3, 1 << 20);
    assert_eq!(open(&gate).write(3 << 20, &newer), Ok(()));
    assert!(gate.stop().success());

    std::fs::rename(scratch.join("away"), scratch.join("c.img")).expect("rename in scratch");
    let gate = Gate::start(&scratch, &policy);
    assert!(open(&gate).read(3 << 20, 1 << 20) == Ok(newer), "the drive that was away is behind");
}

#[test]
fn drives_that_nobody_asks_stand_still_and_a_read_waits_for_its_drive_alone() {
    let scratch = Scratch::new();
    let policy = store_policy(&scratch, FILE_BYTES, VOLUME_BYTES);
    let keys = "emulate = \"sata-10k-2013\"\npower_down = \"1 s\"\ncache.memory = \"0 B\"\nstore =";
    let gate = Gate::start(&scratch, &policy.replace("store =", keys));
    let data = noise(6, 4096);
    assert_eq!(open(&gate).write(0, &data), Ok(()));
    let states = || -> Vec<String> {
        let status = gate.status();
        let spindles = status["backends"][0]["store"]["spindles"].as_array().cloned();
        let state = |it: &Value| it["state"].as_str().unwrap_or_default().to_owned();
        spindles.unwrap_or_default().iter().map(state).collect()
    };
    let standing = |states: &[String]| states.iter().filter(|state| *state == "standing").count();
    wait_for("all drives to stand still", || (standing(&states()) == 3).then_some(()));
    let begin = Instant::now();
    assert_eq!(open(&gate).read(0, 4096), Ok(data));
    assert!(begin.elapsed() >= Duration::from_secs(10), "{:?} to start", begin.elapsed());
    assert_eq!(standing(&states()), 2, "the others were not asked");
    let shown = gate.ctl(&["status"]);
    assert!(shown.contains("SPINDLE") && shown.contains("standing"), "{shown}");
}

#[test]
fn a_store_on_emulated_disks_says_so_and_takes_their_time() {
    let scratch = Scratch::new();
    let policy = store_policy(&scratch, FILE_BYTES, VOLUME_BYTES);
    let policy = policy.replace("store =", "emulate = \"sata-10k-2013\"\nstore =");
    let mut gate = Gate::start(&scratch, &policy);
    let data = noise(5, 1 << 20);
    for index in 0..8 {
        assert_eq!(open(&gate).write(index << 20, &data), Ok(()));
    }
    assert!(gate.stop().success());

    let gate = Gate::start(&scratch, &policy);
    let source = gate.status()["backends"][0]["source"].to_string();
    assert!(source.contains("emulated drives: sata-10k-2013"), "{source}");
    let mut client = open(&gate);
    let begin = Instant::now();
    for index in 0..8 {
        let piece = client.read((index * 3 % 8) << 20, 4096);
        assert!(piece.as_deref() == Ok(&data[..4096]));
    }
    // Nothing was cached, and a disk seeks from one to the next.
    assert!(begin.elapsed() >= Duration::from_millis(8), "{:?}", begin.elapsed());
}
