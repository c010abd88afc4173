//! A volume that is not where it was: its pool is a copy under the same name, or the configuration
//! leads to another cluster. And one whose gate falls asleep while it shrinks.

use std::path::Path;

use evenkeel_io::rados::Pool;
use evenkeel_io::store::block_on;
use rustix::process::Signal;
use serde_json::json;

use super::{OBJECT_BYTES, Staged, opened, trouble, write};
use crate::harness::gate::Gate;
use crate::harness::nbd::Client;
use crate::harness::skip::needs;
use crate::harness::{Scratch, noise, wait_for};

/// Objects that are written first.
const OBJECTS: u64 = 16;

fn name_of(object: u64, position: u32) -> String {
    format!("db.{object:08x}.{position}")
}

/// Copies all that a volume has in a pool.
fn copy(from: &Pool, to: &Pool) {
    let own = ["db.head", "db.pages", "db.choices.00000000"].map(str::to_owned);
    let data = (0..OBJECTS).flat_map(|object| [0, 1].map(|at| name_of(object, at)));
    for object in own.into_iter().chain(data) {
        let read = block_on(from.read(&object, 0, vec![0; 1 << 20])).expect("a runtime");
        if let Ok((bytes, count)) = read {
            let written = block_on(to.write_full(&object, &bytes[..count]));
            written.expect("a runtime").expect("there is room");
        }
    }
}

/// Waits for a question, gives the word, and returns a client of the volume that is then open.
fn claimed(gate: &Gate, question: &str) -> Client {
    wait_for("the question", || trouble(gate).contains(question).then_some(()));
    assert!(Client::try_open(&gate.plain("disk")).is_none());
    gate.ctl(&["claim", "db"]);
    opened(&gate.plain("disk"))
}

#[test]
fn a_pool_that_is_a_copy_under_the_same_name_is_opened_at_a_word_alone() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd");
    let staged = Staged::new(256);
    let scratch = Scratch::new();
    let mut gate = Gate::start(&scratch, &staged.policy("size = \"64 MiB\""));
    let mut client = opened(&gate.plain("disk"));
    (0..OBJECTS).for_each(|object| assert_eq!(write(&mut client, object), Ok(())));
    drop(client);
    assert!(gate.stop().success());
    let other = staged.ceph.make_pool("copy", 32, 1).expect("a pool");
    copy(&staged.pool, &other);
    for (from, to) in [("objects", "before"), ("copy", "objects")] {
        staged.ask(&json!({"prefix": "osd pool rename", "srcpool": from, "destpool": to}));
    }
    let gate = Gate::start(&scratch, &staged.policy("size = \"64 MiB\""));
    let (number, before) = (other.id(), staged.pool.id());
    let question = format!("was made anew (number {number}): the volume was in number {before}");
    let mut client = claimed(&gate, &question);
    for object in 0..OBJECTS {
        assert_eq!(client.read(object * OBJECT_BYTES, 4096), Ok(noise(object, 4096)));
    }
}

fn lead(link: &Path, staged: &Staged) {
    let _ = std::fs::remove_file(link);
    std::os::unix::fs::symlink(staged.ceph.conf(), link).expect("a link");
}

#[test]
fn another_cluster_behind_the_same_configuration_is_named_and_nothing_is_made_there() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd");
    let [first, second] = [Staged::new(64), Staged::new(64)];
    let scratch = Scratch::new();
    let link = scratch.join("ceph.conf");
    let policy = first.policy("size = \"16 MiB\"");
    let conf = first.ceph.conf().display().to_string();
    let policy = policy.replace(&conf, &link.display().to_string());
    lead(&link, &first);
    let mut gate = Gate::start(&scratch, &policy);
    assert_eq!(write(&mut opened(&gate.plain("disk")), 1), Ok(()));
    assert!(gate.stop().success());
    lead(&link, &second);
    let mut gate = Gate::start(&scratch, &policy);
    wait_for("the gate to say so", || trouble(&gate).contains("another cluster").then_some(()));
    assert!(Client::try_open(&gate.plain("disk")).is_none());
    assert!(!second.has("db.head"), "nothing is made there");
    assert!(gate.stop().success());
    lead(&link, &first);
    let gate = Gate::start(&scratch, &policy);
    let mut client = opened(&gate.plain("disk"));
    assert_eq!(client.read(OBJECT_BYTES, 4096), Ok(noise(1, 4096)), "nobody had to say anything");
}

/// Objects that hold zeroes beyond the end that the volume is to get.
const BEYOND: std::ops::Range<u64> = 100..1600;

#[test]
fn a_gate_that_falls_asleep_while_its_volume_shrinks_takes_nothing_from_the_next_one() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd");
    let staged = Staged::new(1024);
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let policy = staged.policy("size = \"2 GiB\"");
    let first = Gate::start(&scratch, &policy);
    let mut client = opened(&first.plain("disk"));
    for object in BEYOND {
        assert_eq!(client.write(object * OBJECT_BYTES, &[0; 512]), Ok(()));
    }
    let is_there = |object: u64| (0..2).any(|at| staged.has(&name_of(object, at)));
    std::thread::scope(|scope| {
        let shrinking = scope.spawn(|| first.try_ctl(&["export", "resize", "disk", "100 MiB"]));
        wait_for("the first objects to be removed", || {
            BEYOND.take(64).any(|object| !is_there(object)).then_some(())
        });
        first.process.signal(Signal::STOP);
        let left = BEYOND.filter(|object| is_there(*object)).count();
        println!("{left} of {} objects are left", BEYOND.count());
        let second = Gate::start(&other, &policy);
        let mut client = opened(&second.plain("disk"));
        let newer = |object: u64| noise(object, 4096);
        for object in BEYOND {
            assert_eq!(client.write(object * OBJECT_BYTES, &newer(object)), Ok(()));
        }
        first.process.signal(Signal::CONT);
        let (status, said) = shrinking.join().expect("it is answered");
        assert!(!status.success(), "{said}");
        for object in BEYOND {
            let read = client.read(object * OBJECT_BYTES, 4096);
            assert!(read == Ok(newer(object)), "object {object}: {:?}", read.map(|_| "other data"));
        }
        assert_eq!(Client::greet(&second.plain("disk").address).go("disk").size_bytes, 2 << 30);
    });
}
