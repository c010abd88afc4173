//! BAA: "Balancing Fairness and Efficiency in Tiered Storage Systems with Bottleneck-Aware
//! Allocation" (FAST 2014).
//!
//! ```text
//!              hits    h      +------+
//! client ------------------>  | fast |   many requests per second
//!        \                    +------+
//!         \    misses 1 - h   +------+
//!          ---------------->  | slow |   few
//!                             +------+
//! ```
//!
//! Who misses often fills the slow device, and a scheduler that counts requests holds those back
//! who hardly need it: the fast device idles. The paper's own figures are rates of flow (`fluid`);
//! `random` holds the same allocators to their promises on problems that nobody chose.

mod fluid;
mod random;
mod reference;

use serde::Serialize;

use super::Options;
use super::claim::{self, Claim};
use crate::exit::Exit;
use crate::terminal;
use reference::Reference;

/// How to run the experiments.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct BaaOptions {
    #[command(flatten)]
    common: Options,
    /// Leave away all but one part.
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
}

/// A part of the experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Rates of flow: the talk's figures, and the promises on random problems.
    Fluid,
}

/// Random problems, and if it has to be quick.
const PROBLEMS: u32 = 100_000;
const QUICK_PROBLEMS: u32 = 10_000;

#[derive(Debug, Serialize)]
struct Document<'a> {
    paper: &'static str,
    seed: u64,
    quick: bool,
    holds: bool,
    claims: &'a [Claim],
}

/// Runs the experiments and shows what came of them.
pub(super) fn run(options: &BaaOptions) -> anyhow::Result<Exit> {
    let BaaOptions { common: options, only } = options;
    let reference = Reference::load();
    let mut claims = Vec::new();
    if only.is_none_or(|part| part == Part::Fluid) {
        claims.extend(fluid::claims(&reference));
        let problems = if options.quick { QUICK_PROBLEMS } else { PROBLEMS };
        terminal::say(&format!("{problems} random problems"));
        claims.extend(random::claims(problems, options.seed));
        claims.push(random::solving_time(options.seed));
    }
    let exit = claim::exit(&claims);
    if options.json {
        terminal::json(&Document {
            paper: "baa",
            seed: options.seed,
            quick: options.quick,
            holds: exit == Exit::Success,
            claims: &claims,
        })?;
    } else {
        terminal::data(&claim::table(&claims, "PAPER", terminal::colour_on_stdout()))?;
    }
    Ok(exit)
}
