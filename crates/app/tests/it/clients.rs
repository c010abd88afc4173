//! Other people's clients work through the gate as they do without it: over each kind of storage,
//! with and without TLS on both sides.
//!
//! The module `without_the_gate` runs the same tests straight against nbdkit. If one fails there,
//! the fault is not the gate's.

use std::path::{Path, PathBuf};

use crate::harness::client::{self, Fuse};
use crate::harness::gate::{
    Gate, directory_policy, store_policy, upstream_backend, upstream_policy, volume_policy,
};
use crate::harness::mount::{LoopDevice, Mount};
use crate::harness::process::run;
use crate::harness::skip::{self, needs};
use crate::harness::storage::{Server, Wire, log_of, text};
use crate::harness::target::Target;
use crate::harness::{Scratch, noise};

const SIZE: &str = "64M";
const SIZE_BYTES: u64 = 64 << 20;

/// What holds the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Storage {
    NbdkitMemory,
    NbdkitFile,
    QemuNbd,
    EmbeddedDisk,
    /// Two files of the gate's own as the tiers of a volume.
    TieredVolume,
    /// A store over three files of the gate's own, with so little room beside the volume that it
    /// is cleaned all the time.
    Store,
    /// nbdkit, and no gate before it.
    Bare,
}

/// Everything between a client and its bytes. The gate ends before the server, the folder last.
struct Setting {
    target: Target,
    _gate: Option<Gate>,
    _server: Option<Server>,
    scratch: Scratch,
}

impl Storage {
    fn program(self) -> &'static str {
        match self {
            Self::NbdkitMemory | Self::NbdkitFile | Self::Bare => "nbdkit",
            Self::QemuNbd => "qemu-nbd",
            Self::EmbeddedDisk | Self::TieredVolume | Self::Store => "sh",
        }
    }

    fn set_up(self, wire: Wire) -> Setting {
        let scratch = Scratch::new();
        let server = self.server(&scratch, wire);
        if self == Self::Bare {
            let target = server.as_ref().expect("a server of its own").target.clone();
            return Setting { target, _gate: None, _server: server, scratch };
        }
        let policy = match &server {
            Some(server) => upstream_policy(server),
            None if self == Self::TieredVolume => volume_policy("64 MiB"),
            None if self == Self::Store => store_policy(&scratch, 72 << 20, SIZE_BYTES),
            None => directory_policy("64 MiB"),
        };
        let (gate, target) = match wire {
            Wire::Plain => {
                let gate = Gate::start(&scratch, &policy);
                let target = gate.plain("disk");
                (gate, target)
            }
            Wire::Tls => {
                let gate = Gate::start_with_tls(&scratch, &policy);
                let target = gate.secure(&scratch, "disk");
                (gate, target)
            }
        };
        Setting { target, _gate: Some(gate), _server: server, scratch }
    }

    fn server(self, scratch: &Scratch, wire: Wire) -> Option<Server> {
        match self {
            Self::NbdkitMemory | Self::Bare => {
                Some(Server::nbdkit(scratch, wire, &["memory", SIZE]))
            }
            Self::NbdkitFile => {
                let file = text(&empty_file(scratch));
                Some(Server::nbdkit(scratch, wire, &["file", &file]))
            }
            Self::QemuNbd => Some(Server::qemu_nbd(scratch, wire, &empty_file(scratch))),
            Self::EmbeddedDisk | Self::TieredVolume | Self::Store => None,
        }
    }
}

fn empty_file(scratch: &Scratch) -> PathBuf {
    let path = scratch.join("upstream.raw");
    let file = std::fs::File::create(&path).expect("create a file in scratch");
    file.set_len(SIZE_BYTES).expect("grow a file");
    path
}

fn nbdinfo(storage: Storage, wire: Wire) {
    needs!(storage.program(), "nbdinfo");
    let setting = storage.set_up(wire);
    let info = client::nbdinfo(&setting.scratch, &setting.target);
    let export = &info["exports"][0];
    assert_eq!(info["protocol"], "newstyle-fixed");
    assert_eq!(info["TLS"], wire == Wire::Tls);
    assert_eq!(info["structured"], true);
    assert_eq!(export["export-size"], SIZE_BYTES);
    for ability in ["can_flush", "can_fua", "can_trim", "can_zero"] {
        assert_eq!(export[ability], true, "{ability}: {export}");
    }
    assert_eq!(export["is_read_only"], false);
    let names = client::list(&setting.scratch, &setting.target);
    assert!(names.contains(&setting.target.export), "{names:?}");
}

