//! `evenkeel store check`: everything that is wrong with a store, found without writing a byte.

use evenkeel_store::check::{CheckOptions, CheckReport, Severity, check};
use serde_json::json;

use super::bar::{Bar, Unit};
use super::drives::{DriveArgs, Opened, RememberedArgs};
use super::status;
use crate::exit::Exit;
use crate::{human, terminal};

/// Arguments of `evenkeel store check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel store check a.img b.img c.img
  evenkeel store check a.img b.img c.img --quick
  evenkeel store check /dev/sdb /dev/sdc --json
  evenkeel store check a.img --data /var/lib/evenkeel

Notes are put right by the store itself the next time it is open. Ends with 0 if there is nothing
but notes, with 1 if there are warnings (something has no second copy) or errors (something is
lost, or the store cannot be opened).")]
pub(super) struct Args {
    #[command(flatten)]
    drives: DriveArgs,
    #[command(flatten)]
    remembered: RememberedArgs,
    /// Look at the structures only, and do not read all data.
    #[arg(long)]
    quick: bool,
    /// Print the findings as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(super) async fn run(args: &Args) -> anyhow::Result<Exit> {
    let opened = Opened::to_read(&args.drives.drives).await?;
    let mut bar = Bar::new(Unit::Bytes);
    let known = args.remembered.of(&opened.drives).await?;
    let options = CheckOptions { reads_data: !args.quick, known };
    let progress = |data: &evenkeel_store::ScrubReport| bar.tell(data.done_bytes, data.total_bytes);
    let report = check(opened.drives.clone(), options, progress).await;
    bar.finish();
    if args.json {
        let store = match &report.survey {
            Some(found) => Some(status::document(found, &opened).await),
            None => None,
        };
        terminal::json(&json!({
            "store": store,
            "findings": report.findings.iter().map(|finding| json!({
                "severity": finding.severity.to_string(),
                "place": finding.place.to_string(),
                "what": finding.what,
                "remedy": finding.remedy,
            })).collect::<Vec<_>>(),
            "omitted": report.omitted,
            "read_bytes": report.data.done_bytes,
            "is_age_proven": report.is_age_proven,
        }))?;
    } else {
        terminal::data(&text(args, &report))?;
    }
    let is_well = report.worst().is_none_or(|worst| worst == Severity::Note);
    Ok(if is_well { Exit::Success } else { Exit::Failed })
}

fn text(args: &Args, report: &CheckReport) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        text += &format!(
            "{}: {}: {}\n  {}\n",
            finding.severity, finding.place, finding.what, finding.remedy
        );
    }
    if report.omitted > 0 {
        text += &format!("and {} more\n", report.omitted);
    }
    let count = |severity, name| {
        let of_it = report.findings.iter().filter(|it| it.severity == severity);
        human::counted(of_it.count(), name)
    };
    let read = if args.quick {
        "data was not read".to_owned()
    } else {
        format!("{} read", human::size(report.data.done_bytes as f64))
    };
    text += &format!(
        "{}, {}, {}; {read}\n",
        count(Severity::Error, "error"),
        count(Severity::Warning, "warning"),
        count(Severity::Note, "note"),
    );
    if report.survey.is_some() && !report.is_age_proven {
        text += "age not provable: no state folder that was given (--data) knows how far the store \
                 was, so that all of its drives may be older images of themselves\n";
    }
    for (position, path) in args.drives.drives.iter().enumerate() {
        if !report.findings.is_empty() {
            text += &format!("drive {position} of those given is {}\n", path.display());
        }
    }
    text
}
