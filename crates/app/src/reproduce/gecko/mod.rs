//! Gecko: "Gecko: Contention-Oblivious Disk Arrays for Cloud Storage" (FAST 2013).
//!
//! ```text
//! striped log   every drive takes a part of each write, each read and each copy, and seeks
//! chain         one drive takes the writes, and only those; the others take reads and cleaning
//! ```
//!
//! The store's own code, in virtual time over simulated drives; only what lies under it differs.

mod amplification;
mod caches;
mod cleaning;
mod contention;
mod recordings;
mod reference;
mod runs;
mod traces;

use super::Options;
use super::claim::{self, Claim};
use crate::exit::Exit;
use crate::plot::Figure;
use reference::Reference;

/// How to run the experiments.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct GeckoOptions {
    #[command(flatten)]
    common: Options,
    /// Leave away all but one part.
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
}

/// A part of the experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Two drives that are written to and cleaned.
    Cleaning,
    /// Bytes written to drives for each byte of clients, under steady cleaning.
    Amplification,
    /// Four drives with readers.
    Readers,
    /// Six drives as chains of several lengths, and as mirrors.
    Length,
    /// Eight traces beside each other on six drives.
    Traces,
    /// The tail's cache under mixes of traces, and the SSD's lifetime.
    Caches,
}

/// What came of a part.
#[derive(Clone, Debug, Default)]
struct Findings {
    claims: Vec<Claim>,
    figures: Vec<Figure>,
}

/// Runs the experiments and shows what came of them.
pub(super) fn run(options: &GeckoOptions) -> anyhow::Result<Exit> {
    let GeckoOptions { common: options, only } = options;
    let reference = Reference::load();
    let mut findings = Findings::default();
    let parts = [
        Part::Cleaning,
        Part::Amplification,
        Part::Readers,
        Part::Length,
        Part::Traces,
        Part::Caches,
    ];
    for part in parts.into_iter().filter(|part| only.is_none_or(|only| only == *part)) {
        let Findings { claims, figures } = match part {
            Part::Cleaning => cleaning::find(&reference, options),
            Part::Amplification => amplification::find(&reference, options),
            Part::Readers => contention::readers(&reference, options),
            Part::Length => contention::lengths(&reference, options),
            Part::Traces => traces::find(&reference, options)?,
            Part::Caches => caches::find(&reference, options)?,
        };
        findings.claims.extend(claims);
        findings.figures.extend(figures);
    }
    options.draw(|| findings.figures)?;
    claim::show("gecko", options, &findings.claims, "PAPER")
}

/// Bytes in megabytes.
fn mega(bytes: f64) -> f64 {
    bytes / 1e6
}
