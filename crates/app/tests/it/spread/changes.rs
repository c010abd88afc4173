//! Servers join a volume and leave it, as an operator does it: the policy is edited and the gate
//! restarted; objects move while clients go on, and the gate is killed meanwhile.

use serde_json::Value;

use super::{NAMES, OBJECT_BYTES, file_server, lasting_server, opened, policy_of, trouble, volume};
use crate::faults::kill_the_gate_under_writes;
use crate::harness::client::fio_verify;
use crate::harness::gate::Gate;
use crate::harness::process::run;
use crate::harness::skip::needs;
use crate::harness::storage::Server;
use crate::harness::{Scratch, noise, wait_for};

/// Slow enough to be met in the middle.
const SLOWLY: &str = "[[tenant]]\nname = \"moves\"\nlimit = \"512 KiB/s\"\n";

fn change(gate: &Gate) -> Value {
    volume(gate)["change"].clone()
}

fn wait_until_over(gate: &Gate) {
    wait_for("the change to be over", || (change(gate)["is_over"] == true).then_some(()));
}

fn used(gate: &Gate, server: usize) -> u64 {
    volume(gate)["servers"][server]["used_slots"].as_u64().expect("a number")
}

/// The next gate, once this one has stopped.
fn restarted(scratch: &Scratch, mut gate: Gate, policy: &str) -> Gate {
    assert!(gate.stop().success());
    Gate::start(scratch, policy)
}

#[test]
fn servers_join_and_leave_under_fio_and_a_kill_and_everything_is_found() {
    needs!("qemu-nbd", "fio");
    let scratch = Scratch::new();
    let [s1, s2, s3, s4] = ["s1", "s2", "s3", "s4"].map(|name| lasting_server(&scratch, name));
    let three = [(&s1, "s1"), (&s2, "s2"), (&s3, "s3")];
    let gate = Gate::start(&scratch, &policy_of(&three, ""));
    let target = gate.plain("disk");
    drop(opened(&target));
    let fio = fio_verify(&target, &(16_u64 << 20).to_string());
    let mut fio: Vec<&str> = fio.iter().map(String::as_str).collect();
    run(scratch.path(), "fio", &fio);

    let four = [(&s1, "s1"), (&s2, "s2"), (&s3, "s3"), (&s4, "s4")];
    // For a minute at this pace, whatever else the machine does for fio's time.
    let slowly = SLOWLY.replace("512 KiB/s", "64 KiB/s");
    let mut gate = restarted(&scratch, gate, &(policy_of(&four, "") + &slowly));
    wait_for("an object to move", || change(&gate)["moved_objects"].as_u64().filter(|it| *it > 3));
    run(scratch.path(), "fio", &fio);
    assert_eq!(change(&gate)["is_over"], false, "fio was there in the middle");
    let text = gate.ctl(&["status"]);
    assert!(text.contains("of them have to move") && text.contains(" to go"), "{text}");
    gate.kill_and_restart();
    drop(opened(&target));
    fio.push("--verify_only");
    run(scratch.path(), "fio", &fio);
    let gate = restarted(&scratch, gate, &policy_of(&four, ""));
    wait_until_over(&gate);
    assert!(used(&gate, 3) > 10, "{} objects are on the new server", used(&gate, 3));
    run(scratch.path(), "fio", &fio);

    let leaving = policy_of(&four, "leaving = [\"s2\"]\n");
    let gate = restarted(&scratch, gate, &leaving);
    wait_until_over(&gate);
    let status = volume(&gate);
    assert_eq!((&status["servers"][1]["standing"], used(&gate, 1)), (&"leaving".into(), 0));
    let warnings = status["warnings"].to_string();
    assert!(warnings.contains("s2 holds nothing any more: take it out"), "{warnings}");
    let others = [(&s1, "s1"), (&s3, "s3"), (&s4, "s4")];
    let gate = restarted(&scratch, gate, &policy_of(&others, ""));
    drop(s2);
    drop(opened(&target));
    run(scratch.path(), "fio", &fio);
    assert_eq!(change(&gate), Value::Null, "the change has come to its end");
}

#[test]
fn a_gate_killed_while_objects_move_loses_nothing_acknowledged() {
    needs!("qemu-nbd");
    let scratch = Scratch::new();
    let servers = NAMES.map(|name| lasting_server(&scratch, name));
    let named: Vec<(&Server, &str)> = servers.iter().zip(NAMES).collect();
    // All of it fits on three servers.
    let size = "size = \"16 MiB\"\n";
    let gate = Gate::start(&scratch, &policy_of(&named, size));
    let mut client = opened(&gate.plain("disk"));
    for object in 0..200 {
        assert_eq!(client.write(object * OBJECT_BYTES, &noise(object, 4096)), Ok(()));
    }
    drop(client);
    let leaving = policy_of(&named, &format!("{size}leaving = [\"s1\"]\n")) + SLOWLY;
    let gate = restarted(&scratch, gate, &leaving);
    wait_for("an object to move", || change(&gate)["moved_objects"].as_u64().filter(|it| *it > 3));
    let blocks = OBJECT_BYTES / 4096;
    kill_the_gate_under_writes(gate, (0..200).map(|object| (object * blocks, object)));
    let gate = Gate::start(&scratch, &leaving.replace("512 KiB/s", "1 GiB/s"));
    wait_until_over(&gate);
    assert_eq!(used(&gate, 0), 0);
}

#[test]
fn a_change_that_cannot_be_is_refused_with_the_server_and_the_remedy() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let [s1, s2, s3, s4] = ["s1", "s2", "s3", "s4"].map(|name| file_server(&scratch, name));
    let three = [(&s1, "s1"), (&s2, "s2"), (&s3, "s3")];
    let gate = Gate::start(&scratch, &policy_of(&three, ""));
    let mut client = opened(&gate.plain("disk"));
    for object in 0..40 {
        assert_eq!(client.write(object * OBJECT_BYTES, &noise(object, 4096)), Ok(()));
    }
    drop(client);
    let two = [(&s1, "s1"), (&s3, "s3")];
    let gate = restarted(&scratch, gate, &policy_of(&two, ""));
    let refusal = |gate: &Gate, words: &str| {
        wait_for(words, || trouble(gate).contains(words).then_some(()));
    };
    refusal(&gate, "has 3 servers, but 2 of them are listed; list them all");
    let exchanged = [(&s1, "s1"), (&s4, "s2"), (&s3, "s3")];
    let gate = restarted(&scratch, gate, &policy_of(&exchanged, ""));
    refusal(&gate, "server \"s2\": it is blank, but other servers of the volume are in use");
    let leaving = policy_of(&three, "leaving = [\"s2\"]\n") + &SLOWLY.replace("512", "160");
    let gate = restarted(&scratch, gate, &leaving);
    wait_for("an object to move", || change(&gate)["moved_objects"].as_u64().filter(|it| *it > 0));
    let gate = restarted(&scratch, gate, &policy_of(&two, ""));
    refusal(&gate, "not listed may hold some of");
    let gate = restarted(&scratch, gate, &leaving.replace("160 KiB/s", "1 GiB/s"));
    wait_until_over(&gate);
    let mut client = opened(&gate.plain("disk"));
    for object in 0..40 {
        assert_eq!(client.read(object * OBJECT_BYTES, 4096).unwrap(), noise(object, 4096));
    }
}
