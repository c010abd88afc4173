//! Looks now and then at what is with the servers for too long.

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::time::Nanos;

use super::Engine;
use crate::lane::Lane;
use crate::units::Stage;

impl Engine {
    /// Whether a tenant is held to its part of a server's slots, since an export of it is slow
    /// beside others, has not answered yet, or hangs. Then its share of cost is bounded by
    /// nothing.
    pub fn holds_to_slots(&self, server: ServerId, tenant: TenantId) -> bool {
        self.lanes[server.index()].holds(tenant)
    }

    /// The tenant that has a server to itself for a moment, so that it is seen what its requests
    /// take. Meanwhile its share of cost is bounded by the length of its turn.
    pub fn turn(&self, server: ServerId) -> Option<TenantId> {
        self.lanes[server.index()].turn()
    }

    /// What is with a server and has left its depth, in requests or bytes as the depth counts.
    pub fn second_depth(&self, server: ServerId) -> u64 {
        self.lanes[server.index()].second_depth()
    }

    /// Lets leave the depths what is out for too long, and divides them anew. O(units + flows).
    pub(super) fn look_at_slots(&mut self, now: Nanos) {
        self.lanes.iter_mut().for_each(|lane| lane.begin_look(now));
        for unit in self.units.live().filter(|unit| unit.stage == Stage::InService) {
            self.lanes[unit.server.index()].look(now, unit);
        }
        for server in (0..self.lanes.len()).map(server_id) {
            self.lanes[server.index()].end_look(now, &self.units);
            self.make_ready(server);
        }
    }

    /// When the next look is due, if somebody may wait for a slot that a request holds too long.
    pub(super) fn next_look(&self) -> Option<Nanos> {
        self.lanes.iter().any(Lane::waits_for_slots).then_some(self.next_tick)
    }
}

fn server_id(index: usize) -> ServerId {
    ServerId(u32::try_from(index).expect("servers are u32"))
}
