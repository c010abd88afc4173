//! The README's walk-through in front of unlike servers: its policy as it is printed.
//!
//! ```text
//! db:     random reads of 4 KiB, 32 at a time      --+
//!                                                    +--> gate --> one of seven servers
//! backup: sequential reads of 256 KiB, 16 at a time --+
//! ```
//!
//! `db` has share 4, `backup` has 1, and the policy says nothing of the server. What a tenant has
//! of a server is its rate as a part of what it has alone and without a gate.

mod server;
mod trial;

use evenkeel_core::time::Span;
use evenkeel_wire::nbd::uri::NbdUri;

use super::Options;
use super::claim::{self, Claim, Verdict};
use crate::ctl::seconds;
use crate::evidence::machine::{Bears, Conditions};
use crate::exit::Exit;
use crate::human;
use crate::plot::{Bars, Chart, Figure};
use crate::stage::{find_fio, find_nbdkit};
use crate::terminal;
use server::{KINDS, Kind};
use trial::Outcome;

/// Some of the servers are as quick as the processors let them be.
const BEARS: Bears =
    Bears { cores: f64::INFINITY, late_median_ms: 0.5, late_p99_ms: 5.0, uses_disks: false };

/// What the README prints.
const POLICY: &str = include_str!("policy.toml");

/// The tenants of that policy, and their exports.
const TENANTS: [&str; 2] = ["db", "backup"];

/// What the database has of a server by its share, and how far it may be off.
const SHARE: f64 = 0.8;
const SHARE_SLACK: f64 = 0.05 * SHARE;

/// Queued for this part of the time is a backlog.
const BACKLOGGED: f64 = 0.95;

/// The latency of a database that reads little may be so many times what the server and one unit
/// of the other take.
const LATENCY_MAX: f64 = 3.0;

/// The part of what the best fixed depth gives that the one that is found has to give.
const THROUGHPUT_MIN: f64 = 0.97;

/// How to run the walk-through.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct WalkthroughOptions {
    #[command(flatten)]
    common: Options,
    /// One server alone.
    #[arg(long, value_name = "SERVER", value_parser = KINDS.map(|kind| kind.id))]
    only: Option<String>,
}

/// How long.
#[derive(Clone, Copy, Debug)]
struct Scale {
    ramp: Span,
    runtime: Span,
    ramp_alone: Span,
    alone: Span,
    ramp_fixed: Span,
    /// Leaves out fixed depths, and servers that take long.
    is_quick: bool,
    seed: u64,
}

impl Scale {
    fn of(options: &Options) -> Self {
        let Options { quick, seed, .. } = *options;
        let length = |full, short| Span::from_secs(if quick { short } else { full });
        Self {
            ramp: Span::from_secs(10),
            runtime: length(10, 6),
            // nbdkit's limit lets two seconds' worth pass at once.
            ramp_alone: Span::from_secs(3),
            alone: length(5, 3),
            ramp_fixed: Span::from_secs(6),
            is_quick: quick,
            seed,
        }
    }
}

/// Runs the walk-through and shows what came of it.
pub(super) fn run(options: &WalkthroughOptions) -> anyhow::Result<Exit> {
    let WalkthroughOptions { common: options, only } = options;
    let (nbdkit, fio) = (find_nbdkit()?, find_fio()?);
    let scale = Scale::of(options);
    terminal::say(&format!("the README's policy in front of unlike servers ({nbdkit}; {fio})"));
    let mut claims = Vec::new();
    let mut outcomes = Vec::new();
    let is_wanted = |kind: &&Kind| match only {
        Some(only) => kind.id == only,
        None => !(scale.is_quick && kind.takes_long),
    };
    for kind in KINDS.iter().filter(is_wanted) {
        terminal::say(kind.what);
        let (outcome, conditions) = Conditions::during(BEARS, || trial::run(kind, &scale))?;
        let outcome = outcome?;
        let mut rows = rows(kind, &outcome);
        claim::temper(&mut rows, &conditions);
        for row in &rows {
            terminal::say(&format!("  {}: {}", row.id, row.measured));
        }
        claims.extend(rows);
        outcomes.push((kind, outcome));
    }
    options.draw(|| vec![figure(&outcomes)])?;
    claim::show("walkthrough", options, &claims, "WANTED")
}

