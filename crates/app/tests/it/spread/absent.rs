//! A gate that is started while one server is dead serves what the others have, and takes the
//! server up when it is back, unless it has older content.

use crate::harness::client::fio_verify;
use crate::harness::gate::Gate;
use crate::harness::nbd::Client;
use crate::harness::process::run;
use crate::harness::skip::needs;
use crate::harness::{Scratch, noise, wait_for};

use super::{
    FAILED, NAMES, OBJECT_BYTES, file_of, kill, lasting_server, opened, policy_over, volume,
};

const WRITTEN: u64 = 40;

fn standing(gate: &Gate, server: usize) -> String {
    let standing = &volume(gate)["servers"][server]["standing"];
    standing.as_str().unwrap_or_default().to_owned()
}

fn is_up(gate: &Gate, backend: &str) -> bool {
    let status = gate.status();
    let backends = status["backends"].as_array().expect("a list");
    let found = backends.iter().find(|one| one["name"] == backend).expect("it is in the policy");
    found["up"].as_bool().expect("it is told")
}

fn wait_for_standing(gate: &Gate, server: usize, wanted: &str) {
    wait_for(wanted, || (standing(gate, server) == wanted).then_some(()));
}

fn write(client: &mut Client, object: u64) -> Result<(), u32> {
    client.write(object * OBJECT_BYTES, &noise(object, 4096))
}

/// Checks what objects hold; returns how many of them are not served.
fn check(client: &mut Client, objects: std::ops::Range<u64>) -> u64 {
    let mut failed = 0;
    for object in objects {
        match client.read(object * OBJECT_BYTES, 4096) {
            Ok(bytes) => assert_eq!(bytes, noise(object, 4096), "object {object}"),
            Err(errno) => {
                assert_eq!(errno, FAILED);
                failed += 1;
            }
        }
    }
    failed
}

#[test]
fn a_gate_started_without_a_server_serves_the_others_and_takes_it_up_when_it_is_back() {
    needs!("qemu-nbd");
    let scratch = Scratch::new();
    let mut servers = NAMES.map(|name| lasting_server(&scratch, name));
    let mut gate = Gate::start(&scratch, &policy_over(&servers, ""));
    let mut client = opened(&gate.plain("disk"));
    for object in 0..WRITTEN {
        assert_eq!(write(&mut client, object), Ok(()));
    }
    assert_eq!(client.flush(), Ok(()));
    let there = volume(&gate)["servers"][1]["used_slots"].as_u64().unwrap();
    kill(&mut servers[1]);
    gate.kill_and_restart();
    let mut client = opened(&gate.plain("disk"));
    assert_eq!(standing(&gate, 1), "absent");
    assert!(is_up(&gate, "pool") && !is_up(&gate, "s2"), "the others serve");
    assert_eq!(check(&mut client, 0..WRITTEN), there, "what the server holds, and nothing else");
    let errors = (0..WRITTEN).filter(|object| write(&mut client, *object).is_err()).count() as u64;
    assert_eq!(errors, there, "nor can it be written");
    // Both candidates of an object may be the same server.
    let new = WRITTEN..2 * WRITTEN;
    let unplaced = new.clone().filter(|object| write(&mut client, *object).is_err());
    let unplaced: Vec<u64> = unplaced.collect();
    assert!(unplaced.len() < 15, "most have another candidate, but {unplaced:?}");
    assert_eq!(client.flush(), Ok(()), "it holds nothing that was written since");
    servers[1] = lasting_server(&scratch, "s2");
    wait_for_standing(&gate, 1, "serving");
    for object in unplaced {
        assert_eq!(write(&mut client, object), Ok(()), "the same client goes on");
    }
    assert_eq!(check(&mut client, 0..2 * WRITTEN), 0, "and finds everything");
    drop(client);
    gate.kill_and_restart();
    assert_eq!(check(&mut opened(&gate.plain("disk")), 0..2 * WRITTEN), 0);
}

/// Objects side by side that fio writes.
const RUN: u64 = 16;

/// The first of so many objects side by side that can all be written: an object of which both
/// candidates are the server that is away cannot.
fn served_run(client: &mut Client) -> u64 {
    let mut length = 0;
    let last = (0..400).find(|object| {
        length = if write(client, *object).is_ok() { length + 1 } else { 0 };
        length == RUN
    });
    last.expect("one object in sixteen cannot be written") + 1 - RUN
}

#[test]
fn fio_finds_what_it_wrote_without_a_server_also_when_that_is_back() {
    needs!("qemu-nbd", "fio");
    let scratch = Scratch::new();
    let mut servers = NAMES.map(|name| lasting_server(&scratch, name));
    let mut gate = Gate::start(&scratch, &policy_over(&servers, ""));
    drop(opened(&gate.plain("disk")));
    kill(&mut servers[0]);
    gate.kill_and_restart();
    let target = gate.plain("disk");
    let first = served_run(&mut opened(&target));
    let mut arguments = fio_verify(&target, &(RUN * OBJECT_BYTES).to_string());
    arguments.push(format!("--offset={}", first * OBJECT_BYTES));
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    run(scratch.path(), "fio", &arguments);
    assert_eq!(standing(&gate, 0), "absent");
    servers[0] = lasting_server(&scratch, "s1");
    wait_for_standing(&gate, 0, "serving");
    arguments.push("--verify_only");
    run(scratch.path(), "fio", &arguments);
}

#[test]
fn a_server_that_is_back_with_older_content_is_not_taken_up_until_it_has_the_last() {
    needs!("qemu-nbd");
    let scratch = Scratch::new();
    let mut servers = NAMES.map(|name| lasting_server(&scratch, name));
    let mut gate = Gate::start(&scratch, &policy_over(&servers, ""));
    drop(opened(&gate.plain("disk")));
    let file = file_of(&scratch, "s3");
    let old = std::fs::read(&file).expect("the server's file");
    gate.kill_and_restart();
    let mut client = opened(&gate.plain("disk"));
    for object in 0..WRITTEN {
        assert_eq!(write(&mut client, object), Ok(()));
    }
    drop(client);
    kill(&mut servers[2]);
    let last = std::fs::read(&file).expect("the server's file");
    std::fs::write(&file, &old).expect("put it back");
    gate.kill_and_restart();
    let mut client = opened(&gate.plain("disk"));
    let refused = check(&mut client, 0..WRITTEN);
    assert!(refused > 0 && refused < WRITTEN, "{refused}");
    servers[2] = lasting_server(&scratch, "s3");
    wait_for_standing(&gate, 2, "stale");
    assert_eq!(check(&mut client, 0..WRITTEN), refused, "nothing of it is served");
    kill(&mut servers[2]);
    std::fs::write(&file, &last).expect("put it back");
    servers[2] = lasting_server(&scratch, "s3");
    wait_for_standing(&gate, 2, "serving");
    assert_eq!(check(&mut client, 0..WRITTEN), 0);
}
