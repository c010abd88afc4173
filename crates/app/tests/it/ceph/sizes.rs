//! Volumes of any size: a pebibyte opens at once and takes room for what is written alone, and a
//! volume grows and shrinks while clients use it.

use std::time::{Duration, Instant};

use evenkeel_core::place::choices::{ChoiceMap, PAGE_OBJECTS};
use evenkeel_core::prng::Prng;
use evenkeel_engine::pooled::Directory;
use evenkeel_io::store::block_on;

use super::{NO_SPACE, OBJECT_BYTES, Staged, backend, opened, trouble, write};
use crate::harness::client::fio_verify;
use crate::harness::gate::Gate;
use crate::harness::nbd::Client;
use crate::harness::openings::{self, OTHER_EXPORT, Opened, Opening, open_once};
use crate::harness::process::run;
use crate::harness::skip::needs;
use crate::harness::target::Target;
use crate::harness::{Scratch, noise, wait_for};

const MIB: u64 = 1 << 20;

#[test]
fn a_volume_of_a_pebibyte_opens_at_once_and_takes_room_for_what_is_written() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd");
    let staged = Staged::new(256);
    let scratch = Scratch::new();
    let mut gate = Gate::start(&scratch, &staged.policy("size = \"1 PiB\""));
    let begin = Instant::now();
    let mut client = opened(&gate.plain("disk"));
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(10), "new: {took:?}");
    let last = (1 << 50) / OBJECT_BYTES - 1;
    let objects = [0, 1, last / 2, last];
    for object in objects {
        assert_eq!(write(&mut client, object), Ok(()));
    }
    let pages = objects.map(|object| object / 16_128);
    assert!(pages.iter().all(|page| staged.has(&format!("db.choices.{page:08x}"))));
    assert!(!staged.has("db.choices.00000001"), "nothing was written there");
    gate.kill_and_restart();
    let begin = Instant::now();
    let mut client = opened(&gate.plain("disk"));
    // The lock of the one that was killed ends after six seconds.
    assert!(begin.elapsed() < Duration::from_secs(16), "again: {:?}", begin.elapsed());
    for object in objects {
        assert_eq!(client.read(object * OBJECT_BYTES, 4096), Ok(noise(object, 4096)));
    }
    assert_eq!(client.read((last - 1) * OBJECT_BYTES, 4096), Ok(vec![0; 4096]));
    assert_eq!(backend(&gate, "db")["pool"]["placed_objects"], 4);
}

#[test]
fn pages_are_found_though_their_list_is_lost_or_was_never_made() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd");
    let staged = Staged::new(256);
    let scratch = Scratch::new();
    let policy = staged.policy("size = \"32 MiB\"");
    let written = 0..20_u64;
    let check = |gate: &Gate| {
        let mut client = opened(&gate.plain("disk"));
        for object in written.clone() {
            assert_eq!(client.read(object * OBJECT_BYTES, 4096), Ok(noise(object, 4096)));
        }
        assert_eq!(client.read(31 * OBJECT_BYTES, 4096), Ok(vec![0; 4096]));
    };
    let mut gate = Gate::start(&scratch, &policy);
    let mut client = opened(&gate.plain("disk"));
    written.clone().for_each(|object| assert_eq!(write(&mut client, object), Ok(())));
    drop(client);
    let remove_list = || {
        block_on(staged.pool.remove("db.pages")).expect("a runtime").expect("it was there");
    };
    assert!(gate.stop().success());
    remove_list();
    let mut gate = Gate::start(&scratch, &policy);
    check(&gate);
    assert!(gate.process.log().contains("the list of pages is lost"), "{}", gate.process.log());
    assert!(gate.stop().success());
    // As an older program left it.
    remove_list();
    let head = staged.head();
    assert!(head.starts_with("evenkeel volume 3\n"), "{head}");
    let older = head.replace("volume 3", "volume 1");
    block_on(staged.pool.write_full("db.head", older.as_bytes()))
        .expect("a runtime")
        .expect("room");
    let gate = Gate::start(&scratch, &policy);
    check(&gate);
    assert!(staged.head().starts_with("evenkeel volume 3\n") && staged.has("db.pages"));
}

fn size_of(target: &Target) -> u64 {
    drop(opened(target));
    Client::greet(&target.address).go(&target.export).size_bytes
}

