//! What an operator asks in the first hour: why is this tenant slow, and is the promise kept?

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use evenkeel_app::evidence::machine::Conditions;
use rustix::process::Signal;
use serde_json::Value;

use crate::harness::conditions::BEARS;
use crate::harness::gate::{EVENKEEL, Gate};
use crate::harness::process::{Process, finish};
use crate::harness::skip::{needs, tell};
use crate::harness::storage::Server;
use crate::harness::target::Address;
use crate::harness::{Scratch, wait_for};

/// Reads this much at a time, and keeps so many requests under way, until it is dropped.
fn load(scratch: &Scratch, gate: &Gate, export: &str, size: &str, depth: &str) -> Process {
    let uri = gate.plain(export).uri();
    let arguments = ["bench", &uri, "--size", size, "--depth", depth, "--runtime", "300 s"];
    Process::start(scratch.path(), EVENKEEL, &arguments)
}

/// What a command about the gate prints, and how it ends.
fn ask(scratch: &Scratch, arguments: &[&str]) -> (Option<i32>, Value) {
    let mut command = Command::new(EVENKEEL);
    command.args(arguments).args(["--control", "control.sock", "--json"]);
    let output = command.current_dir(scratch.path()).output().expect("run evenkeel");
    let errors = String::from_utf8_lossy(&output.stderr);
    let document = serde_json::from_slice(&output.stdout);
    (output.status.code(), document.unwrap_or_else(|error| panic!("{error}: {errors}")))
}

fn finding(scratch: &Scratch, tenant: &str) -> Value {
    ask(scratch, &["explain", tenant]).1[0].clone()
}

/// Waits until this is what keeps a tenant back.
fn assert_explained(scratch: &Scratch, tenant: &str, cause: &str) -> Value {
    wait_for(cause, || {
        let found = finding(scratch, tenant);
        (found["cause"] == cause).then_some(found)
    })
}

fn verdict(document: &Value, tenant: &str, promise: &str) -> String {
    let rows = document["promises"].as_array().expect("promises").iter();
    let mut rows = rows.filter(|row| {
        row["tenant"] == tenant && row["promise"].as_str().is_some_and(|it| it.starts_with(promise))
    });
    let row = rows.next().unwrap_or_else(|| panic!("{document}"));
    row["verdict"].as_str().expect("a word").to_owned()
}

/// Two tenants before a server of this sort.
fn policy(server: &Server, mode: &str, db: &str, backend: &str) -> String {
    let Address::Unix(socket) = &server.target.address else { panic!("a socket of ours") };
    format!(
        "mode = \"{mode}\"\n[[backend]]\nname = \"array\"\npatience = \"60 s\"\n{backend}\
         upstream = \"nbd+unix:///?socket={}\"\n\
         [[export]]\nname = \"db\"\nsource = \"\"\n[[export]]\nname = \"backup\"\nsource = \"\"\n\
         [[tenant]]\nname = \"db\"\nmatch = {{ export = \"db\" }}\n{db}\
         [[tenant]]\nname = \"backup\"\nmatch = {{ export = \"backup\" }}\n",
        socket.display()
    )
}

const SLOW: [&str; 5] = ["--filter=delay", "--filter=noparallel", "memory", "64M", "rdelay=1ms"];

#[test]
fn explain_names_who_is_in_the_way_and_that_the_server_is_away() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let slow = [&SLOW[..], &["serialize=all-requests"]].concat();
    let mut server = Server::nbdkit_named(&scratch, "array", &slow);
    let gate = Gate::start(&scratch, &policy(&server, "observe", "share = 4\n", ""));
    assert_eq!(ask(&scratch, &["explain"]).1, Value::Array(Vec::new()), "nobody asks");
    let _backup = load(&scratch, &gate, "backup", "256KiB", "16");
    let _db = load(&scratch, &gate, "db", "4KiB", "1");
    let found = assert_explained(&scratch, "db", "others_shares");
    assert_eq!(found["behind"], "backup", "{found}");
    assert_eq!(found["standing"], "below_its_due", "{found}");
    let remedy = found["remedy"].as_str().expect("a text");
    assert!(remedy.contains("evenkeel ctl mode enforce"), "{remedy}");
    let metrics = gate.ctl(&["status", "--json"]);
    assert!(metrics.contains("\"cause\": \"others_shares\""), "status says the same");
    server.process.signal(Signal::KILL);
    let _ = server.process.wait();
    let found = assert_explained(&scratch, "db", "upstream");
    assert_eq!(found["standing"], "below_its_due", "{found}");
}

