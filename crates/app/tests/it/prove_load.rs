//! `evenkeel prove --load`: shares put to the test on a running gate, and nothing left of it.

use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::conditions::assert_within;
use crate::harness::gate::{EVENKEEL, Gate, without_found};
use crate::harness::nbd::Client;
use crate::harness::process::Process;
use crate::harness::skip::needs;
use crate::harness::storage::Server;
use crate::harness::target::Address;
use crate::harness::{Scratch, wait_for};

/// A server that serves one request at a time, a millisecond each.
fn serial(scratch: &Scratch) -> Server {
    let options = ["--filter=delay", "--filter=noparallel", "memory", "64M", "rdelay=1ms"];
    let options = [&options[..], &["serialize=all-requests"]].concat();
    Server::nbdkit_named(scratch, "array", &options)
}

/// A backend before this server, and an export of it for a database with these promises.
fn policy(server: &Server, backend: &str, db: &str) -> String {
    let Address::Unix(socket) = &server.target.address else { panic!("a socket of ours") };
    format!(
        "mode = \"enforce\"\n[[backend]]\nname = \"array\"\n{backend}\
         upstream = \"nbd+unix:///?socket={}\"\n[[export]]\nname = \"db\"\nsource = \"\"\n\
         [[tenant]]\nname = \"db\"\nmatch = {{ export = \"db\" }}\n{db}",
        socket.display()
    )
}

/// The same with a tenant that copies everything.
fn with_backup(policy: &str) -> String {
    format!(
        "{policy}[[export]]\nname = \"backup\"\nbackend = \"array\"\nsource = \"\"\n\
         [[tenant]]\nname = \"backup\"\nmatch = {{ export = \"backup\" }}\n"
    )
}

/// Reads this much at a time, and keeps so many requests under way, until it is dropped.
fn load(scratch: &Scratch, gate: &Gate, export: &str, size: &str, depth: &str) -> Process {
    let uri = gate.plain(export).uri();
    let arguments = ["bench", &uri, "--size", size, "--depth", depth, "--runtime", "300 s"];
    Process::start(scratch.path(), EVENKEEL, &arguments)
}

const PROVE: [&str; 5] = ["prove", "--load", "--control", "control.sock", "--json"];

/// What it prints, and how it ends.
fn prove(scratch: &Scratch, more: &[&str]) -> (Option<i32>, Value) {
    let mut command = Command::new(EVENKEEL);
    command.args(PROVE).args(more);
    let output = command.current_dir(scratch.path()).output().expect("run evenkeel");
    let errors = String::from_utf8_lossy(&output.stderr);
    let document = serde_json::from_slice(&output.stdout);
    (output.status.code(), document.unwrap_or_else(|error| panic!("{error}: {errors}")))
}

#[track_caller]
fn assert_verdict(document: &Value, tenant: &str, promise: &str, verdict: &str) {
    let mut rows = document["promises"].as_array().expect("promises").iter();
    let is_it = |row: &&Value| {
        let starts = |key: &str, with| row[key].as_str().is_some_and(|it| it.starts_with(with));
        starts("tenant", tenant) && starts("promise", promise)
    };
    let row = rows.find(is_it).unwrap_or_else(|| panic!("{tenant}: {document:#}"));
    assert_eq!(row["verdict"], verdict, "{document:#}");
}

/// The policy in force.
fn in_force(gate: &Gate) -> String {
    without_found(&gate.ctl(&["policy"]))
}

/// Waits until the two read.
fn wait_until_they_read(gate: &Gate) {
    wait_for("the two read", || {
        let status = gate.status();
        let mut tenants = status["domains"][0]["tenants"].as_array()?.iter();
        let second = tenants.find(|one| one["name"] == "evenkeel-prove-2")?;
        (second["window"]["backlogged"].as_f64()? > 0.9).then_some(())
    });
}

fn start(scratch: &Scratch) -> std::process::Child {
    let mut command = Command::new(EVENKEEL);
    command.args(PROVE).current_dir(scratch.path());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run evenkeel")
}

fn interrupt(child: &std::process::Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, Signal::INT).expect("it runs");
}

