//! Members of volumes that do not bring back what was written to them: older copies, blank devices,
//! damaged heads. Each is refused by name, or made good from the others; and no volume is ever made
//! in the place of one that was there.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::harness::gate::{Gate, volume_policy};
use crate::harness::nbd::Client;
use crate::harness::skip::needs;
use crate::harness::storage::{Server, text};
use crate::harness::target::Address;
use crate::harness::{Scratch, noise, wait_for};

/// A kind of volume over servers with a file each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tiered,
    Spread,
}

/// A volume, its servers and their files.
struct Stage {
    scratch: Scratch,
    kind: Kind,
    gate: Gate,
    servers: Vec<Server>,
}

const BLOCK: usize = 4096;
/// Blocks that clients write.
const BLOCKS: u64 = 256;

impl Kind {
    /// Names and sizes of the servers.
    fn members(self) -> &'static [(&'static str, u64)] {
        match self {
            Self::Tiered => &[("slow", 64 << 20), ("fast", 4 << 20)],
            Self::Spread => &[("s1", 16 << 20), ("s2", 16 << 20), ("s3", 16 << 20)],
        }
    }

    fn policy(self, scratch: &Scratch) -> String {
        let backend = |(name, _): &(&str, u64)| {
            let socket = scratch.join(format!("{name}.sock"));
            format!(
                "[[backend]]\nname = \"{name}\"\nupstream = \"nbd+unix:///?socket={}\"\n\
                 writes_survive_restart = true\n",
                socket.display()
            )
        };
        let backends: String = self.members().iter().map(backend).collect();
        let names: Vec<&str> = self.members().iter().map(|(name, _)| *name).collect();
        let (list, size) = match self {
            Self::Tiered => ("tiers", "extent = \"64 KiB\""),
            Self::Spread => ("choices", "object = \"64 KiB\""),
        };
        // Servers on this machine are done at once with what they had read of a killed gate.
        format!(
            "mode = \"enforce\"\n{backends}\
             [[backend]]\nname = \"pool\"\n{list} = {names:?}\n{size}\n\
             late = \"1 s\"\n[[export]]\nname = \"disk\"\nbackend = \"pool\"\n"
        )
    }
}

impl Stage {
    fn new(kind: Kind) -> Self {
        let scratch = Scratch::new();
        let servers = kind.members().iter().map(|member| serve(&scratch, *member)).collect();
        let gate = Gate::start(&scratch, &kind.policy(&scratch));
        Self { scratch, kind, gate, servers }
    }

    fn file(&self, member: usize) -> PathBuf {
        file_of(&self.scratch, self.kind.members()[member].0)
    }

    fn client(&self) -> Client {
        wait_for("the volume", || Client::try_open(&self.gate.plain("disk")))
    }

    /// Writes all blocks and flushes, with beats in between.
    fn write(&self, round: u64) {
        let mut client = self.client();
        let end = Instant::now() + Duration::from_secs(3);
        for block in 0..BLOCKS {
            assert_eq!(client.write(block * BLOCK as u64, &content(round, block)), Ok(()));
        }
        while Instant::now() < end {
            assert_eq!(client.flush(), Ok(()));
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn assert_holds(&self, round: u64) {
        let mut client = self.client();
        for block in 0..BLOCKS {
            let found = client.read(block * BLOCK as u64, u32::try_from(BLOCK).expect("small"));
            assert!(found == Ok(content(round, block)), "block {block} of {:?}", self.kind);
        }
    }

    /// Kills the gate, then all servers; changes the files, and starts all again.
    fn restart_after(&mut self, change: impl FnOnce(&Self)) {
        self.gate.kill();
        for server in &mut self.servers {
            server.process.kill();
            let Address::Unix(path) = &server.target.address else { panic!("servers are local") };
            fs::remove_file(path).expect("a killed server leaves its socket");
        }
        change(self);
        let members = self.kind.members().iter();
        self.servers = members.map(|member| serve(&self.scratch, *member)).collect();
        self.gate.restart();
    }

    /// Waits until the volume is refused in such words; returns all of them.
    fn refusal(&self, words: &str) -> String {
        let refused = || Some(trouble(&self.gate, "pool")).filter(|why| why.contains(words));
        let why = wait_for("the refusal", refused);
        assert!(Client::try_open(&self.gate.plain("disk")).is_none(), "clients are refused");
        why
    }
}

/// A volume of each kind, written once.
fn written() -> impl Iterator<Item = Stage> {
    [Kind::Tiered, Kind::Spread].into_iter().map(|kind| {
        let stage = Stage::new(kind);
        stage.write(1);
        stage
    })
}

fn serve(scratch: &Scratch, (name, size_bytes): (&str, u64)) -> Server {
    let file = file_of(scratch, name);
    if !file.exists() {
        let made = fs::File::create(&file).and_then(|file| file.set_len(size_bytes));
        made.expect("a file in scratch");
    }
    Server::nbdkit_named(scratch, name, &["file", &text(&file)])
}

fn file_of(scratch: &Scratch, name: &str) -> PathBuf {
    scratch.join(format!("{name}.raw"))
}

fn content(round: u64, block: u64) -> Vec<u8> {
    noise(round << 32 | block, BLOCK)
}

fn trouble(gate: &Gate, volume: &str) -> String {
    let status = gate.status();
    let backends = status["backends"].as_array().expect("a list of backends");
    let found = backends.iter().find(|backend| backend["name"] == volume);
    found.expect("the volume is a backend")["trouble"].as_str().unwrap_or_default().to_owned()
}

fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).expect("a copy in scratch");
}

