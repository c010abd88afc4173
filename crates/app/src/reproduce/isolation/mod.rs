//! Ceph's isolation benchmark: one client beside an aggressor that opens more and more sessions.
//!
//! ```text
//! victim:    1 session  --+
//!                         +--> (gate) --> data server of 100 MB/s
//! aggressor: K sessions --+
//! ```
//!
//! Whoever shares among sessions gives the victim one part of K + 1. A gate shares among tenants.
//! Its policy names the two and nothing else: depth, unit and cost are found while it runs.

mod reference;

use evenkeel_core::time::Span;

use super::Options;
use super::claim::{self, Claim, Verdict};
use crate::evidence::machine::{Bears, Conditions};
use crate::exit::Exit;
use crate::plot::{Bars, Chart, Figure};
use crate::stage::{
    DataServer, FioJob, FioPattern, FioRun, GateProcess, Pace, Stage, find_fio, find_nbdkit,
};
use crate::terminal;
use evenkeel_wire::nbd::uri::NbdUri;
use reference::{Reference, Row};

/// All processes together take two thirds of a core; a read takes milliseconds.
const BEARS: Bears = Bears { cores: 1.0, late_median_ms: 0.5, late_p99_ms: 5.0, uses_disks: false };

const EXPORT_BYTES: u64 = 1 << 30;

/// The tenants, and the jobs of the load generator.
const CLIENTS: [&str; 2] = ["victim", "aggressor"];

/// Reads outstanding on each session, and the bytes of each.
const DEPTH: u32 = 4;
const SIZE_BYTES: u32 = 64 << 10;

/// Of two equal tenants.
const FAIR_PERCENT: f64 = 50.0;

/// How far the gate may take the device below what it gives without one.
const THROUGHPUT_MIN: f64 = 0.97;

/// How long, and how exact.
#[derive(Clone, Copy, Debug)]
struct Scale {
    ramp: Span,
    runtime: Span,
    /// How far the victim may be from its half, in percent of the device.
    slack_percent: f64,
    /// Leaves out the rows between the extremes.
    extremes_only: bool,
    seed: u64,
}

/// What the two read, in bytes per second.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    victim: f64,
    aggressor: f64,
}

/// The same run without a gate and with one.
struct Pair {
    direct: Outcome,
    gated: Outcome,
}

impl Scale {
    fn of(options: &Options) -> Self {
        let Options { quick, seed, .. } = *options;
        let seconds = |full, short| Span::from_secs(if quick { short } else { full });
        Self {
            ramp: seconds(8, 6),
            runtime: seconds(20, 8),
            slack_percent: if quick { 5.0 } else { 3.0 },
            extremes_only: quick,
            seed,
        }
    }
}

impl Outcome {
    /// What the victim has of the device, in percent.
    fn percent(self) -> f64 {
        100.0 * self.victim / self.sum().max(1.0)
    }

    fn sum(self) -> f64 {
        self.victim + self.aggressor
    }

    fn describe(self) -> String {
        let Self { victim, aggressor } = self;
        format!("{:.1} % ({:.1} + {:.1} MB/s)", self.percent(), victim / 1e6, aggressor / 1e6)
    }
}

/// Runs the benchmark and shows what came of it.
pub(super) fn run(options: &Options) -> anyhow::Result<Exit> {
    let (nbdkit, fio) = (find_nbdkit()?, find_fio()?);
    let reference = Reference::load();
    let scale = Scale::of(options);
    let rate_bytes = u64::from(reference.device_rate_mb) * 1_000_000;
    terminal::say(&format!(
        "isolation (ceph#70798): a server of {} MB/s ({nbdkit}), random reads of 64 KiB, {DEPTH} \
         at a time on each session ({fio})",
        reference.device_rate_mb
    ));
    let last = reference.row.len() - 1;
    let mut claims = Vec::new();
    let mut measured = Vec::new();
    for (index, row) in reference.row.iter().enumerate() {
        if scale.extremes_only && index != 0 && index != last {
            continue;
        }
        terminal::say(&format!("sessions of the aggressor: {}", row.sessions));
        let compare = || compare(rate_bytes, row.sessions, &scale);
        let (pair, conditions) = Conditions::during(BEARS, compare)?;
        let pair = pair?;
        let mut rows = pair.claims(row, &scale);
        claim::temper(&mut rows, &conditions);
        claims.extend(rows);
        measured.push((row, pair));
    }
    options.draw(|| vec![figure(&measured)])?;
    claim::show("isolation", options, &claims, "CEPH")
}

/// One number of sessions, without a gate and with one, each before a fresh server.
fn compare(rate_bytes: u64, sessions: u32, scale: &Scale) -> anyhow::Result<Pair> {
    let pace = Pace::Rate { rate_bytes };
    let serve = |stage: &Stage| DataServer::start(stage, "data", EXPORT_BYTES, pace);
    let direct = {
        let stage = Stage::new()?;
        let server = serve(&stage)?;
        load(&stage, [server.uri("")?, server.uri("")?], sessions, scale)?
    };
    let stage = Stage::new()?;
    let server = serve(&stage)?;
    let gate = GateProcess::start(&stage, "gate", &policy(&server.uri("")?))?;
    let [victim, aggressor] = CLIENTS;
    let gated = load(&stage, [gate.uri(victim)?, gate.uri(aggressor)?], sessions, scale)?;
    Ok(Pair { direct, gated })
}

