//! Scenarios as scripts: what `testdata/*.txt` is written in.
//!
//! ```text
//! policy enforce                               mode
//! backend disk sfq depth=4 [unit=BYTES] [hold=MS] [bytes=N | adaptive=MIN-MAX goal=US] [cost=one]
//! constant disk fixed=US rate=BYTES [servers=N]
//! rate disk bits=N [burst=MS] [threads=N]      nbdkit's rate filter
//! delay disk read=US write=US [threads=N]      nbdkit's delay filter
//! link disk delay=US [rate=BYTES] [loss=PPM] [again=US]
//! group total disk0 disk1                      shares over several servers
//! tenant a weight=4 [iops=N burst=N] [bytes=N burst=N]
//! load a disk [clients=N] [depth=N] [size=BYTES] [read=PERCENT] [think=US] [poisson=RATE]
//!      [constant=RATE] [on=MS off=MS] [start=MS] [stop=MS] [pattern=zipf|sequential] [flush=N]
//! striped a disk0 disk1 ..                     the same, each request to all of them
//! slow|stuck|failing|lying disk from=MS for=MS [percent=N] [permille=N]
//! restart from=MS for=MS
//! gate time=US                                 the gate's core, per request
//! run ms=N [warm=MS] [seed=N] [interval=MS]
//! ```

use std::collections::BTreeMap;

use evenkeel_core::sched::{Limit, Share};
use evenkeel_core::time::Span;
use evenkeel_engine::cost::CostModel;
use evenkeel_engine::policy::{
    Depth, Discipline, Group, Mode, Policy, Scheduling, Sharing, Tenant,
};
use evenkeel_sim::device::spec::{ConstantSpec, DelaySpec, DeviceSpec, NbdkitService, RateSpec};
use evenkeel_sim::faults::{Fault, FaultKind};
use evenkeel_sim::link::LinkSpec;
use evenkeel_sim::scenario::{
    Arrivals, GateSpec, Layout, Pattern, Scenario, WeightedSize, Workload,
};

use crate::scenes::{COST, DEVICE, backend, device};

/// The words of a line: plain ones, and `name=value`.
struct Words<'a> {
    plain: Vec<&'a str>,
    named: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    fn of(line: &'a str) -> Self {
        let (named, plain): (Vec<&str>, Vec<&str>) =
            line.split_whitespace().partition(|word| word.contains('='));
        let named = named.into_iter().filter_map(|word| word.split_once('=')).collect();
        Words { plain, named }
    }

    fn word(&self, index: usize) -> String {
        self.plain[index].to_owned()
    }

    fn find<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        let parse = |value: &&str| value.parse().ok().expect("values are numbers");
        self.named.get(name).map(parse)
    }

    fn number<T: std::str::FromStr + Default>(&self, name: &str) -> T {
        self.find(name).unwrap_or_default()
    }

    fn micros(&self, name: &str) -> Span {
        Span::from_micros(self.number(name))
    }

    fn millis(&self, name: &str) -> Span {
        Span::from_millis(self.number(name))
    }
}

/// The scenario that a script describes.
pub(crate) fn scenario(script: &str) -> Scenario {
    let mut scenario = Scenario {
        policy: Policy { mode: Mode::Enforce, ..Policy::default() },
        ..Scenario::default()
    };
    for line in script.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        apply(&mut scenario, &Words::of(line));
    }
    scenario
}

fn apply(scenario: &mut Scenario, words: &Words<'_>) {
    let policy = &mut scenario.policy;
    match words.plain[0] {
        "policy" => {
            policy.mode = match words.plain[1] {
                "observe" => Mode::Observe,
                "shadow" => Mode::Shadow,
                _ => Mode::Enforce,
            }
        }
        "backend" => policy.backends.push(backend(words.plain[1], scheduling(words))),
        "group" => policy.groups.push(Group {
            name: "together".to_owned(),
            backends: words.plain[2..].iter().map(ToString::to_string).collect(),
            sharing: Sharing::Total,
            is_exchanged: false,
        }),
        "tenant" => policy.tenants.push(tenant(words)),
        "constant" | "rate" | "delay" => {
            scenario.devices.push(device(words.plain[1], device_spec(words)));
        }
        "link" => {
            let entry = scenario.devices.iter_mut().find(|one| one.backend == words.plain[1]);
            entry.expect("a link follows its device").link = LinkSpec {
                rate_bytes: words.number("rate"),
                delay: words.micros("delay"),
                loss_ppm: words.number("loss"),
                retransmission: words.micros("again"),
            };
        }
        "load" | "striped" => scenario.workloads.push(workload(words, scenario.workloads.len())),
        "gate" => scenario.gate = GateSpec { request_time: words.micros("time") },
        "run" => {
            scenario.length = words.millis("ms");
            scenario.warm_up = words.millis("warm");
            scenario.seed = words.find("seed").unwrap_or(1);
            let interval = words.find("interval").map_or(scenario.length, Span::from_millis);
            scenario.interval = interval;
        }
        _ => scenario.faults.push(fault(words)),
    }
}

