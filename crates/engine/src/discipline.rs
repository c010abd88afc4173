//! From the policy's words to schedulers.
//!
//! The servers of a domain are ordered each by itself, or together: the tiers of a volume, or the
//! drives and the cache of a store, under one dispatcher; the servers of a group whose floors and
//! limits count in all under mClocks that tell each other. An [`Order`] says which, with all that
//! it depends on; when a server's order changes, it needs a new scheduler. What is ordered together
//! has equal orders but for the place in it, so it changes together.

use std::rc::Rc;

use evenkeel_core::control::shared::{self, Enforcement, SharedQueue};
use evenkeel_core::control::summary::HostId;
use evenkeel_core::id::ServerId;
use evenkeel_core::sched::Scheduler;
use evenkeel_core::sched::edf::Edf;
use evenkeel_core::sched::fifo::Fifo;
use evenkeel_core::sched::limit::Limited;
use evenkeel_core::sched::mclock::Mclock;
use evenkeel_core::sched::sfq::{Sfq, SfqOptions};
use evenkeel_core::sched::tiered::{DeviceOptions, TieredLane, TieredOptions, lanes};
use evenkeel_core::share;
use evenkeel_core::ticket::Cost;
use evenkeel_core::time::{Nanos, Span};

use crate::cost::CostModel;
use crate::dmclock::{GroupMclock, SharedTracker};
use crate::policy::{Depth, Discipline, Domain, Mode, Scheduling, Sharing};

/// How the requests of one server are ordered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Order {
    /// By itself.
    Alone {
        /// Which discipline; not one that spans tiers.
        discipline: Discipline,
        /// How much may be with the backend.
        depth: Depth,
        /// The longest hold.
        hold: Span,
    },
    /// As a device of one dispatcher over several.
    Tier {
        /// Its options.
        options: Rc<TieredOptions>,
        /// Which of its devices.
        device: usize,
    },
    /// By what all hosts before the device agree on.
    Shared {
        /// This one.
        host: HostId,
        /// How its tenants share what it has.
        discipline: shared::Discipline,
        /// Its slots until the first decision.
        slots: u32,
    },
    /// By floors and limits that count over several servers.
    InAll {
        /// The depths of those that take part, none for others, by server.
        depths: Rc<[Option<Depth>]>,
        /// Which of the servers.
        server: ServerId,
    },
}

/// The order of every server of a domain.
pub(crate) fn orders(domain: &Domain) -> Vec<Order> {
    let mut orders: Vec<Order> =
        domain.servers.iter().map(|(_, scheduling)| Order::of(domain.host, scheduling)).collect();
    if let Some((discipline, servers)) = domain.ordered_together() {
        let options = Rc::new(tiered_options(domain, discipline, &servers));
        for (device, server) in servers.iter().enumerate() {
            orders[server.index()] = Order::Tier { options: Rc::clone(&options), device };
        }
    }
    if domain.sharing != Sharing::Local && domain.servers.len() > 1 {
        let depths: Rc<[_]> = orders.iter().map(Order::depth_of_mclock).collect();
        for (server, order) in (0..).map(ServerId).zip(&mut orders) {
            if depths[server.index()].is_some() {
                *order = Order::InAll { depths: Rc::clone(&depths), server };
            }
        }
    }
    orders
}

fn tiered_options(domain: &Domain, named: Discipline, servers: &[ServerId]) -> TieredOptions {
    let device = |server: &ServerId| {
        let (_, scheduling) = &domain.servers[server.index()];
        let capacity_cost_per_second = capacity_cost_per_second(scheduling);
        DeviceOptions { depth: scheduling.depth, capacity_cost_per_second }
    };
    let usual = TieredOptions::usual(servers.iter().map(device).collect());
    let discipline = match named {
        Discipline::Fair => share::Discipline::FairQueuing,
        Discipline::Drf => share::Discipline::Drf,
        _ => usual.discipline,
    };
    TieredOptions { discipline, ..usual }
}

/// What a server can do in a second, in the unit of its costs.
fn capacity_cost_per_second(scheduling: &Scheduling) -> u64 {
    match scheduling.cost {
        CostModel::Linear { .. } => Span::from_secs(1).0,
        CostModel::PerRequest => {
            let rate_iops = scheduling.capacity_iops.expect("the policy's check asks for it");
            rate_iops.saturating_mul(Cost::ONE.0)
        }
    }
}

impl Order {
    fn of(host: HostId, scheduling: &Scheduling) -> Self {
        let Scheduling { discipline, depth, hold, .. } = *scheduling;
        if discipline == Discipline::Shared {
            let discipline = scheduling.control.method().unwrap_or_default().discipline();
            return Self::Shared { host, discipline, slots: scheduling.static_depth() };
        }
        Self::Alone { discipline, depth, hold }
    }

