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
//! `random` holds the same allocators to their promises on problems that nobody chose; `slides` and
//! `linux` carry the experiments out in virtual time, through the real engine (`simulated`).

mod fluid;
mod linux;
mod live;
mod random;
mod reference;
mod setup;
mod simulated;
mod slides;

use std::slice;

use evenkeel_core::time::Span;

use super::Options;
use super::claim::{self, Claim};
use crate::evidence::machine::Conditions;
use crate::exit::Exit;
use crate::stage::find_nbdkit;
use crate::terminal;
use reference::Reference;
use slides::{Findings, Scale};

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
    /// Requests in virtual time, through the real engine.
    Simulated,
    /// Real processes. Needs nbdkit for the data servers.
    Live,
}

impl BaaOptions {
    fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

/// Random problems, and if it has to be quick.
const PROBLEMS: u32 = 100_000;
const QUICK_PROBLEMS: u32 = 10_000;

/// Under fair queuing a client that hardly misses is far ahead before it notices, and waits for the
/// others until they have caught up: a minute, with its window full of misses.
const SETTLING: Span = Span::from_secs(120);

/// The rows that need no requests.
fn fluid(reference: &Reference, options: &Options) -> anyhow::Result<Vec<Claim>> {
    let problems = if options.quick { QUICK_PROBLEMS } else { PROBLEMS };
    terminal::say(&format!("{problems} random problems"));
    let mut claims = fluid::claims(reference);
    claims.extend(random::claims(problems, options.seed));
    let (mut solving, conditions) =
        Conditions::during(random::BEARS, || random::solving_time(options.seed))?;
    claim::temper(slice::from_mut(&mut solving), &conditions);
    claims.push(solving);
    Ok(claims)
}

/// How long simulated experiments take.
fn scale(options: &Options) -> Scale {
    let (seconds, slack) = if options.quick { (120, 0.05) } else { (900, 0.02) };
    Scale { warm_up: SETTLING, length: Span::from_secs(seconds), slack, seed: options.seed }
}

impl Findings {
    fn add(&mut self, other: Self) {
        self.claims.extend(other.claims);
        self.figures.extend(other.figures);
    }
}

/// Runs the experiments and shows what came of them.
pub(super) fn run(options: &BaaOptions) -> anyhow::Result<Exit> {
    let reference = Reference::load();
    let mut findings = Findings::default();
    if options.wants(Part::Fluid) {
        findings.claims.extend(fluid(&reference, &options.common)?);
    }
    if options.wants(Part::Simulated) {
        let scale = scale(&options.common);
        terminal::say("slides 26 and 27, simulated");
        findings.add(slides::utilisation(&reference, &scale)?);
        terminal::say("slide 28, simulated");
        findings.add(slides::change(&reference, &scale)?);
        terminal::say("slides 31 and 32, simulated");
        findings.add(slides::four_clients(&reference, &scale)?);
        terminal::say("slide 30, simulated");
        findings.claims.extend(linux::claims(&reference.linux, &scale)?);
    }
    if options.wants(Part::Live) {
        let data_server = find_nbdkit()?;
        terminal::say(&format!("slide 26, live; data servers: {data_server}"));
        findings.claims.extend(live::claims(&reference, &options.common)?);
    }
    let BaaOptions { common: options, .. } = options;
    options.draw(|| findings.figures)?;
    claim::show("baa", options, &findings.claims, "PAPER")
}
