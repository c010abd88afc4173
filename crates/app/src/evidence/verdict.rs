//! Whether a row holds.

use std::fmt;

use serde::{Serialize, Serializer};

/// The number of a record in `docs/decisions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decision(pub u16);

impl Decision {
    /// The number as file names have it.
    pub fn number(self) -> String {
        format!("{:04}", self.0)
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "decision {}", self.number())
    }
}

/// Whether a row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Holds,
    /// Its condition was not met; what was possible was reached.
    Attained,
    /// It does not.
    Fails,
    /// It does not, as this decision says, and is no worse than that.
    Known(Decision),
    /// Its figure is out of bounds, but the machine was disturbed while it was measured.
    NotJudged,
    /// A figure that nothing is demanded of here.
    Shown,
}

impl Verdict {
    /// The verdict of a condition.
    pub fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Fails }
    }

    /// The stable name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Attained => "attained",
            Self::Fails => "fails",
            Self::Known(_) => "known",
            Self::NotJudged => "not_judged",
            Self::Shown => "shown",
        }
    }

    /// The decision that accepts the failure, if one does.
    pub fn decision(self) -> Option<Decision> {
        match self {
            Self::Known(decision) => Some(decision),
            _ => None,
        }
    }

    /// Whether people need a reason beside it.
    pub fn needs_reason(self) -> bool {
        matches!(self, Self::Fails | Self::Known(_) | Self::NotJudged)
    }

    /// The verdict for people.
    pub fn shown(self, colour: bool) -> String {
        let (text, code) = match self {
            Self::Holds => ("holds".to_owned(), "32"),
            Self::Attained => ("attained".to_owned(), "33"),
            Self::Fails => ("FAILS".to_owned(), "31;1"),
            Self::Known(decision) => (format!("FAILS (known: {decision})"), "33"),
            Self::NotJudged => ("not judged".to_owned(), "35"),
            Self::Shown => ("shown".to_owned(), "2"),
        };
        if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_failure_names_its_decision_and_programs_see_plain_words() {
        let known = Verdict::Known(Decision(15));
        assert_eq!(known.shown(false), "FAILS (known: decision 0015)");
        assert_eq!(serde_json::to_value(known).unwrap(), "known");
        assert_eq!(serde_json::to_value(Verdict::NotJudged).unwrap(), "not_judged");
        assert_eq!(Verdict::NotJudged.shown(false), "not judged");
        assert!(Verdict::Fails.shown(true).contains("31;1"));
    }

    #[test]
    fn whatever_does_not_hold_needs_a_reason() {
        let needs = [Verdict::Fails, Verdict::Known(Decision(1)), Verdict::NotJudged];
        assert!(needs.into_iter().all(Verdict::needs_reason));
        let needs_none = [Verdict::Holds, Verdict::Attained, Verdict::Shown];
        assert!(!needs_none.into_iter().any(Verdict::needs_reason));
    }
}