fn nbdcopy(storage: Storage, wire: Wire) {
    needs!(storage.program(), "nbdcopy");
    let setting = storage.set_up(wire);
    let original = half_empty_file(&setting.scratch);
    let copy = setting.scratch.join("copy.raw");
    client::nbdcopy(&setting.scratch, &text(&original), &setting.target.uri());
    client::nbdcopy(&setting.scratch, &setting.target.uri(), &text(&copy));
    assert_same(&original, &copy);
}

fn qemu_img(storage: Storage, wire: Wire) {
    needs!(storage.program(), "qemu-img");
    let Setting { target, scratch, .. } = &storage.set_up(wire);
    let original = text(&half_empty_file(scratch));
    let there =
        ["-n", "-f", "raw", &original, "--target-image-opts", &target.qemu_target_options()];
    client::qemu_img(scratch, target, "convert", &there);
    let file = format!("driver=file,filename={original}");
    let compare = ["--image-opts", &file, &target.qemu_options()];
    client::qemu_img(scratch, target, "compare", &compare);
    let copy = scratch.join("copy.raw");
    let back = ["--image-opts", &target.qemu_options(), "-O", "raw", &text(&copy)];
    client::qemu_img(scratch, target, "convert", &back);
    assert_same(Path::new(&original), &copy);
}

fn qemu_io(storage: Storage, wire: Wire) {
    needs!(storage.program(), "qemu-io");
    let setting = storage.set_up(wire);
    let script = [
        "write -f -P 0x5a 0 128k",
        "flush",
        "read -P 0x5a 0 128k",
        "write -z 64k 64k",
        "read -P 0x5a 0 64k",
        "read -P 0 64k 64k",
        "discard 0 64k",
        "write -P 0xa5 1M 4M",
        "aio_write -P 0x11 8M 1M",
        "aio_write -P 0x22 9M 1M",
        "aio_flush",
        "read -P 0x11 8M 1M",
        "read -P 0x22 9M 1M",
        "read -P 0xa5 1M 4M",
        // Off the grid of sectors, at both ends.
        "write -P 0x33 20971521 4095",
        "read -P 0x33 20971521 4095",
    ];
    client::qemu_io(&setting.scratch, &setting.target, &script);
}

/// Without TLS, since fio's engine knows no certificates.
fn fio(storage: Storage) {
    needs!(storage.program(), "fio");
    let setting = storage.set_up(Wire::Plain);
    let arguments = client::fio_verify(&setting.target, "32m");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    run(setting.scratch.path(), "fio", &arguments);
}

fn file_system(storage: Storage, wire: Wire) {
    needs!(storage.program(), "nbdkit", "nbdfuse", "fusermount3", "losetup", "mkfs.ext4", "e2fsck");
    if let Some(why) = skip::cannot_mount() {
        return skip::tell(&why);
    }
    let setting = storage.set_up(wire);
    let folder = setting.scratch.path();
    let content = noise(3, 8 << 20);
    let fuse = Fuse::mount(&setting.scratch, &setting.target);
    let disk = LoopDevice::attach(folder, fuse.file());
    run(folder, "mkfs.ext4", &["-q", disk.path()]);
    let mount = Mount::new(folder, disk.path());
    std::fs::write(mount.join("file"), &content).expect("write to the file system");
    drop(mount);
    run(folder, "e2fsck", &["-fn", disk.path()]);
    drop(disk);
    fuse.unmount();

    // All of it again through a new connection: what was written is with the storage.
    let fuse = Fuse::mount(&setting.scratch, &setting.target);
    let disk = LoopDevice::attach(folder, fuse.file());
    let mount = Mount::new(folder, disk.path());
    assert!(std::fs::read(mount.join("file")).expect("read back") == content, "content differs");
    drop((mount, disk));
    fuse.unmount();
}

macro_rules! each_storage {
    ($($name:ident: $storage:expr, $wire:expr;)*) => { $(
        mod $name {
            use super::{Storage, Wire};

            #[test]
            fn nbdinfo_sees_size_and_abilities() {
                super::nbdinfo($storage, $wire);
            }

            #[test]
            fn nbdcopy_brings_back_what_it_took_there() {
                super::nbdcopy($storage, $wire);
            }

            #[test]
            fn qemu_img_converts_and_finds_no_difference() {
                super::qemu_img($storage, $wire);
            }

            #[test]
            fn qemu_io_reads_what_it_wrote_zeroed_and_flushed() {
                super::qemu_io($storage, $wire);
            }

            #[test]
            fn a_file_system_survives_remounting_and_fsck() {
                super::file_system($storage, $wire);
            }
        }
    )* };
}