#[test]
fn explain_says_that_a_tenant_is_at_its_limit_and_prove_that_the_limit_holds() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let server = Server::nbdkit_named(&scratch, "array", &["memory", "64M"]);
    let gate = Gate::start(&scratch, &policy(&server, "enforce", "limit = \"200 iops\"\n", ""));
    let _db = load(&scratch, &gate, "db", "4KiB", "8");
    let found = assert_explained(&scratch, "db", "own_limit");
    assert_eq!(found["standing"], "has_its_due", "{found}");
    let (code, proof) = ask(&scratch, &["prove", "--watch", "5 s"]);
    assert_eq!(verdict(&proof, "db", "limit"), "kept", "{proof}");
    assert_eq!(code, Some(0), "{proof}");
    gate.ctl(&["mode", "observe"]);
    let (code, proof) = ask(&scratch, &["prove", "--watch", "5 s"]);
    assert_eq!(verdict(&proof, "db", "limit"), "not_kept", "{proof}");
    assert_eq!(code, Some(1), "{proof}");
}

#[test]
fn prove_says_which_floor_the_server_cannot_keep() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let slow = [&SLOW[..], &["serialize=all-requests"]].concat();
    let server = Server::nbdkit_named(&scratch, "array", &slow);
    let floor = "floor = \"5000 iops\"\n";
    let backend = "discipline = \"mclock\"\n";
    let gate = Gate::start(&scratch, &policy(&server, "enforce", floor, backend));
    let _db = load(&scratch, &gate, "db", "4KiB", "16");
    let found = assert_explained(&scratch, "db", "device");
    assert_eq!(found["standing"], "below_its_due", "{found}");
    let (code, proof) = ask(&scratch, &["prove", "--watch", "5 s"]);
    assert_eq!(verdict(&proof, "db", "floor"), "not_kept", "{proof}");
    assert_eq!(code, Some(1), "{proof}");
}

#[test]
fn a_gate_is_found_from_any_folder() {
    let scratch = Scratch::new();
    let gate = Gate::start(&scratch, &crate::harness::gate::memory_policy("8 MiB"));
    let status = || {
        let mut command = Command::new(EVENKEEL);
        let output = command.args(["ctl", "status"]).current_dir("/").output();
        output.expect("run evenkeel")
    };
    // Other tests' gates may be running, and then all are listed.
    let output = status();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let place = scratch.join("control.sock").display().to_string();
    assert!(told.contains(&place), "{told}");
    drop(gate);
    thread::sleep(Duration::from_millis(100));
    let told = String::from_utf8_lossy(&status().stderr).into_owned();
    assert!(!told.contains(&place), "{told}");
}

/// The commands of the page, in their order.
fn typed() -> String {
    let page = include_str!("../../../../docs/first-hour.md");
    let blocks = page.split("```sh\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or_default()).collect()
}

#[test]
fn the_page_can_be_typed() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let folder = Path::new(EVENKEEL).parent().expect("it is in a folder");
    // What goes on at the end of the page ends here; its gate and its clients are its own.
    let script = format!(
        "export PATH={}:$PATH\n{}\nkill $(jobs -p)\nwait\n",
        folder.display(),
        typed().replace("evenkeel serve", "evenkeel serve --metrics off")
    );
    std::fs::write(scratch.join("page.sh"), script).expect("write to scratch");
    let ((_, said), conditions) = Conditions::during(BEARS, || {
        finish(scratch.path(), "bash", &["page.sh"], Duration::from_secs(100))
    })
    .expect("a thread to watch with");
    for words in [
        "all that it needs is there",
        "mostly for those of backup",
        "proposed:",
        "`evenkeel ctl confirm` keeps this one",
        "it would use more",
        "share 4",
        "confirmed: it is in policy.toml",
        "evenkeel-prove-1, -2",
    ] {
        assert!(said.contains(words), "{words:?} is missing in:\n{said}");
    }
    for words in ["\nerror:", "\nevenkeel:", "Usage:", "command not found"] {
        assert!(!said.contains(words), "{words:?} in:\n{said}");
    }
    let policy = std::fs::read_to_string(scratch.join("policy.toml")).expect("it was written");
    assert!(policy.contains("mode = \"enforce\""), "{policy}");
    // Once `prove` looks on, and once it puts a load of its own beside.
    let promise = ["array", "db", "share", "4", "kept"];
    let is_kept = |line: &&str| line.split_whitespace().take(promise.len()).eq(promise);
    let kept = said.lines().filter(is_kept).count();
    if kept < 2 && conditions.is_disturbed() {
        return tell(&format!("kept in {kept} of 2 proofs: {}", conditions.why()));
    }
    assert_eq!(kept, 2, "{said}");
}
