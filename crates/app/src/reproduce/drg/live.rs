//! Live: four gates on hosts of their own before one slow server, a tenant with a target against
//! three hogs; then a gate is killed, one is cut off, and one joins.
//!
//! ```text
//!   tenant, 100/s, mean of 20 ms -> gate 1 --+
//!   hog, 32 at once              -> gate 2 --+--> qemu-nbd, 1,000 requests per second for all
//!   hog                          -> gate 3 --+
//!   hog                          -> gate 4 --+    summaries over UDP from namespace to namespace
//! ```
//!
//! A window is a second. What the gate of the tenant counts of it is looked up once a second, so a
//! window of the rows below may begin some milliseconds late.

use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use evenkeel_core::time::Span;
use evenkeel_io::load::{self, Arrivals, LoadError, LoadPlan, LoadReport, LoadSpec, WeightedSize};
use evenkeel_wire::nbd::uri::NbdUri;

use crate::evidence::machine::Bears;
use crate::reproduce::Options;
use crate::reproduce::claim::{self, Claim, Verdict};
use crate::stage::{GateProcess, Network, SharedDisk, SharedDiskOptions, Stage};
use crate::terminal;

const GATES: usize = 4;
const SIZE_BYTES: u32 = 16 << 10;
const RATE_PER_S: u64 = 1_000;
const TENANT_PER_S: f64 = 100.0;
const GOAL: Duration = Duration::from_millis(20);
const HOG_DEPTH: u32 = 32;
const EXPORT: &str = "disk";
const EXPORT_BYTES: u64 = 1 << 30;

/// The tenant's gate, the one that is killed and joins again, and the one that is cut off.
const STRICT: usize = 1;
const KILLED: usize = 4;
const CUT_OFF: usize = 3;

/// After this time the target holds again, in seconds, whatever happened.
const SETTLING_S: usize = 10;

/// The device is known after this time, in seconds.
const WARM_UP_S: usize = 6;

/// What is promised.
const WINDOWS_MET_MIN: f64 = 0.98;
const HOGS_PART_MIN: f64 = 0.95;

/// How long each act lasts, in seconds.
struct Acts {
    steady: usize,
    killed: usize,
    cut_off: usize,
    mended: usize,
    joined: usize,
}

/// A second: how the tenant fared, and what all hogs were given.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    seconds: f64,
    mean_s: Option<f64>,
    hog_requests: f64,
    tenant_requests: f64,
}

/// The counters of a gate at an instant.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    requests: u64,
    total_s: f64,
    failed: u64,
}

/// A load that runs until its gate ends.
type Load = JoinHandle<Result<LoadReport, LoadError>>;

/// The whole set.
struct Hall {
    stage: Stage,
    network: Network,
    disk: SharedDisk,
    gates: Vec<Option<GateProcess>>,
    loads: Vec<Option<Load>>,
    counted: Vec<Counted>,
    looked: Instant,
    failed: u64,
    seed: u64,
}

/// 1,000 requests a second take a third of a core. The tenant is promised a mean of 20 ms and has
/// some 17, and 98 of 100 windows have to be within: half of the sleeps may end half a
/// millisecond late.
const BEARS: Bears = Bears { cores: 0.5, late_median_ms: 0.5, late_p99_ms: 5.0, uses_disks: false };

/// The claims.
pub(super) fn claims(options: &Options) -> anyhow::Result<Vec<Claim>> {
    claim::live(BEARS, || experiment(options))
}

fn experiment(options: &Options) -> anyhow::Result<Vec<Claim>> {
    let acts = if options.quick {
        Acts { steady: 15, killed: 16, cut_off: 16, mended: 14, joined: 16 }
    } else {
        Acts { steady: 60, killed: 30, cut_off: 30, mended: 20, joined: 30 }
    };
    let mut hall = Hall::new(options.seed)?;
    for gate in (1..=GATES).filter(|gate| *gate != STRICT) {
        hall.start_load(gate)?;
    }
    terminal::say("live: hogs alone, for what the server gives");
    hall.play(WARM_UP_S)?;
    let alone = hall.play(WARM_UP_S)?;
    hall.start_load(STRICT)?;
    terminal::say("live: with the tenant");
    let steady = hall.play(acts.steady)?;
    terminal::say("live: a gate is killed");
    hall.kill(KILLED);
    let killed = hall.play(acts.killed)?;
    terminal::say("live: a gate is cut off");
    hall.network.plug(CUT_OFF, false)?;
    let cut_off = hall.play(acts.cut_off)?;
    hall.network.plug(CUT_OFF, true)?;
    let mended = hall.play(acts.mended)?;
    terminal::say("live: a gate joins");
    hall.start_gate(KILLED)?;
    hall.start_load(KILLED)?;
    let joined = hall.play(acts.joined)?;
    let settled = steady.get(5..).unwrap_or_default();
    Ok(vec![
        met("steady", "the target from 5 s on", settled),
        hogs(&alone, settled),
        met("killed", "the target 10 s after a gate was killed", after(&killed)),
        met("cut-off", "the target 10 s after a gate was cut off", after(&cut_off)),
        met("mended", "the target 10 s after it is back", after(&mended)),
        met("joined", "the target 10 s after a gate joined", after(&joined)),
        errors(hall.failed),
    ])
}

