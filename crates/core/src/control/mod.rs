//! Response times across hosts that share a device: each host decides how much it may have there.
//!
//! No central scheduler and no help of the device. Each period every host sums up what it saw (a
//! [`summary::Summary`]), all get each other's, and each decides alone how many requests it may
//! have at the device at once: its slots. Equal summaries give equal decisions, so that nobody has
//! to be asked.
//!
//! ```text
//!  host 0   requests -> [order] --slots--+
//!             ^ monitor                  |        device
//!             +-- summary --> step --> slots      L(N) = a + bN
//!  host 1   requests -> [order] --slots--+
//! ```
//!
//! | file | what | source |
//! |---|---|---|
//! | [`window`] | request windows, RW(D) | Jin, Chase and Kaur, SIGMETRICS 2004 |
//! | [`parda`] | a window for each host by its own latency | PARDA, FAST 2009 |
//! | [`drg`] | slots by need: as published, and repaired | Liu, Xu and Yang, 2011 |
//! | [`shares`] | the device divided by share over all hosts | this project |
//! | [`slack`] | a learned device, the strictest targets first | this project |
//!
//! [`target`] says what is promised, [`host`] and [`monitor`] what is measured, [`peers`] whose
//! word counts, [`latency`] what the device is believed to do, [`array_cost`] what requests take
//! of it, [`order`] who goes next inside a host, and [`watch`] whose target cannot be met.
//! [`shared`] is a host as a scheduler, [`member`] what decides for it, and [`name`] what hosts
//! call each other. [`common_time`] says which period it is, [`challenge`] who speaks now,
//! [`pace`] when words go out, and [`loss`] how many never came. [`service`] is for gates with
//! servers of their own, whose shares count together all the same.

pub mod agreement;
pub mod array_cost;
pub mod challenge;
pub mod common_time;
pub mod drg;
mod fair_host;
mod fair_queue;
pub mod host;
pub mod latency;
mod lives;
pub mod loss;
pub mod member;
pub mod monitor;
pub mod name;
pub mod order;
pub mod pace;
pub mod parda;
mod parts;
pub mod peers;
pub mod promise;
pub mod service;
pub mod shared;
pub mod shares;
pub mod slack;
pub mod slots;
pub mod summary;
pub mod sums;
pub mod target;
mod tenants;
pub mod watch;
pub mod window;

use crate::ticket::Cost;
use crate::time::{Nanos, Span};
use name::TenantNumber;
use order::Order;
use peers::Known;
use summary::{FlowId, FlowSummary, HostId};

/// Decides a host's slots once each period. See the [module](self).
pub trait Controller {
    /// Time between two steps, the same at every host.
    fn period(&self) -> Span;

    /// Decides what holds until the next step.
    fn step(&mut self, view: &View<'_>) -> Decision;
}

impl<C: Controller + ?Sized> Controller for Box<C> {
    fn period(&self) -> Span {
        (**self).period()
    }

    fn step(&mut self, view: &View<'_>) -> Decision {
        (**self).step(view)
    }
}

/// What a host knows when it decides.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The host that decides.
    pub own: HostId,
    /// When.
    pub now: Nanos,
    /// The summaries in use, one per host and by host, its own among them.
    pub known: &'a [Known],
    /// Who was heard within the last minute and is heard no more: they may use the device still.
    pub lost: &'a [HostId],
    /// Where sums are heard: how many hosts fewer are in them than within the last minute.
    pub missing: u32,
}

impl View<'_> {
    /// How many hosts are known, at least one.
    pub fn hosts(&self) -> u32 {
        let hosts = self.known.iter().map(|known| known.summary.hosts());
        hosts.fold(0, u32::saturating_add).max(1)
    }

    /// Whether other hosts are heard by their sums ([`sums`]).
    pub fn hears_sums(&self) -> bool {
        self.known.iter().any(|known| known.summary.sum.is_some())
    }

    /// Every tenant at every host, by flow.
    pub fn flows(&self) -> impl Iterator<Item = (FlowId, &FlowSummary)> {
        self.known.iter().flat_map(|Known { summary, .. }| {
            summary.flows.iter().map(|flow| {
                let id = FlowId { host: summary.host, tenant: flow.tenant };
                (id, flow)
            })
        })
    }
}

/// What a host does until the next step.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Requests that it may have at the device at once, at least 1. Those beyond are never called
    /// back; the host waits until enough are done.
    pub slots: u32,
    /// Which of the requests that wait goes next.
    pub order: Order,
    /// Requests that all hosts together are meant to have at the device; zero if nobody knows.
    pub slots_all: u32,
    /// Targets that cannot be met, of any host, by flow.
    pub unmet: Vec<FlowId>,
    /// How tenants share the slots, where they do by weight; the order is no matter then.
    pub division: Option<Division>,
}

/// What a host gives its tenants until the next step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Division {
    /// Its slots, in thousandths ([`slots`]).
    pub slots_milli: u64,
    /// What each tenant is due here, by tenant.
    pub due: Vec<Due>,
    /// What any other is due, as a weight for each thousandth of its share.
    pub weight_per_milli: u32,
    /// The part of its limit that any other has here, in millionths; zero is taken for all.
    pub limit_ppm: u32,
    /// What this host would have all hosts have at the device together; zero if it does not know.
    pub depth_next: u32,
    /// Tenants that have less than their floor over all hosts, though they ask for it, in order.
    pub below_floor: Vec<TenantNumber>,
}

/// What a tenant is due at a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Whom.
    pub tenant: TenantNumber,
    /// Its part of what the host does, as a weight.
    pub weight: u32,
    /// What it may have ahead of that, for the sake of its target.
    pub lead: Cost,
    /// The part of its limit that it has here, in millionths.
    pub limit_ppm: u32,
}

/// All of a limit.
const WHOLE_PPM: u32 = 1_000_000;

impl Division {
    /// What a tenant with this share, in thousandths, is due at this host.
    fn due(&self, tenant: TenantNumber, share_milli: u32) -> Due {
        let found = self.due.binary_search_by_key(&tenant, |due| due.tenant);
        let due = found.map_or_else(
            |_| {
                let weight = share_milli.saturating_mul(self.weight_per_milli.max(1));
                let limit_ppm = if self.limit_ppm == 0 { WHOLE_PPM } else { self.limit_ppm };
                Due { tenant, weight, limit_ppm, ..Due::default() }
            },
            |index| self.due[index],
        );
        Due { weight: due.weight.clamp(1, WEIGHT_MAX), ..due }
    }
}

/// The greatest weight of a tenant.
const WEIGHT_MAX: u32 = 1_000_000_000;

/// A number of slots from a quantity: rounded to the nearest, and at least 1.
pub(crate) fn whole_slots(quantity: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
    let whole = quantity.round().clamp(1.0, f64::from(u32::MAX)) as u32;
    whole
}
