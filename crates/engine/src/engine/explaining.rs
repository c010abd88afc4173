//! Notes what becomes of tenants, and says why they get no more.

use evenkeel_core::id::TenantId;
use evenkeel_core::time::{Nanos, Span};

use super::Engine;
use crate::explain::recent::{Recent, Tenant};
use crate::explain::{Scene, explain};
use crate::policy::Discipline;
use crate::report::{ServerReport, TenantReport};

impl Engine {
    /// Notes the totals of all tenants if it is time. O(tenants * servers) every few seconds.
    pub(super) fn note_totals(&mut self, now: Nanos) {
        if !self.history.is_due(now) {
            return;
        }
        let mut history = std::mem::take(&mut self.history);
        let busy = self.lanes.iter().fold(Span::ZERO, |sum, lane| sum + lane.busy(now));
        let tenants = (0..self.accounts.len()).map(tenant_id);
        history.note(now, busy, tenants.map(|tenant| self.current(now, tenant)), &self.pairs);
        self.history = history;
    }

    fn current(&self, now: Nanos, tenant: TenantId) -> Tenant {
        let account = &self.accounts[tenant.index()];
        let mut totals = account.totals(now);
        for lane in &self.lanes {
            totals.throttled += lane.throttled(now, tenant);
            totals.for_slots += lane.waited_for_slots(now, tenant);
        }
        let (windows, present) = (self.shares.sums(tenant), account.in_flight.present());
        Tenant { totals, windows, present }
    }

    /// Says of each tenant how it stands, and why.
    pub(super) fn explain(
        &self,
        now: Nanos,
        servers: &[ServerReport],
        tenants: &mut [TenantReport],
    ) {
        let ids = (0..self.accounts.len()).map(tenant_id);
        let recent =
            |tenant| self.history.recent(now, tenant, &self.current(now, tenant), &self.pairs);
        let recent: Vec<Recent> = ids.map(recent).collect();
        let is_shared = |server: &(String, crate::policy::Scheduling)| {
            server.1.discipline == Discipline::Shared
        };
        let scene = Scene {
            mode: self.domain.mode,
            tenants: &self.domain.tenants,
            recent: &recent,
            servers,
            scheduling: &self.domain.servers,
            is_by_weight: self.domain.ordered_together().is_none()
                && !self.domain.servers.iter().any(is_shared),
        };
        for (tenant, report) in (0..).map(TenantId).zip(tenants) {
            report.finding = explain(&scene, tenant);
        }
    }
}

fn tenant_id(index: usize) -> TenantId {
    TenantId(u32::try_from(index).expect("tenants are u32"))
}
