//! The result as two tables: the tenants, and what requests cost two builds.
//!
//! ```text
//!                                        no moves             moves
//! small tenant, p99 ms           38.5 (38.0-40.1)  48.0 (48.0-48.5)  x 1.24 (1.20-1.28) ok
//! big tenant, MB/s               14.2 (14.1-14.3)  12.3 (12.2-12.4)  lost 0.14 (0.12-0.14)
//! ```

use std::fmt::Write;

use super::Report;
use super::builds::Row;
use super::tenants::Sample;
use crate::common::troubles;
use crate::conclusion::{Aim, Kind, word};
use crate::statistics::Spread;

/// How many times its wait without moves the small tenant's may be.
const P99_AIM: f64 = 1.5;
/// What the big tenant keeps, of what it would have if moves took exactly their part from it.
const KEPT_AIM: f64 = 1.0;
/// How many times the other build's processor time a request may take.
const CPU_AIM: f64 = 1.05;

/// The whole result as text, with a line break at its end.
pub(super) fn render(report: &Report) -> String {
    let mut text = report.machine.line() + "\n";
    if report.smoke {
        let ran = report.builds.iter().map(Row::id).collect::<Vec<_>>().join("; ");
        let _ = writeln!(text, "smoke, ran: tenants; {ran}");
    } else {
        if !report.tenants.with.is_empty() {
            text += &tenants(report);
        }
        if !report.builds.is_empty() {
            text += &builds(report);
        }
    }
    text + &troubles(&[], &report.failures)
}

/// What is aimed at, and what came of it.
pub(super) fn aims(report: &Report) -> Vec<Aim> {
    if report.smoke {
        return Vec::new();
    }
    let wanted = !report.tenants.with.is_empty();
    let tenants = wanted.then(|| tenant_aims(report)).into_iter().flatten();
    tenants.chain(report.builds.iter().filter_map(build_aim)).collect()
}

fn tenant_aims(report: &Report) -> [Aim; 2] {
    let rounds = report.tenants.judged();
    let depth = report.depth;
    let (p99_id, kept_id) = (format!("small-p99-depth{depth}"), format!("big-rate-depth{depth}"));
    let (Some(p99), Some(kept)) = (p99_ratio(&rounds), kept(&rounds)) else {
        let why =
            || "in no round extents moved all the while with moves, and none without".to_owned();
        let p99 = format!("aim at most {P99_AIM}");
        return [
            Aim::not_judged(p99_id, Kind::Ratio, p99, why()),
            Aim::not_judged(kept_id, Kind::Ratio, format!("aim at least {KEPT_AIM}"), why()),
        ];
    };
    let figure = format!("{:.2} of that without moves, aim at most {P99_AIM}", p99.median);
    let holds = p99.median <= P99_AIM;
    let p99 = Aim::of(p99_id, Kind::Ratio, p99.median, holds, figure);
    let figure =
        format!("{:.2} of what the part of moves leaves it, aim at least {KEPT_AIM}", kept.median);
    let holds = kept.median >= KEPT_AIM;
    [p99, Aim::of(kept_id, Kind::Ratio, kept.median, holds, figure)]
}

fn build_aim(row: &Row) -> Option<Aim> {
    let ratio = Spread::of_ratios(&row.new_us, &row.old_us)?.median;
    let figure = format!("{ratio:.3} of the other build's, aim at most {CPU_AIM}");
    Some(Aim::of(row.id(), Kind::Ratio, ratio, ratio <= CPU_AIM, figure))
}

fn p99_ratio(rounds: &[[Sample; 2]]) -> Option<Spread> {
    Spread::of(rounds.iter().map(|[with, without]| with.small_p99_ms / without.small_p99_ms))
}

/// The part of its rate without moves that the big tenant loses.
fn lost([with, without]: &[Sample; 2]) -> f64 {
    1.0 - with.big_bytes_per_second() / without.big_bytes_per_second()
}

/// What it keeps, beside what the part of moves leaves it.
fn kept(rounds: &[[Sample; 2]]) -> Option<Spread> {
    let kept = |pair: &[Sample; 2]| (1.0 - lost(pair)) / (1.0 - pair[0].accounts.moves_part());
    Spread::of(rounds.iter().map(kept))
}

