//! Claims on total-service shares: Wang and Merchant, "Proportional-Share Scheduling for
//! Distributed Storage Systems", FAST 2007.

use std::collections::VecDeque;

use evenkeel_core::id::ServerId;
use evenkeel_core::sched::Scheduler;
use evenkeel_core::sched::dsfq::{Coordinator, Form};
use evenkeel_core::sched::sfq::Sfq;
use evenkeel_core::ticket::Ticket;
use evenkeel_core::time::Nanos;

use crate::support::{dispatch_all, sfq, ticket};

const COST: u64 = 1_000_000;
const ROUNDS: u32 = 20_000;

/// Two servers that each finish one request per round, and tenants that keep 16 requests
/// outstanding on each of their servers. Gives service by tenant and server over the second half of
/// a run; in the first, a tenant's waiting requests learn what it gets elsewhere.
fn run(form: Form, weights: &[u32], uses: &[[bool; 2]]) -> Vec<[f64; 2]> {
    let mut coordinator = Coordinator::new(2, form);
    let mut servers: [Sfq; 2] = std::array::from_fn(|_| sfq(1, weights));
    let mut in_service: [VecDeque<Ticket>; 2] = Default::default();
    let mut send = |servers: &mut [Sfq; 2], server: usize, mut ticket: Ticket| {
        coordinator.configure(ticket.tenant);
        coordinator.stamp(ServerId(u32::try_from(server).unwrap()), &mut ticket);
        servers[server].enqueue(Nanos(0), ticket);
    };
    for slot in 0..16 {
        for (tenant, used) in uses.iter().enumerate() {
            for server in (0..2).filter(|&server| used[server]) {
                send(&mut servers, server, ticket(tenant, slot, COST));
            }
        }
    }
    let mut served = vec![[0.0; 2]; uses.len()];
    for round in 0..2 * ROUNDS {
        if round == ROUNDS {
            served.fill([0.0; 2]);
        }
        for server in 0..2 {
            in_service[server].extend(dispatch_all(&mut servers[server], Nanos(0)));
            let Some(done) = in_service[server].pop_front() else { continue };
            served[done.tenant.index()][server] += 1.0;
            servers[server].complete(Nanos(0), done);
            send(&mut servers, server, done);
        }
    }
    served
}

fn total(served: [f64; 2]) -> f64 {
    served.iter().sum()
}

/// Tenant 0 uses both servers, tenant 1 the second only.
const OVERLAP: [[bool; 2]; 2] = [[true, true], [false, true]];

#[test]
fn local_shares_favour_who_uses_more_servers() {
    let served = run(Form::Local, &[1, 1], &OVERLAP);
    let ratio = total(served[0]) / total(served[1]);
    assert!((ratio - 3.0).abs() < 0.05, "all of one server and half of the other: {ratio}");
}

#[test]
fn total_service_is_in_proportion_to_weight_over_all_servers() {
    let served = run(Form::Total, &[1, 1], &OVERLAP);
    let ratio = total(served[0]) / total(served[1]);
    assert!((ratio - 1.0).abs() < 0.05, "{served:?}: {ratio}");
    // Three to one can be had: one server and a half against half of one.
    let served = run(Form::Total, &[3, 1], &OVERLAP);
    let ratio = total(served[0]) / total(served[1]);
    assert!((ratio - 3.0).abs() < 0.15, "{served:?}: {ratio}");
}

#[test]
fn total_service_may_starve_a_tenant_at_one_server() {
    let served = run(Form::Total, &[1, 1], &OVERLAP);
    assert!(served[0][1] < 0.02 * f64::from(ROUNDS), "{served:?}");
}

#[test]
fn hybrid_leaves_a_least_share_on_every_server() {
    // A least weight of 1/4 against 1: a fifth of the second server.
    let served = run(Form::Hybrid { min_share_milli: 250 }, &[1, 1], &OVERLAP);
    let part = served[0][1] / f64::from(ROUNDS);
    assert!((part - 0.2).abs() < 0.01, "{served:?}: {part}");
}

#[test]
fn the_system_stays_work_conserving() {
    for form in [Form::Local, Form::Total, Form::Hybrid { min_share_milli: 100 }] {
        let served = run(form, &[1, 1], &OVERLAP);
        let all: f64 = served.iter().copied().map(total).sum();
        assert!((all - 2.0 * f64::from(ROUNDS)).abs() < 1.0, "{form:?}: {all}");
    }
}

#[test]
fn with_one_server_in_use_all_forms_are_plain_sfq() {
    let one = [[true, false], [true, false]];
    for form in [Form::Local, Form::Total, Form::Hybrid { min_share_milli: 100 }] {
        let served = run(form, &[2, 1], &one);
        let ratio = total(served[0]) / total(served[1]);
        assert!((ratio - 2.0).abs() < 0.01, "{form:?}: {ratio}");
    }
}
