//! The tenants of a host, each with what was promised to it and what is counted of it.

use super::host::Sent;
use super::monitor::Monitor;
use super::name::TenantNumber;
use super::summary::{HostId, Summary, fold};
use crate::id::TenantId;
use crate::sched::{Floor, Share};
use crate::ticket::Cost;
use crate::time::{Nanos, Span};

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Tenants(Vec<Tenant>);

#[derive(Clone, Debug)]
struct Tenant {
    number: TenantNumber,
    share: Share,
    monitor: Monitor,
}

impl Tenants {
    /// Adds the next tenant, or changes one that is known.
    pub(super) fn configure(&mut self, tenant: TenantId, share: Share) {
        assert!(tenant.index() <= self.0.len(), "tenants come in the order of their numbers");
        if let Some(known) = self.0.get_mut(tenant.index()) {
            known.share = share;
        } else {
            let (number, monitor) = (TenantNumber(tenant.0.saturating_add(1)), Monitor::default());
            self.0.push(Tenant { number, share, monitor });
        }
    }

    /// Says what all hosts call a tenant; until then it is one more than its number here.
    pub(super) fn set_number(&mut self, tenant: TenantId, number: TenantNumber) {
        self.0[tenant.index()].number = number;
    }

    /// The counters of one.
    pub(super) fn monitor(&mut self, tenant: TenantId) -> &mut Monitor {
        &mut self.0[tenant.index()].monitor
    }

    /// The device finished a request of this cost and size.
    pub(super) fn completed(&mut self, now: Nanos, sent: &Sent, what: (Cost, u64)) {
        let tenant = &mut self.0[sent.waiting.tenant.index()];
        tenant.monitor.completed(now, sent, what, tenant.share.target().as_ref());
    }

    /// All of them, and what all hosts call each.
    pub(super) fn all(&self) -> impl Iterator<Item = (TenantId, TenantNumber, Share)> {
        let tenants = (0..).map(TenantId).zip(&self.0);
        tenants.map(|(id, tenant)| (id, tenant.number, tenant.share))
    }

    /// What all hosts call a tenant.
    pub(super) fn number(&self, tenant: TenantId) -> TenantNumber {
        self.0[tenant.index()].number
    }

    /// Ends a period of which `period` is the length. Tells of the tenants of which there is
    /// anything to tell.
    pub(super) fn summarise(
        &mut self,
        now: Nanos,
        host: HostId,
        number: u64,
        period: Span,
    ) -> Summary {
        let told = self.0.iter_mut().filter(|tenant| !tenant.monitor.is_silent());
        let flows = told.map(|tenant| {
            let mut flow = tenant.monitor.close(now, period);
            flow.tenant = tenant.number;
            flow.weight_milli = tenant.share.weight_milli.max(1);
            flow.target = tenant.share.target();
            flow.floor = tenant.floor();
            flow
        });
        let flows = fold(flows.collect());
        Summary { host, period: number, flows, ..Summary::default() }
    }
}

impl Tenant {
    /// What its floor comes to in cost per second, as its requests are.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    fn floor(&self) -> Cost {
        let Floor { rate_iops, rate_bytes } = self.share.floor;
        let costs = self.monitor.cost_of(rate_iops, rate_bytes);
        Cost(costs.map_or(0.0, |[requests, bytes]| requests.max(bytes)) as u64)
    }
}
