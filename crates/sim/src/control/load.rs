//! Requests of workloads whose rates wander and burst.
//!
//! The rate of a workload is its base or its burst rate, times a factor that wanders about 1 with a
//! memory of one second; requests arrive as a Poisson process of that rate. Workloads of one group
//! burst in turn: at most one of them does at a time. Traces of busy servers look like that at the
//! scale of seconds (Riska and Riedel, "Disk drive level workload characterization", USENIX ATC
//! 2006), and the control of response times is about that scale.
//!
//! ```text
//!   rate   burst  ----+~~~~~~+         +~~~~~~+
//!          base   ~~~~+      +~~~~~~~~~+      +~~~   times a factor with a memory of 1 s
//! ```

use evenkeel_core::float::{exponential, natural_log};
use evenkeel_core::prng::Prng;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

/// Steps in which rates change.
pub const STEP: Span = Span::from_millis(50);

/// Memory of the factor on the rate.
const MEMORY: Span = Span::from_secs(1);

/// One workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// For reports.
    pub name: String,
    /// Requests per second outside bursts.
    pub base_per_s: f64,
    /// Requests per second in a burst.
    pub burst_per_s: f64,
    /// Standard deviation of the wandering factor, above zero.
    pub variation: f64,
    /// Workloads of one group burst in turn.
    pub group: usize,
    /// Sizes in bytes, and how many of a hundred requests have them.
    pub sizes: Vec<(u64, u64)>,
    /// How many of a hundred requests are reads.
    pub read_percent: u64,
}

/// When the workloads of a group burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// Mean length of a burst, exponentially distributed.
    pub length: Span,
    /// Mean time between two bursts of the group.
    pub gap: Span,
}

/// The part of the device that all workloads use, uniformly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its first byte.
    pub first: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Offsets are multiples of this.
    pub align: u64,
}

/// A request that is to arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Nanos,
    /// Of which workload.
    pub load: usize,
    /// What for.
    pub kind: Kind,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// All arrivals of `length`, in order, with every rate multiplied by `scale`.
pub fn arrivals(
    loads: &[Load],
    bursts: &[Bursts],
    region: Region,
    scale: f64,
    length: Span,
    seed: u64,
) -> Vec<Arrival> {
    let mut all = Vec::new();
    for (load, (rates, mut own)) in
        drawn(loads, bursts, scale, length, seed).into_iter().enumerate()
    {
        for at in instants(&rates, &mut own) {
            all.push(draw(&loads[load], load, at, region, &mut own));
        }
    }
    all.sort_by_key(|arrival| (arrival.at, arrival.load));
    all
}

/// Requests per second that are asked for, by workload and [`STEP`]: the rates that [`arrivals`] of
/// the same arguments draws its requests from.
pub fn demand(
    loads: &[Load],
    bursts: &[Bursts],
    scale: f64,
    length: Span,
    seed: u64,
) -> Vec<Vec<f64>> {
    drawn(loads, bursts, scale, length, seed).into_iter().map(|(rates, _)| rates).collect()
}

/// By workload its rates, and the generator from which its requests are drawn.
fn drawn(
    loads: &[Load],
    bursts: &[Bursts],
    scale: f64,
    length: Span,
    seed: u64,
) -> Vec<(Vec<f64>, Prng)> {
    let mut prng = Prng::new(seed);
    let steps = usize::try_from(length.0 / STEP.0).expect("a run of finite length");
    let bursting = bursting(loads, bursts, steps, &mut prng);
    let streams = loads.iter().zip(&bursting).map(|(load, bursting)| {
        // Each workload has its own stream: another rate of one leaves the others as they are.
        let mut own = Prng::new(prng.next_u64());
        (rates(load, bursting, scale, &mut own), own)
    });
    streams.collect()
}

/// By workload and step, whether it bursts.
fn bursting(loads: &[Load], bursts: &[Bursts], steps: usize, prng: &mut Prng) -> Vec<Vec<bool>> {
    let mut bursting = vec![vec![false; steps]; loads.len()];
    for (group, Bursts { length, gap }) in bursts.iter().enumerate() {
        let members: Vec<usize> =
            (0..loads.len()).filter(|load| loads[*load].group == group).collect();
        let in_steps = |span: Span| usize::try_from(span.0 / STEP.0).unwrap_or(steps).max(1);
        let mut at = 0;
        while at < steps && !members.is_empty() {
            at += in_steps(prng.exponential(*gap));
            let chosen = prng.below(members.len() as u64);
            let member = members[usize::try_from(chosen).expect("below the members")];
            let end = at + in_steps(prng.exponential(*length));
            (at..end.min(steps)).for_each(|step| bursting[member][step] = true);
            at = end;
        }
    }
    bursting
}

