//! Once a second: connections that hold memory and do not move while others wait for it, memory
//! that idle connections do not need, devices that nobody uses, and what is recorded of quiet
//! domains.

use std::rc::Rc;
use std::time::Duration;

use evenkeel_core::time::Span;

use super::{Worker, age};
use crate::client::{Client, Standing};

const PERIOD: Duration = Duration::from_secs(1);

/// How long a connection may hold payload without moving a byte while others wait for memory.
const STALL_MAX: Span = Span::from_secs(30);

/// How long a device stays open with nobody there.
const DEVICE_KEPT: Span = Span::from_secs(60);

pub(super) async fn sweep(worker: Rc<Worker>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let domains: Vec<_> = worker.domains.borrow().values().cloned().collect();
        let plan = worker.plan();
        for domain in domains {
            let clients = domain.clients.borrow().clone();
            for client in &clients {
                look_at(&worker, client);
            }
            domain.forget_unused(DEVICE_KEPT, &plan);
            domain.flush_recording();
        }
    }
}

fn look_at(worker: &Worker, client: &Rc<Client>) {
    let still = age(worker, client.moved_at());
    if still > STALL_MAX && worker.budget.is_contended() && client.is_stalling() {
        tracing::warn!(export = client.export.name, "dropped: it holds memory and does not move");
        client.standing.set(Standing::Lost);
        client.wake();
    } else if still.0 > 0 {
        client.shrink_if_idle();
    }
}