#[test]
fn a_volume_grows_and_shrinks_while_clients_use_it_and_the_gate_is_killed() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd", "fio");
    let staged = Staged::new(1024);
    let scratch = Scratch::new();
    let mut gate = Gate::start(&scratch, &staged.policy("size = \"64 MiB\""));
    let target = gate.plain("disk");
    drop(opened(&target));
    let verified = std::thread::spawn({
        let (target, folder) = (target.clone(), Scratch::new());
        move || {
            let arguments = fio_verify(&target, &(32 * MIB).to_string());
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            run(folder.path(), "fio", &arguments);
        }
    });
    for step in 1..=10_u64 {
        let size_mib = 64 + 16 * step;
        gate.ctl(&["export", "resize", "disk", &format!("{size_mib} MiB")]);
        assert_eq!(size_of(&target), size_mib * MIB);
        let mut client = opened(&target);
        let last = size_mib * MIB - 4096;
        assert_eq!(client.write(last, &noise(step, 4096)), Ok(()));
        assert_eq!(client.read(last, 4096), Ok(noise(step, 4096)));
    }
    verified.join().expect("fio finds what it wrote");
    assert!(gate.ctl(&["policy"]).contains("size = \"224 MiB\""));
    gate.kill_and_restart();
    assert_eq!(size_of(&target), 224 * MIB, "a volume never shrinks by itself");
    wait_for("the policy file to be named", || {
        trouble(&gate).contains("has 224 MiB, and the policy says 64 MiB").then_some(())
    });
    shrink(&gate, &staged, &target);
    gate.kill_and_restart();
    assert_eq!(size_of(&target), 96 * MIB);
    let (status, said) = gate.reload(&staged.policy("size = \"128 MiB\""));
    assert!(status.success(), "{said}");
    wait_for("it to grow by the policy", || (size_of(&target) == 128 * MIB).then_some(()));
    let mut client = opened(&target);
    assert_eq!(client.read(100 * MIB, 4096), Ok(vec![0; 4096]), "nothing came back");
}

/// From 224 MiB to 200, and to 96.
fn shrink(gate: &Gate, staged: &Staged, target: &Target) {
    let mut client = opened(target);
    assert_eq!(client.write(100 * MIB, &noise(1, 1 << 20)), Ok(()));
    let (status, said) = gate.try_ctl(&["export", "resize", "disk", "200 MiB"]);
    assert!(!status.success() && said.contains("there is data beyond that end"), "{said}");
    assert_eq!(client.write(223 * MIB, &noise(2, 4096)), Ok(()), "all is as it was");
    gate.ctl(&["export", "add", "part", "--offset", "200 MiB", "--size", "8 MiB"]);
    for (export, refusal) in [("disk", "export `part` of the same"), ("part", "is a part of its")] {
        let (status, said) = gate.try_ctl(&["export", "resize", export, "200 MiB"]);
        assert!(!status.success() && said.contains(refusal), "{said}");
    }
    gate.ctl(&["export", "remove", "part"]);
    for object in 96..224 {
        assert_eq!(client.trim(object * MIB, 1 << 20), Ok(()));
    }
    for size_mib in [200, 96] {
        gate.ctl(&["export", "resize", "disk", &format!("{size_mib} MiB")]);
        assert_eq!(size_of(target), size_mib * MIB);
        // This one came when the disk was larger.
        assert_eq!(client.write(size_mib * MIB, &noise(2, 4096)), Err(NO_SPACE));
        assert_eq!(client.write((size_mib - 1) * MIB, &noise(2, 4096)), Ok(()));
        assert_eq!(client.trim((size_mib - 1) * MIB, 1 << 20), Ok(()));
    }
    let left = (96..224).flat_map(|object| [0, 1].map(|at| format!("db.{object:08x}.{at}")));
    let left: Vec<String> = left.filter(|object| staged.has(object)).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// How long volumes of all sizes take to open, new, and again with and without a million objects
/// all over them. The long form, with `EVENKEEL_OPENINGS`, prints the table of docs/benchmarks.md.
#[test]
fn how_long_volumes_take_to_open() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd", "taskset");
    let staged = Staged::new(512);
    for row in openings::rows() {
        openings::judge(row, open_twice(&staged, row));
    }
}

/// Opens a volume that is not there yet, and again with what is then written in it.
fn open_twice(staged: &Staged, row: &Opening) -> [Opened; 2] {
    let name = format!("v{}-{}", row.size.replace(' ', ""), row.objects);
    let scratch = Scratch::new();
    let policy = format!(
        "{OTHER_EXPORT}[[backend]]\nname = \"{name}\"\n\
         ceph = \"{}\"\npool = \"objects\"\nsize = \"{}\"\n\
         [[export]]\nname = \"disk\"\nbackend = \"{name}\"\n",
        staged.ceph.conf().display(),
        row.size
    );
    let new = open_once(&scratch, &policy);
    fill_choices(staged, &name, row);
    [new, open_once(&scratch, &policy)]
}

/// Chooses names for objects all over a volume that is not open, as if they had been written.
fn fill_choices(staged: &Staged, name: &str, row: &Opening) {
    let mut choices = ChoiceMap::new(row.size_bytes / (4 << 20));
    let mut prng = Prng::new(row.objects);
    for _ in 0..row.objects {
        choices.set(prng.below(choices.objects()), Some(0));
    }
    let mut pages = Vec::new();
    while let Some(page) = choices.take_changed() {
        pages.push(page);
    }
    if pages.is_empty() {
        return;
    }
    assert!(pages.len() as u64 <= choices.objects().div_ceil(PAGE_OBJECTS));
    let stored = block_on(async {
        for page in &pages {
            let object = format!("{name}.choices.{page:08x}");
            staged.pool.write_full(&object, choices.page(*page)).await?;
        }
        let directory = Directory::of(pages.iter().copied()).encode();
        staged.pool.write_full(&format!("{name}.pages"), &directory).await
    });
    stored.expect("a runtime").expect("there is room");
}