/// Requests per second by step.
fn rates(load: &Load, bursting: &[bool], scale: f64, prng: &mut Prng) -> Vec<f64> {
    let keep = exponential(-(STEP.as_secs_f64() / MEMORY.as_secs_f64()));
    // The logarithm of the factor wanders; its mean is such that the factor's is 1.
    let variance = natural_log(1.0 + load.variation * load.variation);
    let mut deviate = normal(prng);
    let rate = |bursts: &bool| {
        let factor = exponential(variance.sqrt() * deviate - variance / 2.0);
        deviate = keep * deviate + (1.0 - keep * keep).sqrt() * normal(prng);
        scale * factor * if *bursts { load.burst_per_s } else { load.base_per_s }
    };
    bursting.iter().map(rate).collect()
}

/// Instants of a Poisson process of these rates.
fn instants(rates: &[f64], prng: &mut Prng) -> Vec<Nanos> {
    let mut instants = Vec::new();
    // Requests still to be expected before the next arrives: an exponential of mean one.
    let mut to_go = unit_exponential(prng);
    for (step, rate) in rates.iter().enumerate() {
        let (start, mut expected) = (step as u64 * STEP.0, rate * STEP.as_secs_f64());
        let mut passed = 0.0;
        while to_go <= expected {
            expected -= to_go;
            passed += to_go / rate;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "in a step"
            )]
            instants.push(Nanos(start + ((passed * 1e9) as u64).min(STEP.0 - 1)));
            to_go = unit_exponential(prng);
        }
        to_go -= expected;
    }
    instants
}

fn draw(load: &Load, index: usize, at: Nanos, region: Region, prng: &mut Prng) -> Arrival {
    let mut percent = prng.below(100);
    let mut sizes = load.sizes.iter();
    let length = loop {
        let (bytes, part) = sizes.next().expect("the parts of the sizes make a hundred");
        if percent < *part {
            break *bytes;
        }
        percent -= part;
    };
    let is_read = prng.below(100) < load.read_percent;
    let places = (region.length - length) / region.align + 1;
    Arrival {
        at,
        load: index,
        kind: if is_read { Kind::Read } else { Kind::Write },
        offset: region.first + prng.below(places) * region.align,
        length,
    }
}

/// Twelve uniform draws less six: of mean 0, variance 1, and normal for what is asked here.
fn normal(prng: &mut Prng) -> f64 {
    (0..12).map(|_| prng.unit_f64()).sum::<f64>() - 6.0
}

fn unit_exponential(prng: &mut Prng) -> f64 {
    -natural_log(1.0 - prng.unit_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: Region = Region { first: 1 << 20, length: 1 << 30, align: 4096 };
    const LENGTH: Span = Span::from_secs(200);

    fn load(base_per_s: f64, burst_per_s: f64, group: usize) -> Load {
        Load {
            name: String::new(),
            base_per_s,
            burst_per_s,
            variation: 0.15,
            group,
            sizes: vec![(8192, 75), (16384, 25)],
            read_percent: 66,
        }
    }

    #[test]
    fn rates_sizes_and_kinds_are_as_asked() {
        let loads = [load(200.0, 200.0, 0)];
        let arrivals = arrivals(&loads, &[], REGION, 1.5, LENGTH, 3);
        let rate = arrivals.len() as f64 / LENGTH.as_secs_f64();
        assert!((rate / 300.0 - 1.0).abs() < 0.05, "{rate}");
        assert!(arrivals.is_sorted_by_key(|arrival| arrival.at));
        let part = |is: &dyn Fn(&Arrival) -> bool| {
            arrivals.iter().filter(|arrival| is(arrival)).count() as f64 / arrivals.len() as f64
        };
        assert!((part(&|arrival| arrival.length == 8192) - 0.75).abs() < 0.01);
        assert!((part(&|arrival| arrival.kind == Kind::Read) - 0.66).abs() < 0.01);
        for arrival in &arrivals {
            let end = arrival.offset + arrival.length;
            assert!(arrival.offset >= REGION.first && end <= REGION.first + REGION.length);
        }
    }

    #[test]
    fn a_group_bursts_in_turn() {
        let loads = [load(0.001, 100.0, 0), load(0.001, 100.0, 0)];
        let bursts = [Bursts { length: Span::from_secs(5), gap: Span::from_secs(3) }];
        let mut prng = Prng::new(1);
        let bursting = bursting(&loads, &bursts, 4_000, &mut prng);
        let both = (0..4_000).filter(|step| bursting[0][*step] && bursting[1][*step]).count();
        let any = (0..4_000).filter(|step| bursting[0][*step] || bursting[1][*step]).count();
        assert_eq!(both, 0);
        let part = any as f64 / 4_000.0;
        assert!((part - 0.625).abs() < 0.15, "{part}");
    }

    #[test]
    fn the_seed_determines_all() {
        let loads = [load(50.0, 90.0, 0)];
        let bursts = [Bursts { length: Span::from_secs(5), gap: Span::from_secs(3) }];
        let run = |seed| arrivals(&loads, &bursts, REGION, 1.0, LENGTH, seed);
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }
}
