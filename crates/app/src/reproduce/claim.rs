//! One claim of a paper beside what was measured, and how a list of them is shown.

use serde::Serialize;

use super::Options;
pub(super) use crate::evidence::Verdict;
use crate::evidence::machine::{Bears, Conditions};
use crate::evidence::{Decision, Tally, known_shortfall, missed};
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

    /// The reason of a row that does not hold; what was missed, if it gives none itself.
    fn reason(&self) -> String {
        self.why.clone().unwrap_or_else(|| missed(&self.measured, &self.tolerance))
    }
}

/// Holds claims against the conditions under which they were measured: one that fails while the
/// machine was disturbed is not judged.
pub(super) fn temper(claims: &mut [Claim], conditions: &Conditions) {
    for claim in claims {
        let verdict = conditions.temper(claim.verdict);
        if verdict != claim.verdict {
            claim.why = Some(format!("{}. As it is: {}", conditions.why(), claim.reason()));
            claim.verdict = verdict;
        }
    }
}

/// Carries out an experiment on this machine, and holds its claims against the conditions. When it
/// returns, nothing of it may be at work any more.
pub(super) fn live(
    bears: Bears,
    experiment: impl FnOnce() -> anyhow::Result<Vec<Claim>>,
) -> anyhow::Result<Vec<Claim>> {
    let (claims, conditions) = Conditions::during(bears, experiment)?;
    let mut claims = claims?;
    temper(&mut claims, &conditions);
    Ok(claims)
}

/// The claims with a reason for each that does not hold, and with failures that a decision accepts
/// marked as known.
fn settled(paper: &str, is_quick: bool, claims: &[Claim]) -> Vec<Claim> {
    let settle = |claim: &Claim| {
        let mut claim = claim.clone();
        if claim.verdict.needs_reason() {
            claim.why = Some(claim.reason());
        }
        let known = known_shortfall(paper, &claim.id, is_quick);
        if let (Verdict::Fails, Some(known)) = (claim.verdict, known) {
            claim.verdict = known.verdict(claim.value, is_quick);
            if claim.verdict == Verdict::Fails {
                let regression = known.regression(claim.value, is_quick);
                claim.why = Some(format!("{regression}. {}", claim.reason()));
            }
        }
        claim
    };
    claims.iter().map(settle).collect()
}

/// A line for each claim that holds although a decision lists it as a shortfall.
fn holding_now(paper: &str, is_quick: bool, claims: &[Claim]) -> String {
    let holds = claims.iter().filter(|claim| claim.verdict == Verdict::Holds);
    let listed = holds.filter_map(|claim| {
        let known = known_shortfall(paper, &claim.id, is_quick)?;
        Some(format!(
            "{}: this known shortfall holds now; if it does with other seeds too, remove it from \
             {} and from known.toml\n",
            claim.id,
            known.decision()
        ))
    });
    listed.collect()
}

/// What `--json` prints of a paper's claims.
#[derive(Debug, Serialize)]
struct Document<'a, M> {
    paper: &'a str,
    #[serde(flatten)]
    more: &'a M,
    seed: u64,
    quick: bool,
    /// Nothing fails but what a decision accepts, and all could be judged.
    holds: bool,
    count: &'a Tally,
    claims: Vec<Row<'a>>,
}

/// A claim, and the decision that accepts its failure.
#[derive(Debug, Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    claim: &'a Claim,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<String>,
}

