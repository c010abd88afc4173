//! `evenkeel store` on real files: what it prints, how it ends, and that it destroys nothing
//! unasked.

use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::gate::{EVENKEEL, Gate};
use crate::harness::nbd::{Client, EIO};
use crate::harness::{Scratch, wait_for};

/// Runs a command on a store; its arguments have no spaces in them.
fn run(scratch: &Scratch, arguments: &str) -> Output {
    let mut command = Command::new(EVENKEEL);
    command.arg("store").args(arguments.split(' ')).current_dir(scratch.path());
    command.output().expect("run evenkeel")
}

/// Exit code, and everything that was printed.
fn store(scratch: &Scratch, arguments: &str) -> (Option<i32>, String) {
    let output = run(scratch, arguments);
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&printed).into_owned())
}

/// What a command prints that ends well.
fn well(scratch: &Scratch, arguments: &str) -> String {
    let output = run(scratch, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments}:\n{printed}\n{said}");
    printed
}

/// What a command says that ends with this code.
fn refused(scratch: &Scratch, code: i32, arguments: &str) -> String {
    let (found, output) = store(scratch, arguments);
    assert_eq!(found, Some(code), "{arguments}:\n{output}");
    output
}

fn json(scratch: &Scratch, arguments: &str) -> Value {
    let output = well(scratch, &format!("{arguments} --json"));
    serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}:\n{output}"))
}

/// A scratch folder with a mirrored store on a.img and b.img.
fn mirror() -> Scratch {
    let scratch = Scratch::new();
    well(&scratch, "create a.img b.img --size 64MiB --volume 16MiB");
    scratch
}

/// Overwrites bytes behind the store's back.
fn tamper(scratch: &Scratch, name: &str, offset_bytes: u64, bytes: &[u8]) {
    let file = std::fs::File::options().write(true).open(scratch.join(name)).expect("open a drive");
    file.write_all_at(bytes, offset_bytes).expect("write to a drive");
}

fn content(scratch: &Scratch, name: &str) -> Vec<u8> {
    std::fs::read(scratch.join(name)).expect("read a drive")
}

#[test]
fn a_store_of_sparse_files_is_made_and_tells_what_it_is() {
    let scratch = Scratch::new();
    let made = json(&scratch, "create a.img b.img c.img --size 64MiB");
    let size = made["volumes"][0]["size_bytes"].as_u64().expect("a size");
    assert!(size > 40 << 20, "{made}");
    assert_eq!(made["copies"], 2);
    let metadata = std::fs::metadata(scratch.join("a.img")).expect("it was made");
    assert_eq!(metadata.size(), 64 << 20);
    assert!(metadata.blocks() * 512 < 8 << 20, "the file is not sparse");
    let status = json(&scratch, "status c.img a.img b.img");
    assert_eq!(status["store"], made["store"]);
    assert_eq!(status["volumes"][0]["size_bytes"], size);
    assert_eq!(status["drives"][2]["path"], "c.img");
    assert_eq!(status["live_bytes"], 0);
    let text = well(&scratch, "status a.img b.img c.img");
    for word in ["DRIVE", "in sync", "VOLUME", "provisioned"] {
        assert!(text.contains(word), "no `{word}` in:\n{text}");
    }
    assert_eq!(json(&scratch, "check a.img b.img c.img")["findings"], Value::Array(vec![]));
}

