//! The operator's fence: a command that keeps a gate from the servers of its volume for good, as
//! cluster managers have them.
//!
//! It runs on a thread of its own, with what is known of the gate in its environment:
//!
//! | variable | meaning |
//! |---|---|
//! | `EVENKEEL_VOLUME` | the volume, as the policy of this gate calls it |
//! | `EVENKEEL_LOSER` | the gate that is to be fenced off, for people |
//! | `EVENKEEL_LOSER_ADDRESSES` | where the servers see it, with a space between any two addresses |
//!
//! Ending with 0 says that nothing of that gate will ever reach the servers again, and that what
//! they had received of it has been carried out. Anything else, or no end in time, is no fence.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use evenkeel_engine::lease::Gate;
use tokio::sync::oneshot;

/// A command that takes longer has failed.
const TIME_MAX: Duration = Duration::from_secs(60);

/// How often it is looked whether the command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What is kept of the command's complaints.
const SAID_BYTES_MAX: u64 = 4096;

/// Runs the command for one gate.
///
/// # Errors
/// Why that is no fence.
pub(crate) async fn run(command: &[String], volume: &str, loser: &Gate) -> Result<(), String> {
    let (program, arguments) = command.split_first().ok_or("the policy has no fence")?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("EVENKEEL_VOLUME", volume)
        .env("EVENKEEL_LOSER", &loser.name)
        .env("EVENKEEL_LOSER_ADDRESSES", &loser.addresses)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let (done, end) = oneshot::channel();
    let thread = std::thread::Builder::new().name("fence".to_owned());
    let started = thread.spawn(move || {
        // The gate may be stopping.
        let _ = done.send(finish(&mut command));
    });
    started.map_err(|error| format!("no thread for it: {error}"))?;
    end.await.unwrap_or_else(|_| Err("it was given up".to_owned()))
}

fn finish(command: &mut Command) -> Result<(), String> {
    let began = Instant::now();
    let mut child = command.spawn().map_err(|error| format!("it cannot be started: {error}"))?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(complaint(&mut child, status)),
            Ok(None) if began.elapsed() >= TIME_MAX => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not end within {} s", TIME_MAX.as_secs()));
            }
            Ok(None) => std::thread::sleep(LOOK_EVERY),
            Err(error) => return Err(format!("it cannot be waited for: {error}")),
        }
    }
}

fn complaint(child: &mut Child, status: ExitStatus) -> String {
    let mut said = Vec::new();
    if let Some(output) = child.stderr.take() {
        let _ = output.take(SAID_BYTES_MAX).read_to_end(&mut said);
    }
    let said = String::from_utf8_lossy(&said);
    format!("it ended with {status}: {}", said.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<(), String> {
        let command = ["sh", "-c", script].map(str::to_owned);
        let loser = Gate {
            name: "the gate on h, process 7".into(),
            addresses: "10.0.0.1 10.0.1.1".into(),
            ..Gate::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(&command, "pool", &loser))
    }

    #[test]
    fn it_is_told_whom_to_fence_off() {
        let told = "test \"$EVENKEEL_VOLUME/$EVENKEEL_LOSER/$EVENKEEL_LOSER_ADDRESSES\" = \
                    'pool/the gate on h, process 7/10.0.0.1 10.0.1.1'";
        assert_eq!(shell(told), Ok(()));
    }

    #[test]
    fn a_command_that_fails_or_is_not_there_is_no_fence() {
        let said = shell("echo no such outlet >&2; exit 3").unwrap_err();
        assert!(said.contains("exit status: 3: no such outlet"), "{said}");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (command, loser) = (["/nowhere/fence".to_owned()], Gate::default());
        let said = runtime.block_on(run(&command, "pool", &loser)).unwrap_err();
        assert!(said.contains("cannot be started"), "{said}");
    }
}
