//! The exchange with other gates: each period every gate tells the others what it did at the
//! devices that they share, and decides how much it may have there. Where shares count over several
//! gates (`group`), it tells what it served, and lets its workers know what others did.
//!
//! ```text
//!   UDP,       +------------- thread of the exchange -------------+
//!   NATS <---> | key -> wire::exchange -> core::control::member   |
//!              +---|-----------------------------------------^----+
//!     close period |  decide          (messages)             | own summary
//!              +---v-----------------------------------------|----+
//!              | worker: domain -> engine -> slots and order       |
//!              +---------------------------------------------------+
//! ```
//!
//! Requests never wait for it: workers take two short messages a period, and until the next
//! decision the last one holds. What is lost, late or forged costs a period at most
//! ([`evenkeel_core::control::peers`] says whose word counts for how long).
//!
//! **Time.** Periods are counted since 1970 by a clock that the gates have in common
//! ([`evenkeel_core::control::common_time`]), whatever the machine's own says. A decision is made a
//! quarter of a period after its end, when the others' words of it are there. A gate that begins to
//! count otherwise, as the others do, is a new incarnation.
//!
//! **Doubts.** Whoever speaks of another time, or in a life before, is asked to prove that it
//! speaks now ([`evenkeel_core::control::challenge`]), lest old words count.

mod agreement;
mod departures;
mod group;
mod incarnation;
mod key;
mod list;
#[cfg(feature = "nats")]
mod nats;
mod peer;
mod periods;
mod recorder;
mod report;
mod seat;
mod sums;
mod task;
mod time;
mod together;
mod transport;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use evenkeel_core::control::array_cost::{ArrayCost, WRITTEN};
use evenkeel_core::control::name::DeviceId;
use evenkeel_core::control::summary::Summary;
use evenkeel_core::id::TenantId;
use evenkeel_core::sched::Share;
use evenkeel_core::ticket::Cost;
use evenkeel_core::time::Span;
use evenkeel_engine::cost::CostModel;
use evenkeel_engine::cost::measured::Measured;
use evenkeel_engine::policy::{self, Joint, Meeting};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

pub use report::{
    DeviceReport, ElsewhereReport, ExchangeReport, GroupReport, HostReport, PeerReport,
    RefusedReport, Room, ServerReport, SumsReport, TenantReport,
};

use crate::gate::GateError;
use crate::plan::{Plan, PlannedDomain};
use crate::state::State;
use crate::worker::message::Message;
pub(crate) use key::Key;
use task::Order;
use transport::Opening;

/// The exchange of a policy, ready for use.
#[derive(Clone, Debug)]
pub(crate) struct PlannedExchange {
    pub(crate) settings: policy::Exchange,
    pub(crate) key: Arc<Key>,
    pub(crate) places: Vec<Place>,
    pub(crate) groups: Vec<(DeviceId, GroupPlace)>,
}

/// A worker's answer to the end of a period.
#[derive(Debug)]
pub(crate) enum Told {
    /// What happened at a shared device.
    Summary { backend: String, summary: Summary },
    /// A shared device is divided with others from now on: with what this gate begins, and what it
    /// has measured alone.
    Joined { backend: String, joint: Joint, measured: Option<Measured> },
    /// What was ever served of each tenant of a group.
    Served { group: DeviceId, period: u64, served: Vec<(TenantId, Cost)> },
}

/// Where a group is served whose shares count over other gates.
#[derive(Clone, Debug)]
pub(crate) struct GroupPlace {
    pub(crate) name: String,
    pub(crate) domain: String,
    pub(crate) worker: usize,
    pub(crate) period: Span,
    /// Names of tenants by number, and what the policy says of them.
    pub(crate) tenants: Vec<(String, Share)>,
}

/// Where a shared device is served.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) backend: String,
    /// What all gates call the device.
    pub(crate) array: String,
    pub(crate) domain: String,
    pub(crate) worker: usize,
    pub(crate) server: evenkeel_core::id::ServerId,
    pub(crate) rules: evenkeel_core::control::member::Rules,
    /// Names of tenants, and what the policy says of them.
    pub(crate) tenants: Vec<(String, Share)>,
    /// It is divided with others only once they are heard.
    pub(crate) is_automatic: bool,
    /// What the policy says that requests cost.
    pub(crate) written: Option<ArrayCost>,
}

/// What the policy says that requests cost, if it does not leave that to the gate.
fn written_array_cost(scheduling: &policy::Scheduling) -> Option<ArrayCost> {
    (!scheduling.is_cost_learned).then(|| scheduling.cost.for_other_gates(WRITTEN))
}