#[test]
fn a_store_on_emulated_zones_says_so_and_is_looked_after_like_any_other() {
    let scratch = Scratch::new();
    let made = well(&scratch, "create a.img b.img --size 64MiB --zones 1MiB --volume 8MiB");
    assert!(made.contains("zones of 1 MiB") && made.contains("emulated"), "{made}");
    well(&scratch, "snapshot create a.img b.img --volume 0");
    let text = well(&scratch, "status a.img b.img");
    assert!(text.contains("ZONES") && text.contains("1 MiB, emulated"), "{text}");
    let status = json(&scratch, "status a.img b.img");
    let drive = &status["drives"][1];
    assert_eq!((&drive["zone_bytes"], &drive["zones_emulated"]), (&(1 << 20).into(), &true.into()));
    let checked = json(&scratch, "check a.img b.img");
    assert_eq!(checked["findings"], Value::Array(vec![]));
    assert_eq!(checked["store"]["drives"], status["drives"], "told alike");
    let dump = well(&scratch, "dump a.img --records");
    for word in ["zone_bytes=1048576", "conventional_zones=", "written_bytes="] {
        assert!(dump.contains(word), "no `{word}` in:\n{dump}");
    }
    let told = refused(&scratch, 3, "create a.img b.img");
    assert!(told.contains("holds drive 0"), "{told}");
    let told = refused(&scratch, 2, "create c.img --size 64MiB --zones 1MiB --segment 2MiB");
    assert!(told.contains("does not fit its zones"), "{told}");
    assert!(!scratch.join("c.img").exists());
}

#[test]
fn what_is_on_a_drive_is_told_and_stays_there_without_yes() {
    let scratch = mirror();
    let file = std::fs::File::create(scratch.join("fs.img")).expect("make a file");
    file.set_len(64 << 20).expect("make it long");
    tamper(&scratch, "fs.img", 0x438, b"\x53\xef");
    let before = (content(&scratch, "a.img"), content(&scratch, "fs.img"));
    let told = refused(&scratch, 3, "create a.img fs.img new.img --size 64MiB");
    for word in ["a.img: holds drive 0 of store", "fs.img: holds an ext2", "--yes"] {
        assert!(told.contains(word), "no `{word}` in:\n{told}");
    }
    assert!((content(&scratch, "a.img"), content(&scratch, "fs.img")) == before);
    assert!(!scratch.join("new.img").exists(), "a file is left of a store that was not made");
    well(&scratch, "create a.img fs.img --yes");
    let stale = refused(&scratch, 3, "status b.img a.img");
    assert!(stale.contains("belongs to store") && stale.contains(".img: "), "{stale}");
}

#[test]
fn sizes_and_drives_that_make_no_store_are_usage() {
    let scratch = Scratch::new();
    for (arguments, word) in [
        ("create a.img --size 64MiB --copies 2", "two drives"),
        ("create a.img --size 64MiB --volume 1GiB", "volumes of 1 GiB do not fit"),
        ("create a.img --size 64MiB --segment 5KiB", "64 KiB to 1 GiB"),
        ("create a.img --size 1MiB", "too small"),
        ("create a.img --size 1parsec", "not a size"),
        ("create a.img --size 64MiB --zones 1GiB", "does not fit a drive of 64 MiB"),
    ] {
        let told = refused(&scratch, 2, arguments);
        assert!(told.contains(word), "no `{word}` for {arguments}:\n{told}");
        assert!(!scratch.join("a.img").exists(), "{arguments} left a file");
    }
    refused(&scratch, 5, "status nowhere.img");
    std::fs::write(scratch.join("blank.img"), vec![0; 1 << 20]).expect("write a file");
    let told = refused(&scratch, 3, "status blank.img");
    assert!(told.contains("blank.img: ") && told.contains("no superblock"), "{told}");
    well(&scratch, "create a.img b.img --size 64MiB");
    for arguments in ["status a.img a.img", "create n.img ./n.img --size 64MiB"] {
        let twice = refused(&scratch, 2, arguments);
        assert!(twice.contains("given twice"), "{twice}");
    }
    assert!(!scratch.join("n.img").exists(), "a file is left of a store that was not made");
}

#[test]
fn a_drive_of_a_newer_version_is_named_with_the_remedy() {
    let scratch = mirror();
    let end = (64 << 20) - 2 * 4096;
    for offset in [0, 4096, end, end + 4096] {
        tamper(&scratch, "b.img", offset + 4, &[9]);
        // Another version keeps its seal elsewhere; but for that, it would be a flipped bit.
        tamper(&scratch, "b.img", offset + 4092, &[0; 4]);
    }
    let told = refused(&scratch, 3, "status a.img b.img");
    assert!(told.contains("b.img: ") && told.contains("newer evenkeel (format 9)"), "{told}");
    let told = refused(&scratch, 3, "create b.img");
    assert!(told.contains("holds a drive of a store of format 9"), "{told}");
}