/// The policy as it is printed, for this server and in force; with a fixed depth, if one is given.
fn policy(server: &NbdUri, depth: Option<u32>) -> String {
    let depth = depth.map_or_else(String::new, |depth| format!("depth = {depth}\n"));
    let upstream = format!("upstream = \"{server}\"\n{depth}");
    POLICY
        .replace("listen = [\"0.0.0.0:10809\"]\n", "")
        .replace("upstream = \"nbd://10.0.0.5:10809\"\n", &upstream)
        .replace("mode = \"observe\"", "mode = \"enforce\"")
}

/// The rows of one server.
fn rows(kind: &Kind, outcome: &Outcome) -> Vec<Claim> {
    let rows = [share(kind, outcome), latency(kind, outcome)].into_iter();
    rows.chain(throughput(kind, outcome)).collect()
}

fn share(kind: &Kind, outcome: &Outcome) -> Claim {
    let [database, backup] = outcome.parts(outcome.together);
    let part = outcome.share();
    let is_within = (part - SHARE).abs() <= SHARE_SLACK;
    let waits = outcome.backlogged.iter().all(|part| *part >= BACKLOGGED);
    let has = outcome.backlogged.map(|part| part * 100.0);
    let verdict = match (is_within, waits || is_denied(part, outcome.backlogged)) {
        (true, _) => Verdict::Holds,
        (false, false) => Verdict::Attained,
        (false, true) => Verdict::Fails,
    };
    let dry = format!(
        "requests of the two waited at the gate for {:.0} and {:.0} % of the time only: the server \
         takes what they ask for",
        has[0], has[1]
    );
    Claim {
        paper: format!("{:.0} %", SHARE * 100.0),
        measured: format!(
            "{:.1} % ({:.0} and {:.0} % of what each has alone)",
            part * 100.0,
            database * 100.0,
            backup * 100.0
        ),
        value: part,
        tolerance: format!(
            "{:.0} to {:.0} %",
            (SHARE - SHARE_SLACK) * 100.0,
            (SHARE + SHARE_SLACK) * 100.0
        ),
        verdict,
        why: if verdict == Verdict::Attained { Some(dry) } else { Some(found(outcome)) },
        ..Claim::shown(format!("{}-share", kind.id), format!("{}: db's part", kind.what))
    }
}

/// Whether one of the two has less than its share for as much of the time as its requests waited at
/// the gate. That is due whatever the other one asks for.
fn is_denied(part: f64, backlogged: [f64; 2]) -> bool {
    let has = [part, 1.0 - part];
    let due = [SHARE - SHARE_SLACK, 1.0 - SHARE - SHARE_SLACK];
    (0..2).any(|one| has[one] < due[one] * backlogged[one])
}

fn latency(kind: &Kind, outcome: &Outcome) -> Claim {
    let [own, beside] = outcome.sparse_p99;
    let unit = seconds(outcome.found.unit_seconds);
    let most = LATENCY_MAX * (own + unit).as_secs_f64();
    Claim {
        measured: human::duration(beside),
        value: beside.as_secs_f64(),
        tolerance: format!(
            "at most {}: {LATENCY_MAX} times {} of the server and {} of a unit",
            human::duration(seconds(most)),
            human::duration(own),
            human::duration(unit)
        ),
        verdict: Verdict::of(beside.as_secs_f64() <= most),
        ..Claim::shown(
            format!("{}-latency", kind.id),
            format!("{}: p99 of 100 reads a second", kind.what),
        )
    }
}

