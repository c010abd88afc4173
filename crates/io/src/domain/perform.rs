//! Doing what the engine decided: one unit, on whatever its device is.

use std::rc::Rc;
use std::sync::Arc;

use evenkeel_core::ticket::Kind;
use evenkeel_engine::Unit;
use evenkeel_wire::nbd::proto::{CommandFlags, Errno};

use super::{Domain, State, drive};
use crate::buffer::Buf;
use crate::client::Standing;
use crate::device::Medium;
use crate::device::memory::{MemoryDisk, is_contiguous};
use crate::op::{Data, Op};
use crate::outbox::COPY_BYTES_MAX;

/// Starts a unit; local memory is done with it at once.
pub(super) fn perform(state: &mut State, domain: &Rc<Domain>, unit: &Unit) {
    let op = &mut state.ops[unit.slot as usize];
    if op.client.standing.get() == Standing::Lost && unit.kind == Kind::Read {
        return state.done(unit, Err(Errno::Shutdown));
    }
    let device = Rc::clone(&op.device);
    match &device.medium {
        Medium::Memory(disk) => {
            in_memory(&mut disk.borrow_mut(), op, unit);
            state.done(unit, Ok(()));
        }
        Medium::File(disk) => drive::start(state, domain, disk, unit),
        Medium::Remote(remote) => match remote.call(op, unit) {
            Ok(link) => {
                if !state.links.iter().any(|known| Rc::ptr_eq(known, &link)) {
                    state.links.push(link);
                }
            }
            Err(errno) => state.done(unit, Err(errno)),
        },
    }
}

fn in_memory(disk: &mut MemoryDisk, op: &mut Op, unit: &Unit) {
    match unit.kind {
        Kind::Read => read_memory(disk, op, unit),
        Kind::Write => {
            let (payload, range) = op.payload_of(unit);
            disk.write(unit.offset, &payload[range]);
        }
        Kind::WriteZeroes | Kind::Trim => disk.zero(unit.offset, unit.length),
        Kind::Flush | Kind::Cache => {}
    }
}

fn read_memory(disk: &MemoryDisk, op: &mut Op, unit: &Unit) {
    let mut at = unit.offset;
    let length = usize::try_from(unit.length).expect("units fit memory");
    if is_contiguous(unit.offset, unit.length) && length <= COPY_BYTES_MAX {
        disk.read(unit.offset, unit.length, |data, len| {
            op.take(unit.offset, data.map_or(Data::Zeroes(len as u64), Data::Slice), true);
        });
        return;
    }
    let mut buf = Buf::take(length);
    disk.read(unit.offset, unit.length, |data, len| {
        let from = usize::try_from(at - unit.offset).expect("in the unit");
        let part = &mut buf[from..from + len];
        match data {
            Some(data) => part.copy_from_slice(data),
            None => part.fill(0),
        }
        at += len as u64;
    });
    op.take(unit.offset, Data::Whole(Arc::new(buf)), true);
}

/// Whether zeroed space is to be given back.
pub(super) fn may_punch(op: &Op) -> bool {
    op.kind == Kind::Trim || !op.request.flags.contains(CommandFlags::NO_HOLE)
}
