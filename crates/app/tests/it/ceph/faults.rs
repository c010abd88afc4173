//! What fails in a cluster fails in bounded time and by name, and the rest goes on: the monitor is
//! away, an OSD is silent or dead, the OSD with the lock is.
//!
//! One gate has two volumes in one cluster: `db` with two copies, `one` with one.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{CephOptions, FAILED, NO_SPACE, OBJECT_BYTES, Staged, opened, trouble_of, write};
use crate::harness::gate::Gate;
use crate::harness::nbd::Client;
use crate::harness::skip::needs;
use crate::harness::{Scratch, noise, wait_for};

const PATIENCE: Duration = Duration::from_secs(3);

/// Objects of each volume that are written at first.
const OBJECTS: u64 = 20;

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = Instant::now();
    (work(), begin.elapsed())
}

fn read(client: &mut Client, object: u64) -> Result<Vec<u8>, u32> {
    client.read(object * OBJECT_BYTES, 4096)
}

/// Where the cluster keeps an object of the volume with one copy.
fn osd_of(staged: &Staged, object: &str) -> u32 {
    let place = staged.ceph.place_of("single", object).expect("the monitors tell");
    u32::try_from(place["acting_primary"].as_u64().expect("somebody acts")).expect("a number")
}

#[test]
fn what_fails_in_a_cluster_fails_in_bounded_time_and_by_name() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd");
    let mut staged = Staged::with(CephOptions { grace_seconds: 4, ..Staged::options(256) }, 2);
    staged.ceph.make_pool("single", 32, 1).expect("a pool");
    let more =
        |pool: &str| format!("pool = \"{pool}\"\nsize = \"128 MiB\"\npatience = \"{PATIENCE:?}\"");
    let policy = |one: &str, two: &str| {
        let db = staged.volume(one, "disk", &more("objects"));
        db + &staged.volume(two, "single", &more("single"))
    };
    let scratch = Scratch::new();
    let mut gate = Gate::start(&scratch, &policy("db", "one"));
    let mut db = opened(&gate.plain("disk"));
    let mut one = opened(&gate.plain("single"));
    for object in 0..OBJECTS {
        assert_eq!((write(&mut db, object), write(&mut one, object)), (Ok(()), Ok(())));
    }
    let other = policy("db2", "one2");
    without_a_monitor(&staged, &other, [&mut db, &mut one]);
    without_an_osd(&mut staged, &gate, [&mut db, &mut one]);
    without_the_lock(&mut staged, &gate, [&mut db, &mut one]);
    // Two of three OSDs are left, and stop as well.
    (0..3).for_each(|osd| staged.ceph.signal_osd(osd, Signal::STOP));
    drop((db, one));
    let (status, took) = timed(|| gate.stop());
    assert!(status.success() && took < Duration::from_secs(15), "{status} after {took:?}");
}

/// I/O goes on for longer than a lock lasts; whoever opens a volume is told in bounded time.
fn without_a_monitor(staged: &Staged, other: &str, mut clients: [&mut Client; 2]) {
    let begin = Instant::now();
    staged.ceph.signal_monitor(Signal::STOP);
    let scratch = Scratch::new();
    let late = Gate::start(&scratch, other);
    let mut count = 0;
    let mut said = String::new();
    while begin.elapsed() < Duration::from_secs(7) {
        let object = OBJECTS + count % 5;
        for client in &mut clients {
            let (outcome, took) = timed(|| (write(client, object), read(client, count % OBJECTS)));
            assert_eq!(outcome, (Ok(()), Ok(noise(count % OBJECTS, 4096))));
            assert!(took < Duration::from_secs(2), "{took:?}");
        }
        if said.is_empty() && trouble_of(&late, "db2").contains("no monitor answered within 3s") {
            let of_other = trouble_of(&late, "one2");
            // It may still be about to give up.
            said = if of_other.contains("it is being opened") { said } else { of_other };
        }
        count += 1;
    }
    assert!(said.contains("cannot connect to the cluster of"), "{said:?}");
    staged.ceph.signal_monitor(Signal::CONT);
    opened(&late.plain("disk"));
}

