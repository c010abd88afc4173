//! CHOICE: "Client choices for hash placement in storage systems" (`APSys` 2016), its experiments
//! in virtual clusters and on a real Ceph.
//!
//! ```text
//! object --hash--> two candidate sets of servers --policy--> the emptier one
//! ```
//!
//! `space` fills clusters until their first disk is full; `change` lets servers come and go;
//! `serving` lets clients choose by other figures than space, and tells what asking costs; `memory`
//! does so live beside a memory hog;
//! `theory` holds the gap between fullest server and mean against its bounds, `upmap` choices
//! against Ceph's balancer; `ceph` fills the real thing.

mod ceph;
mod change;
mod memory;
mod reference;
mod serving;
mod space;
mod theory;
mod upmap;

use super::Options;
use super::claim;
use crate::exit::Exit;
use crate::plot::{Axis, Bars, Body, Chart, Figure};
use crate::stage::find_ceph;
use crate::terminal;
use reference::Reference;
use space::Outcome;

/// Objects that fill the average disk, and if it has to be quick.
const OBJECTS_EACH: u64 = 20_000;
const QUICK_OBJECTS_EACH: u64 = 3_000;

/// How to run the experiments.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ChoicesOptions {
    #[command(flatten)]
    common: Options,
    /// Leave away all but one part.
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
}

/// A part of the experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Clusters of 15 to 1,000 servers, in virtual time.
    Simulated,
    /// A real Ceph of 15 OSDs on this machine. Needs Ceph's daemons, 8 GB of memory (with --quick
    /// 4 GB) and some minutes; left away without being asked for where --quick is given or Ceph is
    /// missing.
    Ceph,
    /// Reads beside a memory hog, on servers of this machine whose page caches and disks are
    /// bounded by control groups. Needs nbdkit, root, control groups, and a minute;
    /// left away without being asked for where --quick is given or one of them is missing.
    Memory,
}

/// Runs the experiments and shows what came of them.
pub(super) fn run(options: &ChoicesOptions) -> anyhow::Result<Exit> {
    let ChoicesOptions { common: options, only } = options;
    let reference = Reference::load();
    let mut claims = Vec::new();
    if matches!(only, None | Some(Part::Simulated)) {
        claims.extend(simulated(&reference, options)?);
    }
    let is_wanted = match only {
        Some(part) => *part == Part::Memory,
        None => !options.quick && memory::missing().is_none(),
    };
    if is_wanted {
        terminal::say("nbdkit beside a memory hog");
        claims.extend(memory::claims(&reference.memory_live, options)?);
    }
    let is_wanted = match only {
        Some(part) => *part == Part::Ceph,
        None => !options.quick && find_ceph().is_ok(),
    };
    if is_wanted {
        terminal::say(&find_ceph()?);
        claims.extend(ceph::claims(&reference.ceph, options)?);
    }
    claim::show("choices", options, &claims, "PAPER")
}

fn simulated(reference: &Reference, options: &Options) -> anyhow::Result<Vec<claim::Claim>> {
    let each = if options.quick { QUICK_OBJECTS_EACH } else { OBJECTS_EACH };
    let mut claims = Vec::new();
    let mut outcomes = Vec::new();
    for row in &reference.cluster {
        terminal::say(&row.name);
        let outcome = space::run(row, each, options.seed);
        claims.extend(space::claims(row, &outcome));
        outcomes.push((row.label.clone(), outcome));
    }
    let many = reference.cluster.iter().find(|row| row.servers == 44).expect("in the data file");
    for writers in &reference.writers {
        claims.push(space::of_writers(many, *writers, each, options.seed));
    }
    for row in &reference.change {
        claims.extend(change::claims(row, reference.moved_at_most, each, options.seed));
    }
    terminal::say("a cluster at work");
    claims.extend(serving::claims(reference, options.quick, options.seed));
    for row in &reference.theory {
        claims.extend(theory::claims(row, options.quick, options.seed));
    }
    match upmap::missing() {
        Some(why) => terminal::say(&why),
        None => {
            for row in &reference.upmap[..if options.quick { 1 } else { reference.upmap.len() }] {
                terminal::say(&format!("upmap, {} servers", row.servers));
                claims.extend(upmap::claims(row, each, options.seed)?);
            }
        }
    }
    options.draw(|| vec![figure(&outcomes)])?;
    Ok(claims)
}

/// How full each cluster gets, by way of placing.
fn figure(outcomes: &[(String, Outcome)]) -> Figure {
    let bars = |name: &str, of: &dyn Fn(&Outcome) -> f64| Bars {
        name: name.to_owned(),
        values: outcomes.iter().map(|(_, outcome)| Some(of(outcome) * 100.0)).collect(),
    };
    let chart = Chart {
        title: "Use of a cluster when its first disk is full".to_owned(),
        note: "three copies (15 x 1: one copy); by hashing, and by the better of two candidates"
            .to_owned(),
        x: Axis::linear("disks"),
        y: Axis::linear("part in use (%)"),
        body: Body::Bars {
            groups: outcomes.iter().map(|(name, _)| name.clone()).collect(),
            series: vec![
                bars("hashing", &|it| it.hashing.used_part),
                bars("fullest disk", &|it| it.published.used_part),
                bars("all disks", &|it| it.sum.used_part),
                bars("odds", &|it| it.odds.used_part),
            ],
        },
    };
    Figure::new("choices-space", chart)
}
