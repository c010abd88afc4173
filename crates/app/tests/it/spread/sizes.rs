//! Volumes of any size: one opens in a time that grows with what was written, and a volume grows
//! and shrinks while clients use it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use evenkeel_core::prng::Prng;

use super::{NAMES, NO_SPACE, OBJECT_BYTES, lasting_server, opened, policy_over, trouble, volume};
use crate::harness::client::fio_verify;
use crate::harness::gate::Gate;
use crate::harness::nbd::{Client, Request, WRITE};
use crate::harness::openings::{self, OTHER_EXPORT, Opened, Opening, open_once};
use crate::harness::process::run;
use crate::harness::skip::needs;
use crate::harness::storage::Server;
use crate::harness::target::Target;
use crate::harness::{Scratch, noise, wait_for};

const MIB: u64 = 1 << 20;
/// `NBD_EINVAL`.
const INVALID: u32 = 22;

fn size_of(target: &Target) -> u64 {
    drop(opened(target));
    Client::greet(&target.address).go(&target.export).size_bytes
}

#[test]
fn a_volume_grows_and_shrinks_while_clients_use_it_and_the_gate_is_killed() {
    needs!("qemu-nbd", "fio");
    let scratch = Scratch::new();
    let servers = NAMES.map(|name| lasting_server(&scratch, name));
    let mut gate = Gate::start(&scratch, &policy_over(&servers, "size = \"4 MiB\"\n"));
    let target = gate.plain("disk");
    drop(opened(&target));
    let verified = std::thread::spawn({
        let (target, folder) = (target.clone(), Scratch::new());
        move || {
            let arguments = fio_verify(&target, &(3 * MIB).to_string());
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            run(folder.path(), "fio", &arguments);
        }
    });
    for size_mib in 5..=14_u64 {
        gate.ctl(&["export", "resize", "disk", &format!("{size_mib} MiB")]);
        assert_eq!(size_of(&target), size_mib * MIB);
        let (mut client, last) = (opened(&target), size_mib * MIB - 4096);
        assert_eq!(client.write(last, &noise(size_mib, 4096)), Ok(()));
        assert_eq!(client.read(last, 4096), Ok(noise(size_mib, 4096)));
    }
    verified.join().expect("fio finds what it wrote");
    assert!(gate.ctl(&["policy"]).contains("size = \"14 MiB\""));
    gate.kill_and_restart();
    assert_eq!(size_of(&target), 14 * MIB, "a volume never shrinks by itself");
    wait_for("the policy file to be named", || {
        trouble(&gate).contains("has 14 MiB, and the policy says 4 MiB").then_some(())
    });
    shrink(&gate, &target);
    gate.kill_and_restart();
    assert_eq!(size_of(&target), 6 * MIB);
    let (status, said) = gate.reload(&policy_over(&servers, "size = \"8 MiB\"\n"));
    assert!(status.success(), "{said}");
    wait_for("it to grow by the policy", || (size_of(&target) == 8 * MIB).then_some(()));
    let mut client = opened(&target);
    assert_eq!(client.read(6 * MIB, 4096), Ok(vec![0; 4096]), "nothing came back");
    // What it cannot be is named, and no reason not to serve it.
    let (status, said) = gate.reload(&policy_over(&servers, "size = \"1 TiB\"\n"));
    assert!(status.success(), "{said}");
    for _ in 0..2 {
        wait_for("the size to be named", || {
            trouble(&gate).contains("has 8 MiB, and the policy says 1 TiB").then_some(())
        });
        assert_eq!(size_of(&target), 8 * MIB);
        gate.kill_and_restart();
    }
}

/// From 14 MiB to 10, and to 6.
fn shrink(gate: &Gate, target: &Target) {
    let mut client = opened(target);
    let (status, said) = gate.try_ctl(&["export", "resize", "disk", "10 MiB"]);
    assert!(!status.success() && said.contains("there is data beyond that end, at"), "{said}");
    let (status, said) = gate.try_ctl(&["export", "resize", "disk", "1 TiB"]);
    assert!(!status.success() && said.contains("at most; copy it to a new one"), "{said}");
    assert_eq!(client.write(14 * MIB - 4096, &noise(2, 4096)), Ok(()), "all is as it was");
    for object in 6 * MIB / OBJECT_BYTES..14 * MIB / OBJECT_BYTES {
        assert_eq!(client.trim(object * OBJECT_BYTES, 64 << 10), Ok(()));
    }
    for size_mib in [10, 6] {
        gate.ctl(&["export", "resize", "disk", &format!("{size_mib} MiB")]);
        assert_eq!(size_of(target), size_mib * MIB);
        // This client came when the disk was larger.
        assert_eq!(client.write(size_mib * MIB, &noise(2, 4096)), Err(NO_SPACE));
        assert_eq!(client.read(size_mib * MIB, 4096), Err(INVALID));
        let last = size_mib * MIB - OBJECT_BYTES;
        assert_eq!(client.write(last, &noise(2, 4096)), Ok(()));
        assert_eq!(client.trim(last, 64 << 10), Ok(()));
    }
}

