//! The drive models beside real drives, and beside `DiskSim` where it is the yardstick.
//!
//! The rows about real drives replay recordings of them, which are not ours to ship; where there
//! are none, those rows are left out, aloud, and so is a recording that no built-in drive belongs
//! to. The table of an array by depth needs no data.

use std::path::{Path, PathBuf};

use anyhow::Context;
use evenkeel_sim::device::hdd::recording::Measured;
use evenkeel_sim::device::hdd::reproduce::{self, Row, Tolerance};
use serde::Serialize;

use super::Options;
use super::claim::{self, Claim, Verdict};
use crate::drive::recording;
use crate::exit::Exit;
use crate::plot::{Axis, Body, Chart, Figure, Line};
use crate::terminal;

/// The variable that names a folder with recordings.
const FOLDER_VARIABLE: &str = "EVENKEEL_TRACES";

/// Requests that each cell of the depth table completes.
const REQUESTS: u64 = 20_000;

/// The same, if it has to be quick.
const QUICK_REQUESTS: u64 = 5_000;

/// How to run it.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct DrivesOptions {
    #[command(flatten)]
    common: Options,
    /// Folder with the recordings of real drives that come with `DiskSim` 4.0, such as
    /// `cheetah9LP.trace`, plain or packed with zstd [default: what `EVENKEEL_TRACES` names].
    #[arg(long, value_name = "DIR")]
    recordings: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct More<'a> {
    /// What was left out for want of a recording, or of a drive.
    left_out: &'a [String],
}

/// Computes the rows and shows them.
pub(super) fn run(options: &DrivesOptions) -> anyhow::Result<Exit> {
    let DrivesOptions { common: options, recordings } = options;
    let given = recordings.clone().or_else(|| std::env::var_os(FOLDER_VARIABLE).map(Into::into));
    let (mut rows, left_out) = real_drives(given.as_deref())?;
    for missing in &left_out {
        terminal::say(missing);
    }
    terminal::say("eight striped drives, by policy and depth");
    let requests = if options.quick { QUICK_REQUESTS } else { REQUESTS };
    let table = reproduce::depth_table(requests, options.seed);
    options.draw(|| vec![figure(&table)])?;
    rows.extend(table);
    let claims: Vec<Claim> = rows.iter().map(claim_of).collect();
    let more = More { left_out: &left_out };
    claim::show_with(&more, "drives", options, &claims, "DISKSIM")
}

/// The rows of the drives whose recordings are there, and what is to be said of the others.
fn real_drives(folder: Option<&Path>) -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    let Some(folder) = folder else {
        let missing = format!(
            "no rows about real drives: they need recordings, which are not part of Evenkeel; name \
             their folder with --recordings DIR or the variable {FOLDER_VARIABLE}"
        );
        return Ok((Vec::new(), vec![missing]));
    };
    let (mut rows, mut left_out) = (Vec::new(), Vec::new());
    for recording in reproduce::recordings() {
        match read(folder, &recording.file)? {
            Some(requests) => rows.push(reproduce::demerit(&recording, &requests)),
            None => left_out.push(format!(
                "no row about {}: there is no {}.trace in {}",
                recording.drive,
                recording.file,
                folder.display()
            )),
        }
    }
    left_out.extend(unknown(folder)?);
    Ok((rows, left_out))
}

/// Where recordings are looked for: the folder itself, and `measured-drives` in it.
fn folders(folder: &Path) -> [PathBuf; 2] {
    [folder.to_owned(), folder.join("measured-drives")]
}

/// A recording; none if it is not there.
fn read(folder: &Path, name: &str) -> anyhow::Result<Option<Vec<Measured>>> {
    let folders = folders(folder);
    let names = ["", ".zst", ".gz"].map(|packed| format!("{name}.trace{packed}"));
    let mut paths = folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
    let Some(path) = paths.find(|path| path.is_file()) else { return Ok(None) };
    recording::read(&path).map(Some)
}

/// What is to be said of files that are named like recordings and belong to no built-in drive.
fn unknown(folder: &Path) -> anyhow::Result<Vec<String>> {
    let known: Vec<String> = reproduce::recordings().into_iter().map(|it| it.file).collect();
    let mut said = Vec::new();
    for folder in folders(folder).iter().filter(|folder| folder.is_dir()) {
        let context = || format!("cannot read the folder {}", folder.display());
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).with_context(context)? {
            paths.push(entry.with_context(context)?.path());
        }
        paths.sort();
        let is_unknown = |path: &&PathBuf| {
            path.is_file() && recording::stem(path).is_some_and(|stem| !known.contains(&stem))
        };
        for path in paths.iter().filter(is_unknown) {
            said.push(if recording::begins_like_one(path)? {
                format!(
                    "no row about {path}: no drive that is built in belongs to it; `evenkeel drive \
                     validate FIGURES.toml {path}` holds figures of yours against it",
                    path = path.display()
                )
            } else {
                format!("no row about {}: it is no recording of a drive", path.display())
            });
        }
    }
    Ok(said)
}

