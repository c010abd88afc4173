//! The scenario file: TOML in the manner of the policy file, each mistake shown where it was made.
//!
//! ```text
//! policy = "gate.toml" (or its tables as [policy])   length, warm_up, interval, seed, gate
//! [[device]]    what stands behind each backend      file/device.rs
//! [[workload]]  what clients do                      file/workload.rs
//! [[replay]]    recorded traces                      file/workload.rs, file/table.rs
//! [[fault]]     what goes wrong                      file/fault.rs
//! [[change]]    policies that replace the first      file/change.rs
//! ```

mod change;
mod device;
mod fault;
mod table;
mod workload;

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use evenkeel_core::time::Span;
use evenkeel_engine::policy::Policy;
use evenkeel_sim::device::spec::DeviceSpec;
use evenkeel_sim::scenario::{BackendDevice, GateSpec, PolicyChange, Scenario, ScenarioFault};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::diagnostic::Diagnostics;
use crate::config::fields::{Fields, list, mismatch, nearest};
use crate::config::{self, FILE_BYTES_MAX, values};
use crate::exit::Exit;
use crate::trace::input::TraceFile;
use change::RawChange;

type Value<'i> = Spanned<DeValue<'i>>;

/// A scenario and the files of its traces, in the order of its replays.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The scenario.
    pub(crate) scenario: Scenario,
    /// One trace for each replay.
    pub(crate) traces: Vec<TraceFile>,
}

/// Reads a scenario file.
///
/// # Errors
/// [`Exit::Invalid`] with every mistake, of the policy file that it names as well.
pub(crate) fn load(path: &Path) -> anyhow::Result<Loaded> {
    let text = fs::read_to_string(path).map_err(|error| {
        Exit::Runtime.because(format!("cannot read the scenario {}: {error}", path.display()))
    })?;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    parse(&text, &path.display().to_string(), folder)
}

/// Parses a scenario; `name` is what findings call the file, `folder` where its paths start.
pub(crate) fn parse(text: &str, name: &str, folder: &Path) -> anyhow::Result<Loaded> {
    let mut out = Diagnostics::new(name, text);
    let refuse = |mut out: Diagnostics| {
        out.sort();
        Exit::Invalid.because(out)
    };
    if text.len() > FILE_BYTES_MAX {
        out.error(0..0, "the file is larger than 4 MiB", "is this the right file?");
        return Err(refuse(out));
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let message = error.message().trim().replace('\n', ", ");
        out.error(error.span().unwrap_or(0..0), message, "");
    }
    if !errors.is_empty() {
        return Err(refuse(out));
    }
    let Some(raw) = Raw::read(table.get_ref(), folder, &mut out) else { return Err(refuse(out)) };
    let policy = raw.policy.load(folder)?;
    let change =
        |RawChange { at, policy }: RawChange| Ok(PolicyChange { at, policy: policy.load(folder)? });
    let changes = raw.changes.into_iter().map(change).collect::<anyhow::Result<_>>()?;
    if out.has_errors() {
        return Err(refuse(out));
    }
    let scenario = Scenario { policy, changes, ..raw.scenario };
    raw.places.check_backends(&scenario, &mut out);
    if out.has_errors() {
        return Err(refuse(out));
    }
    if let Err(fault) = scenario.check() {
        raw.places.report(&fault, &mut out);
        return Err(refuse(out));
    }
    let in_folder = |trace: TraceFile| TraceFile { path: folder.join(trace.path), ..trace };
    let traces = raw.traces.into_iter().map(in_folder).collect();
    Ok(Loaded { scenario, traces })
}

/// A device alone, as in the file that `plan --backend` names.
///
/// # Errors
/// [`Exit::Invalid`] with every mistake.
pub(crate) fn parse_device(text: &str, name: &str, folder: &Path) -> anyhow::Result<DeviceSpec> {
    let mut out = Diagnostics::new(name, text);
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let message = error.message().trim().replace('\n', ", ");
        out.error(error.span().unwrap_or(0..0), message, "");
    }
    let mut fields = Fields::new("a device", table.get_ref(), 0..0);
    match device::alone(&mut fields, folder, &mut out) {
        Some(device) if !out.has_errors() => Ok(device),
        _ => Err(Exit::Invalid.because(out)),
    }
}

/// A policy file that has to be valid.
///
/// # Errors
/// [`Exit::Invalid`] with its mistakes.
pub(crate) fn load_policy(path: &Path) -> anyhow::Result<Policy> {
    config::load_valid(path).map_err(|error| match error {
        config::LoadError::Invalid(_) => Exit::Invalid.because(error),
        config::LoadError::Unreadable { .. } => Exit::Runtime.because(error),
    })
}

struct Raw {
    policy: RawPolicy,
    changes: Vec<RawChange>,
    /// All but the policies.
    scenario: Scenario,
    traces: Vec<TraceFile>,
    places: Places,
}

enum RawPolicy {
    File(PathBuf),
    Within(Box<Policy>),
}

impl RawPolicy {
    /// The policy itself; a file is named from this folder.
    fn load(self, folder: &Path) -> anyhow::Result<Policy> {
        match self {
            Self::Within(policy) => Ok(*policy),
            Self::File(file) => load_policy(&folder.join(file)),
        }
    }
}