#[test]
fn a_volume_of_a_pebibyte_opens_at_once_and_takes_room_for_what_is_written() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let servers = NAMES.map(|name| Server::nbdkit_named(&scratch, name, &["memory", "250T"]));
    let policy = policy_over(&servers, "size = \"1000 TiB\"\n").replace("64 KiB", "4 MiB");
    let mut gate = Gate::start(&scratch, &policy);
    let begin = Instant::now();
    let mut client = opened(&gate.plain("disk"));
    assert!(begin.elapsed() < Duration::from_secs(10), "new: {:?}", begin.elapsed());
    let last = (1000 << 40) / (4 * MIB) - 1;
    let objects = [0, 1, last / 2, last];
    for object in objects {
        assert_eq!(client.write(object * 4 * MIB, &noise(object, 4096)), Ok(()));
    }
    drop(client);
    assert!(gate.stop().success());
    let gate = Gate::start(&scratch, &policy);
    let begin = Instant::now();
    let mut client = opened(&gate.plain("disk"));
    assert!(begin.elapsed() < Duration::from_secs(10), "again: {:?}", begin.elapsed());
    for object in objects {
        assert_eq!(client.read(object * 4 * MIB, 4096), Ok(noise(object, 4096)));
    }
    assert_eq!(client.read((last - 1) * 4 * MIB, 4096), Ok(vec![0; 4096]));
    assert_eq!(volume(&gate)["placed_objects"], 4);
    assert!(gate.resident_bytes() < 200 << 20, "{} bytes", gate.resident_bytes());
}

/// How long volumes of all sizes take to open on four servers, new, and again with and without a
/// million objects all over them. The long form, with `EVENKEEL_OPENINGS`, prints the table of
/// docs/benchmarks.md.
#[test]
fn how_long_volumes_take_to_open() {
    needs!("nbdkit", "taskset");
    for row in openings::rows() {
        openings::judge(row, open_twice(row));
    }
}

/// Opens a volume that is not there yet, and again with what is then written in it. The servers
/// have room for all of it; they keep it in memory, where zeroes take next to nothing.
fn open_twice(row: &Opening) -> [Opened; 2] {
    let scratch = Scratch::new();
    let each = (row.size_bytes / 4).min(255 << 40).to_string();
    let source = ["memory", &each, "allocator=zstd"];
    let servers = NAMES.map(|name| Server::nbdkit_without_log(&scratch, name, &source));
    let size = format!("size = \"{}\"\n", row.size);
    let policy = policy_over(&servers, &size).replace("64 KiB", "4 MiB");
    let policy = format!("{policy}{OTHER_EXPORT}");
    let new = open_once(&scratch, &policy);
    if row.objects > 0 {
        write_all_over(&scratch, &policy, row);
    }
    [new, open_once(&scratch, &policy)]
}

/// Writes to so many objects all over a volume, many at a time.
fn write_all_over(scratch: &Scratch, policy: &str, row: &Opening) {
    const AT_ONCE: usize = 512;
    let mut gate = Gate::start(scratch, policy);
    let mut client = opened(&gate.plain("disk"));
    let (mut prng, mut objects) = (Prng::new(row.objects), BTreeSet::new());
    while (objects.len() as u64) < row.objects {
        objects.insert(prng.below(row.size_bytes / (4 * MIB)));
    }
    let objects: Vec<u64> = objects.into_iter().collect();
    for some in objects.chunks(AT_ONCE) {
        for object in some {
            let request = Request {
                command: WRITE,
                offset: object * 4 * MIB,
                length: 512,
                ..Request::default()
            };
            client.ask(request, &[1; 512]);
        }
        for _ in some {
            assert_eq!(client.simple_reply().0, 0, "it has room");
        }
    }
    assert_eq!(client.flush(), Ok(()));
    assert_eq!(volume(&gate)["placed_objects"], row.objects);
    assert!(gate.stop().success());
}
