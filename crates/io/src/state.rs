//! The folder that keeps what a gate has to know of its own past: that the process that had it
//! before is gone.
//!
//! ```text
//! gate.id   "evenkeel gate 1", 16 random bytes in hexadecimal; locked for as long as a process
//!           uses the folder
//! underway-VOLUME-HASH   what is under way with the members of a volume (`underway`)
//! volume-VOLUME-HASH     which volume was served by that name, and how far it was (`known`)
//! ceph-VOLUME-HASH       which pool of Ceph a volume was in (`device::ceph`)
//! ```
//!
//! Volumes note the folder beside their owner. A gate that finds its own folder there, and has
//! locked it, knows that the owner has ended: nobody has to say so.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{FlockOperation, flock};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::clock::boot_id;

/// What the file begins with; the number is the version of the format.
const TITLE: &str = "evenkeel gate 1\n";

/// The state of a gate.
#[derive(Debug)]
pub(crate) struct State {
    folder: Option<PathBuf>,
    /// This run of the process: 8 bytes of the kernel's name for this boot, 8 random ones.
    pub(crate) run: [u8; 16],
    locked: OnceLock<Option<Locked>>,
}

#[derive(Debug)]
struct Locked {
    id: [u8; 16],
    _file: File,
}

impl State {
    /// State in this folder, which is made when it is needed; none if there is no such folder.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        let mut run = random().unwrap_or_default();
        run[..8].copy_from_slice(&boot());
        Self { folder, run, locked: OnceLock::new() }
    }

    /// What the folder is known by, once this process alone uses it; zeroes if it cannot, which is
    /// told once.
    pub(crate) fn id(&self) -> [u8; 16] {
        let locked = self.locked.get_or_init(|| {
            let folder = self.folder.as_deref()?;
            lock(folder)
                .inspect_err(|error| {
                    let folder = folder.display();
                    tracing::warn!(
                        %folder, %error,
                        "the state folder cannot be used: after a crash of this gate its volumes \
                         wait for a fence or the operator's word"
                    );
                })
                .ok()
        });
        locked.as_ref().map_or([0; 16], |locked| locked.id)
    }
}

impl State {
    /// The folder, if this process alone uses it.
    pub(crate) fn own_folder(&self) -> Option<&Path> {
        (self.id() != [0; 16]).then_some(self.folder.as_deref()).flatten()
    }
}

/// The file of this kind for a volume. Names of volumes may hold anything.
pub(crate) fn file_of(folder: &Path, kind: &str, volume: &str) -> PathBuf {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let plain: String = volume.bytes().filter(is_plain).take(64).map(char::from).collect();
    folder.join(format!("{kind}-{plain}-{:016x}", hash(volume)))
}

/// FNV-1a; never zero.
pub(crate) fn hash(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step).max(1)
}

fn lock(folder: &Path) -> io::Result<Locked> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join("gate.id");
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| io::Error::other("another gate uses it; give each gate its own `--data`"))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let id = if text.is_empty() {
        let id = random()?;
        file.rewind()?;
        file.write_all(render(&id).as_bytes())?;
        file.sync_all()?;
        File::open(folder)?.sync_all()?;
        id
    } else {
        parse(&text).ok_or_else(|| {
            let path = path.display();
            io::Error::other(format!("{path} is damaged, or of a newer evenkeel; remove it"))
        })?
    };
    Ok(Locked { id, _file: file })
}

fn render(id: &[u8; 16]) -> String {
    let hexadecimal = u128::from_be_bytes(*id);
    format!("{TITLE}{hexadecimal:032x}\n")
}

fn parse(text: &str) -> Option<[u8; 16]> {
    let digits = text.strip_prefix(TITLE)?.strip_suffix('\n')?;
    let mut id = [0; 16];
    if digits.len() != 2 * id.len() || !digits.is_ascii() {
        return None;
    }
    for (index, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok()?;
    }
    (id != [0; 16]).then_some(id)
}

/// What this boot of the machine is known by; zeroes if the kernel does not tell.
fn boot() -> [u8; 8] {
    let digits: String = boot_id().chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0).to_be_bytes()
}

fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_its_name_and_is_one_processs_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = State::new(Some(folder.path().join("data")));
        let id = first.id();
        assert_ne!(id, [0; 16]);
        let other = State::new(first.folder.clone());
        assert_eq!(other.id(), [0; 16], "it is locked");
        assert_ne!(first.run, other.run);
        assert_eq!(first.run[..8], other.run[..8], "of the same boot");
        let path = first.folder.clone().unwrap();
        drop(first);
        assert_eq!(State::new(Some(path)).id(), id, "as after a restart");
        assert_eq!(State::new(None).id(), [0; 16]);
    }

    #[test]
    fn the_format_stays_and_damage_is_no_name() {
        let golden = "evenkeel gate 1\n000102030405060708090a0b0c0d0e0f\n";
        let id: [u8; 16] = std::array::from_fn(|at| u8::try_from(at).unwrap());
        assert_eq!((render(&id).as_str(), parse(golden)), (golden, Some(id)));
        for damaged in ["evenkeel gate 2\n00\n", "evenkeel gate 1\n00\n", "x", "evenkeel gate 1\n"]
        {
            assert_eq!(parse(damaged), None, "{damaged:?}");
        }
    }
}
