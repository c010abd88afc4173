//! How the rows of an experiment came out, in one line and one exit code.

use std::collections::BTreeSet;

use serde::Serialize;

use super::verdict::{Decision, Verdict};
use crate::exit::Exit;

/// The number of rows of each verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Within bounds.
    pub holds: usize,
    /// Out of bounds, with all reached that was possible.
    pub attained: usize,
    /// Out of bounds on a machine that could judge.
    pub fails: usize,
    /// Out of bounds as a decision says.
    pub known: usize,
    /// Out of bounds on a machine that could not judge.
    pub not_judged: usize,
    /// Nothing demanded.
    pub shown: usize,
    /// The decisions that accept the known ones.
    #[serde(skip)]
    decisions: BTreeSet<Decision>,
}

impl Tally {
    /// Counts verdicts.
    pub fn of(verdicts: impl IntoIterator<Item = Verdict>) -> Self {
        let mut tally = Self::default();
        for verdict in verdicts {
            tally.decisions.extend(verdict.decision());
            *match verdict {
                Verdict::Holds => &mut tally.holds,
                Verdict::Attained => &mut tally.attained,
                Verdict::Fails => &mut tally.fails,
                Verdict::Known(_) => &mut tally.known,
                Verdict::NotJudged => &mut tally.not_judged,
                Verdict::Shown => &mut tally.shown,
            } += 1;
        }
        tally
    }

    /// The exit code: a row that fails on a quiet machine weighs more than one that nobody could
    /// judge; known failures weigh nothing.
    pub fn exit(&self) -> Exit {
        match (self.fails, self.not_judged) {
            (1.., _) => Exit::Failed,
            (0, 1..) => Exit::CannotJudge,
            (0, 0) => Exit::Success,
        }
    }

    /// The count for people, without a line break.
    pub fn line(&self) -> String {
        let Self { holds, attained, fails, known, not_judged, shown, decisions } = self;
        let all = holds + attained + fails + known + not_judged + shown;
        let rows = if all == 1 { "row" } else { "rows" };
        let by = match &decisions.iter().map(Decision::to_string).collect::<Vec<_>>()[..] {
            [] => String::new(),
            decisions => format!(" ({})", decisions.join(", ")),
        };
        format!(
            "{all} {rows}: {holds} hold, {fails} fail, {known} fail as known{by}, \
             {attained} attained, {not_judged} not judged, {shown} shown"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Verdict = Verdict::Known(Decision(15));

    #[test]
    fn a_failure_on_a_quiet_machine_weighs_more_than_what_nobody_could_judge() {
        let exit = |verdicts: &[Verdict]| Tally::of(verdicts.iter().copied()).exit();
        assert_eq!(exit(&[]), Exit::Success);
        assert_eq!(exit(&[Verdict::Holds, Verdict::Attained, Verdict::Shown]), Exit::Success);
        assert_eq!(exit(&[Verdict::Holds, KNOWN]), Exit::Success, "a decision accepts it");
        assert_eq!(exit(&[Verdict::Holds, Verdict::NotJudged]), Exit::CannotJudge);
        assert_eq!(exit(&[KNOWN, Verdict::NotJudged]), Exit::CannotJudge);
        assert_eq!(exit(&[Verdict::NotJudged, Verdict::Fails]), Exit::Failed);
    }

    #[test]
    fn the_count_names_every_verdict_and_the_decisions() {
        let verdicts = [Verdict::Holds, Verdict::Holds, KNOWN, Verdict::NotJudged, Verdict::Shown];
        assert_eq!(
            Tally::of(verdicts).line(),
            "5 rows: 2 hold, 0 fail, 1 fail as known (decision 0015), 0 attained, 1 not judged, \
             1 shown"
        );
        assert!(Tally::of([Verdict::Holds]).line().starts_with("1 row: 1 hold"));
    }
}
