//! The result as a table, one line per workload.
//!
//! ```text
//! workload                   servers MB/s (rounds)   volume MB/s (rounds)   x the servers   us CPU
//! 1m-sequential-write-depth8     240 (238-241)          236 (230-239)        0.98 ok          55
//! ```

use std::fmt::Write;

use super::{Block, Report, SERVERS, Sample};
use crate::common::troubles;
use crate::conclusion::{Aim, Kind, word};
use crate::machine::Machine;
use crate::statistics::Spread;

/// The part of the sum of its servers that a volume should reach.
const AIM: f64 = 0.95;

/// The whole result as text, with a line break at its end.
pub(super) fn render(report: &Report) -> String {
    let mut text = format!(
        "{}\n{SERVERS} servers of {} MB/s each (nbdkit's rate filter), {} rounds of {} s\n",
        report.machine.line(),
        report.rate_bytes / 1_000_000,
        report.rounds,
        report.seconds,
    );
    if report.smoke {
        let names: Vec<String> =
            report.blocks.iter().map(|block| block.workload.to_string()).collect();
        let _ = writeln!(text, "smoke, ran: {}", names.join("; "));
    } else {
        let _ = writeln!(
            text,
            "{:<30}{:>22}{:>22}{:>26}{:>12}",
            "workload", "servers MB/s", "volume MB/s", "x the servers", "us CPU"
        );
        text.extend(report.blocks.iter().map(|block| line(block, &report.machine)));
    }
    text + &troubles(&[], &report.failures)
}

/// What the volume should reach, and what came of it.
pub(super) fn aims(report: &Report) -> Vec<Aim> {
    let blocks = if report.smoke { &[] } else { &report.blocks[..] };
    let aim = |block: &Block| {
        let ratio = ratio(block)?.median;
        let figure = format!("{ratio:.2} of the servers' sum, aim at least {AIM}");
        Some(Aim::of(block.workload.to_string(), Kind::Ratio, ratio, ratio >= AIM, figure))
    };
    blocks.iter().filter_map(aim).collect()
}

/// Rates in MB/s, by round.
fn rates(samples: &[Option<Sample>]) -> Vec<Option<f64>> {
    samples.iter().map(|sample| sample.map(|one| one.bytes_per_second / 1e6)).collect()
}

/// The volume beside its servers, paired by round.
fn ratio(block: &Block) -> Option<Spread> {
    Spread::of_ratios(&rates(&block.volume), &rates(&block.servers))
}

fn line(block: &Block, machine: &Machine) -> String {
    let (servers, volume) = (rates(&block.servers), rates(&block.volume));
    let show = |figures: &[Option<f64>]| {
        Spread::of(figures.iter().flatten().copied()).map_or_else(
            || "failed".to_owned(),
            |Spread { median, min, max }| format!("{median:.0} ({min:.0}-{max:.0})"),
        )
    };
    let ratio = ratio(block).map_or_else(String::new, |spread| {
        let verdict = word(machine, Kind::Ratio, spread.median >= AIM);
        format!("{:.2} ({:.2}-{:.2}) {verdict}", spread.median, spread.min, spread.max)
    });
    let cpu = block.volume.iter().flatten().filter_map(|sample| sample.cpu_us_per_request);
    let cpu = Spread::of(cpu).map_or_else(String::new, |spread| format!("{:.1}", spread.median));
    let name = block.workload.to_string();
    format!("{name:<30}{:>22}{:>22}{ratio:>26}{cpu:>12}\n", show(&servers), show(&volume))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Direction, Pattern, Workload};

    #[test]
    fn a_volume_is_held_against_its_servers_round_by_round() {
        let samples = |rates: [f64; 3]| {
            let sample = |rate: f64| {
                Some(Sample { bytes_per_second: rate * 1e6, cpu_us_per_request: Some(9.0) })
            };
            rates.map(sample).to_vec()
        };
        let workload = Workload {
            direction: Direction::Read,
            pattern: Pattern::Random,
            size_bytes: 65536,
            depth: 8,
        };
        let block = |volume| Block { workload, servers: samples([100.0, 200.0, 100.0]), volume };
        let text = line(&block(samples([97.0, 194.0, 80.0])), &Machine::look());
        assert!(text.contains("97 (80-194)") && text.contains("0.97 (0.80-0.97) ok"), "{text}");
        assert!(line(&block(samples([90.0, 190.0, 90.0])), &Machine::look()).contains("MISSED"));
    }
}