impl PlannedExchange {
    /// Reads the key and finds the shared backends; none if the policy has no exchange.
    pub(crate) fn new(
        policy: &policy::Policy,
        domains: &[PlannedDomain],
    ) -> Result<Option<Self>, GateError> {
        let Some(settings) = policy.exchange.clone() else { return Ok(None) };
        let key = Key::read(&settings.key).map_err(|error| GateError {
            what: format!("the key of exchange {:?}", settings.name),
            why: error.to_string(),
        })?;
        let place = |backend: &policy::Backend| {
            let domain = domains.iter().find(|domain| domain.has(&backend.name))?;
            Some(Place {
                backend: backend.name.clone(),
                array: backend.array().to_owned(),
                domain: domain.name.clone(),
                worker: domain.worker,
                server: domain.server(&backend.name)?,
                rules: settings.rules(&backend.scheduling)?,
                tenants: domain.domain.tenants.clone(),
                is_automatic: !backend.scheduling.is_shared(),
                written: written_array_cost(&backend.scheduling),
            })
        };
        let group = |(group, cost): (&policy::Group, CostModel)| {
            let domain = domains.iter().find(|domain| domain.name == group.name)?;
            let place = GroupPlace {
                name: group.name.clone(),
                domain: domain.name.clone(),
                worker: domain.worker,
                period: settings.period,
                tenants: domain.domain.tenants.clone(),
            };
            Some((settings.group(group, cost), place))
        };
        let places = policy.exchanged_backends().filter_map(|(_, backend)| place(backend));
        let places = places.collect();
        let groups = policy.exchanged_groups().filter_map(group).collect();
        Ok(Some(Self { settings, key: Arc::new(key), places, groups }))
    }

    /// Refuses what cannot change while others know this gate by it.
    fn keeps_name(&self, after: &Self) -> Result<(), GateError> {
        let (before, after) = (&self.settings, &after.settings);
        let meets_alike = match (&before.meeting, &after.meeting) {
            (Meeting::Listed { .. }, Meeting::Listed { .. }) => {
                before.meeting.listen() == after.meeting.listen()
            }
            (before, after) => before == after,
        };
        if (&before.name, &before.own) == (&after.name, &after.own) && meets_alike {
            return Ok(());
        }
        Err(GateError {
            what: format!("exchange {:?}", before.name),
            why: "its name, `own`, `listen`, `nats` and `etcd` cannot change while the gate runs; \
                  restart the gate"
                .to_owned(),
        })
    }
}

/// The running exchange. Dropping it ends its thread.
#[derive(Debug)]
pub(crate) struct Exchange {
    orders: Option<UnboundedSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

/// What a change of the policy does to the exchange, prepared so far that it cannot fail.
#[derive(Debug)]
pub(crate) enum Change {
    /// There is none before and after, or none any more.
    End,
    /// It goes on with other settings.
    Apply,
    /// It begins, with this to carry its words.
    Start(Opening),
}

impl Change {
    /// What is to be done to come from one plan to the other.
    pub(crate) fn between(before: Option<&Plan>, after: &Plan) -> Result<Self, GateError> {
        let before = before.and_then(|plan| plan.exchange.as_ref());
        match (before, &after.exchange) {
            (_, None) => Ok(Self::End),
            (Some(before), Some(after)) => before.keeps_name(after).map(|()| Self::Apply),
            (None, Some(after)) => Opening::prepare(&after.settings).map(Self::Start),
        }
    }
}

impl Exchange {
    /// Carries out a change; `running` is what runs now. Its state has the
    /// incarnation number.
    pub(crate) fn change(
        running: Option<Self>,
        change: Change,
        plan: &Plan,
        state: &State,
        workers: &[UnboundedSender<Message>],
    ) -> Result<Option<Self>, GateError> {
        let planned = plan.exchange.clone();
        match (change, planned, running) {
            (Change::Apply, Some(planned), Some(running)) => {
                running.order(Order::Apply(Box::new(planned)));
                Ok(Some(running))
            }
            (Change::Start(opening), Some(planned), _) => {
                let folder = state.own_folder().map(Path::to_owned);
                Self::start(planned, folder, opening, workers.to_vec()).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn start(
        planned: PlannedExchange,
        state: Option<PathBuf>,
        opening: Opening,
        workers: Vec<UnboundedSender<Message>>,
    ) -> Result<Self, GateError> {
        let failed = |error: std::io::Error| GateError {
            what: "the thread of the exchange".to_owned(),
            why: error.to_string(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()
            .map_err(failed)?;
        let (orders, received) = unbounded_channel();
        let thread = std::thread::Builder::new()
            .name("exchange".to_owned())
            .spawn(move || {
                let tasks = tokio::task::LocalSet::new();
                tasks.block_on(&runtime, task::live(planned, state, opening, workers, received));
            })
            .map_err(failed)?;
        Ok(Self { orders: Some(orders), thread: Some(thread) })
    }

    /// Asks for the books; none comes if the exchange has ended.
    pub(crate) fn report(&self) -> oneshot::Receiver<ExchangeReport> {
        let (reply, report) = oneshot::channel();
        self.order(Order::Report(reply));
        report
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // A thread that has ended gets no orders.
            let _ = orders.send(order);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.orders.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
