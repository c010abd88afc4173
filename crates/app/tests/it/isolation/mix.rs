//! All attacks at once beside a client that verifies what it reads.
//!
//! `EVENKEEL_MIX` says for how many seconds; a few without it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::attacks::{ATTACKS, Attack, Target, exchange};
use super::gate;
use crate::harness::gate::Gate;
use crate::harness::process::Process;
use crate::harness::skip::needs;
use crate::harness::{Scratch, free_address, wait_for};

const DEFAULT: Duration = Duration::from_secs(4);

/// Memory and open files of the gate.
fn holds(gate: &Gate) -> (u64, usize) {
    let files = PathBuf::from(format!("/proc/{}/fd", gate.process.id()));
    (gate.resident_bytes(), std::fs::read_dir(files).map_or(0, Iterator::count))
}

#[test]
fn all_attacks_at_once_cost_an_honest_client_no_error_and_the_gate_no_memory() {
    needs!("fio");
    let seconds = std::env::var("EVENKEEL_MIX").ok().and_then(|text| text.parse().ok());
    let (time, is_long) =
        seconds.map_or((DEFAULT, false), |seconds| (Duration::from_secs(seconds), true));
    let scratch = Scratch::new();
    let own = free_address();
    let disks = "[[backend]]\nname = \"disks\"\ndirectory = \"disks\"\n\
         [[export]]\nname = \"honest\"\nbackend = \"disks\"\nsize = \"64 MiB\"\n\
         [[tenant]]\nname = \"honest\"\nmatch = { export = \"honest\" }\n";
    let more = exchange(&scratch, &own) + disks;
    let exports = [("hung", "hung", 1), ("slow", "slow", 1), ("quick", "quick", 1)];
    let (_server, gate) = gate(&scratch, &exports, &more);
    let arguments = fio(&gate, time);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut fio = Process::start(scratch.path(), "fio", &arguments);
    // `connect` to a unix socket fails with EAGAIN while its backlog is full.
    std::thread::sleep(Duration::from_secs(1));
    let files_before = holds(&gate).1;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for attack in &ATTACKS {
            let target = Target { gate: &gate, neighbour: attack.export, exchange: &own };
            let Attack { size, run, .. } = *attack;
            let size = if is_long { size } else { size.min(64) };
            let is_over = &is_over;
            scope.spawn(move || {
                // Whoever is cut comes again.
                while !is_over.load(Relaxed) {
                    run_for(run, &target, size, is_over);
                }
            });
        }
        let began = Instant::now();
        let mut samples = Vec::new();
        while fio.ended().is_none() && began.elapsed() < 3 * time + Duration::from_mins(2) {
            std::thread::sleep(Duration::from_millis(500));
            samples.push(holds(&gate));
            let held = gate.status()["memory"]["bytes"].as_u64().expect("a number");
            assert!(held <= 256 << 20, "{held} bytes are held");
        }
        is_over.store(true, Relaxed);
        let status = fio.wait();
        assert!(status.success(), "fio says:\n{}", fio.log());
        if is_long {
            assert_flat(&samples);
        }
    });
    // Links to the server may stand that did not before.
    wait_for("the attackers' files to be closed", || {
        (holds(&gate).1 <= files_before + 16).then_some(())
    });
}

/// Runs an attack for a while.
fn run_for(
    run: fn(&Target<'_>, usize, &AtomicBool),
    target: &Target<'_>,
    size: usize,
    is_over: &AtomicBool,
) {
    let is_enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A client of the attack may be hung up on in the middle of a sentence.
            let attack = std::panic::AssertUnwindSafe(|| run(target, size, &is_enough));
            let _ = std::panic::catch_unwind(attack);
        });
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(30) && !is_over.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
        is_enough.store(true, Relaxed);
    });
}

fn fio(gate: &Gate, time: Duration) -> Vec<String> {
    let uri = gate.plain("honest").uri();
    let words = [
        "--name=honest",
        "--ioengine=nbd",
        &format!("--uri={uri}"),
        "--rw=randwrite",
        "--bs=4k-64k",
        "--size=48m",
        "--iodepth=16",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_backlog=256",
        "--time_based",
        &format!("--runtime={}", time.as_secs()),
    ];
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Memory and files at the end are about what they were when all attackers were there.
fn assert_flat(samples: &[(u64, usize)]) {
    let half = samples.len() / 2;
    let most = |part: &[(u64, usize)]| {
        let bytes = part.iter().map(|sample| sample.0).max().unwrap_or(0);
        (bytes, part.iter().map(|sample| sample.1).max().unwrap_or(0))
    };
    let (before, after) = (most(&samples[..half]), most(&samples[half..]));
    println!("at most {before:?} in the first half, {after:?} in the second (bytes, files)");
    assert!(after.0 <= before.0 + before.0 / 10, "memory grows: {before:?}, {after:?}");
    assert!(after.1 <= before.1 + before.1 / 10 + 64, "files grow: {before:?}, {after:?}");
}
