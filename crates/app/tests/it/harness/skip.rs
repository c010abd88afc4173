//! Tests that cannot run here say so: on the terminal, and in the file that `cargo xtask test`
//! repeats in its summary.

use std::io::Write;
use std::path::Path;

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