/// Of every gate nothing.
fn none<T>() -> Vec<Option<T>> {
    (0..GATES).map(|_| None).collect()
}

fn after(windows: &[Window]) -> &[Window] {
    windows.get(SETTLING_S..).unwrap_or_default()
}

fn met(id: &str, what: &str, windows: &[Window]) -> Claim {
    let means: Vec<f64> = windows.iter().filter_map(|window| window.mean_s).collect();
    let kept = means.iter().filter(|mean| **mean <= GOAL.as_secs_f64()).count();
    let part = kept as f64 / means.len().max(1) as f64;
    let mean_ms = 1e3 * means.iter().sum::<f64>() / means.len().max(1) as f64;
    Claim {
        measured: format!("{kept} of {} windows, mean {mean_ms:.1} ms", means.len()),
        value: part,
        tolerance: format!("{:.0} % of windows within 20 ms", WINDOWS_MET_MIN * 100.0),
        verdict: Verdict::of(!means.is_empty() && part >= WINDOWS_MET_MIN),
        ..Claim::shown(format!("live-{id}"), format!("live: {what}"))
    }
}

fn hogs(alone: &[Window], windows: &[Window]) -> Claim {
    let rate = |windows: &[Window], of: fn(&Window) -> f64| {
        let seconds: f64 = windows.iter().map(|window| window.seconds).sum();
        windows.iter().map(of).sum::<f64>() / seconds.max(1e-9)
    };
    let all = rate(alone, |window| window.hog_requests);
    let tenant = rate(windows, |window| window.tenant_requests);
    let given = rate(windows, |window| window.hog_requests);
    let part = given / (all - tenant).max(1.0);
    Claim {
        measured: format!("{given:.0} of {:.0} requests/s ({:.1} %)", all - tenant, part * 100.0),
        value: part,
        tolerance: format!("at least {:.0} %", HOGS_PART_MIN * 100.0),
        verdict: Verdict::of(part >= HOGS_PART_MIN),
        ..Claim::shown("live-hogs", "live: what is left goes to the hogs")
    }
}

fn errors(failed: u64) -> Claim {
    Claim {
        measured: failed.to_string(),
        value: failed as f64,
        tolerance: "none".to_owned(),
        verdict: Verdict::of(failed == 0),
        ..Claim::shown("live-errors", "live: failed requests at any gate")
    }
}

impl Hall {
    fn new(seed: u64) -> anyhow::Result<Self> {
        let stage = Stage::new()?;
        let network = Network::new(GATES)?;
        let disk = SharedDiskOptions {
            export: EXPORT,
            size_bytes: EXPORT_BYTES,
            rate_bytes: RATE_PER_S * u64::from(SIZE_BYTES),
            delay: Span::from_millis(1),
        };
        let disk = SharedDisk::start(&stage, "array", disk)?;
        let key = format!("{seed:032} of the experiment");
        std::fs::write(stage.path("exchange.key"), key).context("cannot write to the stage")?;
        let (gates, loads) = (none(), none());
        let (counted, looked) = (vec![Counted::default(); GATES], Instant::now());
        let mut hall =
            Self { stage, network, disk, gates, loads, counted, looked, failed: 0, seed };
        for gate in 1..=GATES {
            hall.start_gate(gate)?;
        }
        Ok(hall)
    }

    fn start_gate(&mut self, gate: usize) -> anyhow::Result<()> {
        let policy = policy(gate, &self.disk.uri()?, &self.stage.path("exchange.key"));
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let command = self.network.command(gate, program.as_os_str());
        let name = format!("gate{gate}");
        let started = GateProcess::start_by(&self.stage, &name, &policy, command)?;
        self.gates[gate - 1] = Some(started);
        self.counted[gate - 1] = Counted::default();
        Ok(())
    }

    /// As a power cut would; its load ends with an error, as it should.
    fn kill(&mut self, gate: usize) {
        self.loads[gate - 1] = None;
        if let Some(mut gate) = self.gates[gate - 1].take() {
            gate.kill();
        }
    }

    /// Loads a gate, until that ends or this process does.
    fn start_load(&mut self, gate: usize) -> anyhow::Result<()> {
        let process = self.gates[gate - 1].as_ref().context("the gate runs")?;
        let plan = plan(gate, process.uri(EXPORT)?, self.seed);
        let thread = std::thread::Builder::new().name(format!("load{gate}"));
        self.loads[gate - 1] = Some(thread.spawn(move || load::run(&plan))?);
        Ok(())
    }

