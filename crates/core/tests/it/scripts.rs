//! Scripts with golden output: `testdata/sched/*.txt`.
//!
//! A script is a list of cases, `commands / ---- / output`, separated by blank lines; `#` begins a
//! comment. All cases of a file share one scheduler and one clock. `EVENKEEL_BLESS=1` in the
//! environment rewrites the output instead of comparing it.
//!
//! | command | meaning |
//! |---|---|
//! | `fifo [depth=N]` | a new scheduler, clock at 0 |
//! | `sfq depth=N [hold=MS]`, `sfq bytes=N [hold=MS]` | likewise |
//! | `mclock depth=N`, `edf depth=N` | likewise |
//! | `tiered slow=IOPS fast=IOPS depth=N window=N` | likewise, over two devices |
//! | `tenant N [weight=N] [floor=N] [goal=MS] [iops=N burst=N]` | adds or changes a tenant |
//! | `at MS` | sets the clock |
//! | `send TENANT COUNT [cost=US] [size=BYTES] [device=N]` | tickets arrive, named by a number |
//! | `poll` | dispatches whatever may go: `tenant:ticket` in order, then why it stops; by device |
//! | `done TICKET...` / `withdraw TICKET...` / `drain` | what they say |
//! | `status` | the last solve over several devices, in words |

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use evenkeel_core::id::TenantId;
use evenkeel_core::sched::depth::DepthPolicy;
use evenkeel_core::sched::edf::Edf;
use evenkeel_core::sched::fifo::Fifo;
use evenkeel_core::sched::limit::Limited;
use evenkeel_core::sched::mclock::Mclock;
use evenkeel_core::sched::sfq::{Sfq, SfqOptions};
use evenkeel_core::sched::tiered::{DeviceOptions, TieredLane, TieredOptions, lanes};
use evenkeel_core::sched::{Floor, Limit, Next, Scheduler, Share};
use evenkeel_core::ticket::{Cost, Ticket};
use evenkeel_core::time::{Nanos, Span};

use crate::support::ticket;

struct Stage {
    /// One scheduler per device.
    schedulers: Vec<Box<dyn Scheduler>>,
    tiered: Option<TieredLane>,
    now: Nanos,
    /// With the device that each is for.
    tickets: Vec<(usize, Ticket)>,
}

/// The words of a command that are not `name=value`, and the values by name.
struct Words<'a> {
    plain: Vec<&'a str>,
    named: BTreeMap<&'a str, u64>,
}

impl<'a> Words<'a> {
    fn parse(line: &'a str) -> Self {
        let mut words = Words { plain: Vec::new(), named: BTreeMap::new() };
        for word in line.split_whitespace() {
            match word.split_once('=') {
                Some((name, value)) => {
                    words.named.insert(name, value.parse().expect("values are numbers"));
                }
                None => words.plain.push(word),
            }
        }
        words
    }

    fn number(&self, index: usize) -> u32 {
        self.plain[index].parse().expect("a number")
    }

    fn value(&self, name: &str) -> u64 {
        self.named.get(name).copied().unwrap_or(0)
    }
}

impl Stage {
    fn new(scheduler: Box<dyn Scheduler>) -> Self {
        Self { schedulers: vec![scheduler], tiered: None, now: Nanos(0), tickets: Vec::new() }
    }

    fn tiered(words: &Words<'_>) -> Self {
        let device = |name| DeviceOptions {
            depth: depth(words),
            capacity_cost_per_second: words.value(name) * Cost::ONE.0,
        };
        let window = u32::try_from(words.value("window")).unwrap();
        let usual = TieredOptions::usual(["slow", "fast"].map(device).to_vec());
        let lanes = lanes(&TieredOptions { window, ..usual });
        let tiered = lanes.first().cloned();
        let boxed = |lane| -> Box<dyn Scheduler> { Box::new(lane) };
        let schedulers = lanes.into_iter().map(boxed).collect();
        Self { schedulers, tiered, now: Nanos(0), tickets: Vec::new() }
    }

    fn run(&mut self, line: &str, output: &mut String) {
        let words = Words::parse(line);
        match words.plain[0] {
            "fifo" => {
                let depth = words.named.get("depth").map(|&depth| u32::try_from(depth).unwrap());
                *self = Self::new(Box::new(Limited::new(Fifo::new(depth))));
            }
            "sfq" => *self = Self::new(Box::new(Limited::new(new_sfq(&words)))),
            "edf" => *self = Self::new(Box::new(Edf::new(depth(&words)))),
            "mclock" => *self = Self::new(Box::new(Mclock::new(depth(&words)))),
            "tiered" => *self = Self::tiered(&words),
            "tenant" => self.tenant(&words),
            "at" => self.now = Nanos(u64::from(words.number(1)) * 1_000_000),
            "send" => self.send(&words),
            "poll" => self.poll(output),
            "done" => self.named_tickets(&words).iter().for_each(|&(device, ticket)| {
                self.schedulers[device].complete(self.now, ticket);
            }),
            "withdraw" => {
                for (device, ticket) in self.named_tickets(&words) {
                    let found = self.schedulers[device].withdraw(self.now, ticket);
                    let said = if found { "withdrawn" } else { "not queued" };
                    writeln!(output, "{} {said}", name(&ticket)).unwrap();
                }
            }
            "drain" => {
                for scheduler in &mut self.schedulers {
                    writeln!(output, "{}", names(&scheduler.drain())).unwrap();
                }
            }
            "status" => {
                let status = self.tiered.as_ref().and_then(TieredLane::status);
                write!(output, "{}", status.expect("a solve before").explanation).unwrap();
            }
            other => panic!("unknown command {other}"),
        }
    }

