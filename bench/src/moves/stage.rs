//! Two devices of known capacity, a gate with a volume over them, and the load whose heat moves on.
//!
//! The slow device serves one request at a time, reads and writes alike: 64 KiB of it in a
//! millisecond, and what is less than that in a millisecond too. So what moves take of it, nobody
//! else gets. The fast one gives 1 GB/s, and is never what anybody waits for. Both are nbdkit with
//! memory and filters, and the policy says what requests cost there.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::accounts::Accounts;
use crate::gate::{Gate, upstream};
use crate::matrix::{Direction, Pattern, Workload};
use crate::peers::memory_server;
use crate::server::{Address, EXPORT, Server};
use crate::workload::{self, Load};

/// What the devices are, the slow one first.
pub(super) const DEVICES: [&str; 2] = [
    "EMULATED, one request at a time, each 64 KiB or less of it in 1 ms (nbdkit's delay filter)",
    "EMULATED, 1 GB/s (nbdkit's rate filter)",
];

/// Sizes of the devices, the slow one first. The slow one is so large that nobody comes back to
/// what he was at while it is still on the fast one: to go round takes six minutes.
const SIZE_BYTES: [u64; 2] = [4 << 30, 256 << 20];
const SMOKE_SIZE_BYTES: [u64; 2] = [96 << 20, 32 << 20];

/// What makes nbdkit as slow as the slow device: options, and parameters of its filters. Requests
/// of one connection with one thread are served in their order.
const SLOW: [&[&str]; 2] = [
    &["--threads=1", "--filter=blocksize", "--filter=delay"],
    &["maxdata=64K", "rdelay=1ms", "wdelay=1ms"],
];
/// The same of the fast one. What was saved up meanwhile would pass for speed.
const FAST: [&[&str]; 2] = [&["--filter=rate"], &["rate=8G", "burstiness=0.1"]];

/// What the policy says of the devices, the slow one first, beside the depth.
const COSTS: [&str; 2] = [
    "connections = 1\n\
     cost.read = { fixed = \"1 ms\", rate = \"64 MiB/s\" }\n\
     cost.write = { fixed = \"1 ms\", rate = \"64 MiB/s\" }\n",
    "cost.read = { fixed = \"100 us\", rate = \"1 GB/s\" }\n\
     cost.write = { fixed = \"100 us\", rate = \"1 GB/s\" }\n",
];

/// Extents that are moved at once, by the policy's default.
const EXTENT_BYTES: u64 = 1 << 20;

/// What tiers note of themselves and keep free, and some more.
const KEPT_BYTES: u64 = 16 << 20;

/// Extents that are asked for at once, before the next ones are.
const WINDOW: u64 = 8;

/// How long a new volume may take until it serves.
const PATIENCE: Duration = Duration::from_secs(20);

/// The programs that take part, apart from the gates.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub(super) fio: PathBuf,
    pub(super) nbdkit: PathBuf,
}

/// What a stage is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) behind: Behind,
    /// Whether the devices are small.
    pub(super) is_small: bool,
    /// What else the policy says of the tenant `moves`.
    pub(super) limit: Option<&'static str>,
}

/// What the gate stands before.
#[derive(Clone, Copy, Debug)]
pub(super) enum Behind {
    /// A volume over devices that take their time; the slow one has so much to do at once.
    PacedTiers { depth: u32 },
    /// A volume over devices that are as fast as this machine.
    Tiers,
    /// One such device.
    Device,
}

/// Whether extents move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moves {
    Heat,
    Off,
}

/// The clients. Each has a socket of its own, and all have the whole volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tenant {
    Small,
    Big,
}

impl Tenant {
    /// As policy and accounts call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Big => "big",
        }
    }
}

/// How the big tenant asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wandering {
    pub(super) direction: Direction,
    pub(super) size_bytes: u32,
    pub(super) depth: u32,
    /// Requests to each extent until it is left.
    pub(super) accesses: u64,
}

/// Everything that runs meanwhile.
pub(super) struct Stage {
    gate: Gate,
    setting: Setting,
    /// The policy without the volume, which says whether extents move.
    policy: String,
    folder: PathBuf,
    _devices: Vec<Server>,
}

impl Stage {
    /// Starts devices and gate, and waits until the volume is open; nothing moves yet.
    pub(super) fn start(
        folder: &Path,
        programs: &Programs,
        evenkeel: &Path,
        setting: Setting,
    ) -> Result<Self> {
        fs::create_dir(folder).context("cannot make a folder")?;
        let devices = devices(folder, &programs.nbdkit, setting)?;
        let policy = policy(folder, &devices, setting);
        let text = policy.clone() + &backend(setting, Moves::Off);
        let gate = Gate::start(evenkeel, socket(folder, Tenant::Small), folder, &text)?;
        let stage = Self { gate, setting, policy, folder: folder.to_path_buf(), _devices: devices };
        stage.wait_until_open()?;
        Ok(stage)
    }

