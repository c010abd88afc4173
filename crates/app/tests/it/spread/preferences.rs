//! Volumes whose objects prefer near servers, quick ones, and those with free memory.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use super::{NAMES, OBJECT_BYTES, memory_servers, opened, policy_over, volume};
use crate::harness::gate::Gate;
use crate::harness::nbd::Client;
use crate::harness::skip::needs;
use crate::harness::storage::Server;
use crate::harness::{Scratch, noise, wait_for};

/// Writes new objects, and tells how many of them each server got.
fn write(gate: &Gate, client: &mut Client, objects: std::ops::Range<u64>) -> [u64; 4] {
    let used = || {
        let volume = volume(gate);
        [0, 1, 2, 3].map(|at| volume["servers"][at]["used_slots"].as_u64().expect("a number"))
    };
    let before = used();
    for object in objects {
        assert_eq!(client.write(object * OBJECT_BYTES, &noise(object, 4096)), Ok(()));
    }
    let after = used();
    [0, 1, 2, 3].map(|at| after[at] - before[at])
}

/// A page of a host with so much free memory, for as long as the test runs.
fn exporter(memory_free_bytes: u64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let page = format!(
        "node_memory_MemTotal_bytes 1e+09\nnode_memory_MemAvailable_bytes {memory_free_bytes}\n\
         node_cpu_seconds_total{{cpu=\"0\",mode=\"idle\"}} 7\n"
    );
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 1024];
            let _ = stream.read(&mut request);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", page.len());
            let _ = stream.write_all((head + &page).as_bytes());
        }
    });
    address
}

/// Of 160 objects with two candidates among four servers, two get 80 by hashing, and 120 if they
/// are preferred.
const OBJECTS: u64 = 160;
const PREFERRED_MIN: u64 = 100;

#[test]
fn objects_go_to_near_servers_then_to_hosts_with_free_memory_and_a_reload_says_which() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let servers = memory_servers(&scratch, "32M");
    let mut policy = policy_over(&servers, "prefer = [\"local\"]\nnear = [\"s1\", \"s2\"]\n");
    for (name, memory_free_bytes) in NAMES.into_iter().zip([1 << 20, 1 << 20, 500 << 20, 600 << 20])
    {
        let metrics = format!("metrics = \"http://{}/metrics\"\n", exporter(memory_free_bytes));
        let at = format!("name = \"{name}\"\n");
        policy = policy.replace(&at, &(at.clone() + &metrics));
    }
    let mut gate = Gate::start(&scratch, &policy);
    let mut client = opened(&gate.plain("disk"));
    let near = write(&gate, &mut client, 0..OBJECTS);
    assert!(near[0] + near[1] >= PREFERRED_MIN, "{near:?}");
    assert_eq!(volume(&gate)["servers"][0]["is_near"], true);
    gate.reload(&policy.replace("prefer = [\"local\"]", "prefer = [\"memory\"]"));
    wait_for("all hosts to tell", || volume(&gate)["warnings"].is_null().then_some(()));
    assert_eq!(volume(&gate)["servers"][2]["memory_free_part"], f64::from(500 << 20) / 1e9);
    let free = write(&gate, &mut client, OBJECTS..2 * OBJECTS);
    assert!(free[2] + free[3] >= PREFERRED_MIN, "{free:?}");
    gate.kill_and_restart();
    let mut client = opened(&gate.plain("disk"));
    for object in 0..2 * OBJECTS {
        assert_eq!(client.read(object * OBJECT_BYTES, 4096).unwrap(), noise(object, 4096));
    }
}

#[test]
fn a_slow_server_gets_few_objects() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let mut servers = memory_servers(&scratch, "32M");
    // No keeper of the choices: each of those takes part in every placing.
    drop(servers.remove(3));
    let slow = ["--filter=delay", "memory", "32M", "rdelay=30ms", "wdelay=30ms"];
    servers.push(Server::nbdkit_named(&scratch, "slow", &slow));
    let gate = Gate::start(&scratch, &policy_over(&servers, "prefer = [\"latency\"]\n"));
    let mut client = opened(&gate.plain("disk"));
    wait_for("the gate to know", || {
        let volume = volume(&gate);
        (volume["servers"][3]["latency_seconds"].as_f64()? > 0.005).then_some(())
    });
    let got = write(&gate, &mut client, 0..OBJECTS);
    // By hashing a quarter; preferred to nobody, those that have no other candidate.
    assert!(got[3] <= OBJECTS / 8, "{got:?}");
}