fn claim_of(row: &Row) -> Claim {
    let off = format!("{:+.1} %", row.deviation() * 100.0);
    let (measured, tolerance) = match row.tolerance {
        Tolerance::AtMost(most) => (format!("{:.0}", row.ours), format!("at most {most:.0}")),
        Tolerance::Within(part) => {
            (format!("{:.0} ({off})", row.ours), format!("within {:.0} %", part * 100.0))
        }
    };
    Claim {
        id: row.name.to_lowercase().replace([' ', ',', ':', '%'], "-").replace("--", "-"),
        what: row.name.clone(),
        paper: format!("{:.0}", row.reference),
        measured,
        value: row.ours,
        tolerance,
        attainable: None,
        verdict: Verdict::of(row.holds()),
        why: row.note.clone(),
    }
}

/// Throughput over the number of clients, one pair of lines for each workload and policy.
fn figure(rows: &[Row]) -> Figure {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let Some((workload, clients)) = cell_of(&row.name) else { continue };
        let known = lines.iter().position(|line| line.name == workload);
        let index = known.unwrap_or_else(|| {
            let line =
                Line { name: workload.to_owned(), colour: lines.len() / 2, ..Line::default() };
            let reference = Line { name: String::new(), ..line.clone() }.dashed();
            lines.extend([line, reference]);
            lines.len() - 2
        });
        lines[index].points.push((clients, row.ours));
        lines[index + 1].points.push((clients, row.reference));
    }
    let chart = Chart {
        title: "Eight striped Cheetah 9LP, closed loop".to_owned(),
        note: "dashed: DiskSim".to_owned(),
        x: Axis::linear("clients"),
        y: Axis::linear("requests per second"),
        body: Body::Lines(lines),
    };
    Figure::new("drives-depth", chart)
}

/// Workload with policy, and clients, of a row about throughput.
fn cell_of(name: &str) -> Option<(&str, f64)> {
    let (workload, clients) = name.strip_suffix(" clients: requests/s")?.rsplit_once(", ")?;
    Some((workload, clients.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_recordings_their_rows_are_left_out_aloud() {
        let (rows, left_out) = real_drives(None).unwrap();
        assert!(rows.is_empty());
        assert!(left_out[0].contains("--recordings"), "{left_out:?}");
        let (rows, left_out) = real_drives(Some(Path::new("/nowhere"))).unwrap();
        assert!(rows.is_empty());
        assert_eq!(left_out.len(), reproduce::recordings().len());
    }

    #[test]
    fn recordings_that_belong_to_no_built_in_drive_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let measured = folder.path().join("measured-drives");
        std::fs::create_dir(&measured).unwrap();
        std::fs::write(measured.join("mine.trace"), "R Hit 10 4 15362.0 56074.0\n").unwrap();
        std::fs::write(folder.path().join("blocks.trace"), "0,8,4096,W,0.1\n").unwrap();
        std::fs::write(folder.path().join("mine.model"), "not asked for\n").unwrap();
        let (rows, left_out) = real_drives(Some(folder.path())).unwrap();
        assert!(rows.is_empty());
        let named = &left_out[reproduce::recordings().len()..];
        assert_eq!(named.len(), 2, "{named:?}");
        assert!(named[0].ends_with("blocks.trace: it is no recording of a drive"), "{named:?}");
        assert!(
            named[1].contains("mine.trace: no drive that is built in belongs to it; `evenkeel")
        );
    }

    #[test]
    fn a_row_becomes_a_claim_with_its_note() {
        let mut row = Row {
            name: "16 KiB: requests/s".to_owned(),
            reference: 100.0,
            ours: 150.0,
            tolerance: Tolerance::Within(0.05),
            note: Some("the mean of several runs".to_owned()),
        };
        assert_eq!(claim_of(&row).verdict, Verdict::Fails);
        row.ours = 104.0;
        let claim = claim_of(&row);
        assert_eq!((claim.verdict, claim.why), (Verdict::Holds, row.note));
        assert_eq!(claim.measured, "104 (+4.0 %)");
    }
}