    /// Whether it matters to others what passes here, even if nothing is held.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared { .. })
    }

    fn depth_of_mclock(&self) -> Option<Depth> {
        match *self {
            Self::Alone { discipline: Discipline::Mclock, depth, .. } => Some(depth),
            _ => None,
        }
    }
}

/// The scheduler that delays nothing: arrival order, no depth, no limits.
pub(crate) fn open_gate() -> Box<dyn Scheduler> {
    Box::new(Fifo::new(None))
}

/// The scheduler of a server that other gates share, and the same as what the exchange leads. In
/// every mode it measures, since the others have to know; only to enforce does it hold anything.
pub(crate) fn shared_scheduler(
    now: Nanos,
    mode: Mode,
    host: HostId,
    discipline: shared::Discipline,
    slots: u32,
) -> (SharedQueue, Box<dyn Scheduler>) {
    if mode == Mode::Enforce {
        let queue = SharedQueue::new(now, host, discipline, slots, Enforcement::Yes);
        (queue.clone(), with_limits(queue, discipline))
    } else {
        let queue = SharedQueue::new(now, host, discipline, slots, Enforcement::No);
        (queue.clone(), Box::new(queue))
    }
}

/// Limits that count at this gate, above a queue that knows none over all gates.
fn with_limits(queue: SharedQueue, discipline: shared::Discipline) -> Box<dyn Scheduler> {
    match discipline {
        shared::Discipline::Order => Box::new(Limited::new(queue)),
        shared::Discipline::Weight => Box::new(queue),
    }
}

/// Makes the schedulers of a domain, each once; those of servers that are ordered together belong
/// together if the same maker made them.
#[derive(Default)]
pub(crate) struct Maker {
    tiers: Vec<Option<TieredLane>>,
    dispatcher: Option<TieredLane>,
    tracker: Option<SharedTracker>,
}

impl Maker {
    /// The dispatcher over several devices that this order belongs to.
    pub(crate) fn dispatcher(&self, order: &Order) -> Option<TieredLane> {
        self.dispatcher.clone().filter(|_| matches!(order, Order::Tier { .. }))
    }

    /// The scheduler that enforces this order at a server with this policy. It knows no tenant yet.
    pub(crate) fn scheduler(
        &mut self,
        order: &Order,
        scheduling: &Scheduling,
    ) -> Box<dyn Scheduler> {
        match order {
            Order::Alone { .. } | Order::Shared { .. } => scheduler_for(scheduling),
            Order::Tier { options, device } => {
                if self.tiers.is_empty() {
                    let lanes = lanes(options);
                    self.dispatcher = lanes.first().cloned();
                    self.tiers = lanes.into_iter().map(Some).collect();
                }
                Box::new(self.tiers[*device].take().expect("a device has one server"))
            }
            Order::InAll { depths, server } => {
                let tracker = self.tracker.get_or_insert_with(|| SharedTracker::new(depths.len()));
                Box::new(GroupMclock::new(scheduling.depth, *server, tracker))
            }
        }
    }
}

/// The scheduler that enforces the policy of a backend that is ordered by itself: its discipline
/// below, the tenants' limits above, unless the discipline keeps them. It knows no tenant yet.
pub fn scheduler_for(scheduling: &Scheduling) -> Box<dyn Scheduler> {
    match scheduling.discipline {
        // It counts units only: a depth in bytes or one that moves is refused by `Policy::check`.
        Discipline::Fifo => Box::new(Limited::new(Fifo::new(Some(scheduling.static_depth())))),
        // Disciplines over the tiers of a volume are not a matter of one server.
        Discipline::Sfq | Discipline::Fair | Discipline::Drf | Discipline::Baa => {
            let Scheduling { depth, hold, .. } = *scheduling;
            Box::new(Limited::new(Sfq::new(SfqOptions { depth, hold })))
        }
        // Without the others a gate is alone before the device, and has its first slots.
        Discipline::Shared => {
            let (slots, enforcement) = (scheduling.static_depth(), Enforcement::Yes);
            let discipline = scheduling.control.method().unwrap_or_default().discipline();
            let host = HostId::default();
            let queue = SharedQueue::new(Nanos::ZERO, host, discipline, slots, enforcement);
            with_limits(queue, discipline)
        }
        Discipline::Mclock => Box::new(Mclock::new(scheduling.depth)),
        Discipline::Edf => Box::new(Limited::new(Edf::new(scheduling.depth))),
    }
}
