//! A volume over tiers stays one disk to its clients: while its extents move, when the gate or a
//! tier is killed, and when somebody mixes up the tiers.
//!
//! Moves come often here: extents are small, the fast tier holds few of them, and a [`Restless`]
//! client keeps changing its mind about what it asks for most.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::faults::kill_the_gate_under_writes;
use crate::harness::client::{Fuse, fio_verify};
use crate::harness::gate::{Gate, volume_policy};
use crate::harness::mount::{LoopDevice, Mount};
use crate::harness::nbd::Client;
use crate::harness::process::{Process, run};
use crate::harness::restless::{Habit, Restless, WINDOW_BYTES, moves};
use crate::harness::skip::{self, needs};
use crate::harness::storage::{Server, text};
use crate::harness::target::{Address, Target};
use crate::harness::{Scratch, noise, wait_for};

/// Sizes of the tiers.
const SLOW: &str = "64M";
const FAST: &str = "4M";

/// Bytes that clients use; the fast tier has room for a twelfth.
const USED_BYTES: u64 = 48 << 20;

/// A volume over these servers, the slowest first.
fn policy_over(servers: &[&Server], more: &str) -> String {
    let mut policy = vec!["mode = \"enforce\"\n".to_owned()];
    let mut tiers = Vec::new();
    for server in servers {
        let Address::Unix(path) = &server.target.address else { panic!("servers are local") };
        let name = path.file_stem().expect("a socket has a name").to_string_lossy();
        let uri = format!("nbd+unix:///?socket={}", path.display());
        // More than one connection that breaks under writes is too much for nbdkit 1.32.
        policy.push(format!(
            "[[backend]]\nname = \"{name}\"\nupstream = \"{uri}\"\nconnections = 1\n\
             writes_survive_restart = true\n"
        ));
        tiers.push(format!("\"{name}\""));
    }
    let tiers = tiers.join(", ");
    policy.push(format!(
        "[[backend]]\nname = \"shelf\"\ntiers = [{tiers}]\nextent = \"64 KiB\"\n{more}\
         [[export]]\nname = \"disk\"\nbackend = \"shelf\"\n"
    ));
    policy.concat()
}

/// Two servers that hold their bytes in memory, which outlives the gate.
fn servers(scratch: &Scratch) -> [Server; 2] {
    [("slow", SLOW), ("fast", FAST)]
        .map(|(name, size)| Server::nbdkit_named(scratch, name, &["memory", size]))
}

/// Reads of half a megabyte, then of another, all over what clients use.
const HABIT: Habit = Habit {
    windows: USED_BYTES / WINDOW_BYTES,
    apart_bytes: WINDOW_BYTES,
    pause: Duration::ZERO,
    bears_errors: false,
};

fn wait_for_moves(gate: &Gate, more: u64) {
    let before = moves(gate);
    wait_for("extents to move", || (moves(gate) >= before + more).then_some(()));
}

/// Runs fio's verification to its end, at a pace that leaves time for what goes on beside it.
fn verify(scratch: &Scratch, target: &Target, meanwhile: impl FnOnce()) {
    // Whoever comes before it is open may be refused.
    drop(wait_for("the volume", || Client::try_open(target)));
    let mut arguments = fio_verify(target, &USED_BYTES.to_string());
    arguments.push("--rate_iops=3000,6000".into());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut fio = Process::start(scratch.path(), "fio", &arguments);
    meanwhile();
    assert!(fio.wait().success(), "fio says:\n{}", fio.log());
}

