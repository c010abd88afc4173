//! Scripts in `testdata/*.txt`: blocks of commands, a line `----`, and what the engine answered.
//!
//! ```text
//! domain enforce depth=2 unit=4096      begins an engine (again): mode and options
//! policy shadow depth=1 unit=4096       changes the policy of the engine that runs
//! arrive 0 a write 0+8192 [s1]          slot, tenant, kind, offset+length, server
//! done 0 [fail]                         the oldest unit of a slot that is with the backend
//! abandon 0                             a slot
//! at 150                                microseconds
//! report                                some of the accounts
//! ```
//!
//! After each command the engine is polled until it rests. `EVENKEEL_BLESS=1` rewrites the answers.

use std::fmt::Write as _;
use std::path::Path;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::sched::{Limit, Share};
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::cost::{CostModel, Line};
use evenkeel_engine::policy::{Depth, Discipline, Domain, Mode, Scheduling, Sharing};
use evenkeel_engine::report::Culprit;
use evenkeel_engine::{Engine, Input, Output, Request, Target, Unit};

#[test]
fn scripts_answer_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut count = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let recorded = std::fs::read_to_string(&path).unwrap();
        let actual = run(&recorded);
        if std::env::var_os("EVENKEEL_BLESS").is_some() {
            std::fs::write(&path, &actual).unwrap();
        } else {
            assert_eq!(actual, recorded, "{}; EVENKEEL_BLESS=1 rewrites it", path.display());
        }
        count += 1;
    }
    assert!(count > 0);
}