/// Everything but who there is and where is left to the gate.
fn policy(server: &NbdUri) -> String {
    let tenants = CLIENTS.map(|name| {
        format!(
            "\n[[export]]\nname = \"{name}\"\n\n\
             [[tenant]]\nname = \"{name}\"\nmatch = {{ export = \"{name}\" }}\n"
        )
    });
    format!(
        "mode = \"enforce\"\n\n[[backend]]\nname = \"data\"\nupstream = \"{server}\"\n{}",
        tenants.concat()
    )
}

/// Both clients at once.
fn load(stage: &Stage, uris: [NbdUri; 2], sessions: u32, scale: &Scale) -> anyhow::Result<Outcome> {
    let jobs = CLIENTS.into_iter().zip(uris).zip([1, sessions]);
    let job = |((name, uri), sessions): ((&str, NbdUri), u32)| FioJob {
        name: name.to_owned(),
        uri,
        pattern: FioPattern::Random,
        sessions,
        depth: DEPTH,
        size_bytes: SIZE_BYTES,
        rate_iops: None,
    };
    let Scale { ramp, runtime, seed, .. } = *scale;
    let results = FioRun { ramp, runtime, seed, jobs: jobs.map(job).collect() }.run(stage)?;
    Ok(Outcome { victim: results[0].rate_bytes, aggressor: results[1].rate_bytes })
}

impl Pair {
    fn claims(&self, row: &Row, scale: &Scale) -> [Claim; 3] {
        let sessions = row.sessions;
        let beside = match sessions {
            1 => "beside 1 session".to_owned(),
            _ => format!("beside {sessions} sessions"),
        };
        let direct = Claim {
            measured: self.direct.describe(),
            value: self.direct.percent(),
            ..Claim::shown(format!("direct-{sessions}"), format!("victim {beside}, no gate"))
        };
        let slack = scale.slack_percent;
        let percent = self.gated.percent();
        let gated = Claim {
            paper: row.describe(),
            measured: self.gated.describe(),
            value: percent,
            tolerance: format!("{} to {} %", FAIR_PERCENT - slack, FAIR_PERCENT + slack),
            verdict: Verdict::of((percent - FAIR_PERCENT).abs() <= slack),
            ..Claim::shown(format!("gated-{sessions}"), format!("victim {beside}, gate"))
        };
        let part = self.gated.sum() / self.direct.sum().max(1.0);
        let both = Claim {
            measured: format!("{:.1} % ({:.1} MB/s)", 100.0 * part, self.gated.sum() / 1e6),
            value: part,
            tolerance: format!("at least {} %", 100.0 * THROUGHPUT_MIN),
            verdict: Verdict::of(part >= THROUGHPUT_MIN),
            ..Claim::shown(
                format!("throughput-{sessions}"),
                format!("both {beside}, as part of no gate"),
            )
        };
        [direct, gated, both]
    }
}

/// The victim's part by sessions of the aggressor.
fn figure(measured: &[(&Row, Pair)]) -> Figure {
    let bars = |name: &str, of: &dyn Fn(&(&Row, Pair)) -> Option<f64>| Bars {
        name: name.to_owned(),
        values: measured.iter().map(of).collect(),
    };
    let chart = Chart::bars(
        "One client beside an aggressor: its part of the device",
        "victim's part (%)",
        measured.iter().map(|(row, _)| format!("{} sessions", row.sessions)).collect(),
        vec![
            bars("Ceph, wpq", &|(row, _)| row.wpq),
            bars("Ceph, mclock", &|(row, _)| row.mclock),
            bars("no gate, here", &|(_, pair)| Some(pair.direct.percent())),
            bars("gate, here", &|(_, pair)| Some(pair.gated.percent())),
        ],
    );
    Figure::new("isolation", chart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gates_policy_is_valid_and_says_nothing_of_the_device() {
        let server = "nbd+unix:///?socket=/tmp/data.sock".parse().unwrap();
        let text = format!("listen = [\"unix:/tmp/gate.sock\"]\n{}", policy(&server));
        let parsed = crate::config::parse(&text, "policy").unwrap();
        assert_eq!(parsed.tenants.len(), 2, "{text}");
        assert!(["depth", "unit", "cost"].iter().all(|key| !text.contains(key)), "{text}");
    }

    #[test]
    fn the_victim_is_held_to_its_half_and_both_to_the_device() {
        let outcome = |victim: f64, aggressor: f64| Outcome { victim, aggressor };
        let reference = Reference::load();
        let options = Options { quick: false, json: false, seed: 1, plot: None };
        let verdicts = |gated| {
            let pair = Pair { direct: outcome(20e6, 80e6), gated };
            let claims = pair.claims(&reference.row[1], &Scale::of(&options));
            claims.map(|claim| claim.verdict)
        };
        let (holds, fails) = (Verdict::Holds, Verdict::Fails);
        assert_eq!(verdicts(outcome(50e6, 50e6)), [Verdict::Shown, holds, holds]);
        assert_eq!(verdicts(outcome(46e6, 54e6)), [Verdict::Shown, fails, holds]);
        assert_eq!(verdicts(outcome(48e6, 48e6)), [Verdict::Shown, holds, fails]);
    }
}
