//! A volume in a pool of a real Ceph stays one disk to its clients: when the gate is killed, when
//! it was asleep, and when the room is used up. `changes` is what the cluster goes through, `edges`
//! a pool that is full or deleted, `moved` one that is another, `sizes` how volumes open and grow,
//! `faults` what fails in it, `auth` who is let in, `fencing` who may write once another gate wants
//! the volume.
//!
//! Each test has a cluster of its own, of a few OSDs in memory.

mod auth;
mod changes;
mod edges;
mod faults;
mod fencing;
mod moved;
mod sizes;

use evenkeel_app::stage::{CephCluster, CephOptions, Stage};
use evenkeel_io::rados::{Pool, Whom};
use evenkeel_io::store::block_on;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::client::fio_verify;
use crate::harness::gate::Gate;
use crate::harness::nbd::Client;
use crate::harness::process::run;
use crate::harness::skip::needs;
use crate::harness::target::Target;
use crate::harness::{Scratch, noise, wait_for};

const OBJECT_BYTES: u64 = 1 << 20;
/// `NBD_ENOSPC` and `NBD_EIO`.
const NO_SPACE: u32 = 28;
const FAILED: u32 = 5;

/// A running Ceph with a pool.
struct Staged {
    pool: Pool,
    ceph: CephCluster,
    _stage: Stage,
}

impl Staged {
    /// Three OSDs of this size; the pool keeps one copy.
    fn new(osd_mib: u64) -> Self {
        Self::with(Self::options(osd_mib), 1)
    }

    fn options(osd_mib: u64) -> CephOptions {
        CephOptions {
            osds: 3,
            osd_bytes: osd_mib << 20,
            full_part: 0.95,
            cephx: false,
            grace_seconds: 20,
        }
    }

    fn with(options: CephOptions, copies: u32) -> Self {
        let stage = Stage::new().expect("a stage");
        let ceph = CephCluster::start(&stage, "ceph", &options).expect("Ceph starts");
        let pool = ceph.make_pool("objects", 32, copies).expect("a pool");
        Self { pool, ceph, _stage: stage }
    }

    fn policy(&self, more: &str) -> String {
        self.volume("db", "disk", &format!("pool = \"objects\"\n{more}"))
    }

    /// A volume with an export of its own.
    fn volume(&self, name: &str, export: &str, more: &str) -> String {
        format!(
            "[[backend]]\nname = \"{name}\"\nceph = \"{}\"\nobject = \"1 MiB\"\n{more}\n\
             [[export]]\nname = \"{export}\"\nbackend = \"{name}\"\n",
            self.ceph.conf().display()
        )
    }

    /// Asks the monitors for something.
    fn ask(&self, command: &Value) -> Value {
        self.ceph.ask(Whom::Monitor, command).expect("the monitors answer")
    }

    /// Whether the pool has an object.
    fn has(&self, object: &str) -> bool {
        block_on(self.pool.size_of(object)).expect("a runtime").is_ok()
    }

    /// The text of the volume's head.
    fn head(&self) -> String {
        let read = block_on(self.pool.read("db.head", 0, vec![0; 4096])).expect("a runtime");
        let (bytes, count) = read.expect("the volume has a head");
        String::from_utf8(bytes[..count].to_vec()).expect("heads are text")
    }
}

fn opened(target: &Target) -> Client {
    wait_for("the volume to be open", || Client::try_open(target))
}

fn trouble(gate: &Gate) -> String {
    trouble_of(gate, "db")
}

/// What the status says of a backend.
fn backend(gate: &Gate, name: &str) -> Value {
    let status = gate.status();
    let backends = status["backends"].as_array().expect("backends");
    backends.iter().find(|one| one["name"] == name).expect("the policy has it").clone()
}

fn trouble_of(gate: &Gate, name: &str) -> String {
    backend(gate, name)["trouble"].as_str().unwrap_or_default().to_owned()
}

fn write(client: &mut Client, object: u64) -> Result<(), u32> {
    client.write(object * OBJECT_BYTES, &noise(object, 4096))
}

#[test]
fn fio_finds_what_it_wrote_in_ceph_also_after_the_gate_was_killed() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd", "fio");
    let staged = Staged::new(256);
    let scratch = Scratch::new();
    let mut gate = Gate::start(&scratch, &staged.policy("size = \"256 MiB\""));
    let target = gate.plain("disk");
    let mut client = opened(&target);
    assert_eq!(client.read(0, 4096).unwrap(), vec![0; 4096], "nobody wrote there");
    let arguments = fio_verify(&target, &(64_u64 << 20).to_string());
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    run(scratch.path(), "fio", &arguments);
    let (first, last) = (200 * OBJECT_BYTES, 201 * OBJECT_BYTES - 4096);
    assert_eq!(client.write(last, &noise(7, 8192)), Ok(()), "over the bound of two objects");
    gate.kill_and_restart();
    let mut client = opened(&target);
    assert_eq!(client.read(last, 8192).unwrap(), noise(7, 8192));
    assert_eq!(client.read(first, 4096).unwrap(), vec![0; 4096], "of a written object");
    arguments.push("--verify_only");
    run(scratch.path(), "fio", &arguments);
    drop(client);
    assert!(staged.head().contains("owner "), "{}", staged.head());
    assert!(gate.stop().success());
    assert!(!staged.head().contains("owner "), "it was let go of: {}", staged.head());
}

