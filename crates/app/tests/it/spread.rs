//! A volume spread over servers by client choices stays one disk to its clients: while its objects
//! get their places, when the gate or a server is killed, when a server comes back with what it had
//! long ago, when the room is used up, when two gates want it, while servers join and leave, and
//! whatever objects prefer.
//!
//! Objects are small here, so that there are many.

mod absent;
mod changes;
mod late;
mod preferences;
mod sizes;
mod thin;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::faults::kill_the_gate_under_writes;
use crate::harness::client::fio_verify;
use crate::harness::gate::Gate;
use crate::harness::nbd::{Client, READ, Request};
use crate::harness::process::run;
use crate::harness::skip::needs;
use crate::harness::storage::{Server, text};
use crate::harness::target::{Address, Target};
use crate::harness::{Scratch, noise, wait_for};

const NAMES: [&str; 4] = ["s1", "s2", "s3", "s4"];
const OBJECT_BYTES: u64 = 64 << 10;
/// `NBD_ENOSPC` and `NBD_EIO`.
const NO_SPACE: u32 = 28;
const FAILED: u32 = 5;

/// A volume over these servers, with more keys of its own.
fn policy_over(servers: &[Server], more: &str) -> String {
    policy_of(&servers.iter().zip(NAMES).collect::<Vec<_>>(), more)
}

/// A volume over these servers by their names; servers that are gone are given up soon.
fn policy_of(servers: &[(&Server, &str)], more: &str) -> String {
    let backend = |(server, name): &(&Server, &str)| {
        let Address::Unix(path) = &server.target.address else { panic!("servers are local") };
        format!(
            "[[backend]]\nname = \"{name}\"\nupstream = \"nbd+unix:///?socket={}\"\n\
             connections = 1\nwrites_survive_restart = true\npatience = \"500 ms\"\n",
            path.display()
        )
    };
    let backends: Vec<_> = servers.iter().map(backend).collect();
    let names: Vec<_> = servers.iter().map(|(_, name)| *name).collect();
    // Servers on this machine are done at once with what they had read of a gate that was killed.
    format!(
        "mode = \"enforce\"\n{}[[backend]]\nname = \"pool\"\nchoices = [\"{}\"]\n\
         object = \"64 KiB\"\nlate = \"1 s\"\n{more}\
         [[export]]\nname = \"disk\"\nbackend = \"pool\"\n",
        backends.concat(),
        names.join("\", \"")
    )
}

fn memory_servers(scratch: &Scratch, size: &str) -> Vec<Server> {
    NAMES.map(|name| Server::nbdkit_named(scratch, name, &["memory", size])).into()
}

fn file_of(scratch: &Scratch, name: &str) -> PathBuf {
    let file = scratch.join(format!("{name}.raw"));
    if !file.exists() {
        let made = std::fs::File::create(&file).and_then(|file| file.set_len(8 << 20));
        made.expect("a file in scratch");
    }
    file
}

fn file_server(scratch: &Scratch, name: &str) -> Server {
    Server::nbdkit_named(scratch, name, &["file", &text(&file_of(scratch, name))])
}

/// The same by qemu-nbd: nbdkit may end with a client that is killed under way.
fn lasting_server(scratch: &Scratch, name: &str) -> Server {
    Server::qemu_nbd_named(scratch, name, &file_of(scratch, name))
}

/// Kills a server; its socket goes too, so that another may take its place.
fn kill(server: &mut Server) {
    server.process.kill();
    let Address::Unix(path) = &server.target.address else { panic!("servers are local") };
    std::fs::remove_file(path).expect("a killed server leaves its socket");
}

fn opened(target: &Target) -> Client {
    wait_for("the volume to be open", || Client::try_open(target))
}

fn volume(gate: &Gate) -> serde_json::Value {
    gate.status()["domains"][0]["spread"].clone()
}

