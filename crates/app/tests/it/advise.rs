//! `advise` and `plan --live` beside a gate that only looks, before a server that takes one request
//! at a time.

mod live;

use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::harness::Scratch;
use crate::harness::gate::{EVENKEEL, Gate, memory_policy};
use crate::harness::process::Process;
use crate::harness::skip::needs;
use crate::harness::storage::Server;
use crate::harness::target::Address;

const SLOW: [&str; 6] = [
    "--filter=delay",
    "--filter=noparallel",
    "memory",
    "64M",
    "rdelay=1ms",
    "serialize=all-requests",
];

/// Reads this much at a time, and keeps so many requests under way, until it is dropped.
fn load(scratch: &Scratch, gate: &Gate, export: &str, size: &str, depth: &str) -> Process {
    let uri = gate.plain(export).uri();
    let arguments = ["bench", &uri, "--size", size, "--depth", depth, "--runtime", "900 s"];
    Process::start(scratch.path(), EVENKEEL, &arguments)
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(EVENKEEL);
    command.args(arguments).current_dir(folder);
    command.output().expect("run evenkeel")
}

fn advise(scratch: &Scratch, more: &[&str]) -> (Option<i32>, Value, String) {
    let arguments = [&["advise", "--control", "control.sock", "--json"], more].concat();
    let output = run(scratch.path(), &arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), said)
}

/// Two exports of one server, without tenants.
fn policy(server: &Server) -> String {
    let Address::Unix(socket) = &server.target.address else { panic!("a socket of ours") };
    format!(
        "mode = \"observe\"\n[[backend]]\nname = \"array\"\nupstream = \"nbd+unix:///?socket={}\"\n\
         [[export]]\nname = \"db\"\nsource = \"\"\n[[export]]\nname = \"backup\"\nsource = \"\"\n",
        socket.display()
    )
}

#[test]
fn what_was_seen_becomes_a_forecast_and_a_policy_on_trial() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let server = Server::nbdkit_named(&scratch, "array", &SLOW);
    let gate = Gate::start(&scratch, &policy(&server));
    let _db = load(&scratch, &gate, "db", "4KiB", "4");
    thread::sleep(Duration::from_secs(5));
    let _backup = load(&scratch, &gate, "backup", "64KiB", "16");
    let (_, advice, said) = advise(&scratch, &["--watch", "12 s", "--write", "proposed.toml"]);
    let clients = advice["clients"].as_array().unwrap_or_else(|| panic!("{said}"));
    let client = |name: &str| clients.iter().find(|one| one["name"] == name);
    let db = client("default/db").unwrap_or_else(|| panic!("{advice}"));
    assert_eq!((&db["waits"], &db["depth"]), (&Value::Bool(true), &Value::from(4)), "{advice}");
    assert_eq!(advice["storage"][0]["backend"], "array", "{advice}");
    assert_eq!(advice["storage"][0]["is_told_apart"], true, "the backup came later: {advice}");
    let names: Vec<_> = advice["tenants"].as_array().expect("tenants").iter().collect();
    assert_eq!(names.len(), 2, "each export is a tenant: {advice}");
    // The proposal can be read, and was written whole.
    let checked = run(scratch.path(), &["check", "proposed.toml", "--json"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let again = advise(&scratch, &["--watch", "12 s", "--write", "proposed.toml"]).2;
    assert!(again.contains("cannot write the proposed policy"), "nothing is overwritten: {again}");
    assert_on_trial(&scratch, &gate);
}

/// The proposal is put in force, and goes again.
fn assert_on_trial(scratch: &Scratch, gate: &Gate) {
    let (_, _, said) = advise(scratch, &["--watch", "10 s", "--apply", "--confirm-within", "60 s"]);
    assert!(said.contains("`evenkeel ctl confirm` keeps this one"), "{said}");
    let in_force = gate.ctl(&["policy"]);
    assert!(in_force.contains("mode = \"enforce\"") && in_force.contains("name = \"db\""));
    let (code, _, said) = advise(scratch, &[]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("evenkeel prove"), "{said}");
    gate.ctl(&["revert"]);
    assert!(gate.ctl(&["policy"]).contains("mode = \"observe\""));
}

#[test]
fn a_plan_needs_neither_a_trace_nor_a_model() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let server = Server::nbdkit_named(&scratch, "array", &SLOW);
    let text = policy(&server);
    let gate = Gate::start(&scratch, &text);
    {
        let _db = load(&scratch, &gate, "db", "4KiB", "4");
        thread::sleep(Duration::from_secs(12));
    }
    let new = text.replace("observe", "enforce");
    let new = format!("listen = [\"unix:new.sock\"]\n{new}");
    std::fs::write(scratch.join("new.toml"), new).expect("write to scratch");
    let arguments = ["plan", "new.toml", "--live", "--control", "control.sock", "--json"];
    let output = run(scratch.path(), &arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("storage array: "), "{said}");
    let plan: Value = serde_json::from_slice(&output.stdout).expect("a plan");
    assert!(plan["tenants"][0]["requests"].as_u64().expect("a number") > 100, "{plan}");
}

