//! Exit codes: one enum for every subcommand, documented in `docs/exit-codes.md`.

use std::fmt;
use std::process::ExitCode;

use serde::Serialize;

/// How a subcommand ended. Scripts rely on the numbers; they never change meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Success = 0,
    /// The work ran, and its answer is no: a claim does not hold, a verification failed.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// The policy is not valid; the gate, if any, keeps the one it has.
    Invalid = 3,
    /// The other side cannot be reached: no gate listens there, a server refused.
    Unreachable = 4,
    /// Something failed while running.
    Runtime = 5,
    /// The work ran on a machine that was disturbed: a figure out of bounds proves nothing.
    CannotJudge = 6,
}

/// An error that carries its exit code. Any other error ends as [`Exit::Runtime`].
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The code to end with.
    pub exit: Exit,
    /// What happened and what to do.
    pub message: String,
}

impl Exit {
    /// Every code, in order.
    pub const ALL: [Self; 7] = [
        Self::Success,
        Self::Failed,
        Self::Usage,
        Self::Invalid,
        Self::Unreachable,
        Self::Runtime,
        Self::CannotJudge,
    ];

    /// What the code means, for the documentation.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Success => "Done.",
            Self::Failed => "The work ran and its answer is no: a claim or verification failed.",
            Self::Usage => "The command line makes no sense; `--help` says what does.",
            Self::Invalid => {
                "The policy or another input is not valid. A running gate keeps its policy."
            }
            Self::Unreachable => "Nobody answers: no gate at the control socket, no server.",
            Self::Runtime => "Something failed while running; the message says what.",
            Self::CannotJudge => {
                "The machine was too busy to judge: a figure is out of bounds, and others may be \
                 the cause. Wait until it is quiet and run it again."
            }
        }
    }

    /// An error with this code.
    pub fn because(self, message: impl fmt::Display) -> anyhow::Error {
        anyhow::Error::new(Failure { exit: self, message: message.to_string() })
    }

    /// The code that an error asks for.
    pub fn of(error: &anyhow::Error) -> Self {
        error.downcast_ref::<Failure>().map_or(Self::Runtime, |failure| failure.exit)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// What a command that was asked for JSON prints if it fails.
#[derive(Debug, Serialize)]
pub struct ErrorDocument<'a> {
    error: ErrorWords<'a>,
}

#[derive(Debug, Serialize)]
struct ErrorWords<'a> {
    exit_code: u8,
    /// What that code means.
    meaning: &'static str,
    /// What happened and what to do.
    message: &'a str,
}

/// The document of a failure.
pub fn document(exit: Exit, message: &str) -> ErrorDocument<'_> {
    let message = message.trim_end();
    ErrorDocument { error: ErrorWords { exit_code: exit as u8, meaning: exit.meaning(), message } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::assert_document;

    #[test]
    fn an_error_keeps_its_code_under_added_context() {
        let error = Exit::Unreachable.because("nobody there").context("while asking");
        assert_eq!(Exit::of(&error), Exit::Unreachable);
        assert_eq!(Exit::of(&anyhow::anyhow!("plain")), Exit::Runtime);
    }

    /// What is said of failures beside `--json`.
    const JSON: &str = "
A command that is given `--json` prints one JSON document on stdout, also where it fails:

```json
{ \"error\": { \"exit_code\": 4, \"meaning\": \"Nobody answers\", \"message\": \"no gate ..\" } }
```

The message for people is on stderr as well. A document without `error` is the command's own, as the
findings of `check`, or the answer of a command that ends with 1 or 6. `store dump --json` prints a
line for each thing, and the error behind them.

On Ctrl-C `evenkeel bench` gives what it has measured until then, and ends as if that had been all.
`evenkeel calibrate` does likewise, and `evenkeel prove --load` judges what there is: these end with
1, since what is missing counts.
";

    #[test]
    fn the_documentation_lists_every_code() {
        let mut text = String::from(
            "# Exit codes\n\nThe same for every subcommand. The numbers never change meaning.\n\n\
             | code | name | meaning |\n|---|---|---|\n",
        );
        for exit in Exit::ALL {
            text += &format!("| {} | {exit:?} | {} |\n", exit as u8, exit.meaning());
        }
        text += "\n`evenkeel serve` ends with 0 on SIGTERM and SIGINT after it has answered what \
                 was in flight.\n";
        text += JSON;
        assert_document("docs/exit-codes.md", &text);
    }
}