fn trouble(gate: &Gate) -> String {
    let status = gate.status();
    let backends = status["backends"].as_array().expect("a list of backends");
    let shelf = backends.iter().find(|backend| backend["name"] == "shelf");
    shelf.expect("the volume is a backend")["trouble"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn fio_finds_what_it_wrote_while_extents_move() {
    needs!("nbdkit", "fio");
    let scratch = Scratch::new();
    let [slow, fast] = servers(&scratch);
    let gate = Gate::start(&scratch, &policy_over(&[&slow, &fast], ""));
    let restless = Restless::start(&gate.plain("disk"), HABIT);
    verify(&scratch, &gate.plain("disk"), || wait_for_moves(&gate, 20));
    drop(restless);
    let failed = gate.status()["domains"][0]["tenants"][0]["failed_requests"].clone();
    assert_eq!(failed, 0, "no client has met an error");
}

#[test]
fn three_tiers_are_one_disk_too() {
    needs!("nbdkit", "fio");
    let scratch = Scratch::new();
    let [slow, fast] = servers(&scratch);
    let middle = Server::nbdkit_named(&scratch, "middle", &["memory", "8M"]);
    let gate = Gate::start(&scratch, &policy_over(&[&slow, &middle, &fast], ""));
    let _restless = Restless::start(&gate.plain("disk"), HABIT);
    verify(&scratch, &gate.plain("disk"), || wait_for_moves(&gate, 20));
}

#[test]
fn a_file_system_lives_on_a_volume_that_moves_and_is_killed() {
    needs!("nbdkit", "fio", "nbdfuse", "fusermount3", "losetup", "mkfs.ext4", "e2fsck");
    if let Some(why) = skip::cannot_mount() {
        return skip::tell(&why);
    }
    let scratch = Scratch::new();
    let folder = scratch.path();
    let [slow, fast] = servers(&scratch);
    let mut gate = Gate::start(&scratch, &policy_over(&[&slow, &fast], ""));
    let restless = Restless::start(&gate.plain("disk"), HABIT);
    let fuse = Fuse::mount(&scratch, &gate.plain("disk"));
    let disk = LoopDevice::attach(folder, fuse.file());
    run(folder, "mkfs.ext4", &["-q", disk.path()]);
    let mount = Mount::new(folder, disk.path());
    fio_in(&mount, folder, &["--do_verify=1", "--end_fsync=1", "--rate_iops=2000"]);
    drop((mount, disk));
    fuse.unmount();
    assert!(moves(&gate) >= 10, "too few moves to show anything");
    gate.kill_and_restart();

    let fuse = Fuse::mount(&scratch, &gate.plain("disk"));
    let disk = LoopDevice::attach(folder, fuse.file());
    run(folder, "e2fsck", &["-fn", disk.path()]);
    let mount = Mount::new(folder, disk.path());
    fio_in(&mount, folder, &["--verify_only"]);
    wait_for_moves(&gate, 5);
    fio_in(&mount, folder, &["--verify_only"]);
    drop((mount, disk));
    fuse.unmount();
    drop(restless);
}

/// fio on a file in a mounted file system. Every run with the same job finds the same content.
fn fio_in(mount: &Mount, folder: &std::path::Path, more: &[&str]) {
    let file = format!("--filename={}", text(&mount.join("file")));
    let mut arguments = vec!["--name=file", "--rw=randwrite", "--bs=4k", "--size=24m"];
    arguments.extend(["--verify=crc32c", "--verify_fatal=1", "--invalidate=1", file.as_str()]);
    arguments.extend(more);
    run(folder, "fio", &arguments);
}

/// The gate's own files as tiers: nothing but the gate is between a client and them.
#[test]
fn a_gate_killed_while_extents_move_loses_nothing_acknowledged() {
    let scratch = Scratch::new();
    let gate = Gate::start(&scratch, &volume_policy("48 MiB"));
    let restless = Restless::start(&gate.plain("disk"), HABIT);
    wait_for_moves(&gate, 5);
    kill_the_gate_under_writes(gate, []);
    drop(restless);
}

/// Before qemu-nbd, since nbdkit 1.32 now and then dies of an assertion of its own when connections
/// break under writes.
#[test]
fn a_gate_killed_before_the_servers_of_its_tiers_loses_nothing_acknowledged() {
    needs!("qemu-nbd");
    let scratch = Scratch::new();
    let [slow, fast] = [("slow", 64 << 20), ("fast", 4 << 20)].map(|(name, size_bytes)| {
        let file = raw_file(&scratch, name, size_bytes);
        Server::qemu_nbd_named(&scratch, name, &file)
    });
    let gate = Gate::start(&scratch, &policy_over(&[&slow, &fast], ""));
    let restless = Restless::start(&gate.plain("disk"), HABIT);
    wait_for_moves(&gate, 5);
    kill_the_gate_under_writes(gate, []);
    drop(restless);
}

/// A server whose bytes outlive it.
fn file_server(scratch: &Scratch, name: &str, size_bytes: u64) -> Server {
    let file = raw_file(scratch, name, size_bytes);
    Server::nbdkit_named(scratch, name, &["file", &text(&file)])
}

/// A file of zeroes, or what is there of this name.
fn raw_file(scratch: &Scratch, name: &str, size_bytes: u64) -> PathBuf {
    let file = scratch.join(format!("{name}.raw"));
    if !file.exists() {
        let made = std::fs::File::create(&file).and_then(|file| file.set_len(size_bytes));
        made.expect("a file in scratch");
    }
    file
}

/// Kills a server; its socket goes too, so that another may take its place.
fn kill(server: &mut Server) {
    server.process.kill();
    let Address::Unix(path) = &server.target.address else { panic!("servers are local") };
    std::fs::remove_file(path).expect("a killed server leaves its socket");
}

#[test]
fn tiers_that_come_back_in_time_cost_no_error() {
    needs!("nbdkit", "fio");
    let scratch = Scratch::new();
    let start = |name| file_server(&scratch, name, if name == "fast" { 4 << 20 } else { 64 << 20 });
    let (mut slow, mut fast) = (start("slow"), start("fast"));
    let gate = Gate::start(&scratch, &policy_over(&[&slow, &fast], ""));
    let restless = Restless::start(&gate.plain("disk"), HABIT);
    verify(&scratch, &gate.plain("disk"), || {
        for _ in 0..2 {
            for (server, name) in [(&mut fast, "fast"), (&mut slow, "slow")] {
                std::thread::sleep(Duration::from_millis(700));
                kill(server);
                std::thread::sleep(Duration::from_millis(300));
                *server = start(name);
            }
        }
        wait_for_moves(&gate, 5);
    });
    drop(restless);
    let status = gate.status();
    assert_eq!(status["domains"][0]["tenants"][0]["failed_requests"], 0);
    let reconnects = status["backends"].as_array().expect("a list of backends");
    let reconnects = reconnects.iter().filter_map(|backend| backend["reconnects"].as_u64());
    assert!(reconnects.sum::<u64>() >= 4, "too few connections were lost to show anything");
}

#[test]
fn a_flush_over_writes_that_one_tier_may_have_lost_fails() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let slow = file_server(&scratch, "slow", 64 << 20);
    let mut fast = file_server(&scratch, "fast", 4 << 20);
    // The owner beats ten times a second: that a beat may be lost is nobody's loss.
    let policy = policy_over(&[&slow, &fast], "moves = \"off\"\nlease = \"500 ms\"\n");
    let gate = Gate::start(&scratch, &policy.replace("writes_survive_restart = true\n", ""));
    let mut client = wait_for("the volume", || Client::try_open(&gate.plain("disk")));
    let mut restart = || {
        kill(&mut fast);
        std::thread::sleep(Duration::from_millis(300));
        fast = file_server(&scratch, "fast", 4 << 20);
    };
    // The first extents lie on the fast tier, the last ones on the slow one.
    let on_each = [0, 32 << 20];
    assert_eq!(on_each.map(|at| client.write(at, &noise(1, 4096))), [Ok(()), Ok(())]);
    assert_eq!(client.flush(), Ok(()));
    restart();
    assert_eq!(client.flush(), Ok(()), "everything was flushed before");
    assert_eq!(client.write(on_each[1], &noise(2, 4096)), Ok(()));
    restart();
    assert_eq!(client.flush(), Ok(()), "what was written is on the tier that stood");
    assert_eq!(client.write(on_each[0], &noise(3, 4096)), Ok(()));
    restart();
    assert!(client.flush().is_err(), "the write may be gone, and the flush says yes");
    assert_eq!(client.flush(), Ok(()), "the loss was reported; life goes on");
}

#[test]
fn a_volume_is_one_disk_under_each_discipline() {
    needs!("nbdkit", "fio");
    for discipline in ["fifo", "sfq", "mclock", "edf", "fair", "drf", "baa"] {
        let scratch = Scratch::new();
        let [slow, fast] = servers(&scratch);
        let more = format!("discipline = \"{discipline}\"\n");
        let gate = Gate::start(&scratch, &policy_over(&[&slow, &fast], &more));
        let restless = Restless::start(&gate.plain("disk"), HABIT);
        wait_for_moves(&gate, 1);
        let arguments = fio_verify(&gate.plain("disk"), "12m");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run(scratch.path(), "fio", &arguments);
        wait_for_moves(&gate, 5);
        drop(restless);
    }
}

#[test]
fn a_volume_opens_when_its_last_tier_comes() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let [slow, mut fast] = servers(&scratch);
    kill(&mut fast);
    let gate = Gate::start(&scratch, &policy_over(&[&slow, &fast], ""));
    wait_for("the tier's trouble", || trouble(&gate).starts_with("tier \"fast\"").then_some(()));
    assert!(Client::try_open(&gate.plain("disk")).is_none(), "the volume is not there");
    let _fast = Server::nbdkit_named(&scratch, "fast", &["memory", FAST]);
    wait_for("the volume", || Client::try_open(&gate.plain("disk")));
    gate.assert_serves("disk");
    assert_eq!(trouble(&gate), "");
}