    fn wait_until_open(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !matches!(self.setting.behind, Behind::Device) && !self.accounts()?.is_open() {
            if Instant::now() >= deadline {
                let words = self.gate.last_words();
                bail!("the volume is not open within {PATIENCE:?}; the gate wrote last:{words}");
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Lets extents move from now on, or no longer.
    pub(super) fn set(&self, moves: Moves) -> Result<()> {
        self.gate.reload(&(self.policy.clone() + &backend(self.setting, moves)))
    }

    pub(super) fn accounts(&self) -> Result<Accounts> {
        Accounts::of(&self.gate.status()?)
    }

    /// The processor time that the gate has used.
    pub(super) fn cpu(&self) -> Result<Duration> {
        self.gate.cpu()
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn address(&self, tenant: Tenant) -> Address {
        socket(&self.folder, tenant)
    }

    /// What clients may ask for.
    pub(super) fn size_bytes(&self) -> u64 {
        sizes(self.setting).iter().sum::<u64>() - KEPT_BYTES
    }

    /// fio's command for a load that goes round what the slow tier has at first, a few extents at
    /// a time.
    pub(super) fn wander(&self, fio: &Path, how: Wandering, runtime: Duration) -> Command {
        let Wandering { direction, size_bytes, depth, accesses } = how;
        let [_, fast_bytes] = sizes(self.setting);
        let load = Load {
            target: &self.address(Tenant::Big),
            workload: Workload { direction, pattern: Pattern::Random, size_bytes, depth },
            connections: 1,
            runtime,
            size_bytes: self.size_bytes() - fast_bytes,
        };
        let mut command = workload::fio(fio, &load);
        command.args(["--zonemode=strided", "--zoneskip=0"]).args([
            format!("--offset={fast_bytes}"),
            format!("--zonerange={}", WINDOW * EXTENT_BYTES),
            format!("--zonesize={}", WINDOW * accesses * u64::from(size_bytes)),
        ]);
        command
    }
}

fn sizes(setting: Setting) -> [u64; 2] {
    if setting.is_small { SMOKE_SIZE_BYTES } else { SIZE_BYTES }
}

fn socket(folder: &Path, tenant: Tenant) -> Address {
    Address::Unix(folder.join(format!("{}.sock", tenant.name())))
}

/// The slow device and the fast one, or one alone of both sizes.
fn devices(folder: &Path, nbdkit: &Path, setting: Setting) -> Result<Vec<Server>> {
    let [slow_bytes, fast_bytes] = sizes(setting);
    let paces = match setting.behind {
        Behind::PacedTiers { .. } => vec![(slow_bytes, SLOW), (fast_bytes, FAST)],
        Behind::Tiers => vec![(slow_bytes, [&[][..]; 2]), (fast_bytes, [&[][..]; 2])],
        Behind::Device => vec![(slow_bytes + fast_bytes, [&[][..]; 2])],
    };
    let start = |(index, (size_bytes, [options, parameters])): (usize, (u64, [&[&str]; 2]))| {
        let own = folder.join(format!("device-{index}"));
        fs::create_dir(&own).context("cannot make a folder")?;
        memory_server(nbdkit, &own, size_bytes, options, parameters)
    };
    paces.into_iter().enumerate().map(start).collect()
}

/// Who listens, who is asked, and who asks; of each all that does not say whether extents move.
/// Weights are the defaults.
fn policy(folder: &Path, devices: &[Server], setting: Setting) -> String {
    let mut text = "mode = \"enforce\"\nlisten = [".to_owned();
    let listener = |tenant| match socket(folder, tenant) {
        Address::Unix(socket) => format!("unix:{}", socket.display()),
        Address::Tcp(_) => unreachable!("sockets lie in the folder"),
    };
    let tenants = [Tenant::Small, Tenant::Big];
    text += &tenants.map(|tenant| format!("\"{}\"", listener(tenant))).join(", ");
    text += "]\n";
    for ((name, device), cost) in ["slow", "fast"].into_iter().zip(devices).zip(COSTS) {
        text += &upstream(name, device);
        if let Behind::PacedTiers { depth } = setting.behind {
            text += cost;
            // The depth of the fast device is the default.
            if name == "slow" {
                let _ = writeln!(text, "depth = {depth}");
            }
        }
    }
    for tenant in tenants {
        let (name, listener) = (tenant.name(), listener(tenant));
        let _ = write!(
            text,
            "\n[[tenant]]\nname = \"{name}\"\nmatch = {{ listener = \"{listener}\" }}\n"
        );
    }
    if let Some(limit) = setting.limit {
        let _ = write!(text, "\n[[tenant]]\nname = \"moves\"\nlimit = \"{limit}\"\n");
    }
    text
}

/// The end of the policy: the volume, if there is one, and what is exported.
fn backend(setting: Setting, moves: Moves) -> String {
    let moves = match moves {
        Moves::Heat => "heat",
        Moves::Off => "off",
    };
    let (volume, source) = match setting.behind {
        Behind::Device => (String::new(), "slow"),
        Behind::Tiers | Behind::PacedTiers { .. } => (
            format!(
                "\n[[backend]]\nname = \"shelf\"\ntiers = [\"slow\", \"fast\"]\n\
                 extent = \"{} MiB\"\nmoves = \"{moves}\"\n",
                EXTENT_BYTES >> 20
            ),
            "shelf",
        ),
    };
    volume + &format!("\n[[export]]\nname = \"{EXPORT}\"\nbackend = \"{source}\"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_extents_move_is_all_that_differs_between_the_settings() {
        let setting =
            Setting { behind: Behind::PacedTiers { depth: 4 }, is_small: true, limit: None };
        let [heat, off] = [Moves::Heat, Moves::Off].map(|moves| backend(setting, moves));
        assert!(heat != off && heat == off.replace("\"off\"", "\"heat\""), "{heat}{off}");
        let text = policy(Path::new("/nowhere"), &[], setting);
        assert!(!text.contains("share") && !text.contains("limit"), "{text}");
    }

    #[test]
    fn a_device_alone_has_no_volume() {
        let setting = Setting { behind: Behind::Device, is_small: true, limit: Some("1 MiB/s") };
        let text = backend(setting, Moves::Off);
        assert!(!text.contains("tiers") && text.contains("backend = \"slow\""), "{text}");
        assert!(policy(Path::new("/nowhere"), &[], setting).contains("limit = \"1 MiB/s\""));
    }
}
