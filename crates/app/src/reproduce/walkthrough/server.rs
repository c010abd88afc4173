//! Seven servers that have little in common, each with an export `db` and an export `backup`.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use evenkeel_core::time::Span;
use evenkeel_io::load::{LoadPlan, LoadSpec, Pattern, WeightedSize};
use evenkeel_wire::nbd::uri::NbdUri;

use super::TENANTS;
use crate::load::measure;
use crate::stage::{DataServer, GateProcess, Stage};
use crate::units::print_size;

/// What one client can read.
const EXPORT_BYTES: u64 = 256 << 20;

/// A kind of server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    /// Of letters and hyphens, for programs.
    pub(super) id: &'static str,
    /// For people.
    pub(super) what: &'static str,
    /// Whether a quick run leaves it out.
    pub(super) takes_long: bool,
    start: fn(&Stage) -> anyhow::Result<Server>,
}

/// A running one.
#[derive(Debug)]
pub(super) enum Server {
    Nbdkit(DataServer),
    /// A gate that only counts, before a backend that is no server of its own.
    Gate(GateProcess),
}

/// All of them.
pub(super) const KINDS: [Kind; 7] = [
    Kind {
        id: "rate",
        what: "nbdkit, 40 MB/s",
        takes_long: false,
        start: |stage| nbdkit(stage, &["rate"], &["rate=320000000"]),
    },
    Kind {
        id: "serial",
        what: "nbdkit, 1 ms for each, one at a time",
        takes_long: false,
        start: |stage| {
            nbdkit(stage, &["noparallel", "delay"], &["serialize=all-requests", "rdelay=1ms"])
        },
    },
    Kind {
        id: "parallel",
        what: "nbdkit, 5 ms for each, in parallel",
        takes_long: true,
        start: |stage| nbdkit(stage, &["delay"], &["rdelay=5ms"]),
    },
    Kind {
        id: "memory",
        what: "nbdkit, memory",
        takes_long: true,
        start: |stage| nbdkit(stage, &[], &[]),
    },
    Kind { id: "disk", what: "this machine's disk, direct", takes_long: true, start: own_disk },
    Kind {
        id: "store",
        what: "a store on this machine's disk",
        takes_long: true,
        start: |stage| store(stage, ""),
    },
    Kind {
        id: "emulated",
        what: "a store on three emulated 10k disks",
        takes_long: true,
        start: |stage| store(stage, "emulate = \"sata-10k-2013\"\n"),
    },
];

impl Kind {
    /// Starts one.
    pub(super) fn start(&self, stage: &Stage) -> anyhow::Result<Server> {
        (self.start)(stage)
    }
}

impl Server {
    /// Where an export of it is.
    pub(super) fn uri(&self, export: &str) -> anyhow::Result<NbdUri> {
        match self {
            Self::Nbdkit(server) => server.uri(export),
            Self::Gate(gate) => gate.uri(export),
        }
    }
}

/// nbdkit on memory behind these filters, which lists both exports.
fn nbdkit(stage: &Stage, filters: &[&str], settings: &[&str]) -> anyhow::Result<Server> {
    let filters = ["exportname"].iter().chain(filters);
    let mut arguments: Vec<String> = filters.map(|name| format!("--filter={name}")).collect();
    arguments.extend(["memory".to_owned(), format!("size={EXPORT_BYTES}")]);
    arguments.extend(settings.iter().map(|setting| (*setting).to_owned()));
    arguments.extend(TENANTS.map(|name| format!("exportname={name}")));
    arguments.push("exportname-list=explicit".to_owned());
    Ok(Server::Nbdkit(DataServer::start_by(stage, "server", &arguments)?))
}

/// A file past the page cache, half of it for each export.
fn own_disk(stage: &Stage) -> anyhow::Result<Server> {
    let file = stage.path("disk.img");
    fill(&file, EXPORT_BYTES * 2).context("cannot write to the scratch folder")?;
    gate(stage, &format!("file = \"{}\"\ndirect = true\n", file.display()))
}

/// A file in which no block is a hole.
fn fill(file: &Path, size_bytes: u64) -> std::io::Result<()> {
    let block = vec![0xa5; 1 << 20];
    let mut file = File::create(file)?;
    for _ in 0..size_bytes >> 20 {
        file.write_all(&block)?;
    }
    file.sync_all()
}

/// A store of three drives with a volume, half of it for each export, of which all was written.
fn store(stage: &Stage, options: &str) -> anyhow::Result<Server> {
    let drives = ["a", "b", "c"].map(|name| stage.path(&format!("{name}.img")));
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let [room, volume] = [8, 2].map(|times| print_size(times * EXPORT_BYTES));
    let mut create = Command::new(program);
    create.args(["store", "create"]).args(&drives).args(["--size", &room, "--volume", &volume]);
    let output = create.output().context("cannot start this program")?;
    anyhow::ensure!(
        output.status.success(),
        "cannot make a store: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let drives = drives.map(|drive| format!("\"{}\"", drive.display()));
    let server = gate(stage, &format!("store = [{}]\n{options}", drives.join(", ")))?;
    for export in TENANTS {
        let _ = measure(&writes(server.uri(export)?))?;
    }
    Ok(server)
}

/// Every block once, in order.
fn writes(target: NbdUri) -> LoadPlan {
    const SIZE_BYTES: u32 = 1 << 20;
    let group = LoadSpec {
        name: "fill".to_owned(),
        targets: vec![target],
        depth: 4,
        sizes: vec![WeightedSize { size_bytes: SIZE_BYTES, weight: 1 }],
        pattern: Pattern::Sequential,
        read_percent: 0,
        requests: Some(EXPORT_BYTES / u64::from(SIZE_BYTES)),
        ..LoadSpec::default()
    };
    LoadPlan { groups: vec![group], ramp: Span::ZERO, runtime: None, ..LoadPlan::default() }
}

/// Shares nothing: only a way to a backend with these keys, half of it for each export.
fn gate(stage: &Stage, backend: &str) -> anyhow::Result<Server> {
    let size = print_size(EXPORT_BYTES);
    let policy = format!(
        "mode = \"observe\"\n[[backend]]\nname = \"device\"\n{backend}\
         [[export]]\nname = \"db\"\nsize = \"{size}\"\n\
         [[export]]\nname = \"backup\"\noffset = \"{size}\"\nsize = \"{size}\"\n"
    );
    Ok(Server::Gate(GateProcess::start(stage, "server", &policy)?))
}
