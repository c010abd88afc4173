//! A file system below a gate that has no room left: clients get the error that says so, and
//! operators the place and the remedy.

use std::path::Path;

use crate::harness::gate::{EVENKEEL, Gate};
use crate::harness::mount::{LoopDevice, Mount};
use crate::harness::nbd::{Client, EIO, ENOSPC};
use crate::harness::process::{self, run};
use crate::harness::skip::{self, needs};
use crate::harness::storage::text;
use crate::harness::{Scratch, noise, wait_for};

const MIB: u64 = 1 << 20;
const FILE_SYSTEM_BYTES: u64 = 96 * MIB;

/// A small file system, of which a file takes so much that about as little as wanted is left.
pub(crate) struct Small {
    mount: Mount,
    _device: LoopDevice,
}

impl Small {
    pub(crate) fn new(scratch: &Scratch) -> Self {
        let file = scratch.join("file-system");
        let made = std::fs::File::create(&file).and_then(|file| file.set_len(FILE_SYSTEM_BYTES));
        made.expect("a file in scratch");
        let device = LoopDevice::attach(scratch.path(), &text(&file));
        run(scratch.path(), "mkfs.ext4", &["-q", "-m", "0", device.path()]);
        Self { mount: Mount::new(scratch.path(), device.path()), _device: device }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        text(&self.mount.join(name))
    }

    /// Leaves so much.
    pub(crate) fn fill_but(&self, left_bytes: u64) {
        let found = rustix::fs::statvfs(self.path("").as_str()).expect("a file system");
        let bytes = (found.f_bavail * found.f_frsize).saturating_sub(left_bytes);
        std::fs::write(self.path("filler"), vec![1; usize::try_from(bytes).expect("small")])
            .expect("room for that");
    }

    fn make_room(&self) {
        std::fs::remove_file(self.path("filler")).expect("it is there");
    }
}

pub(crate) fn is_possible() -> bool {
    match skip::cannot_mount() {
        Some(why) => {
            skip::tell(&why);
            false
        }
        None => true,
    }
}

fn explain(folder: &Path, tenant: &str) -> String {
    let arguments = ["explain", tenant, "--control", "control.sock"];
    let (status, said) =
        process::finish(folder, EVENKEEL, &arguments, std::time::Duration::from_secs(20));
    assert!(status.success(), "{said}");
    said
}

const TENANT: &str = "[[export]]\nname = \"disk\"\nbackend = \"array\"\n\
                      [[tenant]]\nname = \"db\"\nmatch = { export = \"disk\" }\n";

#[test]
fn a_full_file_system_under_a_file_is_named_to_its_tenant_and_not_written_thousands_of_times() {
    needs!("losetup", "mkfs.ext4");
    if !is_possible() {
        return;
    }
    let scratch = Scratch::new();
    let small = Small::new(&scratch);
    let image = small.path("disk.img");
    std::fs::File::create(&image).and_then(|file| file.set_len(64 * MIB)).expect("sparse");
    small.fill_but(8 * MIB);
    let policy = format!("[[backend]]\nname = \"array\"\nfile = \"{image}\"\n{TENANT}");
    let mut gate = Gate::start(&scratch, &policy);
    let mut client = Client::open(&gate.plain("disk"));
    let mut refused = 0;
    for piece in 0..512 {
        match client.write(piece % 64 * MIB, &noise(piece, 1 << 20)) {
            Ok(()) => {}
            Err(ENOSPC) => refused += 1,
            Err(other) => panic!("error {other} for want of room"),
        }
    }
    assert!(refused > 300, "there was no room for most: {refused} were refused");
    let said = explain(scratch.path(), "db");
    for words in ["db gets errors", "disk.img", "no room left", "make room"] {
        assert!(said.contains(words), "{words:?} is not in\n{said}");
    }
    let status = gate.status();
    let tenants = status["domains"][0]["tenants"].as_array().expect("tenants");
    let db = tenants.iter().find(|one| one["name"] == "db").expect("it is there");
    assert_eq!(db["finding"]["cause"], "errors");
    assert_eq!(db["finding"]["standing"], "below_its_due");
    let log = gate.process.log();
    let lines = log.lines().filter(|line| line.contains("no room left")).count();
    assert!((1..20).contains(&lines), "{lines} lines for {refused} failures:\n{log}");

    small.make_room();
    for piece in 0..64 {
        assert_eq!(client.write(piece * MIB, &noise(piece, 1 << 20)), Ok(()), "it is room again");
    }
    assert_eq!(client.flush(), Ok(()));
    drop(client);
    assert!(gate.stop().success());
}

#[test]
fn a_store_whose_file_system_is_full_says_so_and_goes_on_when_there_is_room() {
    needs!("losetup", "mkfs.ext4");
    if !is_possible() {
        return;
    }
    let scratch = Scratch::new();
    let small = Small::new(&scratch);
    let drives = [small.path("a"), small.path("b")];
    let sizes = ["--size", "80 MiB", "--volume", "32 MiB"];
    run(
        scratch.path(),
        EVENKEEL,
        &[&["store", "create", &drives[0], &drives[1]][..], &sizes[..]].concat(),
    );
    small.fill_but(24 * MIB);
    let policy = format!(
        "[[backend]]\nname = \"array\"\nstore = [\"{}\", \"{}\"]\n{TENANT}",
        drives[0], drives[1]
    );
    let mut gate = Gate::start(&scratch, &policy);
    let mut client = wait_for("the store", || Client::try_open(&gate.plain("disk")));
    let mut durable = 0;
    while durable < 256 && client.write(durable % 32 * MIB, &noise(durable, 1 << 20)) == Ok(()) {
        if client.flush() != Ok(()) {
            break;
        }
        durable += 1;
    }
    assert!((1..256).contains(&durable), "{durable} MiB fit");
    assert_eq!(client.write(0, &noise(0, 4096)), Err(EIO), "it has stopped");
    let said = explain(scratch.path(), "db");
    for words in ["no room left", "then restart the gate"] {
        assert!(said.contains(words), "{words:?} is not in\n{said}");
    }
    drop(client);
    gate.kill();

    // A gate that starts while there is no room says why it cannot open the store.
    gate.restart();
    let backend = || gate.status()["backends"][0]["trouble"].as_str().map(ToOwned::to_owned);
    wait_for("the reason", || backend().filter(|why| why.contains("no room left")));
    small.make_room();
    let mut client = wait_for("the store", || Client::try_open(&gate.plain("disk")));
    let first = durable.saturating_sub(32);
    for piece in first..durable {
        let found = client.read(piece % 32 * MIB, 1 << 20).expect("it reads");
        assert!(found == noise(piece, 1 << 20), "what was flushed is there: {piece}");
    }
    assert_eq!(client.write(0, &noise(0, 4096)), Ok(()));
    drop(client);
    assert!(gate.stop().success());
}
