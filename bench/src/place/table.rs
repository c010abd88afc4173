//! The result as a table: one block per map, one line per contender.
//!
//! ```text
//! == 44 servers, 4 to a host; the table took 14 ms
//! contender                per CPU second         ns each   x CRUSH (rounds)  aims
//! crushtool --test                   425k            2353
//! a candidate looked up             82.1M            12.2   193 (188-195)     ok (at least 10)
//! the better of two                 14.3M            69.9                     ok (at most 100 ns)
//! ```

use super::{Block, CHOICE_AIM_NS, Contender, RATE_AIM, Report, Row};
use crate::common::troubles;
use crate::conclusion::{Aim, Kind, word};
use crate::machine::Machine;
use crate::statistics::Spread;

/// The whole result as text, with a line break at its end.
pub(super) fn render(report: &Report) -> String {
    let mut text = format!(
        "{}\nmedians of {} rounds, user and system time of one core, three replicas\n",
        report.machine.line(),
        report.rounds,
    );
    let machine = &report.machine;
    text.extend(
        report.blocks.iter().map(|it| if report.smoke { smoke(it) } else { block(it, machine) }),
    );
    text + &troubles(&report.missing, &report.failures)
}

/// Who ran, without figures: they have no worth at toy size.
fn smoke(block: &Block) -> String {
    let names: Vec<String> = block.rows.iter().map(|row| row.contender.to_string()).collect();
    format!("smoke {} servers, ran: {}\n", block.shape.servers, names.join("; "))
}

fn block(block: &Block, machine: &Machine) -> String {
    let mut text = format!(
        "\n== {} servers, {} to a host; the table took {:.0} ms\n{:<24}{:>16}{:>26}{:>24}  aims\n",
        block.shape.servers,
        block.shape.per_host,
        block.table_ms,
        "contender",
        "per CPU second",
        "ns each (rounds)",
        "x CRUSH (rounds)",
    );
    let crush = block.rows.iter().find(|row| row.contender == Contender::Crush);
    text.extend(block.rows.iter().map(|row| line(row, crush, machine)));
    text
}

fn line(row: &Row, crush: Option<&Row>, machine: &Machine) -> String {
    let Some(each) = Spread::of(row.rounds_ns.iter().copied().flatten()) else {
        return format!("{:<24}failed\n", row.contender);
    };
    let ratio = ratio(row, crush);
    let aims = aim(row, crush).map_or_else(String::new, |(kind, _, holds, demand)| {
        format!("{} ({demand})", word(machine, kind, holds))
    });
    let line = format!(
        "{:<24}{:>16}{:>26}{:>24}  {aims}",
        row.contender,
        rate(1e9 / each.median),
        spread(each, 1),
        ratio.map_or_else(String::new, |ratio| spread(ratio, 0)),
    );
    format!("{}\n", line.trim_end())
}

/// The rate of a look-up beside CRUSH, paired by round; of others nothing.
fn ratio(row: &Row, crush: Option<&Row>) -> Option<Spread> {
    let crush = crush.filter(|_| row.contender == Contender::LookUp)?;
    Spread::of_ratios(&crush.rounds_ns, &row.rounds_ns)
}

/// The kind of a row's aim, the figure, whether it holds, and what is demanded.
fn aim(row: &Row, crush: Option<&Row>) -> Option<(Kind, f64, bool, String)> {
    let each = Spread::of(row.rounds_ns.iter().copied().flatten())?.median;
    match (row.contender, ratio(row, crush)) {
        (Contender::LookUp, Some(ratio)) => {
            let demand = format!("at least {RATE_AIM}");
            Some((Kind::Ratio, ratio.median, ratio.median >= RATE_AIM, demand))
        }
        (Contender::Choose, _) => {
            let demand = format!("at most {CHOICE_AIM_NS} ns");
            Some((Kind::Bound, each, each <= CHOICE_AIM_NS, demand))
        }
        _ => None,
    }
}

/// What was to be reached, and what came of it.
pub(super) fn aims(blocks: &[Block]) -> Vec<Aim> {
    let of_block = |block: &Block| {
        let crush = block.rows.iter().find(|row| row.contender == Contender::Crush);
        let of_row = |row: &Row| {
            let (kind, value, holds, demand) = aim(row, crush)?;
            let id = format!("{}/{}", block.shape.servers, row.contender);
            Some(Aim::of(id, kind, value, holds, format!("{value:.1}, aim {demand}")))
        };
        block.rows.iter().filter_map(of_row).collect::<Vec<_>>()
    };
    blocks.iter().flat_map(of_block).collect()
}

fn spread(spread: Spread, digits: usize) -> String {
    let Spread { median, min, max } = spread;
    format!("{median:.digits$} ({min:.digits$}-{max:.digits$})")
}

fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate >= 1e6 => format!("{:.1}M", rate / 1e6),
        rate => format!("{:.0}k", rate / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::super::SHAPES;
    use super::*;

    fn row(contender: Contender, each_ns: f64) -> Row {
        Row { contender, rounds_ns: vec![Some(each_ns), Some(each_ns * 1.1), None] }
    }

    #[test]
    fn ratios_and_aims_are_shown() {
        let rows = vec![
            row(Contender::Crush, 2000.0),
            row(Contender::LookUp, 10.0),
            row(Contender::Choose, 120.0),
        ];
        let text = block(&Block { shape: SHAPES[1], table_ms: 14.0, rows }, &Machine::look());
        for part in ["44 servers", "200 (200-200)", "ok (at least 10)", "MISSED (at most 100 ns)"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn without_crush_there_is_no_ratio_and_no_verdict() {
        let text = line(&row(Contender::LookUp, 10.0), None, &Machine::look());
        assert!(!text.contains("at least") && text.contains("10.5"), "{text}");
    }
}