#[test]
fn a_gate_that_slept_longer_than_its_lock_in_ceph_goes_on_if_nobody_came() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd");
    let staged = Staged::new(64);
    let scratch = Scratch::new();
    let gate = Gate::start(&scratch, &staged.policy("size = \"16 MiB\""));
    let mut client = opened(&gate.plain("disk"));
    assert_eq!(write(&mut client, 1), Ok(()));
    gate.process.signal(Signal::STOP);
    wait_for("the lock to end", || {
        let locker = staged.pool.locker("db.head").expect("the cluster answers");
        locker.is_none().then_some(())
    });
    gate.process.signal(Signal::CONT);
    assert_eq!(write(&mut client, 2), Ok(()));
    assert_eq!(client.read(OBJECT_BYTES, 4096).unwrap(), noise(1, 4096));
    // Nor does anybody come if somebody blocklists it by mistake.
    let head = staged.head();
    let owner = head.lines().find_map(|line| line.strip_prefix("owner ")).expect("it has one");
    let address = owner.split(' ').next().expect("an owner has an address");
    staged.ask(&json!({"prefix": "osd blocklist", "blocklistop": "add", "addr": address}));
    assert!(client.is_hung_up());
    let mut client = opened(&gate.plain("disk"));
    assert_eq!(client.read(2 * OBJECT_BYTES, 4096).unwrap(), noise(2, 4096));
    assert_eq!(write(&mut client, 3), Ok(()));
    assert!(staged.head().contains("former "), "{}", staged.head());
}

#[test]
fn at_the_ceiling_a_volume_in_ceph_has_no_space_and_no_osd_is_full() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd");
    let staged = Staged::new(48);
    let scratch = Scratch::new();
    let gate = Gate::start(&scratch, &staged.policy("size = \"256 MiB\"\nceiling = 0.8"));
    let mut client = opened(&gate.plain("disk"));
    let whole = |client: &mut Client, object: u64| {
        client.write(object * OBJECT_BYTES, &noise(object, 1 << 20))
    };
    let outcomes: Vec<_> = (0..150).map(|object| whole(&mut client, object)).collect();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(()) | Err(NO_SPACE))));
    let placed = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert!((100..=115).contains(&placed), "{placed} of 115 MiB");
    assert_eq!(whole(&mut client, 0), Ok(()), "what is there is served");
    wait_for("the gate to warn", || trouble(&gate).contains("add OSDs").then_some(()));
    let status = staged.pool.cluster().pool_status(staged.pool.id()).expect("the pool is there");
    assert_eq!(status.full(), []);
    let told = &backend(&gate, "db")["pool"];
    assert_eq!((&told["osds_all"], &told["unserved_groups"]), (&3.into(), &0.into()), "{told}");
    assert!(told["fullest"].as_f64().is_some_and(|part| (0.7..0.82).contains(&part)), "{told}");
    let said = gate.ctl(&["status"]);
    assert!(said.contains("osd.2") && said.contains("objects placed"), "{said}");
    for one in staged.pool.cluster().osd_uses().expect("the manager tells") {
        let part = one.used_bytes as f64 / one.capacity_bytes as f64;
        assert!(part < 0.82, "{one:?}");
    }
    let (status, said) = gate.reload(&staged.policy("size = \"256 MiB\"\nceiling = 0.9"));
    assert!(status.success(), "{said}");
    assert_eq!(whole(&mut client, 149), Ok(()), "a higher ceiling holds at once");
}

#[test]
fn a_lost_page_of_the_choices_is_made_anew_from_what_is_in_the_pool() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd");
    let staged = Staged::new(64);
    let scratch = Scratch::new();
    let mut gate = Gate::start(&scratch, &staged.policy("size = \"32 MiB\""));
    let mut client = opened(&gate.plain("disk"));
    (0..30).for_each(|object| assert_eq!(write(&mut client, object), Ok(())));
    drop(client);
    assert!(gate.stop().success());
    block_on(staged.pool.remove("db.choices.00000000")).expect("a runtime").expect("it was there");
    let gate = Gate::start(&scratch, &staged.policy("size = \"32 MiB\""));
    let mut client = opened(&gate.plain("disk"));
    for object in 0..30 {
        assert_eq!(client.read(object * OBJECT_BYTES, 4096).unwrap(), noise(object, 4096));
    }
    assert_eq!(client.read(31 * OBJECT_BYTES, 4096).unwrap(), vec![0; 4096]);
}