#[test]
fn a_good_gate_divides_as_promised_beside_tenants_that_ask_for_all() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let server = serial(&scratch);
    let gate = Gate::start(&scratch, &with_backup(&policy(&server, "", "share = 4\n")));
    let _db = load(&scratch, &gate, "db", "4KiB", "8");
    let _backup = load(&scratch, &gate, "backup", "64KiB", "32");
    wait_for("both wait", || {
        let status = gate.status();
        let tenants = status["domains"][0]["tenants"].as_array()?.clone();
        let waits = |one: &&Value| one["window"]["backlogged"].as_f64().is_some_and(|it| it > 0.9);
        (tenants.iter().filter(waits).count() == 2).then_some(())
    });
    let before = in_force(&gate);
    let (code, document) = prove(&scratch, &["--load-share", "10%"]);
    assert_verdict(&document, "evenkeel-prove-1, -2", "3 : 1", "kept");
    assert_verdict(&document, "evenkeel-prove-1, -2", "their share", "kept");
    assert_verdict(&document, "db", "share", "kept");
    assert_verdict(&document, "backup", "share", "kept");
    assert_eq!(code, Some(0), "{document:#}");
    assert_eq!(document["loads"][0]["beside"], serde_json::json!(["db", "backup"]));
    let seconds = document["watched_seconds"].as_f64().expect("a number");
    assert!((8.0..12.0).contains(&seconds), "{document:#}");
    assert_eq!(in_force(&gate), before);
    assert!(!scratch.join("evenkeel-prove.sock").exists(), "the socket is gone");
}

#[test]
fn the_goal_of_a_database_is_not_harmed() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let server = serial(&scratch);
    let gate = Gate::start(&scratch, &policy(&server, "", "latency = \"40 ms\"\n"));
    let _db = load(&scratch, &gate, "db", "4KiB", "1");
    let (code, document) = prove(&scratch, &[]);
    assert_verdict(&document, "evenkeel-prove-1, -2", "3 : 1", "kept");
    assert_verdict(&document, "db", "latency", "kept");
    assert_eq!(code, Some(0), "{document:#}");
}

#[test]
fn it_ends_at_once_when_a_goal_is_late() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let server = serial(&scratch);
    // Whoever comes waits for the sixteen that are with the server.
    let goal = "latency = \"5 ms\"\n";
    let gate = Gate::start(&scratch, &policy(&server, "depth = 16\n", goal));
    let _db = load(&scratch, &gate, "db", "4KiB", "1");
    let (code, document) = prove(&scratch, &[]);
    assert_verdict(&document, "db", "latency", "not_kept");
    let why = document["loads"][0]["why"].as_str().expect("a reason");
    assert!(why.starts_with("latency 5 ms of db was late"), "{why}");
    assert!(document["watched_seconds"].as_f64().is_some_and(|it| it < 8.0), "{document:#}");
    assert_eq!(code, Some(1), "{document:#}");
    assert!(gate.status()["trial_left_seconds"].is_null());
}

#[test]
fn a_gate_that_holds_nothing_back_is_found_out() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let server = serial(&scratch);
    let gate = Gate::start(&scratch, &policy(&server, "depth = 1000\n", ""));
    let (code, document) = prove(&scratch, &[]);
    assert_verdict(&document, "evenkeel-prove-1, -2", "3 : 1", "not_kept");
    assert!(document.to_string().contains("lower `depth` of array"), "{document:#}");
    assert_eq!(code, Some(1), "{document:#}");
    drop(gate);
    let fifo = policy(&server, "discipline = \"fifo\"\n", "");
    let _gate = Gate::start(&scratch, &fifo);
    let (code, document) = prove(&scratch, &[]);
    assert_verdict(&document, "everybody", "shares", "not_kept");
    assert!(document.to_string().contains("serves by arrival"), "{document:#}");
    assert_eq!(document["loads"][0]["was_read"], false, "nothing would hold it back");
    assert_eq!(code, Some(1), "{document:#}");
}

