//! Space: how full a cluster is when its first disk is.

use evenkeel_core::place::certificate::Certificate;
use evenkeel_core::place::odds::Odds;
use evenkeel_core::place::policy::space::{Score, Space};
use evenkeel_sim::fill::{Chooser, Cluster, Filled, Writers, fill};

use super::super::claim::{Claim, Verdict};
use super::reference::{ClusterRow, Paper, WritersRow};

/// Margin with which most objects stay with their first candidate, as a part of a capacity.
const MARGIN: f64 = 0.01;

/// What came of one cluster, by way of placing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) hashing: Filled,
    pub(super) published: Filled,
    pub(super) sum: Filled,
    pub(super) margin: Filled,
    pub(super) odds: Filled,
    pub(super) certificate: Certificate,
}

/// Fills a cluster in every way.
pub(super) fn run(row: &ClusterRow, objects_each: u64, seed: u64) -> Outcome {
    let (members, map) = row.build(objects_each, seed);
    let cluster = Cluster { members: &members, map: &map, object_bytes: 1 };
    let filled = |chooser: &Chooser<'_>| {
        fill(&cluster, chooser, Writers::default(), seed, &mut vec![0; members.len()])
    };
    let by = |policy: Space| filled(&Chooser::Policy { policy: &policy, candidates: 2 });
    let capacities: Vec<u64> = members.iter().map(|member| member.capacity_bytes).collect();
    let odds = Odds::fit(&map, &capacities).odds;
    Outcome {
        hashing: filled(&Chooser::Hashing),
        published: by(Space { margin: 0.0, score: Score::Fullest }),
        sum: by(Space::with_margin(0.0)),
        margin: by(Space::with_margin(MARGIN)),
        odds: filled(&Chooser::Odds(&odds)),
        certificate: Certificate::of(&map, &capacities, 2),
    }
}

/// The claims about one cluster.
pub(super) fn claims(row: &ClusterRow, outcome: &Outcome) -> Vec<Claim> {
    let Outcome { hashing, published, sum, margin, odds, certificate } = outcome;
    let paper = |of: fn(&Paper) -> f64| row.paper.as_ref().map(of).map_or(String::new(), percent);
    let mut claims = vec![
        shown(row, "hashing", hashing.used_part, paper(|paper| paper.hashing)),
        shown(row, "two choices, fullest disk", published.used_part, paper(|it| it.two_choices)),
        at_least(row, "two choices, all disks", sum.used_part, row.at_least),
        at_least(row, "two choices, margin of 1 %", margin.used_part, row.at_least),
        shown(row, "objects not at their first candidate", margin.diverted_part, String::new()),
        shown(row, "by odds, without looking", odds.used_part, String::new()),
        shown(row, "at most possible", certificate.at_most, String::new()),
    ];
    // What nobody can exceed must not be exceeded: a check of the bound rather than of the choices.
    let luck = 1.0 / (sum.objects as f64).sqrt();
    let bound = claims.last_mut().expect("there are claims");
    bound.verdict = Verdict::of(sum.used_part <= certificate.at_most + luck);
    "not exceeded".clone_into(&mut bound.tolerance);
    claims
}

/// The claim about clients who know little, on the cluster given.
pub(super) fn of_writers(row: &ClusterRow, writers: WritersRow, each: u64, seed: u64) -> Claim {
    let (members, map) = row.build(each, seed);
    let cluster = Cluster { members: &members, map: &map, object_bytes: 1 };
    let policy = Space::with_margin(0.0);
    let WritersRow { clients, report_every, at_least } = writers;
    let filled = fill(
        &cluster,
        &Chooser::Policy { policy: &policy, candidates: 2 },
        Writers { clients, know_each_other: true, report_every },
        seed,
        &mut vec![0; members.len()],
    );
    let what = format!("{clients} clients, reports every {}", percent(report_every));
    self::at_least(row, &what, filled.used_part, at_least)
}

fn shown(row: &ClusterRow, what: &str, value: f64, paper: String) -> Claim {
    let id = format!("space-{}-{what}", row.name).to_lowercase();
    let is_word = |c: char| c.is_ascii_alphanumeric();
    let words: Vec<&str> = id.split(|c| !is_word(c)).filter(|word| !word.is_empty()).collect();
    let shown = Claim::shown(words.join("-"), format!("{}: {what}", row.name));
    Claim { paper, measured: percent(value), value, ..shown }
}

fn at_least(row: &ClusterRow, what: &str, value: f64, least: f64) -> Claim {
    Claim {
        verdict: Verdict::of(value >= least),
        tolerance: format!("at least {}", percent(least)),
        ..shown(row, what, value, String::new())
    }
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}
