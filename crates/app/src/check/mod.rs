//! `evenkeel check`: reads a policy file, shows every mistake with its line, and says of each
//! device whether it can keep the floors, by the costs that are written or were measured last.

mod arrays;
mod live;
pub(crate) mod verdict;

use std::path::PathBuf;
use std::time::SystemTime;

use evenkeel_engine::policy::Policy;

use crate::config::{self, LoadError};
use crate::control::client::Client;
use crate::ctl::block_on;
use crate::exit::Exit;
use crate::measured::Notebook;
use crate::serve::DATA_DEFAULT;
use crate::status::Status;
use crate::terminal;
use verdict::Verdict;

/// Arguments of `evenkeel check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel check policy.toml
  evenkeel check policy.toml --live      are its ports free, its files there, its servers up?
                                         which other gates are before the same array?
  evenkeel check policy.toml --json
  evenkeel check policy.toml --print     the policy with every default spelled out

Where tenants have floors, a table says what they take of each device. Floors in requests are
reckoned for 4 KiB each, floors in bytes for whole units; `evenkeel plan` knows better. What a
gate has measured is read from its data folder: floors are held against that where the policy
leaves `cost` out, and figures that are written are compared with it.

Ends with 0 if the policy can be put in force (warnings included), 3 if not, and with --live with 1
if something that it needs is not there.")]
pub struct Args {
    /// The policy file.
    policy: PathBuf,
    /// The data folder of the gate, which has what was measured.
    #[arg(long, value_name = "DIR", default_value = DATA_DEFAULT)]
    data: PathBuf,
    /// Also ask for what it needs: ports, files, drives, servers; and the gate that runs with this
    /// data folder, if one does, who else is before its arrays. Changes nothing.
    #[arg(long)]
    live: bool,
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
    let notebook = Notebook::read(&args.data).unwrap_or_else(|error| {
        terminal::say(&format!("warning: what was measured does not count here: {error:#}"));
        Notebook::default()
    });
    let parsed = config::load_beside(&args.policy, |policy| notebook.of(policy));
    let parsed = parsed.map_err(|error| match error {
        LoadError::Unreadable { .. } => Exit::Invalid.because(error),
        LoadError::Invalid(found) => Exit::Invalid.because(found),
    })?;
    let policy = parsed.policy.as_ref().or(parsed.draft.as_ref());
    let verdict = policy.and_then(|policy| verdict(policy, &notebook));
    let asked = parsed.policy.as_ref().filter(|_| args.live).map(|policy| ask(args, policy));
    if args.json {
        let mut document = parsed.diagnostics.to_json();
        document["floors"] = serde_json::to_value(&verdict)?;
        if let Some(asked) = &asked {
            document["live"] = serde_json::to_value(asked)?;
        }
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
    Ok(tell_asked(&asked.unwrap_or_default(), args.json))
}

/// Asks for all that the policy needs, and who else is before its arrays.
fn ask(args: &Args, policy: &Policy) -> Vec<live::Asked> {
    let socket = args.data.join("control.sock");
    let client = socket.exists().then(|| Client::at(socket));
    // Whoever does not answer says nothing of it; that no gate runs is no fault of the policy.
    let status: Option<Status> = client.and_then(|client| block_on(client.get("/v1/status")).ok());
    let mut asked = live::ask(policy);
    asked.extend(arrays::ask(policy, status.as_ref()));
    asked
}

/// Says what is not there, and whether anything is not.
fn tell_asked(asked: &[live::Asked], is_json: bool) -> Exit {
    let missing = || asked.iter().filter_map(|one| Some((&one.what, one.trouble.as_ref()?)));
    if !is_json {
        let notes = asked.iter().filter_map(|one| Some((&one.what, one.note.as_ref()?)));
        notes.for_each(|(what, note)| terminal::say(&format!("{what}: {note}")));
        missing().for_each(|(what, trouble)| terminal::say(&format!("{what}: {trouble}")));
        if !asked.is_empty() && missing().next().is_none() {
            terminal::say("all that it needs is there");
        }
    }
    if missing().next().is_some() { Exit::Failed } else { Exit::Success }
}

fn verdict(policy: &Policy, notebook: &Notebook) -> Option<Verdict> {
    let now = SystemTime::now();
    let admission = policy.admission(&[], &notebook.of(policy));
    let verdict = Verdict::new(policy, &admission)?;
    Some(verdict.with_ages(|backend| notebook.age(policy, backend, now)))
}