fn tenants(report: &Report) -> String {
    let rounds = report.tenants.judged();
    let left_out = report.tenants.with.len() - rounds.len();
    let [slow, fast] = report.devices;
    let mut text = format!(
        "\nslow device: {slow}\nfast device: {fast}\n{} rounds of {} s, depth {}\n",
        report.rounds, report.seconds, report.depth,
    );
    let _ = writeln!(text, "{:<34}{:>22}{:>22}", "", "no moves", "moves");
    let mut line = |name: &str, figure: fn(&Sample) -> f64, last: String| {
        let of = |index: usize| show(Spread::of(rounds.iter().map(|pair| figure(&pair[index]))));
        let line = format!("{name:<34}{:>22}{:>22}  {last}", of(1), of(0));
        let _ = writeln!(text, "{}", line.trim_end());
    };
    let judged = |spread: Option<Spread>, holds: fn(f64) -> bool| {
        let Some(spread) = spread else { return String::new() };
        let word = word(&report.machine, Kind::Ratio, holds(spread.median));
        format!("x {} {word}", show_ratio(spread))
    };
    let p99 = judged(p99_ratio(&rounds), |ratio| ratio <= P99_AIM);
    line("small tenant, p99 ms", |sample| sample.small_p99_ms, p99);
    line(
        "small tenant, requests/s",
        |sample| sample.accounts.small.requests as f64 / sample.accounts.seconds,
        String::new(),
    );
    let lost = Spread::of(rounds.iter().map(lost));
    let lost = lost.map_or_else(String::new, |lost| format!("lost {}", show_ratio(lost)));
    line("big tenant, MB/s", |sample| sample.big_bytes_per_second() / 1e6, lost);
    let kept = judged(kept(&rounds), |kept| kept >= KEPT_AIM);
    line("part of moves, beside the big one", |sample| sample.accounts.moves_part(), kept);
    line("extents moved/s", Sample::moved_per_second, String::new());
    line("gate, us CPU per request", |sample| sample.cpu_us_per_request, String::new());
    if left_out > 0 {
        let _ = writeln!(
            text,
            "cannot judge {left_out} rounds: too few extents moved with moves, or some did without"
        );
    }
    text
}

fn builds(report: &Report) -> String {
    let mut text = format!("\n{} rounds\n", report.rounds);
    let _ = writeln!(
        text,
        "{:<44}{:>22}{:>22}{:>28}",
        "us CPU per request", "other build", "this build", "x the other"
    );
    for row in &report.builds {
        let of = |figures: &[Option<f64>]| show(Spread::of(figures.iter().copied().flatten()));
        let ratio = Spread::of_ratios(&row.new_us, &row.old_us);
        let ratio = ratio.map_or_else(String::new, |ratio| {
            let word = word(&report.machine, Kind::Ratio, ratio.median <= CPU_AIM);
            format!("{} {word}", show_ratio(ratio))
        });
        let (old, new) = (of(&row.old_us), of(&row.new_us));
        let _ = writeln!(text, "{:<44}{old:>22}{new:>22}{ratio:>28}", row.id());
    }
    text
}

fn show(spread: Option<Spread>) -> String {
    let Some(Spread { median, min, max }) = spread else { return "failed".to_owned() };
    let digits = if median < 1.0 { 2 } else { 1 };
    format!("{median:.digits$} ({min:.digits$}-{max:.digits$})")
}

fn show_ratio(Spread { median, min, max }: Spread) -> String {
    format!("{median:.2} ({min:.2}-{max:.2})")
}

#[cfg(test)]
mod tests {
    use super::super::tenants::tests::sample;
    use super::*;

    fn pairs(samples: &[(Sample, Sample)]) -> Vec<[Sample; 2]> {
        samples.iter().map(|(with, without)| [*with, *without]).collect()
    }

    #[test]
    fn what_the_big_tenant_loses_stands_beside_the_part_of_moves() {
        // A fifth of the service goes to moves; the big tenant loses as much, less, and more.
        let still = sample(10.0, 10, 0);
        let exactly = pairs(&[(sample(15.0, 8, 50), still)]);
        assert!((lost(&exactly[0]) - 0.2).abs() < 1e-9);
        assert!((kept(&exactly).unwrap().median - 1.0).abs() < 1e-9);
        assert!((p99_ratio(&exactly).unwrap().median - 1.5).abs() < 1e-9);
        assert!(kept(&pairs(&[(sample(15.0, 9, 50), still)])).unwrap().median > 1.0);
        assert!(kept(&pairs(&[(sample(15.0, 7, 50), still)])).unwrap().median < 1.0);
    }

    #[test]
    fn without_a_round_that_can_be_judged_there_is_no_figure() {
        assert!(kept(&[]).is_none() && p99_ratio(&[]).is_none());
        assert_eq!(show(None), "failed");
    }
}
