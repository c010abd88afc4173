//! The tail's cache under mixes of traces: what it keeps from the tail's drive, and what the memory
//! before it saves the SSD (slides 24 and 25).
//!
//! The talk's traces cannot be had whole. `generated` rows replay mixes drawn like them, by the
//! figures of the talk's table, which says nothing of how often a block comes again; `real` rows
//! replay recordings, if there are any, beside each other.

use std::path::{Path, PathBuf};

use evenkeel_core::prng::Prng;
use evenkeel_sim::chained::caches::{CacheOutcome, CacheSizes, merged, mix, replay};
use evenkeel_sim::chained::clairvoyant;
use evenkeel_store::cache::Hits;
use evenkeel_trace::Record;
use evenkeel_trace::generate::{Profile, profile};

use super::reference::{Caches, Reference};
use super::{Findings, runs};
use crate::plot::{Axis, Body, Chart, Figure, Line};
use crate::reproduce::Options;
use crate::reproduce::claim::{Claim, Verdict};
use crate::terminal;
use crate::trace::input::{ReadOptions, TraceReader};

const GB: u64 = 1_000_000_000;
const MB: u64 = 1_000_000;

/// By what all sizes are divided, and if it has to be quick.
const DIVISOR: u64 = 256;
const QUICK_DIVISOR: u64 = 1024;

/// Mixes if it has to be quick.
const QUICK_MIXES: usize = 4;

/// The traces of the talk.
const TRACES: [&str; 9] =
    ["prxy", "src1", "proj", "exchange", "usr", "livemapsbe", "msnfs", "devdivrelease", "prn"];

/// The variable that names a folder with recordings.
const FOLDER_VARIABLE: &str = "EVENKEEL_TRACES";

/// Recordings that together write enough to fill a drive divided like this.
const RECORDINGS: [&str; 3] = [
    "cloudPhysicsIO.vscsi.zst",
    "blkreplay-linux-mysql.load.gz",
    "blkreplay-windows-mssql.load.gz",
];

/// What is replayed side by side.
enum Workload {
    Generated(Vec<Profile>),
    Real(Vec<Vec<Record>>),
}

/// What came of one workload.
struct Outcome {
    /// With all the memory, and with little.
    much: CacheOutcome,
    little: CacheOutcome,
    /// What a cache that knows the future would serve.
    best: Vec<Hits>,
}

/// Workloads of one kind.
struct Group<'a> {
    name: &'static str,
    setting: &'a Caches,
    outcomes: &'a [Outcome],
}

/// Replays all of them.
pub(super) fn find(reference: &Reference, options: &Options) -> anyhow::Result<Findings> {
    let setting = &reference.caches;
    let (divisor, count) =
        if options.quick { (QUICK_DIVISOR, QUICK_MIXES) } else { (DIVISOR, setting.mixes) };
    let mut workloads: Vec<Workload> =
        mixes(count, options.seed).into_iter().map(Workload::Generated).collect();
    workloads.extend(real()?);
    let outcomes = runs::all("caches", &workloads, |workload| {
        let records = || workload.records(divisor, options.seed);
        let [much, little] = [setting.memory_gb * GB, setting.little_memory_mb * MB]
            .map(|memory_bytes| setting.sizes(divisor, memory_bytes));
        Outcome {
            much: replay(records(), &much),
            little: replay(records(), &little),
            best: clairvoyant::best(records(), &much),
        }
    });
    let (generated, real) = outcomes.split_at(count);
    let groups = [("generated", generated), ("real", real)];
    let groups = groups.map(|(name, outcomes)| Group { name, setting, outcomes });
    let present = groups.iter().filter(|group| !group.outcomes.is_empty());
    let claims = present.flat_map(Group::claims).collect();
    Ok(Findings { claims, figures: vec![groups[0].figure()] })
}

