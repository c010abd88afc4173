//! Tests that cannot run here say so: on the terminal, and in the file that `cargo xtask test`
//! repeats in its summary.

use std::io::Write;
use std::path::Path;
use std::process::ExitStatus;

/// Ends the test, aloud, unless all these programs are there.
macro_rules! needs {
    ($($program:expr),+ $(,)?) => {
        if let Some(why) = $crate::harness::skip::missing(&[$($program),+]) {
            $crate::harness::skip::tell(&why);
            return;
        }
    };
}
pub(crate) use needs;

/// The first of these programs that is not there.
pub(crate) fn missing(programs: &[&str]) -> Option<String> {
    let absent = programs.iter().find(|program| !is_there(program))?;
    Some(format!("`{absent}` is not installed; `cargo xtask setup` would do it"))
}

/// Says that the running test is skipped, and why.
pub(crate) fn tell(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("unnamed test");
    eprintln!("SKIPPED {test}: {why}");
    if let Some(path) = std::env::var_os("EVENKEEL_SKIPS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        let written = file.and_then(|mut file| writeln!(file, "{test}: {why}"));
        written.expect("the file that EVENKEEL_SKIPS names can be written");
    }
}

/// The exit code of an experiment whose machine was disturbed (docs/exit-codes.md).
const CANNOT_JUDGE: i32 = 6;

/// Whether an experiment says that this machine could not judge some of its rows. Then the skip is
/// told, with the reason that the experiment gives; the other rows still count.
pub(crate) fn could_not_judge(status: ExitStatus, output: &str) -> bool {
    let could_not = status.code() == Some(CANNOT_JUDGE);
    if could_not {
        let why = output.split_once("cannot judge at this load").map(|(_, why)| why);
        let why = why.and_then(|why| why.split(['\n', '"']).next()).unwrap_or_default();
        tell(&format!("some rows were not judged at this load{why}"));
    }
    could_not
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin".into(), "/sbin".into()];
    std::env::split_paths(&path).chain(system).any(|folder| folder.join(program).is_file())
}

/// Whether this looks like a machine where we may attach loop devices and mount.
pub(crate) fn cannot_mount() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("mounting needs root".into());
    }
    let absent =
        ["/dev/fuse", "/dev/loop-control"].into_iter().find(|path| !Path::new(path).exists());
    absent.map(|path| format!("{path} is not there"))
}