fn scheduling(words: &Words<'_>) -> Scheduling {
    let depth = if let Some(bytes) = words.find("bytes") {
        Depth::Bytes(bytes)
    } else if let Some((min, max)) = words.named.get("adaptive").and_then(|x| x.split_once('-')) {
        let [min, max] = [min, max].map(|bound| bound.parse().expect("a number"));
        let goal = words.micros("goal");
        Depth::Adaptive { min, max, read_goal: goal, write_goal: goal }
    } else {
        Depth::Requests(words.find("depth").unwrap_or(4))
    };
    let is_fifo = words.plain.get(2) == Some(&"fifo");
    Scheduling {
        discipline: if is_fifo { Discipline::Fifo } else { Discipline::Sfq },
        depth,
        hold: words.millis("hold"),
        cost: if words.named.contains_key("cost") { CostModel::PerRequest } else { COST },
        unit_bytes: words.find("unit").unwrap_or(1 << 20),
        capacity_iops: None,
        ..Scheduling::default()
    }
}

fn tenant(words: &Words<'_>) -> Tenant {
    let burst = words.number("burst");
    let limit = Limit {
        rate_iops: words.number("iops"),
        burst_requests: if words.named.contains_key("iops") { burst } else { 0 },
        rate_bytes: words.number("bytes"),
        burst_bytes: if words.named.contains_key("bytes") { burst } else { 0 },
    };
    let weight: u32 = words.find("weight").unwrap_or(1);
    let share = Share { weight_milli: weight * 1000, limit, ..Share::default() };
    Tenant { read_only: false, name: words.word(1), matches: Vec::new(), share }
}

fn device_spec(words: &Words<'_>) -> DeviceSpec {
    let size_bytes = DEVICE.size_bytes;
    let threads = words.find("threads").unwrap_or(16);
    let service = NbdkitService { threads, oversleep: Span::ZERO, ..NbdkitService::default() };
    match words.plain[0] {
        "constant" => DeviceSpec::Constant(ConstantSpec {
            size_bytes,
            fixed: words.micros("fixed"),
            rate_bytes: words.number("rate"),
            servers: words.find("servers").unwrap_or(1),
        }),
        "rate" => DeviceSpec::Rate(RateSpec {
            size_bytes,
            rate_bits: words.number("bits"),
            burstiness: words.find("burst").map_or(Span::from_secs(2), Span::from_millis),
            service,
            ..RateSpec::default()
        }),
        _ => DeviceSpec::Delay(DelaySpec {
            size_bytes,
            read: words.micros("read"),
            write: words.micros("write"),
            service,
            ..DelaySpec::default()
        }),
    }
}

fn workload(words: &Words<'_>, index: usize) -> Workload {
    let tenant = words.word(1);
    let arrivals = if let Some(per_second) = words.find("poisson") {
        Arrivals::Poisson { per_second }
    } else if let Some(per_second) = words.find("constant") {
        match words.find("on").map(Span::from_millis) {
            Some(on) => Arrivals::OnOff { per_second, on, off: words.millis("off") },
            None => Arrivals::Constant { per_second },
        }
    } else {
        Arrivals::Closed { think: words.micros("think") }
    };
    let pattern = match words.named.get("pattern") {
        Some(&"zipf") => Pattern::Zipf { theta: 0.99 },
        Some(&"sequential") => Pattern::Sequential,
        _ => Pattern::Uniform,
    };
    let size_bytes = words.find("size").unwrap_or(4096);
    Workload {
        name: format!("{tenant}{index}"),
        tenant: Some(tenant),
        targets: words.plain[2..].iter().map(ToString::to_string).collect(),
        layout: if words.plain[0] == "striped" { Layout::Striped } else { Layout::Spread },
        clients: words.find("clients").unwrap_or(1),
        depth: words.find("depth").unwrap_or(16),
        arrivals,
        pattern,
        sizes: vec![WeightedSize { size_bytes, weight: 1 }],
        read_percent: words.find("read").unwrap_or(100),
        flush_every: words.number("flush"),
        start: words.millis("start"),
        stop: words.find("stop").map(Span::from_millis),
        ..Workload::default()
    }
}

fn fault(words: &Words<'_>) -> Fault {
    let backend = || words.word(1);
    let what = match words.plain[0] {
        "slow" => {
            FaultKind::SlowDevice { backend: backend(), time_percent: words.number("percent") }
        }
        "stuck" => FaultKind::StuckDevice { backend: backend() },
        "failing" => {
            FaultKind::FailingDevice { backend: backend(), permille: words.number("permille") }
        }
        "lying" => FaultKind::LyingDevice { backend: backend() },
        "restart" => FaultKind::GateRestart,
        other => panic!("no line begins with {other:?}"),
    };
    Fault { what, start: words.millis("from"), length: words.millis("for") }
}