#[test]
fn a_check_reads_and_finds_and_does_not_write() {
    let scratch = mirror();
    tamper(&scratch, "b.img", 100, &[0xff]);
    let before = (content(&scratch, "a.img"), content(&scratch, "b.img"));
    let told = well(&scratch, "check a.img b.img");
    assert!(told.contains("note: drive 1 of those given, superblock A at the start"), "{told}");
    let missing = refused(&scratch, 1, "check b.img");
    assert!(missing.contains("warning: drive 0: the drive is missing"), "{missing}");
    assert!((content(&scratch, "a.img"), content(&scratch, "b.img")) == before);
}

#[test]
fn a_failed_drive_is_replaced_and_the_old_one_is_refused() {
    let scratch = mirror();
    std::fs::rename(scratch.join("a.img"), scratch.join("old.img")).expect("take a drive away");
    refused(&scratch, 1, "status b.img");
    let told = refused(&scratch, 2, "replace-drive b.img --by fs.img --size 1MiB");
    assert!(told.contains("too small") && told.contains("KiB"), "{told}");
    let told = refused(&scratch, 2, "replace-drive b.img --drive 7 --by fs.img --size 64MiB");
    assert!(told.contains("no drive 7"), "{told}");
    let told = refused(&scratch, 3, "scrub b.img");
    assert!(told.contains("drive 0 is missing") && told.contains("--without-missing"), "{told}");
    assert!(!scratch.join("fs.img").exists());
    let replaced = json(&scratch, "replace-drive b.img --by new.img --size 64MiB");
    assert_eq!((&replaced["drive"], &replaced["thin_segments"]), (&0.into(), &0.into()));
    well(&scratch, "check new.img b.img");
    refused(&scratch, 1, "status new.img");
    let told = refused(&scratch, 3, "status old.img b.img");
    assert!(told.contains("old.img: ") && told.contains("was replaced"), "{told}");
    let told = refused(&scratch, 2, "replace-drive b.img new.img --by more.img --size 64MiB");
    assert!(told.contains("leave out the one"), "{told}");
    assert!(!scratch.join("more.img").exists());
    let told = refused(&scratch, 3, "replace-drive b.img --by old.img");
    assert!(told.contains("holds drive 0 of store") && told.contains("--yes"), "{told}");
    well(&scratch, "replace-drive b.img --by old.img --yes");
    well(&scratch, "check old.img b.img");
}

#[test]
fn drives_that_went_on_without_each_other_are_refused_until_one_is_discarded() {
    let scratch = mirror();
    well(&scratch, "volume resize a.img --volume 0 --size 17MiB --without-missing");
    well(&scratch, "volume resize b.img --volume 0 --size 18MiB --without-missing");
    let before = (content(&scratch, "a.img"), content(&scratch, "b.img"));
    for command in
        ["status a.img b.img", "scrub a.img b.img", "scrub a.img b.img --without-missing"]
    {
        let told = refused(&scratch, 3, command);
        assert!(told.contains("b.img: ") && told.contains("went on without each other"), "{told}");
        assert!(told.contains("replace-drive --discard"), "{told}");
    }
    let found = refused(&scratch, 1, "check a.img b.img");
    assert!(found.contains("went on without each other"), "{found}");
    assert!((content(&scratch, "a.img"), content(&scratch, "b.img")) == before);
    std::fs::write(scratch.join("other.img"), vec![1; 64 << 20]).expect("another file");
    let told = refused(&scratch, 3, "replace-drive b.img --discard other.img");
    assert!(told.contains("no drive of this store"), "{told}");
    let kept = json(&scratch, "replace-drive b.img --discard a.img");
    assert_eq!((&kept["drive"], &kept["thin_segments"]), (&0.into(), &0.into()));
    well(&scratch, "check a.img b.img");
    let status = well(&scratch, "status a.img b.img");
    assert!(status.contains("18 MiB"), "{status}");
}

