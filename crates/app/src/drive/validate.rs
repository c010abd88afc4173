//! `evenkeel drive validate`: a recording of a real drive beside the model of it.
//!
//! ```text
//!   figures -> model --+
//!                      +-- closed replay --> two distributions of response times --> demerit
//!   recording ---------+
//! ```

use std::path::{Path, PathBuf};

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Span;
use evenkeel_sim::device::hdd::recording::Measured;
use evenkeel_sim::device::hdd::validate::{Validation, mean, quantile};
use evenkeel_sim::device::hdd::{BUILT_IN, Parameters, reproduce};
use evenkeel_sim::device::ssd::catalogue::DRIVES;
use serde::Serialize;

use super::recording;
use crate::exit::Exit;
use crate::human;
use crate::plot::{self, Axis, Body, Chart, Figure, Line};
use crate::terminal;

/// Points of a line in the chart.
const POINTS: usize = 500;

/// Arguments of `evenkeel drive validate`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel drive validate cheetah-9lp cheetah9LP.trace.zst
  evenkeel drive validate my-drive.toml my-drive.trace --json
  evenkeel drive validate my-drive.toml my-drive.trace --plot ./figures

A recording has a line for each request: R or W, a word, the first sector, sectors, the response
of the drive and the gap to the next request, both in microseconds. docs/drives.md says how to write
the figures of a drive down, and how near is near.")]
pub(super) struct Args {
    /// A drive that is built in (cheetah-9lp, atlas-10k, barracuda, hp-c2247a), or a file with the
    /// figures of yours.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Responses that were measured on the real drive: a file, plain or packed with gzip or zstd.
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Write the two distributions into this folder, as SVG and PNG.
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

/// What came of it. Times are in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Report {
    drive: String,
    recording: String,
    /// Requests that were compared.
    requests: usize,
    read_percent: f64,
    /// Requests beyond the end of the drive.
    left_out: usize,
    measured: Times,
    simulated: Times,
    demerit_us: f64,
    /// Of the measured mean.
    demerit_percent: f64,
    /// `DiskSim`'s demerit, where this recording comes with it.
    disksim_demerit_us: Option<u32>,
}

/// Response times in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(clippy::struct_field_names, reason = "a name ends with its unit")]
struct Times {
    mean_us: f64,
    median_us: f64,
    p95_us: f64,
    p99_us: f64,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let parameters = parameters(&args.drive)?;
    let recording = recording::read(&args.recording)?;
    let validation = Validation::of(&parameters, &recording);
    if validation.measured.is_empty() {
        return Err(Exit::Invalid.because(format!(
            "{}: every request lies beyond the {} sectors of {}; is it a recording of this drive?",
            args.recording.display(),
            parameters.geometry.sectors,
            parameters.name
        )));
    }
    plot::draw(args.plot.as_deref(), || vec![figure(&parameters.name, &validation)])?;
    let report = Report::of(&parameters, &args.recording, &recording, &validation);
    if args.json {
        terminal::json(&report)?;
    } else {
        terminal::data(&report.text())?;
    }
    Ok(Exit::Success)
}

/// The figures of a drive, by the name of one that is built in or from a file.
fn parameters(drive: &Path) -> anyhow::Result<Parameters> {
    let name = drive.display().to_string();
    if BUILT_IN.contains(&name.as_str()) {
        return Ok(Parameters::built_in(&name)?);
    }
    if DRIVES.iter().any(|file| file.name == name) {
        return Err(Exit::Usage.because(format!(
            "{name} is a flash drive; recordings are held against hard disks: {}",
            BUILT_IN.join(", ")
        )));
    }
    let text = std::fs::read_to_string(drive).map_err(|error| {
        Exit::Usage.because(format!(
            "{name}: neither a drive that is built in ({}) nor a file that can be read ({error})",
            BUILT_IN.join(", ")
        ))
    })?;
    Parameters::parse(&text).map_err(|error| {
        Exit::Invalid.because(format!("{name}: {error}\ndocs/drives.md says what a drive needs"))
    })
}

impl Report {
    fn of(
        parameters: &Parameters,
        file: &Path,
        recording: &[Measured],
        validation: &Validation,
    ) -> Self {
        let reads = recording.iter().filter(|request| request.kind == Kind::Read).count();
        let demerit = validation.demerit();
        let measured_mean = mean(&validation.measured);
        Self {
            drive: parameters.name.clone(),
            recording: file.display().to_string(),
            requests: validation.measured.len(),
            read_percent: 100.0 * reads as f64 / recording.len() as f64,
            left_out: validation.left_out,
            measured: Times::of(&validation.measured),
            simulated: Times::of(&validation.simulated),
            demerit_us: in_us(demerit),
            demerit_percent: 100.0 * demerit.0 as f64 / measured_mean.0.max(1) as f64,
            disksim_demerit_us: recording::stem(file).and_then(|stem| reproduce::disksim_us(&stem)),
        }
    }

