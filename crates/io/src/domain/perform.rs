//! Doing what the engine decided: one unit, on whatever its device is.

use std::rc::Rc;
use std::sync::Arc;

use evenkeel_core::ticket::Kind;
use evenkeel_engine::Unit;
use evenkeel_wire::nbd::proto::{CommandFlags, Errno};

use super::{Domain, State, ceph, drive, store};
use crate::buffer::Buf;
use crate::device::Medium;
use crate::device::memory::{MemoryDisk, is_contiguous};
use crate::op::{Data, Op};

/// Starts a unit; local memory is done with it at once.
pub(super) fn perform(state: &mut State, domain: &Rc<Domain>, unit: &Unit) {
    let op = &mut state.ops[unit.slot as usize];
    if unit.kind == Kind::Read && !op.origin.is_there() {
        return state.done(unit, Err(Errno::Shutdown));
    }
    let device = Rc::clone(&op.device);
    if domain.volume.is_some() {
        domain.note_change(unit);
    }
    match &device.part(unit.server).medium {
        Medium::Memory(disk) => {
            in_memory(&mut disk.borrow_mut(), op, unit);
            state.done(unit, Ok(()));
        }
        Medium::File(disk) => drive::start(state, domain, disk, unit),
        // A server that offers none needs none.
        Medium::Remote(remote) if unit.kind == Kind::Flush && !remote.can_flush() => {
            state.done(unit, Ok(()));
        }
        Medium::Remote(remote) => match remote.call(op, unit) {
            Ok(link) => {
                if !state.links.iter().any(|known| Rc::ptr_eq(known, &link)) {
                    state.links.push(link);
                }
            }
            Err(errno) => state.done(unit, Err(errno)),
        },
        Medium::Store(volume) => store::start(state, domain, volume, unit),
        Medium::Ceph(volume) => ceph::start(state, domain, volume, unit),
        Medium::Turn(turn) => store::come(domain, turn, unit),
        Medium::Tiered(_) => unreachable!("a tier is no tiered volume"),
    }
}

fn in_memory(disk: &mut MemoryDisk, op: &mut Op, unit: &Unit) {
    match unit.kind {
        Kind::Read => read_memory(disk, op, unit),
        Kind::Write => {
            let (payload, range) = op.payload_of(unit);
            disk.write(unit.offset, &payload, range);
        }
        Kind::WriteZeroes | Kind::Trim => disk.zero(unit.offset, unit.length),
        Kind::Flush | Kind::Cache => {}
    }
}

fn read_memory(disk: &MemoryDisk, op: &mut Op, unit: &Unit) {
    if is_contiguous(unit.offset, unit.length) {
        disk.read(unit.offset, unit.length, |chunk, range| {
            let data = match chunk {
                None => Data::Zeroes(unit.length),
                Some(chunk) => Data::Shared(Arc::clone(chunk), range),
            };
            op.take(unit.at, data, true);
        });
        return;
    }
    let mut buf = Buf::take(usize::try_from(unit.length).expect("units fit memory"));
    let mut at = 0;
    disk.read(unit.offset, unit.length, |chunk, range| {
        let part = &mut buf[at..at + range.len()];
        at += range.len();
        match chunk {
            Some(chunk) => part.copy_from_slice(&chunk[range]),
            None => part.fill(0),
        }
    });
    op.take(unit.at, buf.into(), true);
}

/// Whether zeroed space is to be given back.
pub(super) fn may_punch(op: &Op) -> bool {
    op.kind == Kind::Trim || !op.request.flags.contains(CommandFlags::NO_HOLE)
}
