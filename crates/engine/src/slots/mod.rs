//! Slots of a server's depth have owners, so that slow or hung requests of one tenant do not take
//! the depth from the others.
//!
//! A scheduler charges what a request costs. A slot is held for as long as the request takes, and
//! that is another matter: an export that answers after 500 ms costs no more than its neighbour on
//! the same server that answers after 1 ms, and since it gets so little done it is always the next
//! by its share. It takes every slot that is free for an instant, and keeps it 500 times as long.
//!
//! ```text
//! arrivals --> [parked, by flow] --> scheduler --> first depth --> backend
//!                                                       | out for long
//!                                                       v
//!                                                 second depth
//! ```
//!
//! Only where several disks of a server are asked for: what lies on one disk is served alike.
//!
//! - **Division.** The depth is divided among the tenants that have asked within the last second,
//!   by their weights, and each tenant's part among its flows (exports, files) equally. Who has
//!   asked for less than that at a time leaves the rest to the others (`division`).
//! - **Only slow flows are held to their part** (`pace`, `slot_time`): what comes beyond it is
//!   parked before the scheduler, which so never sees more of a flow than it has slots for. Parking
//!   charges nothing. What a floor takes at this pace counts as part, up to half of the depth. All
//!   others are ordered by cost alone. A flow of which no answer has come yet counts as slow, and
//!   has a quarter of the depth at most; one that was slow counts so for another ten seconds, or
//!   until its neighbour is the slower one (`passing`).
//! - **No flow is slow where all share one device**, in whatever order that serves them. Turns show
//!   whether they do ([`Learned`](crate::cost::learned::Learned)). What hangs is held all the same.
//! - **Second depth.** What has been out for longer than a second and eight times the server's
//!   median leaves the depth and counts against its owner's part of a second one of the same size,
//!   of which an owner takes at most half of what the others have left, or one request (`overdue`).
//!   A flow with such requests **hangs**, and has no more than a quarter of the depth, these
//!   included. So whoever returns finds room, and the server never sees more than twice the depth.
//!   A slow flow whose part is less than one slot of four or more has one of the second depth.
//! - **Slots wait** an instant for whoever is about to return (`returning`).
//!
//! Requests are counted as the depth counts them: by number or by bytes.

mod division;
mod flow;
mod holding;
mod overdue;
mod pace;
mod passing;
mod returning;
mod slot_time;

use std::collections::VecDeque;

use evenkeel_core::id::TenantId;
use evenkeel_core::sched::{Floor, Share};
use evenkeel_core::ticket::Ticket;
use evenkeel_core::time::{Nanos, Span};

use crate::policy::Depth;
use flow::Flow;
use holding::Scratch;
use overdue::Latencies;
use pace::Quickest;

/// The slots of one server and those who hold or want them. See the [module](self).
#[derive(Debug)]
pub(crate) struct Slots {
    depth: Depth,
    /// The depth in force, as of the last division.
    capacity: u64,
    weights: Vec<u64>,
    floors: Vec<Floor>,
    flows: Vec<Flow>,
    /// Places in `flows` that may be used again.
    free: Vec<usize>,
    /// By tenant: its flows, that of its last request first.
    by_tenant: Vec<Vec<usize>>,
    /// By unit.
    places: Vec<Place>,
    /// Flows of which something parked may go on.
    to_release: VecDeque<usize>,
    /// Tickets parked here.
    parked: usize,
    latencies: Latencies,
    /// More than one disk is asked for: else there is nothing to divide.
    is_divided: bool,
    /// The quickest of the flows that asked, as of the last division: by the latest answers, and
    /// by the median of slot time.
    quickest: Quickest,
    quickest_median: Quickest,
    device: Device,
    /// For how many requests one may have to wait at the device.
    queue: u64,
    /// The division is to be made anew, and when it was made.
    is_stale: bool,
    divided: Nanos,
    /// All that is out has been judged, and nothing has come or gone since.
    is_settled: bool,
    peaks_since: Nanos,
    /// What the first depth holds, and the second.
    in_depth: u64,
    away: u64,
    /// Flows that are about to return, and until when their slots wait for them.
    returning: Vec<(usize, Nanos)>,
    /// When the youngest unit in service was sent, as of this look.
    youngest: Option<Nanos>,
    /// Units that may be out for too long, of one look.
    overdue: Vec<(Nanos, u32)>,
    scratch: Scratch,
}

/// What is known of the device behind a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Device {
    /// It serves one request at a time, in whatever order.
    pub(crate) one_by_one: bool,
    /// All exports are on it.
    pub(crate) is_shared: bool,
    /// The tenant that has it to itself for a moment. It is held to nothing meanwhile, so that its
    /// requests fill the depth.
    pub(crate) turn: Option<TenantId>,
}