fn throughput(kind: &Kind, outcome: &Outcome) -> Option<Claim> {
    let (best, depth) = outcome.best_fixed?;
    let part = outcome.parts(outcome.together).iter().sum::<f64>() / best.max(1e-9);
    Some(Claim {
        measured: format!("{:.1} % (depth {depth})", part * 100.0),
        value: part,
        tolerance: format!("at least {:.0} %", THROUGHPUT_MIN * 100.0),
        verdict: Verdict::of(part >= THROUGHPUT_MIN),
        ..Claim::shown(
            format!("{}-throughput", kind.id),
            format!("{}: both, beside the best fixed depth", kind.what),
        )
    })
}

/// What the gate has found, for people.
fn found(outcome: &Outcome) -> String {
    let found = &outcome.found;
    let depth = found.depth.map_or_else(|| "none".to_owned(), |depth| depth.to_string());
    format!("found: depth {depth}, unit {}", human::size(found.unit_bytes as f64))
}

/// The database's part of each server.
fn figure(outcomes: &[(&Kind, Outcome)]) -> Figure {
    let bars = |name: &str, of: &dyn Fn(&Outcome) -> f64| Bars {
        name: name.to_owned(),
        values: outcomes.iter().map(|(_, outcome)| Some(of(outcome))).collect(),
    };
    let chart = Chart::bars(
        "The README's policy in front of unlike servers",
        "db's part of the server (%)",
        outcomes.iter().map(|(kind, _)| kind.id.to_owned()).collect(),
        vec![bars("share", &|_| SHARE * 100.0), bars("here", &|outcome| outcome.share() * 100.0)],
    );
    Figure::new("walkthrough", chart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::walkthrough::trial::Found;

    #[test]
    fn the_policy_is_the_readmes() {
        let readme = include_str!("../../../../../README.md");
        assert!(
            readme.contains(&format!("```toml\n{POLICY}```\n")),
            "policy.toml is not as printed"
        );
        let server = "nbd+unix:///?socket=/tmp/data.sock".parse().unwrap();
        for depth in [None, Some(4)] {
            let text = policy(&server, depth);
            let listen = "listen = [\"unix:/tmp/gate.sock\"]\n";
            let parsed = crate::config::parse(&(listen.to_owned() + &text), "policy").unwrap();
            assert_eq!(parsed.tenants.len(), 2, "{text}");
            assert!(text.contains("enforce") && text.contains("/tmp/data.sock"), "{text}");
            assert_eq!(text.contains("depth = 4"), depth.is_some());
        }
    }

    fn outcome(together: [f64; 2], backlogged: f64) -> Outcome {
        Outcome {
            alone: [10e6, 100e6],
            together,
            backlogged: [backlogged; 2],
            sparse_p99: [Span::from_millis(2), Span::from_millis(8)],
            found: Found { depth: Some(2), unit_bytes: 1 << 20, unit_seconds: 0.001 },
            best_fixed: Some((1.0, 4)),
        }
    }

    #[test]
    fn parts_are_of_what_each_has_alone() {
        let verdicts = |outcome| -> Vec<Verdict> {
            rows(&KINDS[0], &outcome).iter().map(|row| row.verdict).collect()
        };
        let (holds, fails) = (Verdict::Holds, Verdict::Fails);
        assert_eq!(verdicts(outcome([8e6, 20e6], 1.0)), [holds; 3]);
        assert_eq!(verdicts(outcome([5e6, 50e6], 1.0)), [fails, holds, holds]);
        assert_eq!(verdicts(outcome([5e6, 50e6], 0.5)), [Verdict::Attained, holds, holds]);
        assert_eq!(verdicts(outcome([1e6, 90e6], 0.9)), [fails, holds, holds]);
        assert_eq!(verdicts(outcome([1e6, 90e6], 0.05)), [Verdict::Attained, holds, holds]);
        assert_eq!(verdicts(outcome([7.2e6, 18e6], 1.0)), [holds, holds, fails]);
        let mut late = outcome([8e6, 20e6], 1.0);
        late.sparse_p99[1] = Span::from_millis(10);
        assert_eq!(verdicts(late), [holds, fails, holds]);
    }
}
