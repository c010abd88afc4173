//! Recordings of gates that are killed, and what gates keep that nobody told to record.
//!
//! `EVENKEEL_KILLS` says how many gates are killed; one without it.

use std::process::{Command, Output};
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

/// A gate that nobody told to record, and what is asked of it.
struct Unasked {
    scratch: Scratch,
    uri: String,
    _gate: Process,
}

impl Unasked {
    fn start() -> Self {
        let scratch = Scratch::new();
        let policy = format!("listen = [\"unix:gate.sock\"]\n{}", memory_policy("8 MiB"));
        std::fs::write(scratch.join("policy.toml"), policy).expect("write to scratch");
        let serve = ["serve", "policy.toml", "--control", "control.sock", "--metrics", "off"];
        let mut gate = Process::start(scratch.path(), EVENKEEL, &serve);
        let address = Address::Unix(scratch.join("gate.sock"));
        gate.wait_until("listens", || address.answers());
        let uri = Target { address, export: "disk".to_owned(), certificates: None }.uri();
        Self { scratch, uri, _gate: gate }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(EVENKEEL);
        command.args(arguments).current_dir(self.scratch.path()).output().expect("run evenkeel")
    }

    fn ctl(&self, arguments: &[&str]) -> Output {
        self.run(&[&["ctl", "--control", "control.sock"], arguments].concat())
    }

    fn serve(&self, requests: &str) {
        let bench = ["bench", &self.uri, "--requests", requests, "--depth", "4"];
        assert!(self.run(&bench).status.success());
    }

    /// What is in the trace of the last minutes, once it has so many requests.
    fn last(&self, name: &str, requests: u64) -> serde_json::Value {
        wait_for("the last requests", || {
            let _ = std::fs::remove_file(self.scratch.join(name));
            let output = self.ctl(&["record", "last", name, "--json"]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let stat = json(&self.scratch, &["trace", "stat", name, "--json"]);
            assert_eq!(said["requests"].as_u64(), Some(stat["requests"].as_u64().unwrap_or(0)));
            (said["requests"] == requests).then_some(stat)
        })
    }
}

#[test]
fn the_last_minutes_can_be_had_of_a_gate_that_nobody_told_to_record() {
    let gate = Unasked::start();
    gate.serve("400");
    assert!(gate.ctl(&["mode", "shadow"]).status.success());
    gate.serve("300");
    let stat = gate.last("last.ektrace.zst", 700);
    let policies = stat["policies"].as_array().expect("a list");
    let has = |number: usize, text: &str| {
        policies[number]["text"].as_str().is_some_and(|known| known.contains(text))
    };
    assert_eq!(policies.len(), 2, "{policies:?}");
    assert!(!has(0, "shadow") && has(1, "mode = \"shadow\""), "{policies:?}");

    // No file is overwritten, and none is left where there was none.
    let refused = gate.ctl(&["record", "last", "last.ektrace.zst"]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && errors.contains("choose another name"), "{errors}");

    // Beside a recording that somebody asked for.
    assert!(gate.ctl(&["record", "start", "asked.ektrace"]).status.success());
    gate.serve("200");
    assert!(gate.ctl(&["record", "stop"]).status.success());
    assert_eq!(json(&gate.scratch, &["trace", "stat", "asked.ektrace", "--json"])["requests"], 200);
    gate.last("later.ektrace.gz", 900);
}