/// Where a unit is.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    flow: usize,
    /// What it takes of a depth.
    amount: u64,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Not here.
    #[default]
    Unknown,
    Parked,
    /// In the scheduler.
    Queued,
    InDepth,
    /// In the second depth.
    Away,
    /// There, for it is out for too long.
    Hanging,
}

impl Slots {
    /// Slots of this depth.
    pub(crate) fn new(now: Nanos, depth: Depth) -> Self {
        Self {
            depth,
            capacity: 0,
            weights: Vec::new(),
            floors: Vec::new(),
            flows: Vec::new(),
            free: Vec::new(),
            by_tenant: Vec::new(),
            places: Vec::new(),
            to_release: VecDeque::new(),
            parked: 0,
            latencies: Latencies::default(),
            is_divided: false,
            quickest: Quickest::NONE,
            quickest_median: Quickest::NONE,
            device: Device::default(),
            queue: 1,
            is_stale: true,
            divided: now,
            is_settled: false,
            peaks_since: now,
            in_depth: 0,
            away: 0,
            returning: Vec::new(),
            youngest: None,
            overdue: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// Another scheduler takes over, with this depth. Nothing is queued or parked; what is in
    /// service is none of its.
    pub(crate) fn begin_anew(&mut self, depth: Depth) {
        self.depth = depth;
        for unit in 0..self.places.len() {
            if self.places[unit].stage == Stage::InDepth {
                self.send_away(unit, Stage::Away);
            }
        }
        self.is_stale = true;
    }

    /// Adds a tenant or changes its share.
    pub(crate) fn configure(&mut self, tenant: TenantId, share: &Share) {
        if self.weights.len() <= tenant.index() {
            self.weights.resize(tenant.index() + 1, 1);
            self.floors.resize(tenant.index() + 1, Floor::default());
            self.by_tenant.resize(tenant.index() + 1, Vec::new());
        }
        self.weights[tenant.index()] = u64::from(share.weight_milli).max(1);
        self.floors[tenant.index()] = share.floor;
        self.is_stale = true;
    }

    /// A ticket arrives. False if it goes on to the scheduler, true if it is parked here. O(1) for
    /// the disk of the tenant's last request.
    pub(crate) fn parks(&mut self, now: Nanos, ticket: Ticket, disk: u64) -> bool {
        self.is_settled = false;
        let index = self.flow_of(now, ticket.tenant, disk);
        let amount = self.depth.charge(&ticket);
        let flow = &mut self.flows[index];
        self.is_stale |= !flow.is_active(now);
        flow.last_active = now;
        if flow.demand() + flow.away == 0 {
            (flow.busy_since, flow.busy_peak) = (now, 0);
        }
        self.returns(now, index);
        let flow = &mut self.flows[index];
        let parks = !flow.parked.is_empty() || !flow.has_room(amount);
        if parks {
            flow.parked.push_back(ticket);
            flow.parked_amount += amount;
            self.parked += 1;
        } else {
            flow.inside += amount;
        }
        flow.peaks[0] = flow.peaks[0].max(flow.demand());
        flow.busy_peak = flow.busy_peak.max(flow.demand());
        let unit = ticket.slot as usize;
        if self.places.len() <= unit {
            self.places.resize(unit + 1, Place::default());
        }
        let stage = if parks { Stage::Parked } else { Stage::Queued };
        self.places[unit] = Place { flow: index, amount, stage };
        parks
    }

    /// A ticket is taken back. True if it was parked here, and is not in the scheduler. O(parked of
    /// its flow) if it was.
    pub(crate) fn withdraw(&mut self, ticket: &Ticket) -> bool {
        let Some(place) = self.take(ticket) else { return false };
        let flow = &mut self.flows[place.flow];
        if place.stage == Stage::Parked {
            flow.parked.retain(|parked| parked.slot != ticket.slot);
            flow.parked_amount -= place.amount;
            self.parked -= 1;
            return true;
        }
        flow.inside -= place.amount;
        self.to_release.push_back(place.flow);
        false
    }

    /// The scheduler has dispatched a ticket. False if it goes to the second depth.
    pub(crate) fn dispatched(&mut self, ticket: &Ticket) -> bool {
        let place = &mut self.places[ticket.slot as usize];
        place.stage = Stage::InDepth;
        self.is_settled = false;
        self.in_depth += place.amount;
        let flow = &mut self.flows[place.flow];
        flow.in_service += 1;
        let is_second = flow.is_second && self.away + place.amount <= self.capacity;
        if is_second {
            self.send_away(ticket.slot as usize, Stage::Away);
        }
        !is_second
    }

    /// The backend has answered after so long. False if the ticket is in the second depth.
    pub(crate) fn served(&mut self, now: Nanos, ticket: &Ticket, latency: Span) -> bool {
        self.is_settled = false;
        self.latencies.add(latency);
        let Some(place) = self.take(ticket) else { return true };
        let flow = &mut self.flows[place.flow];
        (flow.last_active, flow.last_answer) = (now, now);
        self.is_stale |= flow.cap.is_some() && !flow.pace.is_known();
        flow.pace.answered(latency, ticket.cost, flow.in_service);
        flow.slot_time.answered(latency, ticket.cost);
        flow.in_service -= 1;
        let is_in_depth = place.stage == Stage::InDepth;
        if is_in_depth {
            flow.inside -= place.amount;
            self.in_depth -= place.amount;
        } else {
            flow.away -= place.amount;
            self.away -= place.amount;
        }
        if place.stage == Stage::Hanging {
            flow.hanging -= 1;
            self.is_stale = true;
        }
        if !flow.parked.is_empty() {
            self.to_release.push_back(place.flow);
        }
        self.may_pause(now, place.flow);
        is_in_depth
    }

    /// The next parked ticket that goes on to the scheduler now.
    pub(crate) fn release(&mut self) -> Option<Ticket> {
        while let Some(&index) = self.to_release.front() {
            let flow = &mut self.flows[index];
            if let Some(ticket) = flow.parked.front().copied() {
                let place = &mut self.places[ticket.slot as usize];
                if flow.has_room(place.amount) {
                    flow.parked.pop_front();
                    self.parked -= 1;
                    place.stage = Stage::Queued;
                    flow.parked_amount -= place.amount;
                    flow.inside += place.amount;
                    return Some(ticket);
                }
            }
            self.to_release.pop_front();
        }
        None
    }

    /// Takes out all that is parked, oldest first for each flow, and forgets what the scheduler
    /// has queued.
    pub(crate) fn drain(&mut self) -> Vec<Ticket> {
        let mut all = Vec::new();
        self.parked = 0;
        for flow in &mut self.flows {
            flow.parked_amount = 0;
            all.extend(flow.parked.drain(..));
        }
        for place in &mut self.places {
            if place.stage == Stage::Queued {
                self.flows[place.flow].inside -= place.amount;
            }
            if matches!(place.stage, Stage::Queued | Stage::Parked) {
                *place = Place::default();
            }
        }
        all
    }

    /// What the second depth holds.
    pub(crate) fn second_depth(&self) -> u64 {
        self.away
    }

    /// Whether a ticket has been out for too long.
    pub(crate) fn is_hanging(&self, ticket: &Ticket) -> bool {
        let place = self.places.get(ticket.slot as usize);
        place.is_some_and(|place| place.stage == Stage::Hanging)
    }

    /// Tickets parked here.
    pub(crate) fn parked(&self) -> usize {
        self.parked
    }

    fn take(&mut self, ticket: &Ticket) -> Option<Place> {
        let place = std::mem::take(self.places.get_mut(ticket.slot as usize)?);
        (place.stage != Stage::Unknown).then_some(place)
    }

    fn flow_of(&mut self, now: Nanos, tenant: TenantId, disk: u64) -> usize {
        let of_tenant = &mut self.by_tenant[tenant.index()];
        if let Some(at) = of_tenant.iter().position(|index| self.flows[*index].disk == disk) {
            of_tenant.swap(0, at);
            return of_tenant[0];
        }
        self.is_stale = true;
        let flow = Flow::new(now, tenant, disk);
        let index = self.free.pop().unwrap_or(self.flows.len());
        match self.flows.get_mut(index) {
            Some(free) => *free = flow,
            None => self.flows.push(flow),
        }
        self.by_tenant[tenant.index()].push(index);
        index
    }

    fn forget(&mut self, index: usize) {
        let of_tenant = &mut self.by_tenant[self.flows[index].tenant.index()];
        if let Some(at) = of_tenant.iter().position(|other| *other == index) {
            of_tenant.swap_remove(at);
            self.free.push(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::ticket::{Cost, Kind};

    use super::*;

    /// A small read.
    pub(super) fn ticket(tenant: u32, slot: u32) -> Ticket {
        let (tenant, kind) = (TenantId(tenant), Kind::Read);
        Ticket { tenant, kind, slot, size_bytes: 4096, cost: Cost(1), cost_elsewhere: Cost(0) }
    }
}
