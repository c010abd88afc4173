//! Volumes of stores in a domain, and what stores do for themselves: each unit is a task that waits
//! for the store.

use std::rc::Rc;
use std::sync::Arc;

use evenkeel_core::ticket::Kind;
use evenkeel_engine::policy::CachePlan;
use evenkeel_engine::{Target, Unit};
use evenkeel_store::{Buffer, Durability};
use evenkeel_wire::nbd::proto::Errno;
use tokio::task::spawn_local;

use super::{Domain, State};
use crate::buffer::Buf;
use crate::device::Medium;
use crate::device::store::{Request, StoreVolume};
use crate::device::turn::Turn;
use crate::op::{Data, Op};

/// What a request of a device is for: the cache's own server if there is one, and the cache can
/// answer it as of now; else what the device says.
pub(super) fn target(plan: Option<CachePlan>, op: &Op, offset: u64) -> Target {
    match (plan, &op.device.medium) {
        (Some(plan), Medium::Store(volume))
            if op.kind == Kind::Read && volume.is_cached(offset, op.request.length) =>
        {
            Target::Server(plan.cache)
        }
        _ => op.device.target,
    }
}

/// Gives a unit to the store.
pub(super) fn start(state: &mut State, domain: &Rc<Domain>, volume: &Rc<StoreVolume>, unit: &Unit) {
    let op = &mut state.ops[unit.slot as usize];
    let losses = volume.host().losses();
    if unit.kind == Kind::Flush && op.origin.heard().hear(unit.server, losses) {
        return state.done(unit, Err(Errno::Io));
    }
    let Some(request) = request(op, unit) else { return state.done(unit, Ok(())) };
    let (domain, volume, unit) = (Rc::clone(domain), Rc::clone(volume), *unit);
    spawn_local(async move {
        let outcome = volume.perform(unit.offset, request).await;
        if unit.kind == Kind::Flush {
            domain.report_losses(&unit, volume.host().losses());
        }
        let result = outcome.map(|data| {
            if let Some(data) = data {
                domain.data(&unit, unit.offset, Data::Slice(&data), true);
            }
        });
        domain.done(&unit, result);
        domain.pump();
    });
}

/// The turn of something that a store does for itself has come.
pub(super) fn come(domain: &Rc<Domain>, turn: &Rc<Turn>, unit: &Unit) {
    let (domain, turn, unit) = (Rc::clone(domain), Rc::clone(turn), *unit);
    spawn_local(async move {
        turn.come().await;
        domain.done(&unit, Ok(()));
        domain.pump();
    });
}

/// What the store is asked for; nothing for what it has no use for.
fn request(op: &Op, unit: &Unit) -> Option<Request> {
    let durability = if op.is_durable() { Durability::Durable } else { Durability::Volatile };
    let length_bytes = unit.length;
    Some(match unit.kind {
        Kind::Read => {
            let length_bytes = usize::try_from(length_bytes).expect("units fit memory");
            Request::Read { length_bytes }
        }
        Kind::Write => {
            let (payload, range) = op.payload_of(unit);
            Request::Write { data: adopt(payload).slice(range), durability }
        }
        Kind::WriteZeroes => Request::WriteZeroes { length_bytes, durability },
        Kind::Trim => Request::Trim { length_bytes, durability },
        Kind::Flush => Request::Flush,
        // What is read is cached anyway.
        Kind::Cache => return None,
    })
}

/// The payload as the store wants it, in place.
fn adopt(payload: Arc<Buf>) -> Buffer {
    Buffer::adopt(payload)
}
