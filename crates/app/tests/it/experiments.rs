//! What the load generator and the demo promise, on real processes.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::Scratch;
use crate::harness::gate::{EVENKEEL, Gate, memory_policy};

fn evenkeel(arguments: &[&str]) -> Output {
    Command::new(EVENKEEL).args(arguments).output().expect("run evenkeel")
}

fn json(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"))
}

fn bench(folder: &Path, options: &[&str]) -> Output {
    let uri = format!("nbd+unix:///disk?socket={}", folder.join("gate.sock").display());
    evenkeel(&[&["bench", &uri, "--json"], options].concat())
}

#[test]
fn bench_reads_back_and_checks_all_that_it_wrote() {
    let scratch = Scratch::new();
    let _gate = Gate::start(&scratch, &memory_policy("16 MiB"));
    let options = "--verify --read 40 --requests 4000 --clients 2 --depth 16 --flush-every 50 \
                   --size 4KiB:3,64KiB:1";
    let options: Vec<_> = options.split_ascii_whitespace().collect();
    let output = bench(scratch.path(), &options);
    assert_eq!(output.status.code(), Some(0));
    let job = &json(&output)["jobs"][0];
    assert!(job["evenkeel"]["verification"]["blocks_checked"].as_u64() > Some(1000), "{job}");
    assert_eq!(job["evenkeel"]["verification"]["blocks_wrong"], 0);
    let counts = ["read", "write", "sync"].map(|kind| job[kind]["total_ios"].as_u64().unwrap());
    assert_eq!(counts.iter().sum::<u64>(), 4000, "reading back is not part of the load");
    assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
}

/// Another writer in the same place is damage like any other.
#[test]
fn bench_finds_what_somebody_else_wrote() {
    let scratch = Scratch::new();
    let _gate = Gate::start(&scratch, &memory_policy("1 MiB"));
    let verify = ["--verify", "--read", "50", "--runtime", "2s", "--depth", "8"];
    std::thread::scope(|scope| {
        let vandal = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(500));
            bench(scratch.path(), &["--read", "0", "--requests", "200", "--seed", "9"])
        });
        let output = bench(scratch.path(), &verify);
        assert_eq!(vandal.join().expect("the vandal ran").status.code(), Some(0));
        assert_eq!(output.status.code(), Some(1), "the answer is no");
        let found = &json(&output)["jobs"][0]["evenkeel"]["verification"];
        assert!(found["blocks_wrong"].as_u64() > Some(0), "{found}");
        assert!(found["first_wrong"].as_str().expect("a story").contains("at offset"), "{found}");
    });
}

#[test]
fn bench_holds_an_open_loop_to_its_rate() {
    let scratch = Scratch::new();
    let _gate = Gate::start(&scratch, &memory_policy("16 MiB"));
    let options =
        ["--rate", "500iops", "--arrivals", "poisson", "--depth", "64", "--runtime", "4s"];
    let output = bench(scratch.path(), &options);
    let iops = json(&output)["jobs"][0]["read"]["iops"].as_f64().expect("a rate");
    assert!((400.0..600.0).contains(&iops), "{iops}");
}

#[test]
fn bench_without_a_server_says_that_nobody_answers() {
    let scratch = Scratch::new();
    let output = bench(scratch.path(), &[]);
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot use nbd+unix"));
}

#[test]
fn the_demo_shows_that_shares_protect_and_waste_nothing() {
    let scratch = Scratch::new();
    let mut demo = Command::new(EVENKEEL);
    demo.args(["demo", "--quick", "--json"]).current_dir(scratch.path());
    let output = demo.output().expect("run evenkeel");
    assert_eq!(output.status.code(), Some(0));
    let left = std::fs::read_dir(scratch.path()).expect("a folder").count();
    assert_eq!(left, 0, "it leaves nothing where it was started");
    let document = json(&output);
    let figure = |phase: usize, name: &str| {
        document["phases"][phase][name].as_f64().unwrap_or_else(|| panic!("{name}: {document}"))
    };
    let (watch, caps, shares) = (0, 1, 2);
    let p99 = |phase| figure(phase, "database_p99_seconds");
    let alone = |phase| figure(phase, "backup_resting_bytes_per_second");
    assert!(p99(shares) < p99(watch) / 2.0, "{document:#}");
    assert!(alone(shares) > alone(caps) * 1.3, "{document:#}");
    let waits = document["phases"][watch]["waits"].as_array().expect("waits");
    let culprit = waits.iter().find(|wait| wait["victim"] == "database").expect("a victim");
    assert_eq!(culprit["culprit"], "backup", "the gate names the culprit first: {waits:?}");
}

/// Whether a process runs. One that has ended may stay in the table until its new parent looks.
fn is_running(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| !fields.trim_start().starts_with('Z'))
}

/// The processes whose parent is `parent`.
fn children_of(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("a /proc").flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent_of = |id: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse::<u32>().ok()
    };
    ids.filter(|&id| parent_of(id) == Some(parent)).collect()
}

#[test]
fn a_demo_that_is_killed_leaves_no_process_behind() {
    // Nobody can clean up after SIGKILL but whoever owns the folder above.
    let scratch = Scratch::new();
    let mut demo = Command::new(EVENKEEL)
        .args(["demo", "--quick"])
        .env("TMPDIR", scratch.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("run evenkeel");
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut children = Vec::new();
    while children.len() < 2 {
        assert!(Instant::now() < deadline, "the demo starts no gates");
        std::thread::sleep(Duration::from_millis(10));
        children = children_of(demo.id());
    }
    let pid = Pid::from_raw(i32::try_from(demo.id()).expect("a process id")).expect("not zero");
    kill_process(pid, Signal::KILL).expect("kill the demo");
    demo.wait().expect("wait for the demo");
    while children.iter().any(|&id| is_running(id)) {
        assert!(Instant::now() < deadline, "{children:?} live on");
        std::thread::sleep(Duration::from_millis(10));
    }
}