    fn tenant(&mut self, words: &Words<'_>) {
        let weight = words.named.get("weight").copied().unwrap_or(1);
        let weight_milli = u32::try_from(weight * 1000).unwrap();
        let limit = Limit {
            rate_iops: words.value("iops"),
            burst_requests: words.value("burst"),
            ..Limit::default()
        };
        let latency_goal = Span::from_millis(words.value("goal"));
        let tenant = TenantId(words.number(1));
        let floor = Floor { rate_iops: words.value("floor"), ..Floor::default() };
        let share = Share { weight_milli, limit, floor, latency_goal, ..Share::default() };
        for scheduler in &mut self.schedulers {
            scheduler.configure(self.now, tenant, share);
        }
    }

    fn send(&mut self, words: &Words<'_>) {
        let cost_us = words.named.get("cost").copied().unwrap_or(1);
        let size_bytes = words.named.get("size").copied().unwrap_or(4096);
        for _ in 0..words.number(2) {
            let slot = u32::try_from(self.tickets.len()).unwrap();
            let sent = ticket(words.number(1) as usize, slot, cost_us * 1000);
            let sent = Ticket { size_bytes, ..sent };
            let device = usize::try_from(words.value("device")).unwrap();
            self.tickets.push((device, sent));
            self.schedulers[device].enqueue(self.now, sent);
        }
    }

    fn poll(&mut self, output: &mut String) {
        let devices = self.schedulers.len();
        for (device, scheduler) in self.schedulers.iter_mut().enumerate() {
            let mut dispatched = Vec::new();
            let stop = loop {
                match scheduler.poll(self.now) {
                    Next::Dispatch(ticket) => dispatched.push(ticket),
                    Next::WaitUntil(at) => break format!("wait {}", at.since(self.now)),
                    Next::Idle => break "idle".to_owned(),
                }
            };
            let prefix = if devices > 1 { format!("device {device}: ") } else { String::new() };
            if !dispatched.is_empty() {
                writeln!(output, "{prefix}{}", names(&dispatched)).unwrap();
            }
            writeln!(output, "{prefix}{stop}, {} queued", scheduler.queued()).unwrap();
        }
    }

    fn named_tickets(&self, words: &Words<'_>) -> Vec<(usize, Ticket)> {
        (1..words.plain.len()).map(|i| self.tickets[words.number(i) as usize]).collect()
    }
}

fn new_sfq(words: &Words<'_>) -> Sfq {
    let hold = Span::from_millis(words.value("hold"));
    Sfq::new(SfqOptions { depth: depth(words), hold })
}

fn depth(words: &Words<'_>) -> DepthPolicy {
    match words.named.get("bytes") {
        Some(&bytes) => DepthPolicy::Bytes(bytes),
        None => DepthPolicy::Requests(u32::try_from(words.value("depth")).unwrap()),
    }
}

fn name(ticket: &Ticket) -> String {
    format!("{}:{}", ticket.tenant.0, ticket.slot)
}

fn names(tickets: &[Ticket]) -> String {
    tickets.iter().map(name).collect::<Vec<_>>().join(" ")
}

/// The script with its output as it is now.
fn play(script: &str) -> String {
    let mut stage = Stage::new(Box::new(Fifo::new(None)));
    let mut played = Vec::new();
    for case in script.split("\n\n") {
        let commands = case.split("\n----").next().expect("a split has a first part").trim_end();
        let mut output = String::new();
        for line in commands.lines().filter(|line| !line.starts_with('#')) {
            stage.run(line, &mut output);
        }
        played.push(format!("{commands}\n----\n{}", output.trim_end()).trim_end().to_owned());
    }
    played.join("\n\n") + "\n"
}

#[test]
fn scripts_give_their_golden_output() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/sched");
    let bless = std::env::var_os("EVENKEEL_BLESS").is_some();
    let mut paths: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no scripts in {}", folder.display());
    for path in paths {
        let script = std::fs::read_to_string(&path).unwrap();
        let played = play(&script);
        if bless {
            std::fs::write(&path, played).unwrap();
        } else {
            assert_eq!(played, script, "{} plays otherwise", path.display());
        }
    }
}
