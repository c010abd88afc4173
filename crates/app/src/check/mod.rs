//! `evenkeel check`: reads a policy file, shows every mistake with its line, and says of each
//! device whether it can keep the floors.

pub(crate) mod verdict;

use std::path::PathBuf;

use crate::config::{self, LoadError};
use crate::exit::Exit;
use crate::terminal;
use verdict::Verdict;

/// Arguments of `evenkeel check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel check policy.toml
  evenkeel check policy.toml --json
  evenkeel check policy.toml --print     the policy with every default spelled out

Where tenants have floors, a table says what they take of each device. Floors in requests are
reckoned for 4 KiB each, floors in bytes for whole units; `evenkeel plan` knows better.

Ends with 0 if the policy can be put in force (warnings included), 3 if not.")]
pub struct Args {
    /// The policy file.
    policy: PathBuf,
    /// Print the findings as one JSON document.
    #[arg(long)]
    json: bool,
    /// Print the policy as it is understood, if it is valid.
    #[arg(long, conflicts_with = "json")]
    print: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// A file that cannot be read, and output that cannot be written.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let parsed = config::load(&args.policy).map_err(|error| match error {
        LoadError::Unreadable { .. } => Exit::Invalid.because(error),
        LoadError::Invalid(found) => Exit::Invalid.because(found),
    })?;
    let verdict = parsed.draft.as_ref();
    let verdict = verdict.and_then(|draft| Verdict::new(draft, &draft.admission(&[])));
    if args.json {
        let mut document = parsed.diagnostics.to_json();
        document["floors"] = serde_json::to_value(&verdict)?;
        terminal::json(&document)?;
    } else {
        let findings = parsed.diagnostics.render(terminal::colour_on_stderr());
        if !findings.is_empty() {
            terminal::say(findings.trim_end());
        }
        if let Some(verdict) = verdict.filter(|_| !args.print) {
            terminal::data(&verdict.render())?;
        }
    }
    let Some(policy) = &parsed.policy else { return Ok(Exit::Invalid) };
    if args.print {
        terminal::data(&config::print(policy))?;
    } else if !args.json {
        terminal::say(&format!("{}: the policy can be put in force", args.policy.display()));
    }
    Ok(Exit::Success)
}
