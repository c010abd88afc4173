//! What all contenders work on: one generated trace in each one's format, and two scenarios.
//!
//! Each is there in its whole length and in a quarter of it, so that memory can be compared. The
//! trace resembles Financial1: small requests, most of them writes, on objects of skewed (Zipf)
//! popularity.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

const PROFILE: &str = "financial";

/// The file that all others are made from.
const NATIVE: &str = "ektrace";

/// The other files, with the format of each.
const OTHERS: [(&str, &str); 3] =
    [("msr.csv.gz", "msr"), ("msr.csv.zst", "msr"), ("iolog", "iolog2")];

const CONSTANT: &str = include_str!("constant.toml");
const ARRAY: &str = include_str!("array.toml");
const QUEUE: &str = include_str!("queue.py");

/// Virtual time in which the constant-rate device of `constant.toml` serves one request: a
/// microsecond, and 4096 bytes at 4 GB/s.
const CONSTANT_NS: u64 = 2024;

/// The same for the array, about: it serves some 650 requests a second.
const ARRAY_NS: u64 = 1_540_000;

/// A request of the array costs more than one of the constant device, and one of `SimPy` more
/// still: they get fewer.
const ARRAY_DIVISOR: u64 = 5;
const SIMPY_DIVISOR: u64 = 10;

/// How much of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Whole,
    Quarter,
}

impl Length {
    const ALL: [Self; 2] = [Self::Whole, Self::Quarter];

    fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Quarter => "quarter",
        }
    }
}

/// Where everything lies.
#[derive(Clone, Debug)]
pub(super) struct Inputs {
    pub(super) folder: PathBuf,
    /// The peer's script.
    pub(super) queue: PathBuf,
    /// Records of the trace, and requests of a simulation, in whole.
    count: u64,
}

impl Inputs {
    /// The places in a folder; nothing is written.
    pub(super) fn in_folder(folder: &Path, count: u64) -> Self {
        Self { folder: folder.to_path_buf(), queue: folder.join("queue.py"), count }
    }

    /// Writes everything.
    ///
    /// # Errors
    /// If there is no room, or `evenkeel` does not make a trace.
    pub(super) fn make(&self, evenkeel: &Path) -> Result<()> {
        fs::write(&self.queue, QUEUE).context("cannot write the peer's script")?;
        for length in Length::ALL {
            let constant_ns = self.of(length) * CONSTANT_NS;
            write_scenario(&self.constant(length), CONSTANT, constant_ns)?;
            let array_ns = self.of(length) / ARRAY_DIVISOR * ARRAY_NS;
            write_scenario(&self.array(length), ARRAY, array_ns)?;
            self.make_traces(evenkeel, length)?;
        }
        Ok(())
    }

    /// The trace in the format of this name.
    pub(super) fn trace(&self, length: Length, name: &str) -> PathBuf {
        self.folder.join(format!("{}.{name}", length.name()))
    }

    /// The scenario of the constant-rate device.
    pub(super) fn constant(&self, length: Length) -> PathBuf {
        self.folder.join(format!("constant-{}.toml", length.name()))
    }

    /// The scenario of the array.
    pub(super) fn array(&self, length: Length) -> PathBuf {
        self.folder.join(format!("array-{}.toml", length.name()))
    }

    /// What `SimPy` simulates of the constant-rate device's time.
    pub(super) fn simpy_ns(&self, length: Length) -> u64 {
        self.of(length) / SIMPY_DIVISOR * CONSTANT_NS
    }

    fn of(&self, length: Length) -> u64 {
        match length {
            Length::Whole => self.count,
            Length::Quarter => self.count / 4,
        }
    }

    fn make_traces(&self, evenkeel: &Path, length: Length) -> Result<()> {
        let native = self.trace(length, NATIVE);
        let mut generate = Command::new(evenkeel);
        generate.args(["trace", "generate", PROFILE]).arg(&native);
        generate.args(["--to", "native", "--count", &self.of(length).to_string()]);
        // A short trace may differ from the published figures, for which 1 stands.
        run(&mut generate, &[0, 1])?;
        for (name, format) in OTHERS {
            let mut convert = Command::new(evenkeel);
            convert.args(["trace", "convert"]).arg(&native).arg(self.trace(length, name));
            run(convert.args(["--to", format]), &[0])?;
        }
        Ok(())
    }
}

/// The length has to stand before the tables of the scenario.
fn write_scenario(file: &Path, text: &str, length_ns: u64) -> Result<()> {
    let length = format!("length = \"{length_ns} ns\"\ninterval = \"{length_ns} ns\"\n");
    fs::write(file, length + text).with_context(|| format!("cannot write {}", file.display()))
}

fn run(command: &mut Command, codes: &[i32]) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().context("cannot start evenkeel")?;
    let is_fine = output.status.code().is_some_and(|code| codes.contains(&code));
    ensure!(
        is_fine,
        "evenkeel ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_is_a_quarter_and_simpy_has_less() {
        let inputs = Inputs::in_folder(Path::new("scratch"), 4000);
        assert_eq!(inputs.of(Length::Quarter), 1000);
        assert_eq!(inputs.simpy_ns(Length::Whole), 400 * CONSTANT_NS);
    }

    #[test]
    fn both_lengths_have_files_of_their_own() {
        let inputs = Inputs::in_folder(Path::new("scratch"), 4000);
        let files = Length::ALL.map(|length| inputs.trace(length, NATIVE));
        assert_ne!(files[0], files[1]);
    }
}
