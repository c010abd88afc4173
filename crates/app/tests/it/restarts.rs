//! Restarts that nobody notices: of the gate and of its upstream, told to stop or killed.
//!
//! `EVENKEEL_KILLS` says how many restarts of each kind there are; one without it.

use std::time::Duration;

use rustix::process::Signal;

use crate::faults::{backing_file, patient_policy};
use crate::harness::client::fio_verify;
use crate::harness::gate::Gate;
use crate::harness::nbd::Client;
use crate::harness::process::Process;
use crate::harness::skip::needs;
use crate::harness::storage::{Server, Wire, text};
use crate::harness::target::{Address, Target};
use crate::harness::{Scratch, wait_for};

/// How one of the two is made to end.
const WAYS: [Signal; 2] = [Signal::TERM, Signal::KILL];

pub(crate) fn rounds() -> u32 {
    let asked = std::env::var("EVENKEEL_KILLS").ok();
    asked.map_or(1, |text| text.parse().expect("EVENKEEL_KILLS is a number"))
}

fn restart_upstream(scratch: &Scratch, server: &mut Server, file: &str, way: Signal) {
    server.process.signal(way);
    let _ = server.process.wait();
    if let Address::Unix(path) = &server.target.address {
        // One that is killed leaves it.
        drop(std::fs::remove_file(path));
    }
    *server = Server::nbdkit(scratch, Wire::Plain, &["file", file]);
}

fn restart_gate(gate: &mut Gate, way: Signal) {
    if way == Signal::TERM {
        assert!(gate.stop().success());
    } else {
        gate.kill();
    }
    gate.restart();
}

/// qemu-nbd as a client of the gate that reconnects, and as a server to fio, which does not.
fn reconnecting(scratch: &Scratch, gate: &Gate) -> (Process, Target) {
    let front = Target { address: Address::Unix(scratch.join("front.sock")), ..gate.plain("") };
    let Address::Unix(socket) = &front.address else { unreachable!("it is one") };
    let options = format!("{},file.reconnect-delay=30", gate.plain("disk").qemu_target_options());
    let socket = format!("--socket={}", text(socket));
    let arguments = ["--persistent", "--shared=16", &socket, "--image-opts", &options];
    let mut process = Process::start(scratch.path(), "qemu-nbd", &arguments);
    process.wait_until("answers on its socket", || front.address.answers());
    (process, front)
}

#[test]
fn fio_notices_no_restart_of_the_gate_or_of_its_upstream() {
    needs!("nbdkit", "fio", "qemu-nbd");
    let scratch = Scratch::new();
    let file = backing_file(&scratch);
    let mut server = Server::nbdkit(&scratch, Wire::Plain, &["file", &file]);
    let mut gate = Gate::start(&scratch, &patient_policy(&server.target));
    let (_qemu, front) = reconnecting(&scratch, &gate);
    let mut arguments = fio_verify(&front, "24m");
    // Slow enough that restarts fall into the writing and the reading back.
    arguments.push("--rate_iops=1500,1500".into());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut fio = Process::start(scratch.path(), "fio", &arguments);
    for round in 0..rounds() {
        for (way, is_gate) in WAYS.into_iter().flat_map(|way| [(way, true), (way, false)]) {
            std::thread::sleep(Duration::from_millis(500 + 70 * u64::from(round % 7)));
            if let Some(status) = fio.ended() {
                assert!(status.success(), "in round {round} fio says:\n{}", fio.log());
                fio = Process::start(scratch.path(), "fio", &arguments);
                std::thread::sleep(Duration::from_millis(300));
            }
            if is_gate {
                restart_gate(&mut gate, way);
            } else {
                restart_upstream(&scratch, &mut server, &file, way);
            }
        }
    }
    assert!(fio.wait().success(), "fio says:\n{}", fio.log());
}

/// Where the server's writes may be lost with it, a client hears once of each loss that may be one.
#[test]
fn each_kill_of_an_upstream_with_writes_unflushed_fails_one_flush() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let file = backing_file(&scratch);
    let mut server = Server::nbdkit(&scratch, Wire::Plain, &["file", &file]);
    let policy = patient_policy(&server.target).replace("writes_survive_restart = true\n", "");
    let mut gate = Gate::start(&scratch, &policy);
    let mut client = Client::open(&gate.plain("disk"));
    for round in 0..rounds() {
        restart_upstream(&scratch, &mut server, &file, Signal::KILL);
        assert_eq!(client.flush(), Ok(()), "in round {round} nothing was unflushed");
        assert_eq!(client.write(0, &[1; 4096]), Ok(()));
        restart_upstream(&scratch, &mut server, &file, Signal::KILL);
        assert!(client.flush().is_err(), "in round {round} a write may be gone");
        assert_eq!(client.flush(), Ok(()), "in round {round} the loss was told before");
        assert_eq!(client.write(0, &[2; 4096]), Ok(()));
        // The server has what it acknowledged, whatever becomes of the gate.
        for way in WAYS {
            restart_gate(&mut gate, way);
            client = wait_for("the gate", || Client::try_open(&gate.plain("disk")));
            assert_eq!(client.flush(), Ok(()), "in round {round} after {way:?} of the gate");
        }
    }
}
