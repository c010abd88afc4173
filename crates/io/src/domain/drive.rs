//! Files of a domain: units to drive jobs, and finished jobs back to units.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use evenkeel_core::ticket::Kind;
use evenkeel_engine::Unit;
use evenkeel_wire::nbd::proto::{CommandFlags, Errno};

use super::perform::may_punch;
use super::{Domain, State};
use crate::buffer::Buf;
use crate::device::Medium;
use crate::device::file::FileDisk;
use crate::drive::bell::Bell;
use crate::drive::{Action, Drive, Finished, Job};

/// The drive that serves a domain's files.
#[derive(Debug)]
pub(super) struct DomainDrive {
    drive: Drive,
    finished: Vec<Finished>,
}

/// Gives a unit to the drive, which is made at the first use.
pub(super) fn start(state: &mut State, domain: &Rc<Domain>, disk: &FileDisk, unit: &Unit) {
    if state.drive.is_none() {
        match Drive::new(domain.worker.drive_kind) {
            Ok((drive, event)) => {
                state.drive = Some(DomainDrive { drive, finished: Vec::new() });
                listen(domain, event);
            }
            Err(error) => {
                tracing::error!(%error, "no drive can be made");
                return state.done(unit, Err(Errno::OutOfMemory));
            }
        }
    }
    let op = &mut state.ops[unit.slot as usize];
    if unit.kind == Kind::Flush && op.origin.heard().hear(unit.server, disk.losses()) {
        return state.done(unit, Err(Errno::Io));
    }
    let length = usize::try_from(unit.length).expect("units fit memory");
    let (file, action) = match unit.kind {
        Kind::Read => {
            let buf = Buf::take(length);
            (disk.for_transfer(unit.offset, unit.length, buf.as_ptr()), Action::Read(buf))
        }
        Kind::Write => {
            let (data, range) = op.payload_of(unit);
            let memory = data[range.clone()].as_ptr();
            let file = disk.for_transfer(unit.offset, unit.length, memory);
            (file, Action::Write { data, range, durable: op.is_durable() })
        }
        Kind::Flush => (disk.for_control(), Action::Flush),
        Kind::Trim | Kind::WriteZeroes => {
            (disk.for_control(), Action::Zero { length: unit.length, punch: may_punch(op) })
        }
        // Reading ahead past the page cache would warm nothing.
        Kind::Cache => return state.done(unit, Ok(())),
    };
    let job =
        Job { file: Arc::clone(file), offset: unit.offset, action, mark: u64::from(unit.unit) };
    state.drive.as_mut().expect("made above").drive.push(job);
}

/// Starts what was pushed and takes in what has finished, until nothing more has: a job that
/// finishes may start another.
pub(super) fn reap(state: &mut State) {
    while let Some(drive) = &mut state.drive {
        drive.drive.submit();
        drive.drive.reap(&mut drive.finished);
        let mut finished = std::mem::take(&mut drive.finished);
        let is_quiet = finished.is_empty();
        for job in finished.drain(..) {
            over(state, job);
        }
        if let Some(drive) = &mut state.drive {
            drive.finished = finished;
        }
        if is_quiet {
            return;
        }
    }
}

fn over(state: &mut State, job: Finished) {
    let Finished { mark, action, result } = job;
    let unit = state.units[usize::try_from(mark).expect("marks are unit handles")];
    let op = &mut state.ops[unit.slot as usize];
    let device = Rc::clone(&op.device);
    let Medium::File(disk) = &device.part(unit.server).medium else {
        unreachable!("drives serve files")
    };
    let again = |state: &mut State, file: &Arc<std::fs::File>, action| {
        let job = Job { file: Arc::clone(file), offset: unit.offset, action, mark };
        state.drive.as_mut().expect("it finished a job").drive.push(job);
    };
    match (result, action) {
        (Ok(()), Action::Read(buf)) => {
            op.take(unit.at, buf.into(), true);
            state.done(&unit, Ok(()));
        }
        (Ok(()), Action::Zero { .. }) if op.is_durable() => {
            again(state, disk.for_control(), Action::Flush);
        }
        (Ok(()), _) => state.done(&unit, Ok(())),
        (Err(error), Action::Zero { length, .. }) if is_unsupported(&error) => {
            if unit.kind == Kind::Trim {
                // A trim is advice; a file system that cannot punch holes ignores it.
                return state.done(&unit, Ok(()));
            }
            if op.request.flags.contains(CommandFlags::FAST_ZERO) {
                return state.done(&unit, Err(Errno::NotSupported));
            }
            let mut zeroes = Buf::take(usize::try_from(length).expect("units fit memory"));
            zeroes.fill(0);
            let range = 0..zeroes.len();
            let durable = op.is_durable();
            let action = Action::Write { data: Arc::new(zeroes), range, durable };
            again(state, disk.for_control(), action);
        }
        (Err(error), _) => {
            if unit.kind == Kind::Flush || (op.is_durable() && unit.kind != Kind::Read) {
                disk.note_loss();
                op.origin.heard().hear(unit.server, disk.losses());
            }
            fail(state, &unit, disk, &error);
        }
    }
}

fn fail(state: &mut State, unit: &Unit, disk: &FileDisk, error: &std::io::Error) {
    let errno = error.raw_os_error().map_or(Errno::Io, Errno::from_linux);
    let path = disk.path().display();
    let words = || match error.kind() {
        std::io::ErrorKind::StorageFull => {
            format!("{path} takes no more: its file system has no room left")
        }
        _ => format!("{path}: {error}"),
    };
    let logged = state.failed(unit, errno, Some(&words));
    if let Some(lately) = logged {
        let (kind, offset_bytes) = (unit.kind.name(), unit.offset);
        tracing::warn!(kind, offset_bytes, lately, "request failed: {}", words());
    }
}

fn is_unsupported(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::Unsupported
        // Block devices say so of ranges that are not whole blocks.
        || error.kind() == std::io::ErrorKind::InvalidInput
        || error.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error())
}

/// Pumps the domain whenever the drive has news.
fn listen(domain: &Rc<Domain>, event: OwnedFd) {
    let domain = Rc::downgrade(domain);
    tokio::task::spawn_local(async move {
        let bell = match Bell::new(event) {
            Ok(bell) => bell,
            Err(error) => return tracing::error!(%error, "a drive's event cannot be watched"),
        };
        while bell.rung().await.is_ok() {
            let Some(domain) = domain.upgrade() else { return };
            domain.pump();
        }
    });
}