#[test]
fn tiers_in_the_wrong_order_are_refused_until_they_are_put_right() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let [slow, fast] = servers(&scratch);
    let right = policy_over(&[&slow, &fast], "");
    let mut gate = Gate::start(&scratch, &right);
    let data = noise(5, 65_536);
    let mut client = Client::open(&gate.plain("disk"));
    assert_eq!(client.write(30 << 20, &data), Ok(()));
    assert_eq!(client.flush(), Ok(()));

    gate.write_policy(&policy_over(&[&fast, &slow], ""));
    gate.kill_and_restart();
    let advice = "it is tier 1 of the volume, counted from 0 for the slowest, and listed as \
                  tier 0; list it there";
    wait_for("the refusal", || trouble(&gate).contains(advice).then_some(()));
    assert!(Client::try_open(&gate.plain("disk")).is_none(), "clients are refused");

    gate.write_policy(&right);
    gate.kill_and_restart();
    let mut client = wait_for("the volume", || Client::try_open(&gate.plain("disk")));
    assert!(client.read(30 << 20, 65_536) == Ok(data), "the tiers were not touched meanwhile");
}

#[test]
fn a_blank_tier_in_the_place_of_a_used_one_is_refused() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let [slow, mut fast] = servers(&scratch);
    let mut gate = Gate::start(&scratch, &policy_over(&[&slow, &fast], ""));
    gate.assert_serves("disk");
    kill(&mut fast);
    let _blank = Server::nbdkit_named(&scratch, "fast", &["memory", FAST]);
    gate.kill_and_restart();
    let refused = || trouble(&gate).contains("it is blank").then_some(());
    wait_for("the refusal", refused);
}

