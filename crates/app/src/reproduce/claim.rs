//! One claim of a paper beside what was measured, and how a list of them is shown.

use serde::Serialize;

use super::Options;
use crate::exit::Exit;
use crate::terminal;

/// One row of the outcome.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Claim {
    /// Short and stable, for programs.
    pub(super) id: String,
    /// What is claimed, for people.
    pub(super) what: String,
    /// What the paper reports.
    pub(super) paper: String,
    /// What was measured.
    pub(super) measured: String,
    /// The measured figure, for programs.
    pub(super) value: f64,
    /// What has to be true of it.
    pub(super) tolerance: String,
    /// What was possible with the work that was offered, where that is another figure.
    pub(super) attainable: Option<String>,
    /// Whether it is.
    pub(super) verdict: Verdict,
    /// Why not, or what else to know.
    pub(super) why: Option<String>,
}

impl Claim {
    /// A claim of which nothing is demanded, and of which nothing else is known yet.
    pub(super) fn shown(id: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            what: what.into(),
            paper: String::new(),
            measured: String::new(),
            value: 0.0,
            tolerance: String::new(),
            attainable: None,
            verdict: Verdict::Shown,
            why: None,
        }
    }
}

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// It does.
    Holds,
    /// Its condition was not met; what was possible was reached.
    Attained,
    /// It does not.
    Fails,
    /// A figure that nothing is demanded of here.
    Shown,
}

impl Verdict {
    /// The verdict of a condition.
    pub(super) fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Fails }
    }

    pub(super) fn shown(self, colour: bool) -> String {
        let (text, code) = match self {
            Self::Holds => ("holds", "32"),
            Self::Attained => ("attained", "33"),
            Self::Fails => ("FAILS", "31;1"),
            Self::Shown => ("shown", "2"),
        };
        if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The exit code of a list of claims.
fn exit(claims: &[Claim]) -> Exit {
    let failed = claims.iter().any(|claim| claim.verdict == Verdict::Fails);
    if failed { Exit::Failed } else { Exit::Success }
}

/// What `--json` prints of a paper's claims.
#[derive(Debug, Serialize)]
struct Document<'a, M> {
    paper: &'a str,
    #[serde(flatten)]
    more: &'a M,
    seed: u64,
    quick: bool,
    holds: bool,
    claims: &'a [Claim],
}

/// Shows the claims as the options ask for it, and says how they came out. `reference` is what the
/// figures are held against.
pub(super) fn show(
    paper: &str,
    options: &Options,
    claims: &[Claim],
    reference: &str,
) -> anyhow::Result<Exit> {
    show_with(&(), paper, options, claims, reference)
}

/// As [`show`], with more fields in the JSON document.
pub(super) fn show_with(
    more: &impl Serialize,
    paper: &str,
    options: &Options,
    claims: &[Claim],
    reference: &str,
) -> anyhow::Result<Exit> {
    let exit = exit(claims);
    if options.json {
        let (seed, quick, holds) = (options.seed, options.quick, exit == Exit::Success);
        terminal::json(&Document { paper, more, seed, quick, holds, claims })?;
    } else {
        terminal::data(&table(claims, reference, terminal::colour_on_stdout()))?;
    }
    Ok(exit)
}

/// Columns of a claim, and how many characters a line of each has at most: rows are read in
/// terminals of some 150 characters, and one long claim must not push every verdict out of sight.
const WIDTHS: [usize; 5] = [40, 22, 38, 34, 18];

/// The column that is left away where it would be empty.
const ATTAINABLE: usize = 4;

/// Characters of a line of reasons.
const REASON_WIDTH: usize = 110;

