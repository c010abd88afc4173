//! The result as a table: one block per contest, one line per contender.
//!
//! ```text
//! == ingest: records
//! contender          count  per CPU second (rounds)  x peer (rounds)  ns each  1/4  whole  aims
//! convert MSR gzip   4.00M      6.17M (6.01M-6.22M)   3.1 (3.0-3.2)      162  16.5   16.6  ok
//! fio, null engine   4.00M      2.00M (1.95M-2.04M)                      500   110    340
//! ```

use super::contest::Known;
use super::report::{Block, Report, Row};
use crate::common::troubles;
use crate::statistics::Spread;

/// The whole result as text, with a line break at its end.
pub(super) fn render(report: &Report) -> String {
    let block = if report.smoke { smoke } else { block };
    let mut text = format!(
        "{}\nmedians of {} rounds, whole processes, user and system time\nprograms: {}\n",
        report.machine.line(),
        report.rounds,
        report.versions.join("; "),
    );
    text.extend(report.contests.iter().map(block));
    text + &troubles(&report.missing, &report.failures)
}

/// Who ran, without figures: they have no worth at toy size.
fn smoke(block: &Block) -> String {
    let names: Vec<&str> = block.rows.iter().map(|row| row.contender.as_str()).collect();
    format!("smoke {}, ran: {}\n", block.contest, names.join("; "))
}

fn block(block: &Block) -> String {
    let mut text = format!(
        "\n== {}: {}\n{:<18}{:>7}{:>26}{:>24}{:>10}{:>14}{:>8}  aims\n",
        block.contest,
        block.unit,
        "contender",
        "count",
        "per CPU second (rounds)",
        "x peer (rounds)",
        "ns each",
        "peak MiB: 1/4",
        "whole",
    );
    text.extend(block.rows.iter().map(line));
    text.extend(block.known_not_measured_here.iter().map(known));
    text
}

fn line(row: &Row) -> String {
    let quarter = row.quarter_peak_bytes.map_or_else(String::new, |bytes| mebibytes(bytes as f64));
    let line = format!(
        "{:<18}{:>7}{:>26}{:>24}{:>10.0}{:>14}{:>8}  {}",
        row.contender,
        number(row.count as f64),
        spread(row.per_second, number),
        row.ratio.map_or_else(String::new, |ratio| spread(ratio, |ratio| format!("{ratio:.2}"))),
        1e9 / row.per_second.median,
        quarter,
        mebibytes(row.peak_bytes.median),
        aims(row),
    );
    format!("{}\n", line.trim_end())
}

fn known(known: &Known) -> String {
    let (least, most) = known.per_second;
    format!(
        "{:<18}{:>7}{:>26}  NOT MEASURED HERE: {}\n",
        known.program,
        "",
        format!("{} to {}", number(least), number(most)),
        known.source,
    )
}

fn aims(row: &Row) -> String {
    let mut parts = Vec::new();
    if let (Some(aim), Some(reaches)) = (row.aim_per_second, row.reaches_aim) {
        let word = if reaches { "ok" } else { "MISSED" };
        parts.push(format!("{word} (at least {})", number(aim)));
    }
    match row.is_bounded {
        Some(true) => parts.push("memory ok".to_owned()),
        Some(false) => parts.push("memory GROWS".to_owned()),
        None => {}
    }
    parts.join("; ")
}

fn spread(Spread { median, min, max }: Spread, show: impl Fn(f64) -> String) -> String {
    format!("{} ({}-{})", show(median), show(min), show(max))
}

/// Three digits and the thousands or millions that they count.
fn number(value: f64) -> String {
    let (value, unit) = match value {
        1e6.. => (value / 1e6, "M"),
        1e3.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$}{unit}")
}

fn mebibytes(bytes: f64) -> String {
    format!("{:.1}", bytes / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        let same = |figure| Spread { median: figure, min: figure, max: figure };
        Row {
            contender: "simulate".to_owned(),
            is_peer: false,
            count: 4_000_000,
            per_second: same(1.5e6),
            ratio: Some(same(20.0)),
            peak_bytes: same(f64::from(12 << 20)),
            quarter_peak_bytes: Some(12 << 20),
            aim_per_second: Some(2e6),
            reaches_aim: Some(false),
            is_bounded: Some(true),
            samples: Vec::new(),
        }
    }

    #[test]
    fn a_line_has_figures_and_what_was_missed() {
        let line = line(&row());
        assert_eq!(
            line.split_whitespace().collect::<Vec<_>>().join(" "),
            "simulate 4.00M 1.50M (1.50M-1.50M) 20.00 (20.00-20.00) 667 12.0 12.0 \
             MISSED (at least 2.00M); memory ok"
        );
    }

    #[test]
    fn what_others_reach_is_told_from_what_was_measured() {
        let known =
            known(&Known { program: "DiskSim", per_second: (2e3, 11e3), source: "elsewhere" });
        assert!(known.contains("2.00k to 11.0k  NOT MEASURED HERE: elsewhere"), "{known}");
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(
            [7.0, 950.0, 1000.0, 45_300.0, 6.17e6, 2e9].map(number),
            ["7.00", "950", "1.00k", "45.3k", "6.17M", "2000M"]
        );
    }

    #[test]
    fn a_toy_run_shows_no_figure() {
        let known = None;
        let block = Block {
            contest: "queue",
            unit: "requests",
            rows: vec![row()],
            known_not_measured_here: known,
        };
        assert_eq!(smoke(&block), "smoke queue, ran: simulate\n");
    }
}
