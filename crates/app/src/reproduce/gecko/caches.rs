//! The tail's cache under mixes of traces: what it keeps from the tail's drive, and what the memory
//! before it saves the SSD (slides 24 and 25).

use evenkeel_core::prng::Prng;
use evenkeel_sim::chained::caches::{CacheOutcome, CacheSizes, mix, replay};
use evenkeel_trace::generate::{Profile, profile};

use super::Findings;
use super::reference::{Caches, Reference};
use super::runs;
use crate::plot::{Axis, Body, Chart, Figure, Line};
use crate::reproduce::Options;
use crate::reproduce::claim::{Claim, Verdict};

const GB: u64 = 1_000_000_000;
const MB: u64 = 1_000_000;

/// By what all sizes are divided, and if it has to be quick.
const DIVISOR: u64 = 128;
const QUICK_DIVISOR: u64 = 512;

/// Mixes if it has to be quick.
const QUICK_MIXES: usize = 6;

/// The traces of the talk.
const TRACES: [&str; 9] =
    ["prxy", "src1", "proj", "exchange", "usr", "livemapsbe", "msnfs", "devdivrelease", "prn"];

/// A mix, and its outcomes with all the memory and with little.
struct Mix {
    much: CacheOutcome,
    little: CacheOutcome,
}

/// Replays all mixes.
pub(super) fn find(reference: &Reference, options: &Options) -> Findings {
    let setting = &reference.caches;
    let (divisor, count) =
        if options.quick { (QUICK_DIVISOR, QUICK_MIXES) } else { (DIVISOR, setting.mixes) };
    let mixes = mixes(count, options.seed);
    let jobs: Vec<(&Vec<Profile>, u64)> = mixes
        .iter()
        .flat_map(|mix| [setting.memory_gb * GB, setting.little_memory_mb * MB].map(|it| (mix, it)))
        .collect();
    let outcomes = runs::all("caches", &jobs, |(profiles, memory_bytes)| {
        replay(mix(profiles, divisor, options.seed), &setting.sizes(divisor, *memory_bytes))
    });
    let mixes: Vec<Mix> = outcomes
        .chunks_exact(2)
        .map(|both| Mix { much: both[0].clone(), little: both[1].clone() })
        .collect();
    let mut claims: Vec<Claim> =
        (0..setting.steps as usize).map(|step| hits(setting, &mixes, step)).collect();
    claims.push(from_memory(&mixes));
    claims.push(lifetime(setting, &mixes));
    Findings { claims, figures: vec![figure(setting, &mixes)] }
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

/// Hits of the tail while its drive was filled by one step.
fn hits(setting: &Caches, mixes: &[Mix], step: usize) -> Claim {
    let ratios: Vec<f64> =
        mixes.iter().filter_map(|mix| mix.much.by_step.get(step)?.ratio()).collect();
    let [least, mean] = least_and_mean(&ratios);
    let gb = setting.step_gb * (step as u64 + 1);
    Claim {
        id: format!("caches-hits-{gb}"),
        what: format!("generated mixes: hits on the tail, up to {gb} GB on its drive"),
        paper: "at least 86 %; falls, above 80 % on average".to_owned(),
        measured: format!("{:.1} % on average, least {:.1} %", 100.0 * mean, 100.0 * least),
        value: mean,
        tolerance: format!("at least {:.0} % on average", 100.0 * setting.tail_hits),
        attainable: None,
        verdict: Verdict::of(mean >= setting.tail_hits),
        why: None,
    }
}

/// Where the hits of the tail come from.
fn from_memory(mixes: &[Mix]) -> Claim {
    let parts: Vec<f64> = mixes
        .iter()
        .map(|mix| mix.much.counters.tail)
        .map(|tail| tail.memory as f64 / (tail.memory + tail.flash).max(1) as f64)
        .collect();
    let [_, mean] = least_and_mean(&parts);
    Claim {
        id: "caches-memory".to_owned(),
        what: "generated mixes: hits on the tail that memory serves".to_owned(),
        paper: "most".to_owned(),
        measured: format!("{:.0} %", 100.0 * mean),
        value: mean,
        tolerance: String::new(),
        attainable: None,
        verdict: Verdict::Shown,
        why: None,
    }
}

/// What memory before the SSD does for its lifetime.
fn lifetime(setting: &Caches, mixes: &[Mix]) -> Claim {
    let written = |outcome: &CacheOutcome| outcome.counters.flash_written.max(1) as f64;
    let times: Vec<f64> =
        mixes.iter().map(|mix| written(&mix.little) / written(&mix.much)).collect();
    let [least, mean] = least_and_mean(&times);
    let most = times.iter().copied().fold(0.0, f64::max);
    let [low, high] = setting.lifetime_times;
    Claim {
        id: "caches-lifetime".to_owned(),
        what: format!(
            "generated mixes: lifetime of the SSD with {} GB of memory beside {} MB",
            setting.memory_gb, setting.little_memory_mb
        ),
        paper: format!("{low:.0} to {high:.0} times"),
        measured: format!("{least:.1} to {most:.1} times, {mean:.1} on average"),
        value: mean,
        tolerance: format!("at least {low:.0} on average"),
        attainable: None,
        verdict: Verdict::of(mean >= low),
        why: None,
    }
}

fn least_and_mean(values: &[f64]) -> [f64; 2] {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    [least, values.iter().sum::<f64>() / values.len().max(1) as f64]
}

fn figure(setting: &Caches, mixes: &[Mix]) -> Figure {
    let line = |name: &str, of: &dyn Fn(&[f64]) -> f64, colour| Line {
        name: name.to_owned(),
        points: (0..setting.steps as usize)
            .map(|step| {
                let ratios: Vec<f64> =
                    mixes.iter().filter_map(|mix| mix.much.by_step.get(step)?.ratio()).collect();
                ((setting.step_gb * (step as u64 + 1)) as f64, 100.0 * of(&ratios))
            })
            .collect(),
        is_dashed: false,
        colour,
    };
    let chart = Chart {
        title: "Reads of the tail that its cache serves".to_owned(),
        note: format!("{} mixes of generated traces", mixes.len()),
        x: Axis::linear("data on the tail's drive (GB)"),
        y: Axis::linear("hits (%)"),
        body: Body::Lines(vec![
            line("mean", &|it| least_and_mean(it)[1], 0),
            line("least", &|it| least_and_mean(it)[0], 1),
        ]),
    };
    Figure::new("gecko-caches", chart)
}
