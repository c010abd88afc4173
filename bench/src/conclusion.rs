//! How a comparison ends: each aim with its verdict, the count, the exit code.
//!
//! Aims come in two kinds. A *bound* on our own figure: who reaches it on a disturbed machine would
//! on a quiet one. A *ratio* to somebody else's figure of the same run: what disturbs may have hit
//! the other side, so that a disturbed run proves nothing either way.

use std::fmt::Write;
use std::process::ExitCode;

use evenkeel_app::evidence::{Tally, Verdict, known_shortfall};
use evenkeel_app::exit::Exit;
use serde::Serialize;

use crate::machine::Machine;

/// What an aim is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Our own figure.
    Bound,
    /// Our figure beside another of the same run.
    Ratio,
}

/// An aim, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Aim {
    /// Short and stable, for programs.
    id: String,
    kind: Kind,
    value: f64,
    /// What was measured and what was aimed at.
    figure: String,
    verdict: Verdict,
    /// Why it does not hold, or cannot be judged.
    why: Option<String>,
}

/// How a comparison ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Conclusion {
    aims: Vec<Aim>,
    count: Tally,
    #[serde(skip)]
    comparison: &'static str,
    #[serde(skip)]
    exit: Exit,
}

impl Aim {
    /// Of a figure and what it was held against, in words.
    pub(crate) fn of(id: String, kind: Kind, value: f64, holds: bool, figure: String) -> Self {
        Self { id, kind, value, figure, verdict: Verdict::of(holds), why: None }
    }

    /// Of a figure that the run could not find out, and why.
    pub(crate) fn not_judged(id: String, kind: Kind, figure: String, why: String) -> Self {
        let verdict = Verdict::NotJudged;
        Self { id, kind, value: f64::NAN, figure, verdict, why: Some(why) }
    }

    /// In the light of what disturbed the machine, and of what is known.
    fn judged(mut self, comparison: &str, disturbance: Option<&str>) -> Self {
        if let Some(why) = disturbance
            && (self.verdict == Verdict::Fails || self.kind == Kind::Ratio)
        {
            self.verdict = Verdict::NotJudged;
            self.why = Some(why.to_owned());
        }
        if let (Verdict::Fails, Some(known)) =
            (self.verdict, known_shortfall(comparison, &self.id, false))
        {
            self.verdict = known.verdict(self.value, false);
            self.why =
                (self.verdict == Verdict::Fails).then(|| known.regression(self.value, false));
        }
        self
    }
}

/// The word for an aim in a table.
pub(crate) fn word(machine: &Machine, kind: Kind, holds: bool) -> &'static str {
    match (machine.disturbance(), kind, holds) {
        (Some(_), Kind::Ratio, _) | (Some(_), Kind::Bound, false) => "not judged",
        (_, _, true) => "ok",
        (None, _, false) => "MISSED",
    }
}

impl Conclusion {
    /// Judges the aims. A contender that failed is a failure whatever the aims; without any aim,
    /// as in a toy run, nothing else is.
    pub(crate) fn of(
        comparison: &'static str,
        machine: &Machine,
        aims: Vec<Aim>,
        failures: &[String],
    ) -> Self {
        let disturbance = machine.disturbance();
        let judge = |aim: Aim| aim.judged(comparison, disturbance.as_deref());
        let aims: Vec<Aim> = aims.into_iter().map(judge).collect();
        let count = Tally::of(aims.iter().map(|aim| aim.verdict));
        let exit = if failures.is_empty() { count.exit() } else { Exit::Failed };
        Self { aims, count, comparison, exit }
    }

    /// A line for each aim that does not hold, what disturbed, and the count; nothing without aims.
    pub(crate) fn text(&self) -> String {
        if self.aims.is_empty() {
            return String::new();
        }
        let mut text = "\n".to_owned();
        let mut disturbance = None;
        for aim in &self.aims {
            let Aim { id, figure, verdict, why, .. } = aim;
            match verdict {
                Verdict::NotJudged => disturbance = why.as_deref(),
                verdict if verdict.needs_reason() => {
                    let why = why.as_ref().map_or_else(String::new, |why| format!("; {why}"));
                    let _ = writeln!(text, "{} {id}: {figure}{why}", verdict.shown(false));
                }
                _ => {}
            }
            if *verdict == Verdict::Holds
                && let Some(known) = known_shortfall(self.comparison, id, false)
                && !known.is_pattern()
            {
                let decision = known.decision();
                let _ =
                    writeln!(text, "{id}: this known shortfall of {decision} holds now: {figure}");
            }
        }
        if let Some(why) = disturbance {
            let _ = writeln!(text, "not judged: {why}");
        }
        text + "aims, " + &self.count.line() + "\n"
    }

