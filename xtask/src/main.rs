//! Every chore of the project, in Rust: `cargo xtask <chore>`.
//!
//! One door for people and for CI. `cargo xtask test` is the whole test ladder; the other chores
//! are its rungs or tools to keep them standing.

mod chores;
mod failures;
mod fuzz;
mod guest;
mod ladder;
mod layers;
mod nightly;
mod setup;
mod shell;
mod steps;
mod tidy;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The chores of Evenkeel.", version)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Climb the whole test ladder; what CI runs.
    Test(ladder::Options),
    /// Install the real peers and tools that the tests use, where they are missing.
    Setup {
        /// Install nothing; only say what is there.
        #[arg(long)]
        check: bool,
    },
    /// Check the house rules that neither rustc, clippy nor rustfmt knows.
    Tidy,
    /// Check the crates' dependencies against the table in ARCHITECTURE.md.
    Layers,
    /// Rewrite goldens and generated documents to what the code now says; read the diff.
    Bless,
    /// Rewrite only the documents that are made from code: metrics, status, exit codes.
    Docs,
    /// Compare with named peers on this machine.
    Bench {
        /// Run everything once at toy size, to see that it still works.
        #[arg(long)]
        smoke: bool,
    },
    /// Run fuzz targets, and grow their corpora.
    Fuzz(fuzz::Options),
    /// Run the long forms of the checks: hours.
    Nightly(nightly::Options),
}

fn main() -> ExitCode {
    match run(Arguments::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> Result<()> {
    match chore {
        Chore::Test(options) => ladder::climb(&options),
        Chore::Setup { check: true } => {
            setup::look().print();
            Ok(())
        }
        Chore::Setup { check: false } => {
            setup::install();
            Ok(())
        }
        Chore::Tidy => tidy::run(),
        Chore::Layers => layers::run(),
        Chore::Bless => chores::bless(),
        Chore::Docs => chores::docs(),
        Chore::Bench { smoke: true } => chores::bench_smoke(),
        Chore::Bench { smoke: false } => chores::bench(),
        Chore::Fuzz(options) => fuzz::run(&options),
        Chore::Nightly(options) => nightly::run(&options),
    }
}