#[test]
fn nothing_is_left_of_one_that_is_killed() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let server = serial(&scratch);
    let gate = Gate::start(&scratch, &policy(&server, "", ""));
    let before = in_force(&gate);
    let mut child = start(&scratch);
    wait_until_they_read(&gate);
    assert_ne!(in_force(&gate), before);
    // The only export is still the one that clients get who name none.
    let mut unnamed = Client::open(&gate.plain(""));
    assert!(unnamed.read(0, 4096).is_ok());
    let (status, said) = gate.try_ctl(&["confirm"]);
    assert!(!status.success() && said.contains("for its time alone"), "{said}");
    child.kill().expect("it runs");
    let killed: ExitStatus = child.wait().expect("it has ended");
    assert!(!killed.success());
    wait_for("the policy before is back", || (in_force(&gate) == before).then_some(()));
    assert!(!scratch.join("evenkeel-prove.sock").exists(), "the socket is gone");
    let file = std::fs::read_to_string(scratch.join("policy.toml")).expect("the policy file");
    assert!(!file.contains("evenkeel-prove"), "{file}");
    assert!(unnamed.read(0, 4096).is_ok(), "no client was dropped");
}

#[test]
fn an_interrupt_brings_the_policy_back_at_once() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let server = serial(&scratch);
    let gate = Gate::start(&scratch, &policy(&server, "", ""));
    let before = in_force(&gate);
    let output = assert_within(Duration::from_secs(4), || {
        let child = start(&scratch);
        wait_until_they_read(&gate);
        let begun = Instant::now();
        interrupt(&child);
        (child.wait_with_output().expect("it ends"), begun.elapsed())
    });
    assert_eq!(in_force(&gate), before);
    assert_eq!(output.status.code(), Some(1));
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(document["loads"][0]["why"], "interrupted", "{document:#}");
    // Before anything is on trial, too.
    let child = start(&scratch);
    thread::sleep(Duration::from_millis(500));
    interrupt(&child);
    assert_eq!(child.wait_with_output().expect("it ends").status.code(), Some(1));
    assert_eq!(in_force(&gate), before);
}

#[test]
fn a_disk_that_nobody_has_used_yet_is_not_made() {
    let scratch = Scratch::new();
    let policy = crate::harness::gate::directory_policy("8 MiB");
    let gate = Gate::start(&scratch, &format!("mode = \"enforce\"\n{policy}"));
    let before = in_force(&gate);
    let (code, document) = prove(&scratch, &[]);
    let said = document["error"]["message"].as_str().expect("a message");
    assert!(said.contains("it cannot be read"), "{said}");
    assert_eq!(code, Some(1));
    assert_eq!(in_force(&gate), before);
    let found = walk(scratch.path());
    assert!(!found.iter().any(|name| name == "disk"), "{found:?}");
}

/// The names of all files.
fn walk(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder of ours").flatten();
    let mut names = Vec::new();
    for entry in entries {
        if entry.path().is_dir() {
            names.extend(walk(&entry.path()));
        } else {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names
}

#[test]
fn what_proves_nothing_is_refused_by_name() {
    let scratch = Scratch::new();
    let policy = format!("mode = \"observe\"\n{}", crate::harness::gate::memory_policy("8 MiB"));
    let gate = Gate::start(&scratch, &policy);
    let refusal = |more: &[&str]| {
        let (code, document) = prove(&scratch, more);
        (code, document["error"]["message"].as_str().expect("a message").to_owned())
    };
    let (code, said) = refusal(&[]);
    assert!(said.contains("evenkeel ctl mode enforce"), "{said}");
    assert_eq!(code, Some(1));
    gate.ctl(&["mode", "enforce"]);
    let (code, said) = refusal(&[]);
    assert!(said.contains("memory: it is memory of the gate"), "{said}");
    assert_eq!(code, Some(1));
    let (code, said) = refusal(&["--backend", "nowhere"]);
    assert!(said.contains("choose of memory"), "{said}");
    assert_eq!(code, Some(2));
    gate.ctl(&["apply", "policy.toml", "--confirm-within", "60 s"]);
    gate.ctl(&["revert"]);
    std::fs::write(
        scratch.join("new.toml"),
        format!("listen = [\"unix:gate.sock\"]\n{}", policy.replace("observe", "enforce")),
    )
    .expect("write to scratch");
    gate.ctl(&["apply", "new.toml", "--confirm-within", "60 s"]);
    let (code, said) = refusal(&[]);
    assert!(said.contains("a policy is on trial") && said.contains("ctl revert"), "{said}");
    assert_eq!(code, Some(5));
}