    pub(crate) fn code(&self) -> ExitCode {
        self.exit.into()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_app::evidence::machine::{Bears, Conditions, Reading};

    use super::*;

    fn machine(others: f64) -> Machine {
        let bears = Bears { cores: 1.0, late_median_ms: 1.0, late_p99_ms: 5.0, uses_disks: false };
        let reading = Reading { cores: 2, others: vec![others; 10], ..Reading::default() };
        Machine { conditions: Some(Conditions::of(bears, reading)), ..Machine::look() }
    }

    fn aim(kind: Kind, holds: bool) -> Aim {
        Aim::of("row".to_owned(), kind, 0.5, holds, "0.50 of the peer's, aim 0.9".to_owned())
    }

    fn exit(machine: &Machine, aims: Vec<Aim>) -> Exit {
        Conclusion::of("test", machine, aims, &[]).exit
    }

    #[test]
    fn a_missed_aim_fails_on_a_quiet_machine_and_proves_nothing_on_a_disturbed_one() {
        let (quiet, busy) = (machine(0.0), machine(1.9));
        for kind in [Kind::Bound, Kind::Ratio] {
            assert_eq!(exit(&quiet, vec![aim(kind, true)]), Exit::Success);
            assert_eq!(exit(&quiet, vec![aim(kind, false)]), Exit::Failed);
            assert_eq!(exit(&busy, vec![aim(kind, false)]), Exit::CannotJudge);
        }
        assert_eq!(exit(&busy, vec![aim(Kind::Bound, true)]), Exit::Success);
        assert_eq!(exit(&busy, vec![aim(Kind::Ratio, true)]), Exit::CannotJudge);
        assert_eq!(word(&busy, Kind::Ratio, true), "not judged");
        assert_eq!((word(&busy, Kind::Bound, true), word(&quiet, Kind::Ratio, true)), ("ok", "ok"));
        assert_eq!(word(&quiet, Kind::Ratio, false), "MISSED");
    }

    #[test]
    fn what_a_run_could_not_find_out_is_not_judged_on_a_quiet_machine_either() {
        let why = "no extent moved".to_owned();
        let aim = Aim::not_judged("row".to_owned(), Kind::Ratio, "aim 1.5".to_owned(), why);
        let conclusion = Conclusion::of("test", &machine(0.0), vec![aim], &[]);
        assert_eq!(conclusion.exit, Exit::CannotJudge);
        assert!(conclusion.text().starts_with("\nnot judged: no extent moved\n"));
    }

    #[test]
    fn a_contender_that_failed_is_a_failure_even_without_aims() {
        let failures = ["fio: gone".to_owned()];
        assert_eq!(Conclusion::of("test", &machine(0.0), Vec::new(), &failures).exit, Exit::Failed);
        let toy = Conclusion::of("test", &machine(0.0), Vec::new(), &[]);
        assert_eq!((toy.exit, toy.text()), (Exit::Success, String::new()));
    }

    #[test]
    fn the_end_says_what_was_missed_and_counts() {
        let aims = vec![aim(Kind::Ratio, true), aim(Kind::Ratio, false)];
        let text = Conclusion::of("test", &machine(0.0), aims.clone(), &[]).text();
        let wanted = "\nFAILS row: 0.50 of the peer's, aim 0.9\naims, 2 rows: 1 hold, 1 fail, ";
        assert!(text.starts_with(wanted), "{text}");
        let text = Conclusion::of("test", &machine(1.9), aims, &[]).text();
        assert!(text.starts_with("\nnot judged: cannot judge at this load: other"), "{text}");
        assert!(text.contains("2 not judged"), "{text}");
    }

    #[test]
    fn a_known_shortfall_of_a_benchmark_is_no_failure_unless_it_grows() {
        let disk = |value| {
            let id = "store, 4 KiB at random, depth 32".to_owned();
            let aim = Aim::of(id, Kind::Ratio, value, false, format!("{value}, aim 0.9"));
            Conclusion::of("disk", &machine(0.0), vec![aim], &[])
        };
        assert_eq!(disk(0.19).exit, Exit::Success);
        assert!(
            disk(0.19).text().contains("FAILS (known: decision 0015)"),
            "{}",
            disk(0.19).text()
        );
        assert_eq!(disk(0.1).exit, Exit::Failed);
        assert!(disk(0.1).text().contains("worse than decision 0015 accepts"));
    }
}