/// With two copies all goes on; with one, what lay there fails in time, and is there again later.
fn without_an_osd(staged: &mut Staged, gate: &Gate, [db, one]: [&mut Client; 2]) {
    let kept = ["one.head", "one.choices.00000000"].map(|object| osd_of(staged, object));
    let dead = (0..3).find(|osd| !kept.contains(osd)).expect("there are three");
    staged.ceph.signal_osd(dead, Signal::STOP);
    wait_for("the gate to know of it", || {
        let said = trouble_of(gate, "one");
        said.contains(&format!("not served, osd.{dead} is down")).then_some(())
    });
    goes_on(staged, db);
    assert_eq!(write(db, OBJECTS + 10), Ok(()));
    let mut lost = 0;
    for object in 0..OBJECTS {
        match timed(|| read(one, object)) {
            (Ok(data), _) => assert!(data == noise(object, 4096), "object {object}"),
            (Err(errno), took) => {
                lost += 1;
                assert_eq!(errno, FAILED, "object {object}");
                assert!(took < PATIENCE + Duration::from_secs(1), "{took:?}");
            }
        }
        // Each takes its time, and others would fail alike.
        if lost == 2 {
            break;
        }
    }
    assert_eq!(lost, 2, "some of {OBJECTS} objects are on osd.{dead}");
    let log = gate.process.log();
    let named = format!("on osd.{dead}, which is down");
    assert!(log.contains(&named) && log.contains("no answer within 3s"), "{log}");
    // Most new objects have a name elsewhere; none is told that the disk is full.
    let outcomes: Vec<_> =
        (OBJECTS + 11..OBJECTS + 17).map(|object| timed(|| write(one, object))).collect();
    let placed = outcomes.iter().filter(|(outcome, _)| outcome.is_ok()).count();
    assert!(placed >= 3, "{outcomes:?}");
    assert!(outcomes.iter().all(|(outcome, _)| *outcome != Err(NO_SPACE)), "{outcomes:?}");
    staged.ceph.signal_osd(dead, Signal::CONT);
    wait_for("all to be served again", || trouble_of(gate, "one").is_empty().then_some(()));
    for object in 0..OBJECTS {
        assert_eq!(read(one, object), Ok(noise(object, 4096)), "object {object}");
    }
    // It has missed what was written meanwhile; until it has that, the other copy is the only one.
    staged.ceph.wait_until_served(&staged.pool, 32).expect("Ceph copies what was missed");
}

/// An OSD dies for good, with the lock of the volume that has one copy: that one stands still, the
/// other goes on.
fn without_the_lock(staged: &mut Staged, gate: &Gate, [db, one]: [&mut Client; 2]) {
    let head = osd_of(staged, "one.head");
    staged.ceph.signal_osd(head, Signal::KILL);
    wait_for("the gate to be in doubt", || {
        trouble_of(gate, "one").contains("lock of the volume could not be renewed").then_some(())
    });
    let (outcome, took) = timed(|| read(one, 0));
    assert_eq!(outcome, Err(FAILED));
    assert!(took < PATIENCE + Duration::from_secs(1), "{took:?}");
    goes_on(staged, db);
}

/// Once the other copies have taken over, nothing is missed.
fn goes_on(staged: &Staged, client: &mut Client) {
    let is_served = || {
        let status = staged.pool.cluster().pool_status(staged.pool.id())?;
        Ok(status.groups.iter().all(|group| group.is_served))
    };
    staged.ceph.wait_until("the other copies serve", is_served).expect("they take over");
    for object in 0..OBJECTS {
        assert_eq!(read(client, object), Ok(noise(object, 4096)), "object {object}");
        assert_eq!(write(client, object), Ok(()), "object {object}");
    }
}
