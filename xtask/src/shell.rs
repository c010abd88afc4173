//! Running other programs so that people see what is run and how it ended.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies one folder below the root").to_path_buf()
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    named.map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// A cargo command at the root of the workspace, split at blanks.
pub(crate) fn cargo(line: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(line.split_whitespace()).current_dir(root());
    // Cargo tells a program which package it is; a child must not take that for its own.
    command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH");
    command
}

/// Runs a command with our own output streams and no input; fails unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", show(command));
    let status = command.stdin(Stdio::null()).status().with_context(|| cannot_start(command))?;
    judge(command, status)
}

/// Runs a command like `run`, and gives the code that it ended with; none after a signal.
pub(crate) fn run_to_code(command: &mut Command) -> Result<Option<i32>> {
    eprintln!("$ {}", show(command));
    let status = command.stdin(Stdio::null()).status().with_context(|| cannot_start(command))?;
    Ok(status.code())
}

/// Runs a command like `run`, but hands what it writes to its standard error to `read`.
pub(crate) fn run_piped(
    command: &mut Command,
    read: impl FnOnce(ChildStderr) -> Result<()>,
) -> Result<()> {
    eprintln!("$ {}", show(command));
    let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.with_context(|| cannot_start(command))?;
    let outcome = child.stderr.take().map_or(Ok(()), read);
    let status = child.wait().context("cannot wait for a program")?;
    outcome.and_then(|()| judge(command, status))
}

/// Runs a command that has time, beside others: they come first at the processors, and what it
/// prints is shown when it has ended.
pub(crate) fn run_aside(command: &Command) -> Result<()> {
    let mut aside = Command::new("nice");
    aside.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => aside.env(name, value),
            None => aside.env_remove(name),
        };
    }
    aside.current_dir(command.get_current_dir().unwrap_or(&root()));
    let output = aside.stdin(Stdio::null()).output().with_context(|| cannot_start(&aside))?;
    let printed = [&output.stdout[..], &output.stderr[..]].concat();
    eprint!("$ {}\n{}", show(command), String::from_utf8_lossy(&printed));
    judge(command, output.status)
}

/// Processors that this process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

fn cannot_start(command: &Command) -> String {
    format!("cannot start {}", command.get_program().display())
}

fn judge(command: &Command, status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("`{}` ended with {status}", show(command));
    }
    Ok(())
}

/// Whether a program of this name is to be found.
pub(crate) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Tools for the system's owner lie in folders that other people's PATH often leaves out.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.into_iter().any(|folder| folder.join(program).is_file())
}

fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let name = |word: &std::ffi::OsStr| {
        let path = Path::new(word);
        let last =
            if path.is_absolute() && path.ends_with("cargo") { path.file_name() } else { None };
        last.unwrap_or(word).to_string_lossy().into_owned()
    };
    words.map(name).collect::<Vec<_>>().join(" ")
}
