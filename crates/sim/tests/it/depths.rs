//! The automatic depth on devices of which it knows nothing, beside fixed depths on the same load.
//! It was fitted on seeds below 10,000; these are others.
//!
//! `EVENKEEL_DEVICES` says how many devices; the table is printed.

use evenkeel_core::sched::depth::{DepthPolicy, LADDER};
use evenkeel_sim::depths::{Knowledge, Outcome, Setting};

/// How many devices.
const VARIABLE: &str = "EVENKEEL_DEVICES";
pub(crate) const FIRST_SEED: u64 = 10_000;
const DEVICES: u64 = 20;
/// Depths that people choose.
const FIXED: [u32; 4] = [1, 8, 32, 128];
/// All that the best one is sought among.
const SWEEP: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// A setting, played at every depth.
struct Played {
    name: String,
    automatic: Outcome,
    /// The same, where costs are learned too.
    learned: Outcome,
    sweep: Vec<(u32, Outcome)>,
}

impl Played {
    fn new(seed: u64) -> Self {
        let setting = Setting::draw(seed);
        let run = |depth| setting.run(DepthPolicy::Requests(depth), Knowledge::True);
        Self {
            name: setting.describe(),
            automatic: setting.run(DepthPolicy::Automatic, Knowledge::True),
            learned: setting.run(DepthPolicy::Automatic, Knowledge::Learned),
            sweep: SWEEP.map(|depth| (depth, run(depth))).to_vec(),
        }
    }

    /// The part of the best fixed depth's throughput.
    fn part(&self, outcome: &Outcome) -> f64 {
        let parts = self.sweep.iter().map(|(_, fixed)| outcome.part_of(fixed));
        parts.fold(f64::MAX, f64::min)
    }

    /// The smallest fixed depth with 97 % of the best.
    fn needed(&self) -> (u32, &Outcome) {
        let found = self.sweep.iter().find(|(_, outcome)| self.part(outcome) >= 0.97);
        let (depth, outcome) = found.expect("the best has");
        (*depth, outcome)
    }

    /// Latency, in times of what the smallest sufficient depth has.
    fn latency_times(&self, outcome: &Outcome) -> f64 {
        outcome.latency_seconds() / self.needed().1.latency_seconds()
    }

    fn fixed(&self, depth: u32) -> &Outcome {
        &self.sweep.iter().find(|(one, _)| *one == depth).expect("it was played").1
    }
}

/// How many devices are asked for, or this many.
pub(crate) fn devices(usual: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "how many devices is for whoever runs it to say")]
    std::env::var(VARIABLE).map_or(usual, |count| count.parse().expect("a number"))
}

pub(crate) fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) * percent / 100]
}

fn row(name: &str, played: &[Played], of: impl Fn(&Played) -> &Outcome) -> f64 {
    let mut parts: Vec<f64> = played.iter().map(|one| one.part(of(one))).collect();
    let mut latencies: Vec<f64> = played.iter().map(|one| one.latency_times(of(one))).collect();
    let reached = parts.iter().filter(|part| **part >= 0.97).count();
    let reached = reached as f64 / played.len() as f64;
    println!(
        "| {name} | {:.0} % | {:.2} | {:.2} | {:.2} | {:.2} |",
        reached * 100.0,
        percentile(&mut parts, 5),
        percentile(&mut parts, 50),
        percentile(&mut latencies, 50),
        percentile(&mut latencies, 95),
    );
    reached
}

/// How far the depth that was found still moves when the load is steady, by rungs of the ladder.
fn limit_cycles(played: &[Played]) -> String {
    let rung = |depth: u32| LADDER.iter().position(|one| *one == depth).expect("a rung");
    let settled = played.iter().filter_map(|one| one.automatic.settled());
    let mut moves: Vec<usize> = settled.map(|(least, most)| rung(most) - rung(least)).collect();
    moves.sort_unstable();
    let within = |rungs: usize| moves.iter().filter(|moved| **moved <= rungs).count();
    let [still, one, two] = [0, 1, 2].map(within);
    let (found, worst) = (moves.len(), moves.last().copied().unwrap_or(0));
    format!(
        "of {} devices {found} have a depth found; it stays on its rung on {still}, within one on \
         {one}, within two on {two}, {worst} rungs at worst",
        played.len()
    )
}

#[test]
fn an_automatic_depth_keeps_the_throughput_of_unknown_devices() {
    let played: Vec<Played> =
        (0..devices(DEVICES)).map(|one| Played::new(FIRST_SEED + one)).collect();
    for one in &played {
        println!(
            "{:.3} of the best, latency x{:.2}, found {:?}, needed {}: {}",
            one.part(&one.automatic),
            one.latency_times(&one.automatic),
            one.automatic.settled(),
            one.needed().0,
            one.name
        );
    }
    println!("| depth | 97 % reached | worst of 20 | median | latency, median | worst of 20 |");
    let automatic = row("automatic", &played, |one| &one.automatic);
    let learned = row("automatic, costs learned", &played, |one| &one.learned);
    let [_, eight, thirty_two, _] =
        FIXED.map(|depth| row(&depth.to_string(), &played, |one| one.fixed(depth)));
    println!("{}", limit_cycles(&played));
    // 128 reaches it more often, at many times the latency.
    let least = thirty_two.max(eight).max(0.6);
    assert!(automatic > least && learned > least, "{automatic}, {learned}");
    let mut latencies: Vec<f64> =
        played.iter().map(|one| one.latency_times(&one.automatic)).collect();
    assert!(percentile(&mut latencies, 50) < 1.3, "{latencies:?}");
}
