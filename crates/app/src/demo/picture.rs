//! The outcome as a picture: response time of the database and throughput of the backup over time,
//! one phase below the other, and a line that says what it means.

use evenkeel_core::time::Span;

use super::device::{DESCRIPTION, RATE_BYTES};
use super::phase::{Column, Found, Outcome, Phase, Timing};
use crate::{human, spark};

/// Response times from here...
const QUICK_SECONDS: f64 = 0.001;
/// ... to here fill the height of a bar.
const SLOW_SECONDS: f64 = 1.0;
/// Nobody notices a response time below this.
const FINE_SECONDS: f64 = 0.03;
/// Everybody does above this.
const BAD_SECONDS: f64 = 0.2;

const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";
const BLUE: &str = "34";
const BOLD: &str = "1";

/// The whole picture.
pub(super) fn render(outcomes: &[Outcome], timing: Timing, colour: bool) -> String {
    let paint = Paint { colour };
    let mut text = String::from("\n");
    for outcome in outcomes {
        text += &phase(outcome, &paint);
    }
    let column = human::duration(timing.interval());
    text + &format!(
        "One bar is {column}. Response time: {} is 1 ms or less, {} is 1 s or more, in equal \
         factors; 99 of\n100 requests were quicker. Throughput: {} is all that the disk gives. \
         The disk is {DESCRIPTION}.\n",
        spark::bar(0.0),
        spark::bar(1.0),
        spark::bar(1.0)
    )
}

fn phase(outcome: &Outcome, paint: &Paint) -> String {
    let title = format!("{}  {}", outcome.phase.letter(), outcome.phase.title());
    let response: String =
        outcome.series.iter().map(|column| response_bar(column, paint)).collect();
    let throughput: String = outcome
        .series
        .iter()
        .map(|column| {
            let part = column.backup_bytes_per_second / RATE_BYTES as f64;
            paint.with(BLUE, &spark::bar(part).to_string())
        })
        .collect();
    format!(
        "{}\n   database, response time  {response}  half within {}, 99 % within {}\n   \
         backup, throughput       {throughput}  {} beside the database, {} alone\n{}   {}\n{}\n",
        paint.with(BOLD, &title),
        seconds(outcome.database_p50_seconds),
        seconds(outcome.database_p99_seconds),
        human::byte_rate(outcome.backup_busy_bytes_per_second),
        human::byte_rate(outcome.backup_resting_bytes_per_second),
        outcome.found.map_or_else(String::new, found),
        verdict(outcome, paint),
        attribution(outcome),
    )
}

/// What the gate has found of the disk.
fn found(Found { depth, unit_bytes }: Found) -> String {
    let at_once = if depth == 1 { "1 request".to_owned() } else { format!("{depth} requests") };
    let size = human::size(unit_bytes as f64);
    format!("   found by the gate        {at_once} at once, in pieces of {size} at most\n")
}

fn response_bar(column: &Column, paint: &Paint) -> String {
    if column.database_requests == 0 {
        return " ".to_owned();
    }
    let value = column.database_p99_seconds;
    let bar = spark::log_bar(value, QUICK_SECONDS, SLOW_SECONDS);
    paint.with(temper(value), &bar.to_string())
}

fn temper(seconds: f64) -> &'static str {
    match seconds {
        fine if fine < FINE_SECONDS => GREEN,
        middling if middling < BAD_SECONDS => YELLOW,
        _ => RED,
    }
}

