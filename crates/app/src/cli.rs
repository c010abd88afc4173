//! The command line: global options, and one variant per subcommand. Each subcommand has its own
//! module with its arguments and its `run`.

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use tracing_subscriber::EnvFilter;

use crate::exit::{self, Exit};
use crate::{
    advise, calibrate, check, completions, ctl, demo, drive, exchange, explain, load, man, place,
    plan, prove, reproduce, serve, simulate, store, terminal, top, trace, version, volume,
};

/// What is logged unless the environment says otherwise. What the exchange has to say of its server
/// it says itself, once.
const LOG_FILTER: &str = "info,async_nats=error";

/// What every `--help` ends with.
const AFTER_HELP: &str = "\
Examples:
  evenkeel demo                          a minute that shows what shares do
  evenkeel serve                         a small store with two tenants, no file needed
  evenkeel check policy.toml             every mistake with its line
  evenkeel serve policy.toml --mode observe
  evenkeel top                           who uses what, live
  evenkeel explain                       why each tenant gets no more than it does
  evenkeel ctl status --json

Exit codes: 0 done, 1 the answer is no, 2 usage, 3 policy invalid, 4 nobody answers, 5 failed.";

/// A storage gate: fair shares, limits and attribution for every tenant of shared storage.
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version = version::LONG, after_help = AFTER_HELP)]
#[command(max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// How log lines are written to stderr; the variable `RUST_LOG` chooses which, such as `debug`.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub log: LogFormat,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a gate.
    Serve(serve::Args),
    /// Check a policy file and show every mistake with its line.
    Check(check::Args),
    /// Ask or change a running gate.
    Ctl(ctl::Args),
    /// Watch who uses what, and who waits because of whom.
    Top(top::Args),
    /// Say why each tenant gets no more than it does, and what can be done.
    Explain(explain::Args),
    /// Hold what the policy promises against what the gate delivers.
    Prove(prove::Args),
    /// See in a minute what shares do: a database and a backup on one slow disk.
    Demo(demo::Args),
    /// Make and look after stores: chained logs over files and block devices.
    Store(store::Args),
    /// Check and repair volumes over several backends, tiered or spread.
    Volume(volume::Args),
    /// Measure a live backend and write a model of it for the simulator.
    Calibrate(calibrate::Args),
    /// Put load on NBD servers and measure how they bear it.
    Bench(load::Args),
    /// Read, change and replay block traces.
    Trace(trace::Args),
    /// Replay a recorded trace under a policy on a model: what would each tenant get?
    Plan(plan::Args),
    /// See where objects lie on many servers, and what choosing their place would gain.
    Place(place::Args),
    /// Run a scenario in virtual time: who gets what, on which storage, under which policy.
    Simulate(simulate::Args),
    /// Hold the model of a hard disk against what was measured on the real one.
    Drive(drive::Args),
    /// What would enforcing bring? Observes a gate, forecasts, proposes a policy, and tries it.
    Advise(advise::Args),
    /// Decide once more what a gate decided with others, from its recording.
    Exchange(exchange::Args),
    /// Run a paper's experiments and hold the outcome against its figures.
    Reproduce(reproduce::Args),
    /// Print a completion script for a shell.
    Completions(completions::Args),
    /// Write the manual pages into a folder.
    Man(man::Args),
}

impl Command {
    fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::Serve(args) => serve::run(&args),
            Self::Check(args) => check::run(&args),
            Self::Ctl(args) => ctl::run(&args),
            Self::Top(args) => top::run(&args),
            Self::Explain(args) => explain::run(&args),
            Self::Prove(args) => prove::run(&args),
            Self::Demo(args) => demo::run(&args),
            Self::Store(args) => store::run(&args),
            Self::Volume(args) => volume::run(&args),
            Self::Calibrate(args) => calibrate::run(&args),
            Self::Bench(args) => load::run(&args),
            Self::Trace(args) => trace::run(&args),
            Self::Plan(args) => plan::run(&args),
            Self::Advise(args) => advise::run(&args),
            Self::Place(args) => place::run(&args),
            Self::Simulate(args) => simulate::run(&args),
            Self::Drive(args) => drive::run(&args),
            Self::Exchange(args) => exchange::run(&args),
            Self::Reproduce(args) => reproduce::run(&args),
            Self::Completions(args) => completions::run(&args),
            Self::Man(args) => man::run(&args),
        }
    }
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| {
        if error.use_stderr() {
            tell_programs(Exit::Usage, &error.to_string());
        }
        error.exit()
    });
    start_logging(cli.log);
    match cli.command.run() {
        Ok(exit) => exit.into(),
        // Whoever read our output has seen enough.
        Err(error) if is_broken_pipe(&error) => Exit::Success.into(),
        Err(error) => {
            let (exit, message) = (Exit::of(&error), format!("{error:#}"));
            terminal::say(&format!("evenkeel: {message}"));
            tell_programs(exit, &message);
            exit.into()
        }
    }
}

/// With `--json`, stdout has one document also where a command fails (docs/exit-codes.md).
fn tell_programs(exit: Exit, message: &str) {
    let mut arguments = std::env::args_os().take_while(|argument| argument != "--");
    if arguments.any(|argument| argument == "--json") {
        // Nobody is left to be told that it cannot be told.
        let _ = terminal::json(&exit::document(exit, message));
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn start_logging(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG_FILTER));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match format {
        LogFormat::Text => builder.with_ansi(terminal::colour_on_stderr()).init(),
        LogFormat::Json => builder.json().init(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_subcommand_shows_examples() {
        for command in Cli::command().get_subcommands() {
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(examples.contains("Examples:"), "{} has no examples", command.get_name());
        }
    }
}