    /// Makes sure that all loads still run, so that nobody measures gates without any.
    fn check_loads(&mut self) -> anyhow::Result<()> {
        let is_over = |load: &mut Option<Load>| load.take_if(|load| load.is_finished());
        for (index, load) in self.loads.iter_mut().enumerate() {
            let Some(load) = is_over(load) else { continue };
            let outcome = load.join().map_err(|_| anyhow::anyhow!("a load has panicked"))?;
            outcome.with_context(|| format!("the load of gate {} ended", index + 1))?;
            anyhow::bail!("the load of gate {} ended early", index + 1);
        }
        Ok(())
    }

    /// Lets so many seconds pass, and tells of each.
    fn play(&mut self, seconds: usize) -> anyhow::Result<Vec<Window>> {
        let start = Instant::now();
        self.look()?;
        let mut windows = Vec::new();
        for second in 1..=seconds {
            let end = start + Duration::from_secs(second as u64);
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
            windows.push(self.look()?);
        }
        Ok(windows)
    }

    /// What happened since it was looked last.
    fn look(&mut self) -> anyhow::Result<Window> {
        self.disk.check()?;
        self.check_loads()?;
        let now = Instant::now();
        let seconds = now.duration_since(std::mem::replace(&mut self.looked, now)).as_secs_f64();
        let mut window = Window { seconds, ..Window::default() };
        for (index, gate) in self.gates.iter().enumerate() {
            let Some(gate) = gate else { continue };
            let counted = counted(gate)?;
            let before = std::mem::replace(&mut self.counted[index], counted);
            let requests = counted.requests.saturating_sub(before.requests) as f64;
            self.failed += counted.failed.saturating_sub(before.failed);
            if index + 1 == STRICT {
                window.tenant_requests = requests;
                let total_s = counted.total_s - before.total_s;
                window.mean_s = (requests > 0.0).then(|| total_s / requests);
            } else {
                window.hog_requests += requests;
            }
        }
        Ok(window)
    }
}

fn counted(gate: &GateProcess) -> anyhow::Result<Counted> {
    let status = gate.status()?;
    let mut counted = Counted::default();
    for tenant in status.domains.iter().flat_map(|domain| &domain.tenants) {
        let times = &tenant.total_time;
        counted.requests += times.count;
        counted.total_s += times.count as f64 * times.mean_seconds.unwrap_or(0.0);
        counted.failed += tenant.failed_requests;
    }
    Ok(counted)
}

fn plan(gate: usize, target: NbdUri, seed: u64) -> LoadPlan {
    let is_strict = gate == STRICT;
    let arrivals =
        if is_strict { Arrivals::Poisson { per_second: TENANT_PER_S } } else { Arrivals::Closed };
    let load = LoadSpec {
        name: format!("gate{gate}"),
        targets: vec![target],
        depth: if is_strict { 256 } else { HOG_DEPTH },
        arrivals,
        sizes: vec![WeightedSize { size_bytes: SIZE_BYTES, weight: 1 }],
        ..LoadSpec::default()
    };
    let runtime = Some(Span::from_secs(3600));
    LoadPlan { groups: vec![load], runtime, seed: seed + gate as u64, ..LoadPlan::default() }
}

fn policy(gate: usize, server: &NbdUri, key: &Path) -> String {
    let own = |gate| format!("{}:10900", Network::address(gate));
    let peers: Vec<String> = (1..=GATES).map(own).collect();
    let latency = if gate == STRICT { format!("latency = \"{GOAL:?}\"\n") } else { String::new() };
    format!(
        "mode = \"enforce\"\n[[backend]]\nname = \"array\"\nupstream = \"{server}\"\n\
         control = \"slack\"\ndepth = 16\n[[export]]\nname = \"{EXPORT}\"\n\
         [exchange]\nname = \"live\"\nlisten = \"{}\"\npeers = {peers:?}\nkey = \"{}\"\n\
         [[tenant]]\nname = \"default\"\n\
         [[tenant]]\nname = \"tenant{gate}\"\nmatch = {{ export = \"{EXPORT}\" }}\n{latency}",
        own(gate),
        key.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policies_of_the_gates_are_valid_and_list_each_other() {
        for gate in 1..=GATES {
            let server: NbdUri = "nbd+unix:///?socket=/tmp/array.sock".parse().unwrap();
            let text = policy(gate, &server, Path::new("/tmp/key"));
            let listen = "listen = [\"unix:/tmp/gate.sock\"]\n";
            let policy = crate::config::parse(&(listen.to_owned() + &text), "policy")
                .unwrap_or_else(|found| panic!("{found}"));
            let exchange = policy.exchange.unwrap();
            assert_eq!(exchange.others().map(|others| others.len()), Some(3));
            assert_eq!(policy.tenants[1].has_goal(), gate == STRICT);
        }
    }

    #[test]
    fn windows_without_requests_do_not_count_and_half_a_target_is_none() {
        let window = |mean_s| Window { seconds: 1.0, mean_s, ..Window::default() };
        let windows = [window(Some(0.01)), window(Some(0.03)), window(None)];
        let claim = met("x", "x", &windows);
        assert!((claim.value - 0.5).abs() < 1e-9 && claim.verdict == Verdict::Fails);
        assert_eq!(met("x", "x", &windows[2..]).verdict, Verdict::Fails);
    }
}