#[test]
fn a_member_that_is_an_older_copy_is_refused_by_name_until_the_right_one_is_back() {
    needs!("nbdkit");
    for mut stage in written() {
        let old = stage.scratch.join("old");
        copy(&stage.file(0), &old);
        stage.write(2);
        let last = stage.scratch.join("last");
        stage.restart_after(|stage| {
            copy(&stage.file(0), &last);
            copy(&old, &stage.file(0));
        });
        let name = stage.kind.members()[0].0;
        let why = stage.refusal("it is an older copy: it holds beat");
        assert!(why.contains(&format!("\"{name}\"")), "{why}");
        stage.restart_after(|stage| copy(&last, &stage.file(0)));
        stage.assert_holds(2);
    }
}

#[test]
fn an_older_copy_of_all_members_is_known_by_the_gate_that_has_served_them() {
    needs!("nbdkit");
    for mut stage in written() {
        let members = 0..stage.kind.members().len();
        let old = |member: usize| format!("old-{member}");
        for member in members.clone() {
            copy(&stage.file(member), &stage.scratch.join(old(member)));
        }
        stage.write(2);
        stage.restart_after(|stage| {
            for member in members {
                copy(&stage.scratch.join(old(member)), &stage.file(member));
            }
        });
        let why = stage.refusal("it is an older copy");
        // Somebody may have put a backup back on purpose.
        let path = why.rsplit("remove ").next().expect("it says which file");
        fs::remove_file(stage.scratch.join(path)).expect("the file that it names");
        stage.assert_holds(1);
    }
}

#[test]
fn a_young_volume_with_a_damaged_head_is_made_good_and_not_made_anew() {
    needs!("nbdkit");
    for mut stage in written() {
        stage.restart_after(|stage| {
            // The newer one of the two heads: the second opening is yet to come.
            let mut bytes = fs::read(stage.file(0)).expect("the member");
            bytes[60] ^= 1;
            fs::write(stage.file(0), bytes).expect("the member");
        });
        stage.assert_holds(1);
    }
}

#[test]
fn no_volume_is_made_in_the_place_of_one_that_this_gate_has_served() {
    needs!("nbdkit");
    for mut stage in written() {
        stage.restart_after(|stage| {
            for member in 0..stage.kind.members().len() {
                fs::remove_file(stage.file(member)).expect("the member");
            }
        });
        let why = stage.refusal("this gate has served volume");
        let path = why.rsplit("remove ").next().expect("it says which file");
        fs::remove_file(stage.scratch.join(path)).expect("the file that it names");
        stage.write(2);
        stage.assert_holds(2);
    }
}

#[test]
fn a_member_without_heads_is_not_taken_for_blank() {
    needs!("nbdkit");
    for mut stage in written() {
        stage.restart_after(|stage| {
            for member in 0..stage.kind.members().len() {
                let mut bytes = fs::read(stage.file(member)).expect("the member");
                bytes[..3 * BLOCK].fill(0);
                fs::write(stage.file(member), bytes).expect("the member");
            }
            // Nor does a gate that knows nothing of it.
            fs::remove_dir_all(stage.scratch.join("evenkeel-data")).expect("the state folder");
        });
        stage.refusal("it has no head, but there is something at byte");
    }
}

#[test]
fn an_older_copy_of_a_tier_of_this_machine_is_refused_too() {
    let scratch = Scratch::new();
    let still = volume_policy("48 MiB").replace("extent = ", "moves = \"off\"\nextent = ");
    let mut gate = Gate::start(&scratch, &still);
    let mut client = wait_for("the volume", || Client::try_open(&gate.plain("disk")));
    let file = scratch.join("disks/slow");
    // Marks of local tiers are flushed after ten seconds of changes.
    let mut write = |seconds: u64, round: u64| {
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end {
            for block in 4000..4016 {
                let at = block * BLOCK as u64;
                assert_eq!(client.write(at, &content(round, block)), Ok(()));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(client.flush(), Ok(()));
    };
    write(2, 1);
    let old = scratch.join("old");
    copy(&file, &old);
    write(24, 2);
    gate.kill();
    copy(&old, &file);
    gate.restart();
    let refused = || trouble(&gate, "shelf").contains("it is an older copy").then_some(());
    wait_for("the refusal", refused);
}