each_storage! {
    without_the_gate: Storage::Bare, Wire::Plain;
    without_the_gate_tls: Storage::Bare, Wire::Tls;
    nbdkit_memory: Storage::NbdkitMemory, Wire::Plain;
    nbdkit_memory_tls: Storage::NbdkitMemory, Wire::Tls;
    nbdkit_file: Storage::NbdkitFile, Wire::Plain;
    nbdkit_file_tls: Storage::NbdkitFile, Wire::Tls;
    qemu_nbd: Storage::QemuNbd, Wire::Plain;
    qemu_nbd_tls: Storage::QemuNbd, Wire::Tls;
    embedded_disk: Storage::EmbeddedDisk, Wire::Plain;
    embedded_disk_tls: Storage::EmbeddedDisk, Wire::Tls;
    tiered_volume: Storage::TieredVolume, Wire::Plain;
    store: Storage::Store, Wire::Plain;
}

mod fio_verifies_random_writes {
    use super::{Storage, fio};

    #[test]
    fn without_the_gate() {
        fio(Storage::Bare);
    }

    #[test]
    fn nbdkit_memory() {
        fio(Storage::NbdkitMemory);
    }

    #[test]
    fn nbdkit_file() {
        fio(Storage::NbdkitFile);
    }

    #[test]
    fn qemu_nbd() {
        fio(Storage::QemuNbd);
    }

    #[test]
    fn embedded_disk() {
        fio(Storage::EmbeddedDisk);
    }

    #[test]
    fn tiered_volume() {
        fio(Storage::TieredVolume);
    }

    #[test]
    fn store() {
        fio(Storage::Store);
    }
}

#[test]
fn flush_and_fua_reach_the_upstream_with_their_meaning() {
    needs!("nbdkit", "qemu-io");
    let setting = Storage::NbdkitMemory.set_up(Wire::Plain);
    let script = ["write -f 0 64k", "flush", "write 64k 64k", "write -z 1M 64k", "discard 2M 64k"];
    client::qemu_io(&setting.scratch, &setting.target, &script);
    let log = std::fs::read_to_string(log_of(&setting.scratch)).expect("nbdkit logs");
    for asked in [
        "offset=0x0 count=0x10000 fua=1",
        "Flush id=",
        "offset=0x10000 count=0x10000 fua=0",
        "offset=0x100000 count=0x10000",
        "Trim id=",
    ] {
        assert!(log.contains(asked), "`{asked}` is not in\n{log}");
    }
}

#[test]
fn a_passthrough_backend_offers_what_its_server_lists() {
    needs!("nbdkit", "nbdinfo", "nbdcopy");
    let scratch = Scratch::new();
    let folder = scratch.join("served");
    std::fs::create_dir(&folder).expect("a folder in scratch");
    for name in ["db", "backup"] {
        std::fs::write(folder.join(name), noise(1, 1 << 20)).expect("write to scratch");
    }
    let source = format!("dir={}", text(&folder));
    let server = Server::nbdkit(&scratch, Wire::Plain, &["file", &source]);
    let policy = format!("{}passthrough = true\n", upstream_backend(&server.target));
    let gate = Gate::start(&scratch, &policy);
    let mut names = client::list(&scratch, &gate.plain(""));
    names.sort();
    assert_eq!(names, ["backup", "db"]);
    let copy = scratch.join("copy");
    client::nbdcopy(&scratch, &gate.plain("db").uri(), &text(&copy));
    assert_same(&folder.join("db"), &copy);
}

/// A file of data and holes in turn, as disk images are.
fn half_empty_file(scratch: &Scratch) -> PathBuf {
    use std::os::unix::fs::FileExt;
    let path = scratch.join("original.raw");
    let file = std::fs::File::create(&path).expect("create a file in scratch");
    file.set_len(SIZE_BYTES).expect("grow a file");
    for megabyte in (0..SIZE_BYTES >> 20).step_by(3) {
        let data = noise(megabyte, 1 << 20);
        file.write_all_at(&data, megabyte << 20).expect("write to scratch");
    }
    path
}

fn assert_same(original: &Path, copy: &Path) {
    let read = |path: &Path| std::fs::read(path).expect("read a file in scratch");
    assert!(read(original) == read(copy), "the copy differs from the original");
}