/// The claims as a table, with the reasons below it; `reference` is what the figures are held
/// against.
fn table(claims: &[Claim], reference: &str, colour: bool) -> String {
    let reference = format!("<{reference}");
    let mut header = vec!["CLAIM", &reference, "<MEASURED", "<MUST BE", "<ATTAINABLE", "<VERDICT"];
    let mut rows: Vec<_> = claims.iter().flat_map(|claim| lines(claim, colour)).collect();
    if claims.iter().all(|claim| claim.attainable.is_none()) {
        header.remove(ATTAINABLE);
        for row in &mut rows {
            row.remove(ATTAINABLE);
        }
    }
    let (table, reasons) = (terminal::table(&header, &rows), reasons(claims));
    if reasons.is_empty() { table } else { format!("{table}\n{reasons}") }
}

/// The lines of one row.
fn lines(claim: &Claim, colour: bool) -> Vec<Vec<String>> {
    let Claim { what, paper, measured, tolerance, .. } = claim;
    let attainable = claim.attainable.as_deref().unwrap_or_default();
    let cells = [what.as_str(), paper, measured, tolerance, attainable];
    let mut columns: Vec<_> =
        cells.iter().zip(WIDTHS).map(|(cell, width)| folded(cell, width)).collect();
    columns.push(vec![claim.verdict.shown(colour)]);
    let count = columns.iter().map(Vec::len).max().unwrap_or(0);
    let line = |index| {
        let cell = |column: &Vec<String>| column.get(index).cloned().unwrap_or_default();
        columns.iter().map(cell).collect()
    };
    (0..count).map(line).collect()
}

/// A reason that several rows share is told once.
fn reasons(claims: &[Claim]) -> String {
    let mut text = String::new();
    let same = |first: &Claim, second: &Claim| first.why == second.why;
    for claims in claims.chunk_by(same) {
        let Claim { what, why: Some(why), .. } = &claims[0] else { continue };
        let more = match claims.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        for (index, line) in
            folded(&format!("{what}{more}: {why}"), REASON_WIDTH).iter().enumerate()
        {
            text += if index == 0 { "  " } else { "    " };
            text += line;
            text.push('\n');
        }
    }
    text
}

/// A text in lines of so many characters, broken at blanks. A longer word stands alone.
fn folded(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            // A unit alone at the beginning of a line would be overlooked.
            Some(line)
                if word == "%" || line.chars().count() + 1 + word.chars().count() <= width =>
            {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(verdict: Verdict, why: Option<&str>) -> Claim {
        Claim {
            id: "ratio-16".to_owned(),
            what: "16:1".to_owned(),
            paper: "5.84".to_owned(),
            measured: "15.9".to_owned(),
            value: 15.9,
            tolerance: "15.2 to 16.8".to_owned(),
            attainable: None,
            verdict,
            why: why.map(str::to_owned),
        }
    }

    #[test]
    fn one_claim_that_fails_is_a_failure_and_says_why() {
        let good = claim(Verdict::Holds, None);
        let bad = claim(Verdict::Fails, Some("the heavy tenant ran dry"));
        assert_eq!(exit(std::slice::from_ref(&good)), Exit::Success);
        assert_eq!(exit(&[good.clone(), claim(Verdict::Attained, None)]), Exit::Success);
        assert_eq!(exit(&[good.clone(), bad.clone()]), Exit::Failed);
        let text = table(&[good, bad], "PAPER", false);
        assert!(text.contains("  16:1: the heavy tenant ran dry\n"), "{text}");
        assert!(text.contains("holds") && text.contains("FAILS"), "{text}");
    }

    #[test]
    fn a_long_claim_is_folded_and_a_column_of_nothing_is_left_away() {
        let long = "nobody below the fair share, and nobody better off with the bundle of another";
        let claim = Claim { what: long.to_owned(), ..claim(Verdict::Holds, None) };
        let text = table(std::slice::from_ref(&claim), "PAPER", false);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(!text.contains("ATTAINABLE"), "{text}");
        assert!(text.lines().nth(1).unwrap().ends_with("holds"), "{text}");
        let claim = Claim { attainable: Some("15.9".to_owned()), ..claim };
        assert!(table(&[claim], "PAPER", false).contains("ATTAINABLE"));
    }
}