/// Mixes of four to eight traces.
fn mixes(count: usize, seed: u64) -> Vec<Vec<Profile>> {
    let mut prng = Prng::new(seed);
    let mut draw = |bound: u64| usize::try_from(prng.below(bound)).expect("few");
    let mixes = (0..count).map(|_| {
        let size = 4 + draw(5);
        let mut names = TRACES.to_vec();
        while names.len() > size {
            names.remove(draw(names.len() as u64));
        }
        names.into_iter().map(|name| profile(name).expect("a published profile")).collect()
    });
    mixes.collect()
}

/// The recordings beside each other, if all of them are there.
fn real() -> anyhow::Result<Option<Workload>> {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from) else {
        terminal::say(&format!(
            "no rows about real traces: {FOLDER_VARIABLE} names no folder with recordings"
        ));
        return Ok(None);
    };
    let paths = RECORDINGS.map(|name| folder.join(name));
    if let Some(missing) = paths.iter().find(|path| !path.is_file()) {
        terminal::say(&format!("no rows about real traces: there is no {}", missing.display()));
        return Ok(None);
    }
    let recordings: anyhow::Result<Vec<_>> = paths.iter().map(|path| records(path)).collect();
    Ok(Some(Workload::Real(recordings?)))
}

fn records(path: &Path) -> anyhow::Result<Vec<Record>> {
    let mut reader = TraceReader::open(path, &ReadOptions::default())?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch)? {
        all.append(&mut batch);
    }
    Ok(all)
}

impl Workload {
    fn records(&self, divisor: u64, seed: u64) -> Box<dyn Iterator<Item = (usize, Record)> + '_> {
        match self {
            Self::Generated(profiles) => Box::new(mix(profiles, divisor, seed)),
            Self::Real(recordings) => {
                Box::new(merged(recordings.iter().map(|it| it.iter().copied()).collect()))
            }
        }
    }
}

impl Caches {
    fn sizes(&self, divisor: u64, memory_bytes: u64) -> CacheSizes {
        CacheSizes {
            memory_bytes: memory_bytes / divisor,
            flash_bytes: self.flash_gb * GB / divisor,
            step_bytes: self.step_gb * GB / divisor,
            steps: self.steps,
        }
    }
}

