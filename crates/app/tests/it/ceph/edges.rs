//! At the edges of a pool: at its quota, deleted, made anew under its name; a head that is lost; a
//! manager that has just started. What clients see, and what operators read.

use std::time::{Duration, Instant};

use evenkeel_io::store::block_on;
use serde_json::json;

use super::{CephOptions, FAILED, NO_SPACE, OBJECT_BYTES, Staged, backend, opened, trouble, write};
use crate::harness::gate::Gate;
use crate::harness::nbd::Client;
use crate::harness::skip::needs;
use crate::harness::{Scratch, noise, wait_for};

/// Objects that are written first.
const OBJECTS: u64 = 16;

fn read(client: &mut Client, object: u64) -> Result<Vec<u8>, u32> {
    client.read(object * OBJECT_BYTES, 4096)
}

/// A gate with a volume of so much, of which the first objects are written.
fn written(staged: &Staged, scratch: &Scratch, size: &str) -> (Gate, Client) {
    let gate = Gate::start(scratch, &staged.policy(&format!("size = \"{size}\"")));
    let mut client = opened(&gate.plain("disk"));
    (0..OBJECTS).for_each(|object| assert_eq!(write(&mut client, object), Ok(())));
    (gate, client)
}

fn set_quota(staged: &Staged, bytes: u64) {
    staged.ask(&json!({
        "prefix": "osd pool set-quota", "pool": "objects", "field": "max_bytes",
        "val": bytes.to_string(),
    }));
}

/// Writes whole objects until there is no room; how many.
fn fill(client: &mut Client, first: u64) -> u64 {
    let deadline = Instant::now() + Duration::from_mins(1);
    for object in first.. {
        match client.write(object * OBJECT_BYTES, &noise(object, 1 << 20)) {
            Ok(()) => assert!(Instant::now() < deadline, "the quota is not in force"),
            Err(errno) => {
                assert_eq!(errno, NO_SPACE);
                return object;
            }
        }
        // The monitors hear of what was written now and then.
        std::thread::sleep(Duration::from_millis(50));
    }
    unreachable!("the volume ends before")
}

#[test]
fn a_pool_at_its_quota_stops_what_needs_room_and_nothing_else() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd");
    let staged = Staged::new(1024);
    let scratch = Scratch::new();
    let (mut gate, mut client) = written(&staged, &scratch, "2 GiB");
    set_quota(&staged, 24 << 20);
    let end = fill(&mut client, OBJECTS);
    wait_for("the quota to be named", || {
        trouble(&gate).contains("has reached its quota (24 MiB)").then_some(())
    });
    // For longer than a lock lasts.
    let until = Instant::now() + Duration::from_secs(8);
    while Instant::now() < until {
        goes_on(&mut client, end);
        std::thread::sleep(Duration::from_millis(100));
    }
    let said = gate.process.log();
    assert_eq!(said.matches("the pool is full").count(), 1, "{said}");
    assert!(!said.contains("lock"), "{said}");
    gate.kill_and_restart();
    let mut client = opened(&gate.plain("disk"));
    goes_on(&mut client, end);
    drop(client);
    assert!(gate.stop().success());
    let gate = Gate::start(&scratch, &staged.policy("size = \"2 GiB\""));
    let mut client = opened(&gate.plain("disk"));
    goes_on(&mut client, end);
    // Room can be made from here.
    for object in OBJECTS..end {
        assert_eq!(client.trim(object * OBJECT_BYTES, 1 << 20), Ok(()), "object {object}");
    }
    wait_for("room", || write(&mut client, end + 1).is_ok().then_some(()));
    wait_for("the gate to know", || trouble(&gate).is_empty().then_some(()));
}

/// Size of each OSD that is filled, and the part of it at which it counts as full.
const FILLED_OSD_MIB: u64 = 96;
const FULL_PART: f64 = 0.3;
/// Objects of 1 MiB that fill at least one of the three OSDs: 40 % of all their room. The fullest
/// has little more than half, far from the 82 % at which an OSD, to save itself, does nothing for
/// anybody any more, however late the monitors hear that it is full.
const FILLING: u64 = 116;

/// Fills the OSDs with objects of others, until one counts as full; their names.
fn fill_osds(staged: &Staged) -> Vec<String> {
    let is_full = || {
        let status = staged.pool.cluster().pool_status(staged.pool.id()).expect("it is there");
        status.full.is_some()
    };
    let mut written = Vec::new();
    for name in (0..FILLING).map(|number| format!("others.{number}")) {
        if is_full() {
            break;
        }
        let outcome = block_on(staged.pool.write_full(&name, &noise(1, 1 << 20)));
        if outcome.expect("a runtime").is_ok() {
            written.push(name);
        }
    }
    wait_for("an OSD to count as full", || is_full().then_some(()));
    written
}

#[test]
fn a_full_osd_stops_what_needs_room_and_nothing_else() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd");
    let options = CephOptions { full_part: FULL_PART, ..Staged::options(FILLED_OSD_MIB) };
    let staged = Staged::with(options, 1);
    let scratch = Scratch::new();
    let (mut gate, mut client) = written(&staged, &scratch, "64 MiB");
    let names = fill_osds(&staged);
    wait_for("the full OSD to be named", || {
        trouble(&gate).contains("is full, since osd.").then_some(())
    });
    let until = Instant::now() + Duration::from_secs(8);
    while Instant::now() < until {
        goes_on(&mut client, OBJECTS);
        std::thread::sleep(Duration::from_millis(100));
    }
    gate.kill_and_restart();
    let mut client = opened(&gate.plain("disk"));
    goes_on(&mut client, OBJECTS);
    for name in names {
        block_on(staged.pool.remove(&name)).expect("a runtime").expect("it is there");
    }
    wait_for("room", || write(&mut client, OBJECTS + 1).is_ok().then_some(()));
}