#[test]
fn a_drive_put_back_as_it_was_is_brought_up_to_date() {
    let scratch = mirror();
    std::fs::copy(scratch.join("b.img"), scratch.join("older.img")).expect("an image");
    well(&scratch, "volume resize a.img b.img --volume 0 --size 17MiB");
    std::fs::rename(scratch.join("older.img"), scratch.join("b.img")).expect("put it back");
    let found = refused(&scratch, 1, "check a.img b.img");
    assert!(found.contains("drive 1: the drive is an older image of itself"), "{found}");
    well(&scratch, "scrub a.img b.img");
    well(&scratch, "check a.img b.img");
}

/// A gate that serves the store on a.img.
const LOG: &str = "[[backend]]\nname = \"log\"\nstore = [\"a.img\"]\n\
                   [[export]]\nname = \"disk\"\nbackend = \"log\"\n";

#[test]
fn damaged_headers_are_restored_or_refused_until_the_loss_is_accepted() {
    let scratch = Scratch::new();
    well(&scratch, "create a.img --size 64MiB --volume 16MiB");
    let mut gate = Gate::start(&scratch, LOG);
    let mut client = Client::open(&gate.plain("disk"));
    let headers_before = headers(&content(&scratch, "a.img"));
    for block in 0..6 {
        client.write(block * 4096, &[7; 4096]).expect("served");
        client.flush().expect("served");
    }
    gate.kill();
    let now = headers(&content(&scratch, "a.img"));
    let ours: Vec<u64> = now.into_iter().filter(|at| !headers_before.contains(at)).collect();
    tamper(&scratch, "a.img", ours[2] + 200, &[1]);
    let found = refused(&scratch, 1, "check a.img");
    assert!(found.contains("damaged, and repeated by the next: 1"), "{found}");
    well(&scratch, "rescue a.img");
    // With the next one it is lost.
    tamper(&scratch, "a.img", ours[3] + 200, &[1]);
    let before = content(&scratch, "a.img");
    for command in ["status a.img", "scrub a.img"] {
        let told = refused(&scratch, 3, command);
        assert!(told.contains("is damaged") && told.contains("store rescue"), "{told}");
    }
    let told = refused(&scratch, 1, "rescue a.img");
    assert!(told.contains("would be lost") && told.contains("--accept-loss"), "{told}");
    assert!(told.contains("volume 0, blocks 5 to 5"), "{told}");
    assert!(content(&scratch, "a.img") == before, "nothing was written");
    let given_up = json(&scratch, "rescue a.img --accept-loss");
    assert_eq!(given_up["is_given_up"], true);
    well(&scratch, "rescue a.img");
    well(&scratch, "check a.img");
    gate.restart();
    let mut client = Client::open(&gate.plain("disk"));
    assert_eq!(client.read(4096, 4096), Ok(vec![7; 4096]), "what was before the damage");
    assert_eq!(client.read(5 * 4096, 4096), Ok(vec![0; 4096]), "what was given up");
}

#[test]
fn a_gate_tells_what_its_store_met_of_damage() {
    let scratch = Scratch::new();
    well(&scratch, "create a.img --size 64MiB --volume 16MiB");
    let mut gate = Gate::start(&scratch, LOG);
    let mut client = Client::open(&gate.plain("disk"));
    let before = headers(&content(&scratch, "a.img"));
    for block in 0..6 {
        client.write(block * 4096, &[7; 4096]).expect("served");
        client.flush().expect("served");
    }
    gate.kill();
    let now = headers(&content(&scratch, "a.img"));
    let ours: Vec<u64> = now.into_iter().filter(|at| !before.contains(at)).collect();
    tamper(&scratch, "a.img", ours[2] + 200, &[1]);
    // Behind its header, a record has its data.
    tamper(&scratch, "a.img", ours[4] + 4096, &[1]);
    gate.restart();
    let mut client = Client::open(&gate.plain("disk"));
    assert_eq!(client.read(2 * 4096, 4096), Ok(vec![7; 4096]), "its header was restored");
    assert_eq!(client.read(4 * 4096, 4096), Err(EIO));
    let backend = &gate.status()["backends"][0];
    let damage = &backend["store"]["damage"];
    assert_eq!((&damage["restored_headers"], &damage["failed_reads"]), (&1.into(), &1.into()));
    assert!(damage["bad_copies"].as_u64() >= Some(1), "{damage}");
    let trouble = gate.ctl(&["status"]);
    assert!(trouble.contains("no drive can give any more"), "{trouble}");
    assert!(
        trouble.contains("damaged headers of records that were restored (see to the drives): 1"),
        "{trouble}"
    );
    client.write(4 * 4096, &[8; 4096]).expect("served");
    assert_eq!(client.read(4 * 4096, 4096), Ok(vec![8; 4096]), "it is well again");
}