fn trouble(gate: &Gate) -> String {
    let status = gate.status();
    let backends = status["backends"].as_array().expect("a list of backends");
    let pool = backends.iter().find(|backend| backend["name"] == "pool");
    pool.expect("the volume is a backend")["trouble"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn fio_finds_what_it_wrote_all_servers_fill_alike_and_a_restart_finds_it_again() {
    needs!("nbdkit", "fio");
    let scratch = Scratch::new();
    let servers = memory_servers(&scratch, "32M");
    let mut gate = Gate::start(&scratch, &policy_over(&servers, ""));
    let target = gate.plain("disk");
    let mut client = opened(&target);
    assert_eq!(client.read(0, 4096).unwrap(), vec![0; 4096], "nobody wrote there");
    let arguments = fio_verify(&target, &(96_u64 << 20).to_string());
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    run(scratch.path(), "fio", &arguments);
    let volume = volume(&gate);
    let used = |server: usize| volume["servers"][server]["used_slots"].as_u64().unwrap();
    let used = [0, 1, 2, 3].map(used);
    let (least, most) = (used.iter().min().unwrap(), used.iter().max().unwrap());
    assert!(most - least <= 20, "{used:?} of about 384 each");
    assert_eq!(volume["lost_objects"], 0);
    gate.kill_and_restart();
    drop(opened(&target));
    arguments.push("--verify_only");
    run(scratch.path(), "fio", &arguments);
}

#[test]
fn a_gate_killed_while_objects_are_placed_loses_nothing_acknowledged() {
    needs!("qemu-nbd");
    let scratch = Scratch::new();
    let servers = NAMES.map(|name| lasting_server(&scratch, name));
    kill_the_gate_under_writes(Gate::start(&scratch, &policy_over(&servers, "")), []);
}

#[test]
fn a_second_gate_is_refused_while_the_first_one_is_alive() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let servers = memory_servers(&scratch, "8M");
    let policy = policy_over(&servers, "");
    let first = Gate::start(&scratch, &policy);
    let mut client = opened(&first.plain("disk"));
    let other = Scratch::new();
    let unfenced = policy_over(&servers, "takeover = \"after 5 s, unfenced\"\n");
    let second = Gate::start(&other, &unfenced);
    wait_for("the second gate to give up", || {
        let trouble = trouble(&second);
        trouble.contains("uses the volume; stop that gate first").then_some(())
    });
    assert_eq!(client.write(0, &noise(1, 4096)), Ok(()), "the first one goes on");
    drop(first);
    let mut client = opened(&second.plain("disk"));
    assert_eq!(client.read(0, 4096).unwrap(), noise(1, 4096), "the second one takes over");
}

/// Where the owner of a volume says whether it has let go (docs/spread-volumes.md).
const LET_GO_OFFSET: u64 = 8192 + 72;

#[test]
fn a_gate_that_stops_lets_go_of_its_volume_so_that_the_next_one_need_not_watch() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let servers = memory_servers(&scratch, "8M");
    let mut gate = Gate::start(&scratch, &policy_over(&servers, ""));
    let mut client = opened(&gate.plain("disk"));
    assert_eq!(client.write(0, &noise(1, 4096)), Ok(()));
    let has_let_go = |server: &Server| opened(&server.target).read(LET_GO_OFFSET, 1).unwrap();
    assert_eq!(has_let_go(&servers[0]), [0], "it is in use");
    drop(client);
    assert!(gate.stop().success());
    for server in &servers {
        assert_eq!(has_let_go(server), [1]);
    }
    let gate = Gate::start(&scratch, &policy_over(&servers, ""));
    assert_eq!(opened(&gate.plain("disk")).read(0, 4096).unwrap(), noise(1, 4096));
}

#[test]
fn a_lost_server_costs_its_own_objects_and_no_others_and_nothing_silently() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let mut servers: Vec<Server> = NAMES.map(|name| file_server(&scratch, name)).into();
    let gate = Gate::start(&scratch, &policy_over(&servers, ""));
    let mut client = opened(&gate.plain("disk"));
    for object in 0..40 {
        assert_eq!(client.write(object * OBJECT_BYTES, &noise(object, 4096)), Ok(()));
    }
    let there = volume(&gate)["servers"][1]["used_slots"].as_u64().unwrap();
    kill(&mut servers[1]);
    let mut failed = 0;
    for object in 0..40 {
        match client.read(object * OBJECT_BYTES, 4096) {
            Ok(bytes) => assert_eq!(bytes, noise(object, 4096)),
            Err(errno) => {
                assert_eq!(errno, FAILED);
                failed += 1;
            }
        }
    }
    assert_eq!(failed, there, "what the server held, and nothing else");
    servers[1] = file_server(&scratch, "s2");
    wait_for("the server's objects", || {
        (0..40).all(|object| client.read(object * OBJECT_BYTES, 4096).is_ok()).then_some(())
    });
}

