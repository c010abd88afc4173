//! Once a second: connections that are too slow with memory that others wait for, memory
//! that idle connections do not need, and devices that nobody uses. More often, while there is a
//! recording: what is recorded of quiet domains.

use std::rc::Rc;
use std::time::Duration;

use evenkeel_core::time::Span;

use super::{Worker, age};
use crate::client::Client;
use crate::memory::Wanted;
use crate::plan::Plan;

const PERIOD: Duration = Duration::from_secs(1);

/// How often what is recorded of quiet domains is handed over.
const RECORDED_PERIOD: Duration = Duration::from_millis(250);

/// How long a device stays open with nobody there.
const DEVICE_KEPT: Span = Span::from_secs(60);

pub(super) async fn sweep(worker: Rc<Worker>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let domains: Vec<_> = worker.domains.borrow().values().cloned().collect();
        let plan = worker.plan();
        let wanted = worker.shared.memory.wanted();
        for domain in domains {
            let clients = domain.clients.borrow().clone();
            for client in &clients {
                look_at(&worker, client, &wanted, &plan);
            }
            domain.forget_unused(DEVICE_KEPT, &plan);
        }
    }
}

/// Hands over what is recorded: a gate that is killed loses what it has not.
pub(super) async fn sweep_recording(worker: Rc<Worker>) {
    loop {
        let domains: Vec<_> = worker.domains.borrow().values().cloned().collect();
        let is_recorded = domains.iter().any(|domain| domain.is_recorded());
        tokio::time::sleep(if is_recorded { RECORDED_PERIOD } else { PERIOD }).await;
        for domain in domains {
            domain.flush_recording();
        }
    }
}

fn look_at(worker: &Worker, client: &Rc<Client>, wanted: &Wanted, plan: &Plan) {
    if client.is_too_slow(wanted, plan.policy.memory.min_rate_bytes) {
        worker.shared.memory.count_cut();
        tracing::warn!(
            export = client.export.name,
            tenant = plan.tenant_name(client.tenant.get()),
            peer = ?client.peer.address,
            "connection cut: it moved less than `min_rate` ([memory] of the policy) while others \
             waited for memory that it held",
        );
        client.cut();
    } else if age(worker, client.moved_at()) > Span::ZERO {
        client.shrink_if_idle();
    }
}
