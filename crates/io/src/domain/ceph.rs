//! Volumes in pools of Ceph in a domain: each unit is a task that waits for the cluster.

use std::rc::Rc;

use evenkeel_core::ticket::Kind;
use evenkeel_engine::Unit;
use tokio::task::spawn_local;

use super::{Domain, State};
use crate::device::ceph::{CephVolume, Request};

/// Gives a unit to the volume. What was answered is durable, so that a flush has nothing to do.
pub(super) fn start(state: &mut State, domain: &Rc<Domain>, volume: &Rc<CephVolume>, unit: &Unit) {
    let op = &mut state.ops[unit.slot as usize];
    let request = match unit.kind {
        Kind::Read => Request::Read { length: unit.length },
        Kind::Write => {
            let (data, range) = op.payload_of(unit);
            Request::Write { data, range }
        }
        Kind::WriteZeroes | Kind::Trim => Request::Zero { length: unit.length },
        Kind::Flush | Kind::Cache => return state.done(unit, Ok(())),
    };
    let (domain, volume, unit) = (Rc::clone(domain), Rc::clone(volume), *unit);
    spawn_local(async move {
        let result = volume.perform(unit.offset, request).await.map(|data| {
            if let Some(data) = data {
                domain.data(&unit, unit.offset, data.into(), true);
            }
        });
        domain.done(&unit, result);
        domain.pump();
    });
}
