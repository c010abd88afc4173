//! A cluster changes under a volume, and nobody has to do anything: OSDs go out and come back, the
//! pool is split, an OSD joins.

use evenkeel_io::store::block_on;
use serde_json::json;

use super::{NO_SPACE, OBJECT_BYTES, Staged, opened, write};
use crate::harness::gate::Gate;
use crate::harness::nbd::Client;
use crate::harness::skip::needs;
use crate::harness::{Scratch, noise, wait_for};

/// Objects that are written before, in the middle of, and after each change.
const STEP: u64 = 5;

/// What happens to the cluster.
type Change = fn(&mut Staged);

/// A volume whose objects are written one after the other.
struct Written {
    count: u64,
    client: Client,
}

impl Written {
    fn more(&mut self) {
        for object in self.count..self.count + STEP {
            assert_eq!(write(&mut self.client, object), Ok(()), "object {object}");
        }
        self.count += STEP;
    }

    fn check(&mut self) {
        for object in 0..self.count {
            let read = self.client.read(object * OBJECT_BYTES, 4096);
            assert!(read == Ok(noise(object, 4096)), "object {object}");
        }
    }
}

/// The choice of each object as the pool holds it: 0 for none, else candidate + 1.
fn choices(staged: &Staged, objects: u64) -> Vec<u8> {
    let read = block_on(staged.pool.read("db.choices.00000000", 0, vec![0; 4032]));
    let (page, _) = read.expect("a runtime").expect("a page of choices");
    let all = page.iter().flat_map(|byte| (0..4).map(move |at| byte >> (at * 2) & 3));
    all.take(usize::try_from(objects).expect("a few")).collect()
}

#[test]
fn osds_out_in_and_new_and_a_split_pool_leave_every_object_under_its_name() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd");
    let mut staged = Staged::with(Staged::options(256), 2);
    // Or the groups of a split pool would move a few at a time.
    staged.ask(&json!({
        "prefix": "config set", "who": "mgr", "name": "target_max_misplaced_ratio", "value": "1",
    }));
    let scratch = Scratch::new();
    let mut gate = Gate::start(&scratch, &staged.policy("size = \"128 MiB\""));
    let mut written = Written { count: 0, client: opened(&gate.plain("disk")) };
    written.more();
    let mut known: Vec<u8> = Vec::new();
    let changes: [(Change, u32); 4] = [(take_out, 32), (take_in, 32), (split, 64), (add, 64)];
    for (change, groups) in changes {
        change(&mut staged);
        written.more();
        written.check();
        staged.ceph.wait_until_served(&staged.pool, groups).expect("the cluster settles");
        written.more();
        written.check();
        let now = choices(&staged, written.count);
        assert_eq!(now[..known.len()], known, "what was chosen once is chosen for good");
        known = now;
    }
    for (object, choice) in known.iter().enumerate() {
        assert!((1..=2).contains(choice), "object {object} was written");
        for candidate in 0..2 {
            let name = format!("db.{object:08x}.{candidate}");
            let found = block_on(staged.pool.size_of(&name)).expect("a runtime").is_ok();
            assert_eq!(found, candidate + 1 == *choice, "{name}");
        }
    }
    wait_for("the gate to know the new OSD", || {
        let told = super::backend(&gate, "db");
        (told["pool"]["osds_all"] == 4 && told["pool"]["groups"] == 64).then_some(())
    });
    gate.kill_and_restart();
    written.client = opened(&gate.plain("disk"));
    written.check();
    let last = written.client.write((127 << 20) + 4096, &noise(1, 4096));
    assert_ne!(last, Err(NO_SPACE));
}

fn take_out(staged: &mut Staged) {
    staged.ask(&json!({"prefix": "osd out", "ids": ["1"]}));
}

fn take_in(staged: &mut Staged) {
    staged.ask(&json!({"prefix": "osd in", "ids": ["1"]}));
}

/// The monitors pass the new numbers on to the manager, which carries them out.
fn split(staged: &mut Staged) {
    for var in ["pg_num", "pgp_num"] {
        staged.ask(&json!({"prefix": "osd pool set", "pool": "objects", "var": var, "val": "64"}));
    }
}

fn add(staged: &mut Staged) {
    assert_eq!(staged.ceph.join().expect("an OSD joins"), 3);
}