#[test]
fn a_lone_drive_put_back_as_it_was_is_refused_by_the_gate_that_served_it() {
    let scratch = Scratch::new();
    well(&scratch, "create a.img --size 64MiB --volume 16MiB");
    let mut gate = Gate::start(&scratch, LOG);
    let mut client = Client::open(&gate.plain("disk"));
    client.write(0, &[1; 4096]).expect("served");
    client.flush().expect("served");
    let older = content(&scratch, "a.img");
    client.write(4096, &[2; 4096]).expect("served");
    client.flush().expect("served");
    // The gate remembers that within a second, and the log says so.
    std::thread::sleep(std::time::Duration::from_secs(2));
    gate.kill();
    let remembered = remembered(&scratch);
    let data = remembered.parent().expect("a folder").display().to_string();
    let found = well(&scratch, &format!("check a.img --data {data}"));
    assert!(!found.contains("age not provable"), "{found}");
    assert!(well(&scratch, "check a.img").contains("age not provable"));
    let newest = content(&scratch, "a.img");
    std::fs::write(scratch.join("a.img"), older).expect("put it back");
    let found = refused(&scratch, 1, &format!("check a.img --data {data}"));
    assert!(found.contains("older than it was"), "{found}");
    gate.restart();
    let name = remembered.file_name().expect("a file").to_string_lossy().into_owned();
    wait_for("the refusal of the store, with the file that says so", || {
        let status = gate.status().to_string();
        (status.contains("older than it was") && status.contains(&name)).then_some(())
    });
    gate.kill();
    // As it was last, it is served.
    std::fs::write(scratch.join("a.img"), newest).expect("bring it");
    gate.restart();
    let mut client = Client::open(&gate.plain("disk"));
    assert_eq!(client.read(4096, 4096), Ok(vec![2; 4096]));
}

/// Where the gate remembers how far its store was.
fn remembered(scratch: &Scratch) -> std::path::PathBuf {
    let mut folders = vec![scratch.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            if entry.file_type().expect("its type").is_dir() {
                folders.push(entry.path());
            } else if entry.file_name().to_string_lossy().starts_with("store-") {
                return entry.path();
            }
        }
    }
    panic!("no file remembers the store");
}

/// Where headers of records lie on a drive.
fn headers(drive: &[u8]) -> Vec<u64> {
    let blocks = (0..).step_by(4096).zip(drive.chunks(4096));
    blocks.filter(|(_, block)| block.starts_with(b"\xe9kRH")).map(|(at, _)| at).collect()
}

#[test]
fn a_scrub_reads_everything_and_a_dump_shows_it() {
    let scratch = mirror();
    let scrubbed = json(&scratch, "scrub a.img b.img --rate 1GiB/s");
    assert_eq!((&scrubbed["lost_blocks"], &scrubbed["mended"]), (&0.into(), &true.into()));
    let dumped = well(&scratch, "dump a.img --leaves --records --json");
    let kinds: Vec<String> = dumped
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"))
        .map(|line| line["kind"].as_str().expect("each has a kind").to_owned())
        .collect();
    for kind in ["superblock", "chunk", "root", "segment", "volume"] {
        assert!(kinds.iter().any(|it| it == kind), "no {kind} in:\n{dumped}");
    }
    let text = well(&scratch, "dump a.img b.img");
    assert!(text.lines().all(|line| line.contains(" path=")), "{text}");
}
