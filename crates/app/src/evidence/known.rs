//! Failures that a decision record accepts, as data: `known.toml`.
//!
//! An entry says how far the row was from its bound when the decision was taken. A row that is
//! worse than that by more than a tenth fails like any other, so that an entry hides no regression.

use std::sync::OnceLock;

use serde::Deserialize;

use super::verdict::{Decision, Verdict};

/// How much worse than accepted a figure may be, as a part: runs differ.
const WORSE_MAX: f64 = 0.1;

/// A row that does not hold, and why that is accepted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shortfall {
    /// The paper or benchmark, as its subcommand is called.
    experiment: String,
    /// The id of the row; `*` stands for any text.
    row: String,
    /// The number of the record.
    decision: u16,
    /// Where bad figures lie.
    worse: Worse,
    /// The figure in a full run.
    full: Option<f64>,
    /// The figure with `--quick`, which measures something smaller.
    quick: Option<f64>,
}

/// Where bad figures lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Worse {
    /// Below the bound.
    Below,
    /// Above it.
    Above,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    shortfall: Vec<Shortfall>,
}

/// The entry about a row, if there is one for this kind of run.
pub fn known_shortfall(experiment: &str, row: &str, is_quick: bool) -> Option<&'static Shortfall> {
    static FILE: OnceLock<File> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        toml::from_str(include_str!("known.toml"))
            .expect("the file is part of the build, and the tests read it")
    });
    let is_about = |entry: &&Shortfall| {
        entry.experiment == experiment
            && matches(&entry.row, row)
            && entry.accepted(is_quick).is_some()
    };
    file.shortfall.iter().find(is_about)
}

impl Shortfall {
    /// The decision that accepts it.
    pub fn decision(&self) -> Decision {
        Decision(self.decision)
    }

    /// Whether it is about several rows, of which some may hold.
    pub fn is_pattern(&self) -> bool {
        self.row.contains('*')
    }

    /// What a failing row with this figure is: known, or a failure after all where it is worse
    /// than accepted.
    pub fn verdict(&self, value: f64, is_quick: bool) -> Verdict {
        let Some(accepted) = self.accepted(is_quick) else { return Verdict::Fails };
        let slack = accepted.abs() * WORSE_MAX;
        let is_accepted = match self.worse {
            Worse::Below => value >= accepted - slack,
            Worse::Above => value <= accepted + slack,
        };
        if is_accepted { Verdict::Known(self.decision()) } else { Verdict::Fails }
    }

    /// What to say of a row that is worse than accepted.
    pub fn regression(&self, value: f64, is_quick: bool) -> String {
        let accepted = self.accepted(is_quick).unwrap_or(f64::NAN);
        format!(
            "worse than {} accepts: {value:.3} where it accepts {accepted:.3} and a tenth",
            self.decision()
        )
    }

    fn accepted(&self, is_quick: bool) -> Option<f64> {
        if is_quick { self.quick } else { self.full }
    }
}

/// Whether an id is as a pattern says, in which `*` stands for any text.
fn matches(pattern: &str, id: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == id };
    let Some(id) = id.strip_prefix(start) else { return false };
    (0..=id.len()).filter(|at| id.is_char_boundary(*at)).any(|at| matches(rest, &id[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(worse: Worse) -> Shortfall {
        Shortfall {
            experiment: "paper".to_owned(),
            row: "row".to_owned(),
            decision: 15,
            worse,
            full: Some(2.0),
            quick: None,
        }
    }

    #[test]
    fn a_row_much_worse_than_accepted_fails_after_all() {
        let known = Verdict::Known(Decision(15));
        let below = entry(Worse::Below);
        assert_eq!(below.verdict(2.5, false), known);
        assert_eq!(below.verdict(1.85, false), known, "runs differ");
        assert_eq!(below.verdict(1.75, false), Verdict::Fails);
        assert!(below.regression(1.75, false).contains("1.750 where it accepts 2.000"));
        let above = entry(Worse::Above);
        assert_eq!(above.verdict(2.15, false), known);
        assert_eq!(above.verdict(2.25, false), Verdict::Fails);
        assert_eq!(above.verdict(2.0, true), Verdict::Fails, "of quick runs nothing is accepted");
    }

    #[test]
    fn a_pattern_takes_any_text_for_a_star() {
        for (pattern, id, wanted) in [
            ("a-b", "a-b", true),
            ("a-b", "a-bc", false),
            ("relay/*/cpu", "relay/unix/4k/1/cpu", true),
            ("relay/*/cpu", "relay/unix/4k/1/throughput", false),
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
        ] {
            assert_eq!(matches(pattern, id), wanted, "{pattern} {id}");
        }
    }

    /// Every decision that the file names is a record with the row's name in it.
    #[test]
    fn every_known_shortfall_stands_in_its_decision_record() {
        let file: File = toml::from_str(include_str!("known.toml")).unwrap();
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/decisions");
        for entry in &file.shortfall {
            assert!(entry.full.is_some() || entry.quick.is_some(), "{entry:?} accepts nothing");
            let number = format!("{:04}-", entry.decision);
            let records = std::fs::read_dir(&folder).unwrap();
            let record = records
                .map(|record| record.unwrap().path())
                .find(|path| path.file_name().unwrap().to_string_lossy().starts_with(&number));
            let text = std::fs::read_to_string(record.expect("a record")).unwrap();
            let name = format!("`{}`", entry.row);
            assert!(text.contains(&name), "{name} of {} is not in its record", entry.experiment);
        }
    }
}