/// Reads, and writes to what is there.
fn goes_on(client: &mut Client, end: u64) {
    for object in [0, OBJECTS - 1] {
        assert_eq!(read(client, object), Ok(noise(object, 4096)));
        assert_eq!(write(client, object), Ok(()), "object {object} takes no more room");
    }
    assert_eq!(client.write((end + 1) * OBJECT_BYTES, &noise(1, 4096)), Err(NO_SPACE));
}

fn delete_pool(staged: &Staged) {
    staged.ask(&json!({
        "prefix": "osd pool delete", "pool": "objects", "pool2": "objects",
        "yes_i_really_really_mean_it": true,
    }));
}

#[test]
fn of_a_pool_that_is_deleted_no_written_byte_reads_as_zero() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd");
    let staged = Staged::new(256);
    let scratch = Scratch::new();
    let (mut gate, mut client) = written(&staged, &scratch, "64 MiB");
    let number = staged.pool.id();
    delete_pool(&staged);
    read_until_it_fails(&gate, &mut client);
    let deleted = format!("was in number {number}, which was deleted");
    wait_for("the gate to say so", || trouble(&gate).contains(&deleted).then_some(()));
    let log = gate.process.log();
    let became = format!("(number {number}) was deleted");
    assert!(log.contains(&became), "{log}");
    let anew = staged.ceph.make_pool("objects", 32, 1).expect("a pool");
    let question =
        format!("was made anew (number {}): the volume was in number {number}", anew.id());
    for _ in 0..2 {
        wait_for("the new pool to be told", || trouble(&gate).contains(&question).then_some(()));
        assert!(Client::try_open(&gate.plain("disk")).is_none());
        let head = block_on(anew.size_of("db.head")).expect("a runtime");
        assert!(head.is_err_and(|error| error.is_missing()), "nothing is made there");
        gate.kill_and_restart();
    }
    wait_for("the question", || trouble(&gate).contains(&question).then_some(()));
    gate.ctl(&["claim", "db"]);
    let mut client = opened(&gate.plain("disk"));
    assert_eq!(read(&mut client, 1), Ok(vec![0; 4096]), "a new volume");
    assert_eq!(write(&mut client, 1), Ok(()));
    gate.kill_and_restart();
    let mut client = opened(&gate.plain("disk"));
    assert_eq!(read(&mut client, 1), Ok(noise(1, 4096)));
}

/// Reads what was written, until the volume is not there any more. Never zeroes.
fn read_until_it_fails(gate: &Gate, client: &mut Client) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut reads = 0;
    while Instant::now() < deadline && backend(gate, "db")["up"] == true {
        for object in 0..OBJECTS {
            match client.read_if_there(object * OBJECT_BYTES, 4096) {
                None => return,
                Some(Ok(data)) => assert!(data == noise(object, 4096), "after {reads} reads"),
                Some(Err(errno)) => assert_eq!(errno, FAILED),
            }
            reads += 1;
        }
    }
    assert!(Instant::now() < deadline, "the gate does not notice");
}

#[test]
fn a_head_that_is_lost_is_named_and_nothing_is_made_in_its_place() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd");
    let staged = Staged::new(256);
    let scratch = Scratch::new();
    let (mut gate, _client) = written(&staged, &scratch, "64 MiB");
    let head = staged.head();
    block_on(staged.pool.remove("db.head")).expect("a runtime").expect("it was there");
    let gone = "object \"db.head\" is gone from pool \"objects\"; restore it";
    wait_for("the gate to say so", || trouble(&gate).contains(gone).then_some(()));
    gate.kill_and_restart();
    wait_for("the gate to say so again", || trouble(&gate).contains(gone).then_some(()));
    assert!(!staged.has("db.head"), "nothing is made there");
    assert!(!gate.try_ctl(&["claim", "db"]).0.success(), "there is nothing to give a word on");
    block_on(staged.pool.write_full("db.head", head.as_bytes())).expect("a runtime").expect("room");
    let mut client = opened(&gate.plain("disk"));
    for object in 0..OBJECTS {
        assert_eq!(read(&mut client, object), Ok(noise(object, 4096)));
    }
}

#[test]
fn a_manager_that_has_just_started_is_no_reason_for_an_alarm() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd");
    let mut staged = Staged::new(256);
    let scratch = Scratch::new();
    let gate = Gate::start(&scratch, &staged.policy("size = \"64 MiB\""));
    let mut client = opened(&gate.plain("disk"));
    staged.ceph.restart_manager().expect("it starts");
    let begin = Instant::now();
    let mut longest = Duration::ZERO;
    let mut object = 0;
    // The figures of OSDs take a while to be told to another manager.
    while begin.elapsed() < Duration::from_secs(20) {
        let asked = Instant::now();
        assert_eq!(write(&mut client, object % 60), Ok(()));
        longest = longest.max(asked.elapsed());
        object += 1;
        let told = &backend(&gate, "db")["pool"]["unserved_groups"];
        assert_eq!(told, 0, "after {:?}: {}", begin.elapsed(), trouble(&gate));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    assert!(!gate.process.log().contains("not all is served"), "{}", gate.process.log());
}
