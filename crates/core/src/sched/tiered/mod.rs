//! Several devices, one share: the dispatcher of tiered storage.
//!
//! Source: Wang and Varman, "Balancing Fairness and Efficiency in Tiered Storage Systems with
//! Bottleneck-Aware Allocation", FAST 2014, sections 4 and 5.
//!
//! Behind one tenant's disk may stand a slow and a fast device, and its hit ratio decides how much
//! of which its requests take. A fair queue before each device gives everybody an equal part of
//! both, which suits nobody: who is bound by the slow one leaves its part of the fast one idle. So
//! one dispatcher looks after all devices, by weights that an allocator ([`crate::share`]) derives
//! from what everybody needs of each:
//!
//! ```text
//!            window, limit             one virtual time per tenant          depth per device
//! tenant 0 --[ front queue ]--+--> slow [ 0 0 0 ]  least v first  ------->  slow device
//!                             |\-> fast [ 0     ]
//! tenant 1 --[ front queue ]--+--> slow [ 1     ]
//!                              \-> fast [ 1 1 1 ]  least v first  ------->  fast device
//!                ^                        ^
//!     hit ratios are counted here         weights v += 1/weight: rates of the last solve
//! ```
//!
//! Capacities 100 and 5000 requests per second, hit ratios 0.5 and 0.99: with equal weights tenant
//! 1 is held to the 196 requests that tenant 0 gets, and the fast device is 6 % busy. With the
//! weights 100 to 5000 of the bottleneck-aware allocation tenant 0 gets just as much of the slow
//! device as tenant 1, and both devices are busy all the time.
//!
//! The parts in order:
//!
//! - `front`, windows and limits; `ledger`, virtual times;
//! - `estimate`, hit ratios over windows sized by rare events; `change`, when to cut them;
//! - `offer`, who asks for how much; `solve`, all that as a problem, and its solution as weights;
//! - `machine`, the dispatcher itself.
//!
//! # Lanes
//!
//! A driver has one [`Scheduler`] per device. [`lanes`] makes as many views of one dispatcher. **An
//! input to one lane may make any lane ready**: a completion opens the window for requests to other
//! devices. So after every `enqueue`, `complete`, `withdraw` and `configure` the driver polls all
//! lanes of the domain; a poll without result is O(1). Every tenant must be configured on one lane
//! at least; configuring it on all does no harm. Slots of tickets need to be unique by lane only.
//!
//! # Choices
//!
//! - **Window**: 128 requests. In the example above, with hit ratios known and clients that keep
//!   1024 requests outstanding, a window of 64 leaves 1 % of both devices idle, when all of it
//!   waits for one of them; 128 leaves 0.4 %, and 256 no less. With estimated ratios the fast
//!   device is 98 % busy. The smaller the window, the sooner a tenant's progress is one on all
//!   devices.
//! - **Epoch**: 1 s. A tenant that comes, a share that changes and a change of a hit ratio do not
//!   wait for its end.
//! - There is no back-fill under a depth in bytes: a head that does not fit waits for room, and an
//!   empty device takes anything.
//!
//! **Cost.** O(log tenants) heap operations per device and call; once per epoch O(tenants x log
//! tenants) for the solve, which is all that allocates.

mod change;
mod estimate;
mod front;
mod ledger;
mod machine;
mod offer;
mod solve;

use std::cell::RefCell;
use std::rc::Rc;

use super::depth::DepthPolicy;
use super::{Next, Scheduler, Share};
use crate::id::TenantId;
use crate::share::{BottleneckAware, DeviceId, Discipline};
use crate::ticket::Ticket;
use crate::time::{Nanos, Span};

pub use machine::Tiered;
pub use solve::{Counters, Status};

/// How a dispatcher over several devices runs.
#[derive(Clone, Debug, PartialEq)]
pub struct TieredOptions {
    /// The devices, slow ones first by custom: 1 to [`DEVICES_MAX`](crate::share::DEVICES_MAX).
    pub devices: Vec<DeviceOptions>,
    /// What weights are derived by.
    pub discipline: Discipline,
    /// Requests of a tenant that may be queued at devices and in service together, at least 1.
    pub window: u32,
    /// Time between two solves.
    pub epoch: Span,
}

/// One device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceOptions {
    /// What may be with it at once.
    pub depth: DepthPolicy,
    /// Cost that it serves per second: a second of device time (10^9) if tickets cost device time;
    /// its rate times [`Cost::ONE`](crate::ticket::Cost::ONE) if every request costs the same. At
    /// least 1.
    pub capacity_cost_per_second: u64,
}

impl TieredOptions {
    /// The usual options for these devices: bottleneck-aware, window 128, epoch 1 s.
    pub fn usual(devices: Vec<DeviceOptions>) -> Self {
        Self {
            devices,
            discipline: Discipline::BottleneckAware(BottleneckAware::default()),
            window: 128,
            epoch: Span::from_secs(1),
        }
    }
}

/// The view that one device has of a dispatcher. See [`lanes`].
#[derive(Clone, Debug)]
pub struct TieredLane {
    machine: Rc<RefCell<Tiered>>,
    device: DeviceId,
}

/// A dispatcher, as one scheduler per device in the order of the options.
pub fn lanes(options: &TieredOptions) -> Vec<TieredLane> {
    let machine = Rc::new(RefCell::new(Tiered::new(options)));
    let lane = |device| TieredLane { machine: Rc::clone(&machine), device };
    (0..=u8::MAX).map(DeviceId).take(options.devices.len()).map(lane).collect()
}

impl TieredLane {
    /// The last solve of the dispatcher; none before the first. O(tenants).
    pub fn status(&self) -> Option<Status> {
        self.machine.borrow().status()
    }

    /// What happened to the dispatcher how often.
    pub fn counters(&self) -> Counters {
        self.machine.borrow().counters()
    }
}

impl Scheduler for TieredLane {
    fn enqueue(&mut self, now: Nanos, ticket: Ticket) {
        self.machine.borrow_mut().enqueue(now, self.device, ticket);
    }

    fn complete(&mut self, now: Nanos, ticket: Ticket) {
        self.machine.borrow_mut().complete(now, self.device, ticket);
    }

    fn leave(&mut self, now: Nanos, ticket: Ticket) {
        self.machine.borrow_mut().leave(now, self.device, ticket);
    }

    fn poll(&mut self, now: Nanos) -> Next {
        self.machine.borrow_mut().poll(now, self.device)
    }

    /// Holds for all lanes.
    fn configure(&mut self, now: Nanos, tenant: TenantId, share: Share) {
        self.machine.borrow_mut().configure(now, tenant, share);
    }

    fn withdraw(&mut self, now: Nanos, ticket: Ticket) -> bool {
        self.machine.borrow_mut().withdraw(now, self.device, ticket)
    }

    /// Takes back what waits for this device; what waits for others stays.
    fn drain(&mut self) -> Vec<Ticket> {
        self.machine.borrow_mut().drain(self.device)
    }

    /// Tickets that wait for this device.
    fn queued(&self) -> usize {
        self.machine.borrow().queued(self.device)
    }

    /// Of the tickets for this device.
    fn throttled(&self, now: Nanos, tenant: TenantId) -> Span {
        self.machine.borrow().throttled(now, tenant, self.device)
    }

    fn depth_now(&self) -> u64 {
        self.machine.borrow().depth_now(self.device)
    }

    fn is_full(&self) -> bool {
        self.machine.borrow().is_full(self.device)
    }

    fn depth_found(&self) -> Option<u32> {
        self.machine.borrow().depth_found(self.device)
    }
}