#[test]
fn who_saw_too_little_says_so() {
    let scratch = Scratch::new();
    let policy = memory_policy("8 MiB").replace("mode = \"enforce\"", "mode = \"observe\"");
    let _gate = Gate::start(&scratch, &policy);
    let (code, _, said) = advise(&scratch, &["--watch", "10 s"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("tell too little"), "{said}");
    let output = run(scratch.path(), &["advise", "--trace", "nowhere.ektrace"]);
    assert_eq!(output.status.code(), Some(5));
}

#[test]
fn explain_foretells_where_a_tenant_is_below_its_due_and_nobody_is_held_back() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let server = Server::nbdkit_named(&scratch, "array", &SLOW);
    let tenants = [("db", 4), ("backup", 1)].map(|(name, share)| {
        format!(
            "[[tenant]]\nname = \"{name}\"\nmatch = {{ export = \"{name}\" }}\nshare = {share}\n"
        )
    });
    let gate = Gate::start(&scratch, &(policy(&server) + &tenants.concat()));
    let explain = |more: &[&str]| {
        let output =
            run(scratch.path(), &[&["explain", "--control", "control.sock"], more].concat());
        assert!(output.status.success());
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    {
        let _db = load(&scratch, &gate, "db", "4KiB", "4");
        thread::sleep(Duration::from_secs(7));
        let _backup = load(&scratch, &gate, "backup", "64KiB", "16");
        thread::sleep(Duration::from_secs(9));
        let [found, said] = explain(&[]);
        assert!(found.contains("! db has"), "{found}");
        let foretold = found.split_once("if the policy were enforced:").map(|(_, table)| table);
        let foretold = foretold.unwrap_or_else(|| panic!("{found}\n{said}"));
        let is_there = |name: &str| foretold.lines().any(|line| line.starts_with(name));
        assert!(is_there("db") && is_there("backup"), "{foretold}");
        let [found, _] = explain(&["db"]);
        let foretold = found.split_once("if the policy were enforced:").expect("again").1;
        assert!(!foretold.lines().any(|line| line.starts_with("backup")), "{foretold}");
        let [found, _] = explain(&["--json"]);
        assert!(serde_json::from_str::<Value>(&found).is_ok_and(|found| found.is_array()));
    }
    // Nothing has come since: advice says how old it is.
    thread::sleep(Duration::from_secs(11));
    let output = run(scratch.path(), &["advise", "--control", "control.sock", "--watch", "10 s"]);
    let advice = String::from_utf8_lossy(&output.stdout);
    assert!(advice.lines().next().is_some_and(|line| line.contains(", until 1")), "{advice}");
}

#[test]
fn a_server_without_a_gate_gets_the_policy_of_one_that_looks() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let names = ["exportname=db", "exportname=backup", "exportname-list=explicit"];
    let words = [&["--filter=exportname", "memory", "64M"][..], &names].concat();
    let server = Server::nbdkit_named(&scratch, "array", &words);
    let Address::Unix(socket) = &server.target.address else { panic!("a socket of ours") };
    let uri = |export: &str| format!("nbd+unix:///{export}?socket={}", socket.display());
    let output = run(scratch.path(), &["advise", "--upstream", &uri(""), "--write", "looks.toml"]);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(shown.contains("serves db (64 MiB), backup (64 MiB)"), "{shown}");
    let checked = run(scratch.path(), &["check", "looks.toml", "--json"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));

    let output = run(scratch.path(), &["advise", "--upstream", &uri("db"), "--json"]);
    let one: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(one["exports"].as_array().map(Vec::len), Some(1), "{one}");
    let text = one["proposal"]["text"].as_str().expect("a policy");
    assert!(text.contains("source = \"db\"") && !text.contains("passthrough"), "{text}");

    let output = run(scratch.path(), &["advise", "--upstream", "nbd+unix:///?socket=nowhere"]);
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    let output = run(scratch.path(), &["advise", "--upstream", "nbds://10.0.0.5"]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}