/// Runs a script; returns it with the answers as they are now.
fn run(script: &str) -> String {
    let mut session = Session { engine: None, now: Nanos::ZERO, in_service: Vec::new() };
    let mut text = String::new();
    for block in script.trim_end().split("\n\n") {
        let commands = block.split_once("\n----").map_or(block, |(commands, _)| commands);
        let _ = write!(text, "{commands}\n----\n");
        for command in commands.lines().filter(|line| !line.starts_with('#')) {
            text.push_str(&session.perform(command));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

struct Session {
    engine: Option<Engine>,
    now: Nanos,
    in_service: Vec<Unit>,
}

impl Session {
    fn perform(&mut self, command: &str) -> String {
        let words: Vec<&str> = command.split_whitespace().collect();
        let number = |index: usize| words[index].parse::<u32>().unwrap();
        match words[0] {
            "domain" => self.engine = Some(Engine::new(self.now, &domain(&words[1..]))),
            "policy" => self.handle(Input::Policy(&domain(&words[1..]))),
            "arrive" => self.handle(Input::Arrive(request(&words[1..]))),
            "done" => self.done(number(1), words.get(2).is_none()),
            "abandon" => self.handle(Input::Abandon { slot: number(1) }),
            "at" => self.now = Nanos(u64::from(number(1)) * 1000),
            "report" => return self.report(),
            other => panic!("unknown command {other:?}"),
        }
        self.drain()
    }

    fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("a script begins with `domain`")
    }

    fn handle(&mut self, input: Input<'_>) {
        let now = self.now;
        self.engine().handle(now, input);
    }

    fn done(&mut self, slot: u32, ok: bool) {
        let oldest = self.in_service.iter().position(|unit| unit.slot == slot);
        let unit = self.in_service.remove(oldest.expect("a unit of the slot is with the backend"));
        self.handle(Input::Done { unit: unit.unit, ok });
    }

    fn drain(&mut self) -> String {
        let mut text = String::new();
        let now = self.now;
        loop {
            let output = self.engine().poll(now);
            let _ = match output {
                Output::Submit(unit) => {
                    self.in_service.push(unit);
                    let (kind, server) = (unit.kind.name(), unit.server.0);
                    let Unit { slot, offset, length, .. } = unit;
                    writeln!(text, "submit {slot} to s{server}: {kind} {offset}+{length}")
                }
                Output::Finish { slot, ok } => {
                    writeln!(text, "finish {slot} {}", if ok { "well" } else { "not well" })
                }
                Output::WaitUntil(at) => {
                    let _ = writeln!(text, "wait until {} us", at.0 as f64 / 1e3);
                    return text;
                }
                output @ (Output::Move(_) | Output::Zeroes { .. } | Output::Refuse { .. }) => {
                    panic!("no volume, yet {output:?}")
                }
                Output::Idle => return text,
            };
        }
    }

    fn report(&mut self) -> String {
        let now = self.now;
        let report = self.engine().report(now);
        let mut text = String::new();
        for tenant in &report.tenants {
            let kinds = tenant.by_kind.iter();
            let sum = |of: fn(&evenkeel_engine::report::KindReport) -> u64| -> u64 {
                kinds.clone().map(of).sum()
            };
            let _ = writeln!(
                text,
                "{}: offered {} delivered {} failed {} abandoned {} queued {} device {} \
                 throttled {} held {} ({}) waited {}",
                tenant.name,
                sum(|kind| kind.offered_requests),
                sum(|kind| kind.delivered_requests),
                sum(|kind| kind.failed_requests),
                sum(|kind| kind.abandoned_requests),
                tenant.queue_time.sum(),
                tenant.device_time.sum(),
                tenant.throttled,
                tenant.shadow_held,
                tenant.shadow_held_units,
                tenant.waited,
            );
        }
        for pair in &report.interference {
            let name = |tenant: TenantId| &report.tenants[tenant.index()].name;
            let (victim, culprit) = (
                name(pair.victim),
                match pair.culprit {
                    Culprit::Tenant(culprit) => name(culprit),
                    Culprit::Device => "the device",
                },
            );
            let _ = writeln!(text, "{victim} waited because of {culprit}: {}", pair.waited);
        }
        text
    }
}

fn request(words: &[&str]) -> Request {
    let (offset, length) = words[3].split_once('+').unwrap();
    let server = words.get(4).map_or(0, |word| word[1..].parse().unwrap());
    Request {
        slot: words[0].parse().unwrap(),
        tenant: TenantId(u32::from(words[1].as_bytes()[0] - b'a')),
        target: Target::Server(ServerId(server)),
        kind: Kind::ALL.into_iter().find(|kind| kind.name() == words[2]).unwrap(),
        offset: offset.parse().unwrap(),
        length: length.parse().unwrap(),
        disk: 0,
        keeps_room: false,
    }
}

/// Two servers of 10 us and 1 GB/s, and the tenants a and b, of weights 2 and 1.
fn domain(words: &[&str]) -> Domain {
    let option =
        |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let number = |name: &str, default: u64| option(name).map_or(default, |n| n.parse().unwrap());
    let line = Line { fixed: Span::from_micros(10), rate_bytes: 1_000_000_000 };
    let rate_iops = number("iops", 0);
    let limit = Limit { rate_iops, burst_requests: 1, ..Limit::default() };
    let scheduling = Scheduling {
        discipline: if option("fifo").is_some() { Discipline::Fifo } else { Discipline::Sfq },
        depth: Depth::Requests(u32::try_from(number("depth", 2)).unwrap()),
        hold: Span::ZERO,
        cost: CostModel::Linear { read: line, write: line, flush: Span::from_micros(10) },
        unit_bytes: number("unit", 4096),
        capacity_iops: None,
        ..Scheduling::default()
    };
    Domain {
        mode: match words[0] {
            "observe" => Mode::Observe,
            "shadow" => Mode::Shadow,
            "enforce" => Mode::Enforce,
            other => panic!("unknown mode {other:?}"),
        },
        sharing: if option("sharing") == Some("total") { Sharing::Total } else { Sharing::Local },
        tenants: vec![
            ("a".into(), Share { weight_milli: 2000, ..Share::default() }),
            ("b".into(), Share { limit, ..Share::default() }),
        ],
        servers: vec![("s0".into(), scheduling.clone()), ("s1".into(), scheduling)],
        tiers: None,
        ..Domain::default()
    }
}
