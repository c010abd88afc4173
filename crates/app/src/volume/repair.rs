//! `evenkeel volume repair`: what can be mended of a volume without a loss, mended.
//!
//! ```text
//! check --- well: nothing to do
//!   |
//!   +------ a member is away, or the opening would be refused: nothing is written
//!   |
//!   +------ opened as a repair, under the volume's lease; let go of --- check: what is left
//! ```

use evenkeel_engine::care::{Finding, Report, Verdict};
use serde_json::json;

use super::{Which, check, failure, text};
use crate::exit::Exit;
use crate::{human, terminal};

/// Arguments of `evenkeel volume repair`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel volume repair policy.toml shelf
  evenkeel volume repair policy.toml shelf --json
  evenkeel volume repair policy.toml shelf --data /var/lib/evenkeel

Give the data folder of the gate that had the volume, so that it counts as gone after a crash. The
gate must not run: the volume is opened as a gate opens it, under the same lease, and let go of.

Ends with 0 if nothing is left to mend, with 1 if something is lost, cannot be mended or cannot be
told, or if another gate has the volume, with 3 if the policy is wrong or has no such volume, with 4
if a member cannot be reached. Unless it ends with 0, it says what is left and what to do.")]
pub(super) struct Args {
    #[command(flatten)]
    which: Which,
    /// Mend the rest also where something that was noted last may be missing.
    #[arg(long)]
    yes: bool,
    /// The gate that has not let go of the volume is dead, and will write no more.
    #[arg(long)]
    claim: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// What came of it.
struct Outcome {
    before: Report,
    /// What was wrong, and is not any more.
    mended: Vec<Finding>,
    after: Option<Report>,
    /// Why nothing was written, if nothing was.
    why_not: Option<String>,
    exit: Exit,
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let volume = &args.which.volume;
    let outcome = outcome(args)?;
    let Outcome { before, mended, after, why_not, exit } = &outcome;
    let now = after.as_ref().unwrap_or(before);
    if args.json {
        let mended = mended.iter().map(|one| text::finding_document(before, one));
        terminal::json(&json!({
            "mended": mended.collect::<Vec<_>>(),
            "not_written_because": why_not,
            "left": text::document(volume, now),
        }))?;
        return Ok(*exit);
    }
    let mut told = String::new();
    for finding in mended {
        told += &format!("mended: {}: {}\n", text::place(before, finding), finding.what);
    }
    if after.is_some() || why_not.is_some() {
        told += &text::findings(now);
    }
    told += &match (why_not, exit) {
        (Some(why), _) => format!("{volume}: nothing was written: {why}\n"),
        (None, _) if after.is_none() => format!("{volume}: there is nothing to mend\n"),
        (None, Exit::Success) => {
            format!("{volume}: {} mended, nothing is left\n", human::counted(mended.len(), "place"))
        }
        (None, _) => format!(
            "{volume}: {} mended; what is left stands above\n",
            human::counted(mended.len(), "place")
        ),
    };
    terminal::data(&told)?;
    Ok(*exit)
}

fn outcome(args: &Args) -> anyhow::Result<Outcome> {
    let (policy, means) = (args.which.policy()?, args.which.means(true));
    let volume = &args.which.volume;
    let check = || evenkeel_io::care::check(&policy, volume, &means);
    let before = check().map_err(|error| failure(&error))?;
    let stopped = |before: Report, exit: Exit, why: Option<&str>| Outcome {
        before,
        mended: Vec::new(),
        after: None,
        why_not: why.map(str::to_owned),
        exit,
    };
    if let Some((exit, why)) = obstacle(&before, args.yes) {
        return Ok(stopped(before, exit, Some(why)));
    }
    if before.is_well() {
        return Ok(stopped(before, Exit::Success, None));
    }
    if let Err(why) = evenkeel_io::care::repair(&policy, volume, &means, args.claim) {
        return Err(failure(&why));
    }
    let after = check().map_err(|error| failure(&error))?;
    // This very process had it.
    let after = Report { is_in_use: false, ..after };
    let mended = before.mended(&after);
    let exit = match check::exit_of(&after) {
        Exit::Success if before.has_doubt() => Exit::Failed,
        exit => exit,
    };
    Ok(Outcome { before, mended, after: Some(after), why_not: None, exit })
}

/// Why nothing may be written.
fn obstacle(before: &Report, has_yes: bool) -> Option<(Exit, &'static str)> {
    if before.has_away() {
        return Some((Exit::Unreachable, "a repair needs all members"));
    }
    match before.verdict {
        Verdict::Refused => Some((Exit::Failed, "it cannot be mended")),
        Verdict::Blank => Some((Exit::Failed, "there is no volume yet; the gate makes it")),
        Verdict::Unknown => Some((Exit::Failed, "it could not be judged")),
        Verdict::Opens | Verdict::NeedsRepair if before.is_well() => None,
        Verdict::Opens | Verdict::NeedsRepair if before.is_in_use => {
            Some((Exit::Failed, "a gate has the volume; stop that gate first"))
        }
        Verdict::Opens | Verdict::NeedsRepair if before.has_doubt() && !has_yes => Some((
            Exit::Failed,
            "what was noted last may be missing, see above; restore a backup, or mend the rest \
             with --yes",
        )),
        Verdict::Opens | Verdict::NeedsRepair => None,
    }
}