impl<'a> Row<'a> {
    fn of(claim: &'a Claim) -> Self {
        Self { claim, decision: claim.verdict.decision().map(Decision::number) }
    }
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
    let claims = settled(paper, options.quick, claims);
    let count = Tally::of(claims.iter().map(|claim| claim.verdict));
    let exit = count.exit();
    if options.json {
        let (seed, quick, holds) = (options.seed, options.quick, exit == Exit::Success);
        let claims = claims.iter().map(Row::of).collect();
        terminal::json(&Document { paper, more, seed, quick, holds, count: &count, claims })?;
    } else {
        let table = table(&claims, reference, terminal::colour_on_stdout());
        let holding = holding_now(paper, options.quick, &claims);
        terminal::data(&format!("{table}\n{holding}{}\n", count.line()))?;
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

/// The claims as a table, with the reason below each row that does not hold, and what else there is
/// to know at the end; `reference` is what the figures are held against.
fn table(claims: &[Claim], reference: &str, colour: bool) -> String {
    let reference = format!("<{reference}");
    let mut header = vec!["CLAIM", &reference, "<MEASURED", "<MUST BE", "<ATTAINABLE", "<VERDICT"];
    let mut blocks: Vec<_> = claims.iter().map(|claim| lines(claim, colour)).collect();
    if claims.iter().all(|claim| claim.attainable.is_none()) {
        header.remove(ATTAINABLE);
        for row in blocks.iter_mut().flatten() {
            row.remove(ATTAINABLE);
        }
    }
    let table = terminal::table(&header, &blocks.concat());
    let mut printed = table.lines();
    let mut text = String::new();
    let mut print = |text: &mut String, count: usize| {
        printed.by_ref().take(count).for_each(|line| text.extend([line, "\n"]));
    };
    print(&mut text, 1);
    for (claim, block) in claims.iter().zip(&blocks) {
        print(&mut text, block.len());
        if claim.verdict.needs_reason() {
            text += &reason("  -> ", &claim.reason());
        }
    }
    let notes = notes(claims);
    if notes.is_empty() { text } else { format!("{text}\n{notes}") }
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

/// What there is to know of rows that hold, of those that attained what there was, and of those
/// that are shown. A reason that several rows share is printed once.
fn notes(claims: &[Claim]) -> String {
    let mut text = String::new();
    let claims: Vec<_> = claims.iter().filter(|claim| !claim.verdict.needs_reason()).collect();
    for claims in claims.chunk_by(|first, second| first.why == second.why) {
        let Claim { what, why: Some(why), .. } = claims[0] else { continue };
        let more = match claims.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        text += &reason("  ", &format!("{what}{more}: {why}"));
    }
    text
}

/// A text in lines, the first behind `lead` and the others indented a little more than that.
fn reason(lead: &str, text: &str) -> String {
    let mut shown = String::new();
    for (index, line) in folded(text, REASON_WIDTH).iter().enumerate() {
        shown += &if index == 0 { lead.to_owned() } else { " ".repeat(lead.len().max(4)) };
        shown += line;
        shown.push('\n');
    }
    shown
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
    use crate::evidence::machine::Reading;

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

    fn conditions(others: f64) -> Conditions {
        let bears = Bears { cores: 1.0, late_median_ms: 1.0, late_p99_ms: 1.0, uses_disks: false };
        let reading = Reading { cores: 2, others: vec![others; 20], ..Reading::default() };
        Conditions::of(bears, reading)
    }

    fn exit(claims: &[Claim]) -> Exit {
        Tally::of(claims.iter().map(|claim| claim.verdict)).exit()
    }

    #[test]
    fn one_claim_that_fails_is_a_failure_and_the_reason_stands_beside_it() {
        let good = claim(Verdict::Holds, None);
        let bad = claim(Verdict::Fails, Some("the heavy tenant ran dry"));
        assert_eq!(exit(std::slice::from_ref(&good)), Exit::Success);
        assert_eq!(exit(&[good.clone(), claim(Verdict::Attained, None)]), Exit::Success);
        assert_eq!(exit(&[good.clone(), bad.clone()]), Exit::Failed);
        let text = table(&[bad, good], "PAPER", false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].ends_with("FAILS") && lines[3].ends_with("holds"), "{text}");
        assert_eq!(lines[2], "  -> the heavy tenant ran dry");
    }

    #[test]
    fn a_row_that_fails_without_a_reason_says_what_was_missed() {
        let claims = settled("paper", false, &[claim(Verdict::Fails, None)]);
        let why = "measured 15.9; must be 15.2 to 16.8";
        assert_eq!(claims[0].why.as_deref(), Some(why));
        assert!(table(&claims, "PAPER", false).contains(&format!("\n  -> {why}\n")));
        let holds = settled("paper", false, &[claim(Verdict::Holds, None)]);
        assert_eq!(holds[0].why, None);
    }

    #[test]
    fn what_failed_on_a_disturbed_machine_is_not_judged_and_says_why() {
        let all = [claim(Verdict::Fails, Some("it ran dry")), claim(Verdict::Holds, None)];
        let mut claims = all.clone();
        temper(&mut claims, &conditions(1.8));
        assert_eq!((claims[0].verdict, claims[1].verdict), (Verdict::NotJudged, Verdict::Holds));
        let why = claims[0].why.as_deref().unwrap();
        assert!(
            why.starts_with("cannot judge at this load: other programs took up to 1.80"),
            "{why}"
        );
        assert!(why.ends_with("As it is: it ran dry"), "{why}");
        assert_eq!(exit(&claims), Exit::CannotJudge);
        let row = serde_json::to_value(Row::of(&claims[0])).unwrap();
        assert_eq!(row["verdict"], "not_judged");

        let mut claims = all.clone();
        temper(&mut claims, &conditions(0.1));
        assert_eq!(claims, all, "a quiet machine excuses nothing");
        assert_eq!(exit(&claims), Exit::Failed);
    }

    #[test]
    fn a_known_shortfall_fails_no_run_unless_it_has_become_worse() {
        let row = |verdict, value| Claim {
            id: "traces-generated-1-chain-of-mirrors".to_owned(),
            value,
            ..claim(verdict, Some("six drives have no more to give"))
        };
        let known = settled("gecko", false, &[row(Verdict::Fails, 2.6)]);
        assert_eq!(exit(&known), Exit::Success);
        let text = table(&known, "PAPER", false);
        assert!(text.contains("FAILS (known: decision 0015)\n  -> six drives"), "{text}");
        let json = serde_json::to_value(Row::of(&known[0])).unwrap();
        assert_eq!((&json["verdict"], &json["decision"]), (&"known".into(), &"0015".into()));

        let worse = settled("gecko", false, &[row(Verdict::Fails, 2.0)]);
        assert_eq!(exit(&worse), Exit::Failed);
        let why = worse[0].why.as_deref().unwrap();
        assert!(why.starts_with("worse than decision 0015 accepts: 2.000"), "{why}");

        let holds = settled("gecko", false, &[row(Verdict::Holds, 3.1)]);
        assert!(holding_now("gecko", false, &holds).contains("this known shortfall holds now"));
        assert_eq!(holding_now("gecko", false, &known), "");
        assert_eq!(exit(&settled("baa", false, &[row(Verdict::Fails, 2.6)])), Exit::Failed);
    }

    #[test]
    fn notes_of_rows_that_hold_come_at_the_end_and_once() {
        let claims =
            [claim(Verdict::Holds, Some("as said")), claim(Verdict::Shown, Some("as said"))];
        let text = table(&claims, "PAPER", false);
        assert!(text.ends_with("\n\n  16:1 and 1 more: as said\n"), "{text}");
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