#[test]
fn a_second_gate_on_the_same_files_is_refused() {
    let [scratch, other] = [Scratch::new(), Scratch::new()];
    let gate = Gate::start(&scratch, &volume_policy("48 MiB"));
    wait_for("the volume", || Client::try_open(&gate.plain("disk")));
    let files = format!("directory = \"{}\"", text(&scratch.join("disks")));
    let policy = volume_policy("48 MiB").replace("directory = \"disks\"", &files);
    let second = Gate::start(&other, &policy);
    let refused = || trouble(&second).contains("another program has locked it").then_some(());
    wait_for("the refusal", refused);
    gate.assert_serves("disk");
    drop(gate);
    wait_for("the volume at the second gate", || Client::try_open(&second.plain("disk")));
    second.assert_serves("disk");
}

#[test]
fn what_a_volume_is_made_of_cannot_be_reloaded_but_its_moves_can_be_turned_off() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let [slow, fast] = servers(&scratch);
    let gate = Gate::start(&scratch, &policy_over(&[&slow, &fast], ""));
    let mut client = wait_for("the volume", || Client::try_open(&gate.plain("disk")));
    let (status, said) = gate.reload(&policy_over(&[&fast, &slow], ""));
    assert!(!status.success() && said.contains("shelf"), "{said}");
    assert_eq!(client.write(0, &noise(1, 4096)), Ok(()), "the client has not noticed");

    let restless = Restless::start(&gate.plain("disk"), HABIT);
    wait_for_moves(&gate, 5);
    let (status, said) = gate.reload(&policy_over(&[&slow, &fast], "moves = \"off\"\n"));
    assert!(status.success(), "{said}");
    // The move under way may still end.
    let (start, before) = (Instant::now(), moves(&gate));
    while start.elapsed() < Duration::from_secs(1) {
        assert!(moves(&gate) <= before + 1, "extents move on");
    }
    drop(restless);
    assert_eq!(client.read(0, 4096), Ok(noise(1, 4096)));
}