impl Group<'_> {
    fn claims(&self) -> Vec<Claim> {
        let steps = (0..self.setting.steps as usize).filter_map(|step| self.hits(step));
        steps.chain([self.memory_part(), self.lifetime()]).collect()
    }

    fn claim(&self, id: &str, what: &str) -> Claim {
        Claim {
            id: format!("caches-{}-{id}", self.name),
            what: format!("{} mixes: {what}", self.name),
            paper: String::new(),
            measured: String::new(),
            value: 0.0,
            tolerance: String::new(),
            attainable: None,
            verdict: Verdict::Shown,
            why: None,
        }
    }

    /// Hit ratios of all workloads that came so far.
    fn ratios(&self, step: usize, of: fn(&Outcome) -> &[Hits]) -> Vec<f64> {
        self.outcomes.iter().filter_map(|it| of(it).get(step)?.ratio()).collect()
    }

    /// Hits of the tail while its drive was filled by one step.
    fn hits(&self, step: usize) -> Option<Claim> {
        let ratios = self.ratios(step, |it| &it.much.by_step);
        if ratios.is_empty() {
            return None;
        }
        let [least, mean] = least_and_mean(&ratios);
        let [_, best] = least_and_mean(&self.ratios(step, |it| &it.best));
        let at_least = self.setting.tail_hits;
        let verdict = match mean {
            _ if mean >= at_least => Verdict::Holds,
            _ if best < at_least => Verdict::Attained,
            _ => Verdict::Fails,
        };
        let gb = self.setting.step_gb * (step as u64 + 1);
        Some(Claim {
            paper: "at least 86 %, less with more data".to_owned(),
            measured: format!("{:.1} % on average, least {:.1} %", 100.0 * mean, 100.0 * least),
            value: mean,
            tolerance: format!("at least {:.0} % on average", 100.0 * at_least),
            attainable: Some(format!("{:.1} %", 100.0 * best)),
            verdict,
            why: (verdict == Verdict::Attained).then(|| {
                "a cache of this size that knew the future (see what is attainable) would miss the \
                 mark as well: the talk's table tells how much its traces touch, not how often the \
                 same, and what is drawn comes again less often"
                    .to_owned()
            }),
            ..self.claim(
                &format!("hits-{gb}"),
                &format!("hits on the tail, up to {gb} GB on its drive"),
            )
        })
    }

    /// Where the hits of the tail come from.
    fn memory_part(&self) -> Claim {
        let tails = self.outcomes.iter().map(|it| it.much.counters.tail);
        let parts: Vec<f64> = tails
            .map(|tail| tail.memory as f64 / (tail.memory + tail.flash).max(1) as f64)
            .collect();
        let [_, mean] = least_and_mean(&parts);
        Claim {
            paper: "most".to_owned(),
            measured: format!("{:.0} %", 100.0 * mean),
            value: mean,
            ..self.claim("memory", "hits on the tail that memory serves")
        }
    }

    /// What memory before the SSD does for its lifetime.
    fn lifetime(&self) -> Claim {
        let written = |outcome: &CacheOutcome| outcome.counters.flash_written.max(1) as f64;
        let each = self.outcomes.iter();
        let times: Vec<f64> =
            each.clone().map(|it| written(&it.little) / written(&it.much)).collect();
        let possible: Vec<f64> = each.map(possible_times).collect();
        let [least, mean] = least_and_mean(&times);
        let [_, possible] = least_and_mean(&possible);
        let most = times.iter().copied().fold(0.0, f64::max);
        let [low, high] = self.setting.lifetime_times;
        let verdict = match mean {
            _ if mean >= low => Verdict::Holds,
            _ if possible < low => Verdict::Attained,
            _ => Verdict::Fails,
        };
        let Caches { memory_gb, little_memory_mb, .. } = self.setting;
        let what =
            format!("lifetime of the SSD, {memory_gb} GB of memory beside {little_memory_mb} MB");
        Claim {
            paper: format!("{low:.0} to {high:.0} times"),
            measured: format!("{least:.1} to {most:.1} times, {mean:.1} on average"),
            value: mean,
            tolerance: format!("at least {low:.0} on average"),
            attainable: Some(format!("{possible:.1}")),
            verdict,
            why: (verdict == Verdict::Attained).then(|| {
                "memory saves the SSD what is overwritten while it is there; with memory for all \
                 of the drive it would be what is attainable"
                    .to_owned()
            }),
            ..self.claim("lifetime", &what)
        }
    }

    fn figure(&self) -> Figure {
        let steps = 0..self.setting.steps as usize;
        let line = |name: &str, of: fn(&Outcome) -> &[Hits], which: usize, colour| Line {
            name: name.to_owned(),
            points: steps
                .clone()
                .map(|step| {
                    let gb = self.setting.step_gb * (step as u64 + 1);
                    (gb as f64, 100.0 * least_and_mean(&self.ratios(step, of))[which])
                })
                .collect(),
            is_dashed: which == 0,
            colour,
        };
        let chart = Chart {
            title: "Reads of the tail that its cache serves".to_owned(),
            note: format!("{} mixes of generated traces", self.outcomes.len()),
            x: Axis::linear("data on the tail's drive (GB)"),
            y: Axis::linear("hits (%)"),
            body: Body::Lines(vec![
                line("mean", |it| &it.much.by_step, 1, 0),
                line("least", |it| &it.much.by_step, 0, 0),
                line("mean, knowing the future", |it| &it.best, 1, 1),
            ]),
        };
        Figure::new("gecko-caches", chart)
    }
}

/// How many times fewer blocks would reach the SSD if memory had no bound.
fn possible_times(outcome: &Outcome) -> f64 {
    let written = outcome.much.counters.written;
    let stay = written.saturating_sub(outcome.much.overwritten).max(1);
    written as f64 / stay as f64
}

fn least_and_mean(values: &[f64]) -> [f64; 2] {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    [least, values.iter().sum::<f64>() / values.len().max(1) as f64]
}