#[test]
fn a_server_that_comes_back_with_older_content_is_never_read_from() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let mut servers: Vec<Server> = NAMES.map(|name| file_server(&scratch, name)).into();
    let mut gate = Gate::start(&scratch, &policy_over(&servers, ""));
    drop(opened(&gate.plain("disk")));
    let old = std::fs::read(file_of(&scratch, "s3")).expect("the server's file");
    gate.kill_and_restart();
    let mut client = opened(&gate.plain("disk"));
    assert_eq!(client.write(0, &noise(1, 4096)), Ok(()));
    kill(&mut servers[2]);
    std::fs::write(file_of(&scratch, "s3"), &old).expect("put it back");
    servers[2] = file_server(&scratch, "s3");
    wait_for("the gate to notice", || {
        (volume(&gate)["servers"][2]["standing"] == "stale").then_some(())
    });
    gate.kill_and_restart();
    wait_for("the gate to refuse it", || {
        trouble(&gate).contains("server \"s3\": it is an older copy").then_some(())
    });
}

#[test]
fn at_the_ceiling_there_is_no_space_and_what_was_written_is_served() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let servers = memory_servers(&scratch, "8M");
    let policy = policy_over(&servers, "ceiling = 0.25\n");
    let gate = Gate::start(&scratch, &policy);
    let mut client = opened(&gate.plain("disk"));
    let write =
        |client: &mut Client, object| client.write(object * OBJECT_BYTES, &noise(object, 4096));
    let outcomes: Vec<_> = (0..300).map(|object| write(&mut client, object)).collect();
    let full = outcomes.iter().filter(|outcome| **outcome == Err(NO_SPACE)).count();
    assert!(full > 100 && outcomes[0] == Ok(()), "{full} of 300 found no room");
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(()) | Err(NO_SPACE))));
    assert_eq!(write(&mut client, 0), Ok(()));
    let warnings = volume(&gate)["warnings"].as_array().unwrap().len();
    assert_eq!(warnings, 4, "all servers are at their ceiling");
    gate.reload(&policy.replace("0.25", "0.9"));
    assert_eq!(write(&mut client, 299), Ok(()), "a higher ceiling holds at once");
}

#[test]
fn trims_of_whole_objects_make_room_again_and_stay_through_a_kill() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let servers = memory_servers(&scratch, "8M");
    let mut gate = Gate::start(&scratch, &policy_over(&servers, "ceiling = 0.25\n"));
    let mut client = opened(&gate.plain("disk"));
    let write =
        |client: &mut Client, object| client.write(object * OBJECT_BYTES, &noise(object, 4096));
    let written =
        (0..300).take_while(|object| write(&mut client, *object) == Ok(())).count() as u64;
    assert!(written > 60, "{written} objects");
    let half = written / 2;
    let bytes = u32::try_from(half * OBJECT_BYTES).expect("a few MiB");
    assert_eq!(client.trim(0, bytes), Ok(()));
    let status = volume(&gate);
    assert_eq!(
        (&status["freed_objects"], &status["placed_objects"]),
        (&half.into(), &(written - half).into())
    );
    let fits = |object: &u64| write(&mut client, 300 + *object) == Ok(());
    let again = (0..half).take_while(fits).count() as u64;
    assert!(again > half * 3 / 4, "{again} of {half} find room again");
    gate.kill_and_restart();
    let mut client = opened(&gate.plain("disk"));
    assert_eq!(client.read(0, 4096).unwrap(), vec![0; 4096], "it was given up");
    let last = written - 1;
    assert_eq!(client.read(last * OBJECT_BYTES, 4096).unwrap(), noise(last, 4096));
    assert_eq!(client.read(300 * OBJECT_BYTES, 4096).unwrap(), noise(300, 4096));
}

#[test]
fn a_slow_server_delays_its_own_objects_and_no_others() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let slow = ["--threads=16", "--filter=delay", "memory", "8M", "rdelay=1500ms"];
    let mut servers = memory_servers(&scratch, "8M");
    servers[1] = Server::nbdkit_named(&scratch, "slow", &slow);
    let gate = Gate::start(&scratch, &policy_over(&servers, ""));
    let mut client = wait_for("the volume to be open", || Client::try_open(&gate.plain("disk")));
    for object in 0..40 {
        assert_eq!(client.write(object * OBJECT_BYTES, &noise(object, 4096)), Ok(()));
    }
    let there = volume(&gate)["servers"][1]["used_slots"].as_u64().unwrap();
    assert!(there > 5 && there < 20, "{there} of 40 objects are on the slow server");
    let asked = Instant::now();
    for object in 0..40 {
        let offset = object * OBJECT_BYTES;
        client.ask(Request { command: READ, offset, length: 4096, ..Request::default() }, &[]);
    }
    let mut quick = 0;
    for _ in 0..40 {
        assert_eq!(client.simple_reply().0, 0);
        client.take(4096);
        quick += u64::from(asked.elapsed() < Duration::from_millis(1400));
    }
    assert_eq!(quick, 40 - there, "what lies elsewhere does not wait");
}
