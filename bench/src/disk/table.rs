//! The result as a table, one line per contender.
//!
//! ```text
//! contender                            MB/s (rounds)  x in sequence  x as small  us CPU per 4 KiB
//! file, 1 MiB in sequence, depth 8   1540 (1490-1580)
//! store, 4 KiB at random, depth 32    610 (600-640)            0.40        3.10              4.1
//! ```

use std::fmt::Write;

use super::contender::Contender;
use super::{Report, Row, Sample};
use crate::common::troubles;
use crate::conclusion::{Aim, Kind, word};
use crate::machine::Machine;
use crate::statistics::Spread;

/// The part of the disk's rate in sequence that small writes at random should reach.
const AIM: f64 = 0.9;

/// The whole result as text, with a line break at its end.
pub(super) fn render(report: &Report) -> String {
    let mut text = format!(
        "{}\nfiles of {} MiB on {}, medians of {} rounds of {} s\n",
        report.machine.line(),
        report.file_bytes >> 20,
        report.file_system,
        report.rounds,
        report.seconds,
    );
    if report.smoke {
        let names: Vec<_> = report.rows.iter().map(|row| row.contender.to_string()).collect();
        let _ = writeln!(text, "smoke, ran: {}", names.join("; "));
    } else {
        text += &table(&report.rows, &report.machine);
    }
    text + &troubles(&report.missing, &report.failures)
}

/// What the store should reach, and what came of it.
pub(super) fn aims(report: &Report) -> Vec<Aim> {
    let rows = report.rows.iter().filter(|row| row.contender.has_aim() && !report.smoke);
    let aim = |row: &Row| {
        let reference = row.contender.reference();
        let ratio = ratio(row, &report.rows, reference)?;
        let figure = format!("{ratio:.2} of `{reference}`, aim at least {AIM}");
        Some(Aim::of(row.contender.to_string(), Kind::Ratio, ratio, ratio >= AIM, figure))
    };
    rows.filter_map(aim).collect()
}

fn table(rows: &[Row], machine: &Machine) -> String {
    let mut text = format!(
        "{:<46}{:>20}{:>15}{:>15}{:>14}{:>12}\n",
        "contender", "MB/s (rounds)", "x sequential", "x the same", "us CPU", "bytes to"
    );
    let _ = writeln!(
        text,
        "{:<46}{:>20}{:>15}{:>15}{:>14}{:>12}",
        "", "", "1 MiB", "under way", "per 4 KiB", "drives, x"
    );
    text.extend(rows.iter().map(|row| line(row, rows, machine)));
    text
}

fn line(row: &Row, rows: &[Row], machine: &Machine) -> String {
    let rate = Spread::of(figures(row, |sample| Some(sample.bytes_per_second)).flatten());
    let rate = rate.map_or_else(
        || "failed".to_owned(),
        |Spread { median, min, max }| {
            format!("{:.0} ({:.0}-{:.0})", median / 1e6, min / 1e6, max / 1e6)
        },
    );
    let median = |of: fn(&Sample) -> Option<f64>| {
        Spread::of(figures(row, of).flatten())
            .map_or_else(String::new, |spread| format!("{:.2}", spread.median))
    };
    let whole = ratio(row, rows, row.contender.reference());
    let verdict = match whole {
        Some(ratio) if row.contender.has_aim() => {
            format!("  {} (at least {AIM})", word(machine, Kind::Ratio, ratio >= AIM))
        }
        _ => String::new(),
    };
    let is_real = row.contender.reference() == Contender::Sequential;
    let show = |ratio: Option<f64>| ratio.map_or_else(String::new, |it| format!("{it:.2}"));
    let line = format!(
        "{:<46}{:>20}{:>15}{:>15}{:>14}{:>12}{verdict}",
        row.contender,
        rate,
        show(whole),
        show(is_real.then(|| ratio(row, rows, Contender::SmallSequential)).flatten()),
        median(|sample| sample.cpu_us_per_block),
        median(|sample| sample.amplification),
    );
    format!("{}\n", line.trim_end())
}

/// The median over the rounds of this row's rate as a part of another's; nothing beside itself.
fn ratio(row: &Row, rows: &[Row], reference: Contender) -> Option<f64> {
    let other = rows.iter().find(|other| other.contender == reference)?;
    if other.contender == row.contender {
        return None;
    }
    let rates =
        |row: &Row| -> Vec<_> { figures(row, |sample| Some(sample.bytes_per_second)).collect() };
    Some(Spread::of_ratios(&rates(row), &rates(other))?.median)
}

fn figures(
    row: &Row,
    of: fn(&Sample) -> Option<f64>,
) -> impl Iterator<Item = Option<f64>> + use<'_> {
    row.rounds.iter().map(move |sample| sample.as_ref().and_then(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(contender: Contender, rates: [f64; 3]) -> Row {
        let sample = |bytes_per_second| {
            Some(Sample { bytes_per_second, cpu_us_per_block: None, amplification: None })
        };
        Row { contender, rounds: rates.map(sample).to_vec() }
    }

    #[test]
    fn the_aim_is_held_against_the_rate_in_sequence_of_the_same_rounds() {
        let rows = [
            row(Contender::Sequential, [100e6, 200e6, 100e6]),
            row(Contender::Store, [95e6, 190e6, 80e6]),
        ];
        let text = table(&rows, &Machine::look());
        assert!(text.contains("95 (80-190)"), "{text}");
        assert!(text.contains("0.95"), "{text}");
        assert!(text.lines().last().unwrap().ends_with("ok (at least 0.9)"), "{text}");
    }
}
