//! The real peers and tools that the tests use: what is there, and how to get the rest.
//!
//! The end-to-end tests drive other people's NBD clients and servers. Without one of them its tests
//! are skipped and named in the summary, so a failed installation costs coverage, not the run.

use std::process::Command;

use crate::{guest, shell};

/// A Debian package and the programs that we use from it.
struct Package {
    name: &'static str,
    /// Names to be found, or whole paths of what is no program.
    programs: &'static [&'static str],
    used_for: &'static str,
}

const PACKAGES: &[Package] = &[
    Package { name: "fio", programs: &["fio"], used_for: "fio verify through the gate" },
    Package { name: "nbdkit", programs: &["nbdkit"], used_for: "an upstream in most tests" },
    Package {
        name: "libnbd-bin",
        programs: &["nbdinfo", "nbdcopy", "nbdfuse"],
        used_for: "nbdinfo, nbdcopy and nbdfuse as clients",
    },
    Package {
        name: "qemu-utils",
        programs: &["qemu-img", "qemu-io", "qemu-nbd"],
        used_for: "qemu as client and upstream",
    },
    Package { name: "fuse3", programs: &["fusermount3"], used_for: "mounting what nbdfuse shows" },
    Package { name: "haproxy", programs: &["haproxy"], used_for: "the benchmark's named peer" },
    Package { name: "time", programs: &["time"], used_for: "what processes cost in benchmarks" },
    Package {
        name: "python3-simpy3",
        programs: &["/usr/lib/python3/dist-packages/simpy/__init__.py"],
        used_for: "the simulator's named peer",
    },
    Package { name: "e2fsprogs", programs: &["mkfs.ext4"], used_for: "a file system on the gate" },
    Package { name: "openssl", programs: &["openssl"], used_for: "looking at TLS by hand" },
    Package { name: "ceph-mon", programs: &["ceph-mon"], used_for: "a Ceph of one machine" },
    Package { name: "ceph-mgr", programs: &["ceph-mgr"], used_for: "a Ceph of one machine" },
    Package { name: "ceph-osd", programs: &["ceph-osd"], used_for: "a Ceph of one machine" },
    // The three above need these two, and bring them.
    Package {
        name: "ceph-base",
        programs: &["crushtool", "osdmaptool", "monmaptool"],
        used_for: "choices beside CRUSH and upmap",
    },
    Package { name: "ceph-common", programs: &["ceph-authtool"], used_for: "keys of a Ceph" },
    Package {
        name: "protobuf-compiler",
        programs: &["protoc"],
        used_for: "building with the feature etcd",
    },
    Package {
        name: "libprotobuf-dev",
        programs: &["/usr/include/google/protobuf/descriptor.proto"],
        used_for: "building with the feature etcd",
    },
    // Tests start servers of their own; one that a package starts is in nobody's way.
    Package { name: "etcd-server", programs: &["etcd"], used_for: "gates and policies in etcd" },
    Package { name: "etcd-client", programs: &["etcdctl"], used_for: "policies in etcd" },
    Package {
        name: "nats-server",
        programs: &["nats-server"],
        used_for: "gates that meet over NATS",
    },
    Package {
        name: "iproute2",
        programs: &["ss", "ip"],
        used_for: "cutting connections, and networks of namespaces",
    },
    Package { name: "nftables", programs: &["nft"], used_for: "breaking networks in tests" },
    Package {
        name: "nbd-server",
        programs: &["nbd-server"],
        used_for: "what is said of kinds of servers",
    },
];

const LOCK: [&str; 2] = ["-o", "DPkg::Lock::Timeout=300"];

/// What was found.
pub(crate) struct Found {
    missing: Vec<&'static Package>,
    nextest: bool,
    cargo_fuzz: bool,
    guest: bool,
}

impl Found {
    /// One line for everything that is missing, and one for what is there.
    pub(crate) fn print(&self) {
        let there = PACKAGES.iter().filter(|package| is_there(package)).map(|package| package.name);
        eprintln!("there: {}", there.collect::<Vec<_>>().join(" "));
        eprintln!(
            "cargo-nextest: {}",
            if self.nextest { "there" } else { "absent, cargo test instead" }
        );
        eprintln!("cargo-fuzz: {}", if self.cargo_fuzz { "there" } else { "absent" });
        eprintln!("target/guest: {}", if self.guest { "there" } else { "absent" });
        for skip in self.skips() {
            eprintln!("missing: {skip}");
        }
    }

    pub(crate) fn has_nextest(&self) -> bool {
        self.nextest
    }

    pub(crate) fn has_cargo_fuzz(&self) -> bool {
        self.cargo_fuzz
    }

    /// What will not be tested, and why.
    pub(crate) fn skips(&self) -> Vec<String> {
        let mut skips: Vec<_> = self
            .missing
            .iter()
            .map(|package| format!("{} (package {} is missing)", package.used_for, package.name))
            .collect();
        if !self.guest {
            skips.push(format!("{} (target/guest is missing)", guest::USED_FOR));
        }
        if !self.cargo_fuzz {
            skips.push("fuzzing (cargo-fuzz is missing)".into());
        }
        skips
    }
}

/// Looks, installs nothing.
pub(crate) fn look() -> Found {
    Found {
        missing: PACKAGES.iter().filter(|package| !is_there(package)).collect(),
        nextest: shell::has("cargo-nextest"),
        cargo_fuzz: has_cargo_fuzz(),
        guest: guest::is_there(),
    }
}

/// Installs what is missing, as far as we may, and says what stays missing.
pub(crate) fn install() -> Found {
    let before = look();
    if may_install() && !(before.missing.is_empty() && before.guest) {
        // Another installation may be under way on a fresh machine: wait for its lock.
        report(shell::run(Command::new("apt-get").args(LOCK).args(["-q", "update"])));
    }
    if !before.missing.is_empty() {
        install_packages(&before.missing);
    }
    if may_install() && !before.guest {
        report(guest::unpack());
    }
    if !before.cargo_fuzz {
        report(shell::run(&mut shell::cargo("install --locked cargo-fuzz")));
    }
    let after = look();
    after.print();
    after
}

fn install_packages(packages: &[&'static Package]) {
    let names: Vec<_> = packages.iter().map(|package| package.name).collect();
    if !may_install() {
        eprintln!("to install what is missing: sudo apt-get install {}", names.join(" "));
        return;
    }
    let mut install = Command::new("apt-get");
    install.args(LOCK).args(["-q", "-y", "--no-install-recommends", "install"]).args(names);
    report(shell::run(install.env("DEBIAN_FRONTEND", "noninteractive")));
}

fn may_install() -> bool {
    shell::has("apt-get") && is_root()
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn is_there(package: &Package) -> bool {
    package.programs.iter().all(|program| shell::has(program))
}

fn has_cargo_fuzz() -> bool {
    let version = shell::cargo("fuzz --version").output();
    version.is_ok_and(|output| output.status.success())
}

fn report(result: anyhow::Result<()>) {
    if let Err(error) = result {
        eprintln!("warning: {error:#}");
    }
}