    fn text(&self) -> String {
        let Self { drive, recording, measured, simulated, .. } = self;
        let mut text = format!(
            "drive      {drive}\nrecording  {recording}: {}, {:.0} % reads\n",
            human::counted(self.requests, "request"),
            self.read_percent
        );
        if self.left_out > 0 {
            text += &format!(
                "left out   {} beyond the end of the drive\n",
                human::counted(self.left_out, "request")
            );
        }
        let row = |name: &str, of: fn(&Times) -> f64| {
            let (measured, simulated) = (of(measured), of(simulated));
            let off = 100.0 * (simulated / measured.max(1e-3) - 1.0);
            vec![
                name.to_owned(),
                format!("{:.3}", measured / 1e3),
                format!("{:.3}", simulated / 1e3),
                format!("{off:+.1} %"),
            ]
        };
        let rows = [
            row("mean", |times| times.mean_us),
            row("median", |times| times.median_us),
            row("95th", |times| times.p95_us),
            row("99th", |times| times.p99_us),
        ];
        let header = ["RESPONSE, ms", "MEASURED", "SIMULATED", "OFF BY"];
        let disksim = match self.disksim_demerit_us {
            Some(us) => format!("DiskSim 4.0 has {us} us on this recording"),
            None => "DiskSim's on this recording is not known".to_owned(),
        };
        text + &format!(
            "\n{}\ndemerit    {:.0} us, {:.1} % of the measured mean; {disksim}\n",
            terminal::table(&header, &rows),
            self.demerit_us,
            self.demerit_percent
        )
    }
}

impl Times {
    fn of(rising: &[Span]) -> Self {
        let [median_us, p95_us, p99_us] = [500, 950, 990].map(|part| in_us(quantile(rising, part)));
        Self { mean_us: in_us(mean(rising)), median_us, p95_us, p99_us }
    }
}

fn in_us(time: Span) -> f64 {
    time.0 as f64 / 1e3
}

/// Both distributions.
fn figure(drive: &str, validation: &Validation) -> Figure {
    let line = |name: &str, colour, rising: &[Span]| Line {
        name: name.to_owned(),
        points: (0..=POINTS)
            .map(|at| {
                let time = quantile(rising, at * 1000 / POINTS);
                (in_us(time) / 1e3, at as f64 / POINTS as f64)
            })
            .collect(),
        is_dashed: false,
        colour,
    };
    let chart = Chart {
        title: format!("Response times of {drive}"),
        note: format!("demerit {:.0} us", in_us(validation.demerit())),
        x: Axis::linear("response (ms)"),
        y: Axis::linear("part of the requests"),
        body: Body::Lines(vec![
            line("measured", 0, &validation.measured),
            line("simulated", 1, &validation.simulated),
        ]),
    };
    Figure::new("drive-validate", chart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_is_a_name_or_a_file_and_nothing_else() {
        assert_eq!(parameters(Path::new("barracuda")).unwrap().geometry.sectors, 4_110_000);
        for (name, exit, problem) in [
            ("cheetah", Exit::Usage, "neither a drive that is built in (cheetah-9lp, atlas-10k,"),
            ("sata-s3500-240gb", Exit::Usage, "is a flash drive"),
            ("/dev/null", Exit::Invalid, "docs/drives.md says what a drive needs"),
        ] {
            let error = parameters(Path::new(name)).unwrap_err();
            assert_eq!(Exit::of(&error), exit, "{error}");
            assert!(error.to_string().contains(problem), "{error}");
        }
    }

    #[test]
    fn the_report_names_disksims_demerit_where_it_is_known() {
        let parameters = Parameters::built_in("cheetah-9lp").unwrap();
        let request = Measured {
            kind: Kind::Read,
            sector: 1_000_000,
            sectors: 8,
            response: Span::from_millis(7),
            gap: Span::from_millis(20),
        };
        let beyond = Measured { sector: 1 << 40, ..request };
        let recording = [request, request, beyond];
        let validation = Validation::of(&parameters, &recording);
        let text =
            |file: &str| Report::of(&parameters, Path::new(file), &recording, &validation).text();
        let known = text("x/cheetah9LP.trace.zst");
        assert!(known.contains("2 requests, 100 % reads\nleft out   1 request beyond"), "{known}");
        assert!(known.contains("% of the measured mean; DiskSim 4.0 has 107 us"), "{known}");
        assert!(text("mine.trace").contains("DiskSim's on this recording is not known"));
    }
}