/// One line on what the phase shows, from what was measured and nothing else.
fn verdict(outcome: &Outcome, paint: &Paint) -> String {
    let suffers = outcome.database_p99_seconds >= BAD_SECONDS;
    let used = outcome.backup_resting_bytes_per_second / RATE_BYTES as f64;
    let database = if suffers {
        format!(
            "the database stands in the backup's queue, up to {}",
            seconds(outcome.database_max_seconds)
        )
    } else {
        "the database is quick".to_owned()
    };
    let disk = if used < 0.75 {
        format!("while it rests, {} of the disk lie idle", human::percent(1.0 - used))
    } else {
        "while it rests, the backup has the whole disk".to_owned()
    };
    let code = match (suffers, used < 0.75) {
        (false, false) => GREEN,
        (true, _) => RED,
        (false, true) => YELLOW,
    };
    paint.with(code, &format!("=> {database}; {disk}"))
}

/// Whom the gate blames for the database's waiting.
fn attribution(outcome: &Outcome) -> String {
    let waited = |culprit: Option<&str>| {
        let of_database = outcome.waits.iter().filter(|wait| wait.victim == "database");
        let of_culprit = of_database.filter(|wait| culprit.is_none_or(|name| wait.culprit == name));
        of_culprit.map(|wait| wait.seconds).sum::<f64>()
    };
    let (all, by_backup) = (waited(None), waited(Some("backup")));
    let who = match outcome.phase {
        Phase::Watch => "the gate, only watching, names the culprit",
        Phase::Caps | Phase::Shares => "the gate tells",
    };
    if all <= 0.0 {
        return format!("   {who}: the database waited for nobody\n");
    }
    format!(
        "   {who}: a request of the database waited {} on average, {} of it because of the \
         backup\n",
        seconds(outcome.database_wait_seconds),
        human::percent(by_backup / all)
    )
}

fn seconds(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a latency")]
    human::duration(Span((value * 1e9) as u64))
}

/// Colour, where it is welcome.
struct Paint {
    colour: bool,
}

impl Paint {
    fn with(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::phase::Wait;

    fn outcome(p99: f64, resting_part: f64) -> Outcome {
        let wait = |culprit: &str, seconds| Wait {
            victim: "database".to_owned(),
            culprit: culprit.to_owned(),
            seconds,
        };
        Outcome {
            name: "watch",
            database_requests: 100,
            database_p50_seconds: p99 / 2.0,
            database_p99_seconds: p99,
            database_max_seconds: p99 * 1.2,
            backup_busy_bytes_per_second: 20e6,
            backup_resting_bytes_per_second: resting_part * RATE_BYTES as f64,
            database_wait_seconds: 0.1,
            waits: vec![wait("backup", 9.0), wait("database", 1.0)],
            series: vec![
                Column { database_requests: 5, database_p99_seconds: p99, ..Column::default() },
                Column { backup_bytes_per_second: 40e6, resting: true, ..Column::default() },
            ],
            found: None,
            phase: Phase::Watch,
        }
    }

    #[test]
    fn the_verdict_follows_the_measurement() {
        let plain = Paint { colour: false };
        assert_eq!(
            verdict(&outcome(0.9, 1.0), &plain),
            "=> the database stands in the backup's queue, up to 1.1 s; while it rests, the backup \
             has the whole disk"
        );
        assert_eq!(
            verdict(&outcome(0.02, 0.5), &plain),
            "=> the database is quick; while it rests, 50% of the disk lie idle"
        );
        assert!(verdict(&outcome(0.02, 0.95), &plain).ends_with("has the whole disk"));
    }

    #[test]
    fn the_picture_has_no_escapes_where_colour_is_not_welcome() {
        let outcomes = [outcome(0.9, 1.0)];
        let text = render(&outcomes, Timing::new(true), false);
        assert!(!text.contains('\x1b'), "{text}");
        assert!(text.contains("waited 100 ms on average, 90% of it because of the backup"));
        assert!(render(&outcomes, Timing::new(true), true).contains("\x1b[31m"));
        let found = Some(Found { depth: 1, unit_bytes: 128 << 10 });
        let text = render(&[Outcome { found, ..outcome(0.9, 1.0) }], Timing::new(true), false);
        assert!(text.contains("1 request at once, in pieces of 128 KiB at most"), "{text}");
    }
}