/// Where the parts stand, by the names that [`ScenarioFault`] gives them.
#[derive(Default)]
struct Places {
    spans: BTreeMap<String, Range<usize>>,
}

impl Raw {
    fn read(table: &DeTable<'_>, folder: &Path, out: &mut Diagnostics) -> Option<Self> {
        let mut fields = Fields::new("the scenario", table, 0..0);
        let default = Scenario::default();
        let policy = fields.required("policy", policy, out);
        let length = fields.required("length", values::duration, out);
        let warm_up = or(fields.optional("warm_up", values::duration, out), Span::ZERO);
        let interval = fields.optional("interval", values::duration, out);
        let seed = fields.optional("seed", values::whole, out);
        let gate = or(fields.optional("gate", gate, out), GateSpec::default());
        let devices = fields.tables("device", device::read, out);
        let workloads = fields.tables("workload", workload::read, out);
        let replays = fields.tables("replay", workload::read_replay, out);
        let faults = fields.tables("fault", fault::read, out);
        let changes = fields.tables("change", change::read, out);
        fields.finish(out);

        let mut places = Places::default();
        let policy = policy?;
        places.note("policy", policy.span());
        let devices: Vec<BackendDevice> = devices
            .into_iter()
            .filter_map(|one| {
                let span = one.span();
                let device = one.into_inner().load(folder, out)?;
                places.note(format!("device {:?}", device.backend), span);
                Some(device)
            })
            .collect();
        for one in &workloads {
            places.note(format!("workload {:?}", one.get_ref().name), one.span());
        }
        for one in &replays {
            places.note(format!("replay {:?}", one.get_ref().replay.name), one.span());
        }
        for (index, one) in faults.iter().enumerate() {
            places.note(format!("fault {}", index + 1), one.span());
        }
        for (index, one) in changes.iter().enumerate() {
            places.note(format!("policy change {}", index + 1), one.span());
        }
        let (replays, traces) =
            replays.into_iter().map(Spanned::into_inner).map(|one| (one.replay, one.trace)).unzip();
        let scenario = Scenario {
            policy: default.policy,
            changes: default.changes,
            devices,
            gate,
            workloads: workloads.into_iter().map(Spanned::into_inner).collect(),
            replays,
            faults: faults.into_iter().map(Spanned::into_inner).collect(),
            warm_up,
            length: or(length, default.length),
            interval: or(interval, default.interval),
            seed: seed.map_or(default.seed, |seed| u64::from(seed.into_inner())),
        };
        let changes = changes.into_iter().map(Spanned::into_inner).collect();
        Some(Self { policy: policy.into_inner(), changes, scenario, traces, places })
    }
}

impl Places {
    fn note(&mut self, name: impl Into<String>, span: Range<usize>) {
        self.spans.insert(name.into(), span);
    }

    /// Refuses devices of backends that the policy does not have, and backends without a device;
    /// a tiered volume has those of its tiers.
    fn check_backends(&self, scenario: &Scenario, out: &mut Diagnostics) {
        let backends = scenario.policy.backends.iter();
        let stores = backends.filter(|backend| !backend.is_volume());
        let known: Vec<&str> = stores.map(|backend| backend.name.as_str()).collect();
        for device in &scenario.devices {
            if !known.contains(&device.backend.as_str()) {
                let message = format!("the policy has no backend `{}`", device.backend);
                let remedy = match nearest(&device.backend, &known) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => format!("its backends are {}", list(&known)),
                };
                out.error(self.of(&format!("device {:?}", device.backend)), message, remedy);
            }
        }
        for name in known {
            if scenario.devices.iter().all(|device| device.backend != name) {
                let message = format!("nothing stands behind backend `{name}`");
                let remedy = format!("add a `[[device]]` with `backend = \"{name}\"`");
                out.error(self.of("policy"), message, remedy);
            }
        }
    }

    fn of(&self, place: &str) -> Range<usize> {
        self.spans.get(place).cloned().unwrap_or(0..0)
    }

    /// A fault of the scenario as a whole, shown where its part stands.
    fn report(&self, fault: &ScenarioFault, out: &mut Diagnostics) {
        let span = self.of(&fault.place);
        let (what, remedy) = fault.what.split_once("; ").unwrap_or((&fault.what, ""));
        out.error(span, format!("{}: {what}", fault.place), remedy);
    }
}

/// The name of a policy file, or the policy itself.
fn policy(value: &Value<'_>, out: &mut Diagnostics) -> Option<RawPolicy> {
    match value.get_ref() {
        DeValue::String(_) => values::path(value, out).map(RawPolicy::File),
        DeValue::Table(table) => {
            config::policy_within(table, out).map(Box::new).map(RawPolicy::Within)
        }
        _ => {
            let examples = "`\"gate.toml\"`, or the policy itself as `[policy]`";
            mismatch(value, "a policy", examples, out);
            None
        }
    }
}

fn gate(value: &Value<'_>, out: &mut Diagnostics) -> Option<GateSpec> {
    let mut fields = Fields::of("`gate`", value, out)?;
    let time = fields.required("request_time", values::duration, out);
    fields.finish(out);
    Some(GateSpec { request_time: time?.into_inner() })
}

/// What was written, or else the default.
fn or<T>(written: Option<Spanned<T>>, default: T) -> T {
    written.map_or(default, Spanned::into_inner)
}
