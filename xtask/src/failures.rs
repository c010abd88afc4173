//! Which tests failed, and what each said first, read from what the test runner prints.
//!
//! Where only the end of a run is kept, the names of the failed tests lie far above it. The summary
//! of the ladder begins with them.

use std::io::{BufRead, BufReader};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

/// The longest line that is repeated, in characters.
const LONGEST: usize = 240;

/// How the runner's verdicts on tests that did not pass begin. More may follow: `FAIL + LEAK` has
/// left processes behind, and a signal has its name.
const VERDICTS: [&str; 4] = ["FAIL", "TIMEOUT", "ABORT", "SIG"];

/// Runs the tests, passes on what they print, and returns how they ended with a line for each that
/// failed.
pub(crate) fn watch(command: &mut Command) -> (Result<()>, Vec<String>) {
    let mut found = Found::default();
    // Verdicts are looked for by their letters.
    let command = command.env("CARGO_TERM_COLOR", "never");
    let outcome = shell::run_piped(command, |errors| {
        for line in BufReader::new(errors).lines() {
            let line = line.context("cannot read what the tests print")?;
            eprintln!("{line}");
            found.read(&line);
        }
        Ok(())
    });
    (outcome, found.lines)
}

/// What was found so far.
#[derive(Default)]
struct Found {
    lines: Vec<String>,
    /// The next line is what a panic said.
    in_panic: bool,
    /// The last of the failed tests has said why.
    is_told: bool,
}

impl Found {
    fn read(&mut self, line: &str) {
        let text = line.trim();
        if let Some((verdict, name)) = verdict(text) {
            self.failed(&format!("{verdict} {name}"));
        } else if self.in_panic {
            self.in_panic = false;
            self.tell(text);
        } else if text.contains("panicked at") {
            self.in_panic = !self.is_told;
        } else if text.starts_with("Error: ") && !self.is_told {
            self.tell(text);
        }
    }

    /// A verdict, which the runner repeats at its end.
    fn failed(&mut self, line: &str) {
        if !self.lines.iter().any(|known| known.starts_with(line)) {
            self.lines.push(line.to_owned());
            (self.in_panic, self.is_told) = (false, false);
        }
    }

    fn tell(&mut self, said: &str) {
        self.is_told = true;
        if let Some(last) = self.lines.last_mut() {
            last.push_str(": ");
            last.push_str(said);
            *last = last.chars().take(LONGEST).collect();
        }
    }
}

/// The verdict and the name of a test, if a line says that it did not pass:
/// `FAIL [   0.006s] (2/3) a tests::two`.
fn verdict(line: &str) -> Option<(&str, &str)> {
    let (verdict, rest) = line.split_once(" [")?;
    let (time, name) = rest.split_once("] ")?;
    let is_verdict =
        time.ends_with('s') && VERDICTS.iter().any(|failed| verdict.starts_with(failed));
    is_verdict.then_some((verdict, name.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_test_is_named_once_with_what_it_said_first() {
        let printed = "
        PASS [   0.004s] (1/5) a tests::one
        FAIL [   0.006s] (2/5) a tests::two
  stderr:
    thread 'tests::two' (7) panicked at src/lib.rs:4:9:
    left is not right
    thread 'tests::two' (7) panicked at src/lib.rs:9:9:
    again
     TIMEOUT [ 120.001s] (3/5) a tests::three
     SIGTERM [   0.005s] (4/5) a tests::four
 FAIL + LEAK [   0.280s] (5/5) a tests::five
  stderr:
    thread 'tests::five' (7) panicked at src/lib.rs:4:9:
    its peer still runs
     Summary [ 120.1s] 5 tests run: 1 passed, 3 failed, 1 timed out
        FAIL [   0.006s] (2/5) a tests::two
     TIMEOUT [ 120.001s] (3/5) a tests::three
     SIGTERM [   0.005s] (4/5) a tests::four
 FAIL + LEAK [   0.280s] (5/5) a tests::five";
        let mut found = Found::default();
        printed.lines().for_each(|line| found.read(line));
        let expected = [
            "FAIL (2/5) a tests::two: left is not right",
            "TIMEOUT (3/5) a tests::three",
            "SIGTERM (4/5) a tests::four",
            "FAIL + LEAK (5/5) a tests::five: its peer still runs",
        ];
        assert_eq!(found.lines, expected);
    }
}
