//! The result for people: one block per stage, one line per peer and cell, then the aims.
//!
//! ```text
//! == relay before nbdkit memory, unix; reference: haproxy
//! workload               conn peer      throughput    x ref (rounds)  CPU us  x ref (rounds)
//! 4k-random-read-depth1     1 evenkeel   9.8k IOPS  1.04 (0.99-1.10)    61.2  0.71 (0.66-0.75)
//!                             haproxy    9.4k IOPS              1.00    86.0              1.00
//! ```

use std::fmt::Write;

use crate::common;
use crate::matrix::{Cell, Contest, Peer};
use crate::report::{Aim, Report, Row, Verdict};
use crate::statistics::Spread;

/// From this request size on bytes are what counts.
const BANDWIDTH_FROM_BYTES: u32 = 65_536;

/// What stands where nothing was measured.
const NOTHING: &str = "-";

/// The whole result as text, with a line break at its end.
pub(crate) fn render(report: &Report) -> String {
    let stage = |row: &Row| (row.cell.contest, row.cell.transport);
    let stages = report.rows.chunk_by(|one, next| stage(one) == stage(next));
    let (results, aims) = if report.smoke {
        (stages.map(smoke).collect(), String::new())
    } else {
        let is_judged = report.machine.disturbance().is_none();
        let aims = if is_judged { aims(&report.rows) } else { String::new() };
        (stages.map(|rows| block(rows, is_judged)).collect::<String>(), aims)
    };
    format!("{}{results}{aims}{}", head(report), troubles(report))
}

/// What ran, without the figures: peers that run side by side have none worth reading.
fn smoke(rows: &[Row]) -> String {
    let Some(Row { cell: Cell { contest, transport, .. }, .. }) = rows.first() else {
        return String::new();
    };
    let of = |peer: &&Peer| rows.iter().filter(|row| row.peer == **peer).count();
    let peers = contest.peers().iter().map(|peer| format!("{peer} {}", of(&peer)));
    format!("smoke {contest}/{transport}, cells run: {}\n", peers.collect::<Vec<_>>().join(", "))
}

fn head(report: &Report) -> String {
    let Report { rounds, seconds, load_generator, file_system, .. } = report;
    let versions: Vec<&str> = report.versions.values().map(String::as_str).collect();
    format!(
        "{}\nload: {load_generator}; medians of {rounds} rounds of {seconds} s; disks on \
         {file_system}\npeers: {}\n",
        report.machine.line(),
        versions.join("; "),
    )
}

fn block(rows: &[Row], is_judged: bool) -> String {
    let Some(Row { cell: Cell { contest, transport, .. }, .. }) = rows.first() else {
        return String::new();
    };
    let mut text = format!(
        "\n== {}, {transport}; reference: {}\n{:<30}{:>4} {:<15}{:>13}{:>20}{:>9}{:>20}  aims\n",
        contest.title(),
        contest.reference(),
        "workload",
        "conn",
        "peer",
        "throughput",
        "x ref (rounds)",
        "CPU us",
        "x ref (rounds)",
    );
    for cell in rows.chunk_by(|one, next| one.cell == next.cell) {
        for (index, row) in cell.iter().enumerate() {
            text.push_str(&line(row, index == 0, is_judged));
        }
    }
    text
}

fn line(row: &Row, is_first: bool, is_judged: bool) -> String {
    let (workload, connections) = if is_first {
        (row.cell.workload.to_string(), row.cell.connections.to_string())
    } else {
        (String::new(), String::new())
    };
    let line = format!(
        "{workload:<30}{connections:>4} {:<15}{:>13}{:>20}{:>9.1}{:>20}  {}",
        row.peer,
        throughput(row),
        ratio(row.throughput_ratio, row.is_reference),
        row.cpu_us_per_request.median,
        ratio(row.cpu_ratio, row.is_reference),
        if is_judged || row.verdicts.is_empty() {
            verdicts(&row.verdicts)
        } else {
            "not judged".to_owned()
        },
    );
    format!("{}\n", line.trim_end())
}

fn throughput(row: &Row) -> String {
    if row.cell.workload.size_bytes >= BANDWIDTH_FROM_BYTES {
        return format!("{:.0} MiB/s", row.bytes_per_second.median / f64::from(1 << 20));
    }
    format!("{:.1}k IOPS", row.requests_per_second.median / 1000.0)
}

fn ratio(spread: Option<Spread>, is_reference: bool) -> String {
    match spread {
        _ if is_reference => "1.00".to_owned(),
        Some(Spread { median, min, max }) => format!("{median:.2} ({min:.2}-{max:.2})"),
        None => NOTHING.to_owned(),
    }
}

/// `cpu ok` or `cpu MISSED`, then the same for throughput with the rivals that are ahead. A
/// question mark says that single rounds disagree.
fn verdicts(verdicts: &[Verdict]) -> String {
    let mut parts = Vec::new();
    for verdict in verdicts.iter().filter(|verdict| verdict.aim == Aim::Cpu) {
        parts.push(format!("cpu {}", word(verdict.holds, verdict.is_clear)));
    }
    let throughput: Vec<_> =
        verdicts.iter().filter(|verdict| verdict.aim == Aim::Throughput).collect();
    if !throughput.is_empty() {
        let is_clear = throughput.iter().all(|verdict| verdict.is_clear);
        let ahead = throughput.iter().filter(|verdict| !verdict.holds);
        let ahead: Vec<String> = ahead
            .map(|verdict| format!("{:.2} of {}", verdict.ratio.median, verdict.against))
            .collect();
        let names = if ahead.is_empty() { String::new() } else { format!(" {}", ahead.join(", ")) };
        parts.push(format!("throughput {}{names}", word(ahead.is_empty(), is_clear)));
    }
    parts.join("; ")
}

