//! Recordings of gates that are killed.
//!
//! `EVENKEEL_KILLS` says how many gates are killed; one without it.

use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::gate::{EVENKEEL, memory_policy};
use crate::harness::process::Process;
use crate::harness::target::{Address, Target};
use crate::harness::{Scratch, wait_for};
use crate::restarts::rounds;

/// What a gate that is killed may lose.
const LOST_MAX: Duration = Duration::from_secs(1);

fn json(scratch: &Scratch, arguments: &[&str]) -> serde_json::Value {
    let output = Command::new(EVENKEEL).args(arguments).current_dir(scratch.path()).output();
    let output = output.expect("run evenkeel");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

fn delivered(scratch: &Scratch) -> u64 {
    let status = json(scratch, &["ctl", "--control", "control.sock", "status", "--json"]);
    let tenants = status["domains"][0]["tenants"].as_array().expect("tenants").iter();
    tenants.map(|tenant| tenant["delivered"]["requests"].as_u64().expect("a number")).sum()
}

#[test]
fn a_gate_that_is_killed_loses_at_most_the_last_second_of_its_recording() {
    for round in 0..rounds() {
        for name in ["gate.ektrace", "gate.ektrace.gz", "gate.ektrace.zst"] {
            kill_a_recording_gate(name, round);
        }
    }
}

fn kill_a_recording_gate(name: &str, round: u32) {
    let scratch = Scratch::new();
    let policy = format!("listen = [\"unix:gate.sock\"]\n{}", memory_policy("8 MiB"));
    std::fs::write(scratch.join("policy.toml"), policy).expect("write to scratch");
    let serve = format!("serve policy.toml --control control.sock --metrics off --record {name}");
    let arguments: Vec<_> = serve.split(' ').collect();
    let mut gate = Process::start(scratch.path(), EVENKEEL, &arguments);
    let socket = Address::Unix(scratch.join("gate.sock"));
    gate.wait_until("listens", || socket.answers());
    let uri = Target { address: socket, export: "disk".to_owned(), certificates: None }.uri();
    let load = ["bench", &uri, "--rate", "500iops", "--runtime", "60 s"];
    let mut load = Process::start(scratch.path(), EVENKEEL, &load);
    // Gates are killed at all parts of a second.
    let enough = 600 + 37 * u64::from(round % 20);
    wait_for("requests", || (delivered(&scratch) >= enough).then_some(()));
    let safe = delivered(&scratch);
    thread::sleep(LOST_MAX);
    gate.signal(Signal::KILL);
    let _ = gate.wait();
    load.signal(Signal::KILL);
    let _ = load.wait();

    let stat = json(&scratch, &["trace", "stat", name, "--skip-bad", "--json"]);
    let kept = stat["requests"].as_u64().expect("a number");
    assert!(kept >= safe, "{name}: {kept} requests of more than {safe}");
    let plan = ["plan", "policy.toml", "--trace", name, "--skip-bad", "--json", "--backend"];
    json(&scratch, &[&plan[..], &["rate=100MB/s,fixed=100us,servers=4"]].concat());
    let mut refused = Command::new(EVENKEEL);
    let refused = refused.args(["trace", "stat", name]).current_dir(scratch.path()).output();
    let refused = refused.expect("run evenkeel");
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(errors.contains("--skip-bad"), "it says what to do: {errors}");
}