fn word(holds: bool, is_clear: bool) -> &'static str {
    match (holds, is_clear) {
        (true, true) => "ok",
        (true, false) => "ok?",
        (false, true) => "MISSED",
        (false, false) => "MISSED?",
    }
}

/// One line per contest and aim: in how many rows it holds.
fn aims(rows: &[Row]) -> String {
    let mut text = String::from("\naims (`?`: not in every round)\n");
    for contest in Contest::ALL {
        let ours = |row: &&Row| row.cell.contest == contest && row.peer == Peer::Evenkeel;
        let ours: Vec<&Row> = rows.iter().filter(ours).collect();
        for aim in [Aim::Cpu, Aim::Throughput] {
            text.push_str(&aim_line(contest, aim, &ours));
        }
    }
    text
}

/// Nothing where nothing was judged.
fn aim_line(contest: Contest, aim: Aim, ours: &[&Row]) -> String {
    let judged: Vec<Vec<&Verdict>> = ours
        .iter()
        .map(|row| row.verdicts.iter().filter(|verdict| verdict.aim == aim).collect())
        .filter(|verdicts: &Vec<_>| !verdicts.is_empty())
        .collect();
    if judged.is_empty() {
        return String::new();
    }
    let all = |test: fn(&Verdict) -> bool| {
        judged.iter().filter(|verdicts| verdicts.iter().all(|verdict| test(verdict))).count()
    };
    let what = match (aim, contest.cpu_bound()) {
        (Aim::Cpu, Some(bound)) => {
            format!("CPU per request at most {bound} of {}'s", contest.reference())
        }
        _ => "throughput below no peer's".to_owned(),
    };
    let count = judged.len();
    format!(
        "{contest:<8}{what:<46}{:>3} of {count} rows, {} of them in every round\n",
        all(|verdict| verdict.holds),
        all(|verdict| verdict.holds && verdict.is_clear),
    )
}

fn troubles(report: &Report) -> String {
    let mut text = String::new();
    for peer in &report.missing {
        let also = match peer {
            Peer::Nbdkit => ", and so are all relays, which stand before it",
            _ => "",
        };
        let _ = writeln!(text, "SKIPPED: {peer} is not installed; its rows are absent{also}");
    }
    text + &common::troubles(&[], &report.failures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Transport, Workload};
    use crate::report::{Measured, Sample};

    fn rows(workload: Workload) -> Vec<Row> {
        let contest = Contest::Memory;
        let cell = Cell { contest, transport: Transport::Tcp, workload, connections: 4 };
        let samples = |rate: f64, cpu: f64| {
            let bytes_per_second = rate * f64::from(workload.size_bytes);
            let requests_per_second = rate;
            vec![Some(Sample { requests_per_second, bytes_per_second, cpu_us_per_request: cpu })]
        };
        let peers =
            vec![(Peer::Evenkeel, samples(19_000.0, 6.0)), (Peer::Nbdkit, samples(20_000.0, 10.0))];
        Measured { cell, peers }.rows()
    }

    #[test]
    fn a_line_shows_figures_ratios_and_what_was_missed() {
        let text = block(&rows(Workload::ALL[2]), true);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines[3].join(" "),
            "4k-random-read-depth32 4 evenkeel 19.0k IOPS 0.95 (0.95-0.95) 6.0 0.60 (0.60-0.60) \
             cpu MISSED; throughput MISSED 0.95 of nbdkit"
        );
        assert_eq!(lines[4].join(" "), "nbdkit 20.0k IOPS 1.00 10.0 1.00");
        let text = block(&rows(Workload::ALL[2]), false);
        assert!(text.contains("  not judged\n") && !text.contains("MISSED"), "{text}");
    }

    #[test]
    fn large_requests_are_shown_in_bytes() {
        let rows = rows(Workload::ALL[4]);
        assert_eq!(throughput(&rows[1]), "1250 MiB/s");
    }

    #[test]
    fn aims_are_counted_by_row_and_only_where_they_were_judged() {
        let text = aims(&rows(Workload::ALL[0]));
        assert!(text.contains("memory  CPU per request at most 0.5 of nbdkit's"), "{text}");
        assert!(text.contains("0 of 1 rows, 0 of them in every round"), "{text}");
        assert!(!text.contains("relay"), "{text}");
    }

    #[test]
    fn a_smoke_run_tells_what_ran_and_no_figure() {
        let text = smoke(&rows(Workload::ALL[0]));
        assert_eq!(text, "smoke memory/tcp, cells run: evenkeel 1, nbdkit 1, qemu-nbd 0\n");
    }

    #[test]
    fn a_verdict_on_which_rounds_disagree_has_a_question_mark() {
        assert_eq!([word(true, true), word(true, false)], ["ok", "ok?"]);
        assert_eq!([word(false, true), word(false, false)], ["MISSED", "MISSED?"]);
    }
}
