//! Claims on start-time fair queuing: Goyal, Vin and Cheng, IEEE/ACM Transactions on Networking
//! 1997; with depth: Jin, Chase and Kaur, SIGMETRICS 2004; the gate's own: vPFS, PDSW 2010.

use evenkeel_core::fair::jain_index;
use evenkeel_core::sched::Scheduler;
use evenkeel_core::sched::sfq::Sfq;
use evenkeel_core::time::Nanos;

use crate::support::{dispatch_all, sfq, ticket};

const COST: u64 = 1_000_000;

/// Service by tenant after `rounds` completions, each client asking again at once; tenant `i` has
/// `clients[i]` clients whose requests cost `costs[i]`.
fn closed_loop(sfq: &mut Sfq, clients: &[u32], costs: &[u64], rounds: u32) -> Vec<f64> {
    let mut slot = 0;
    for (tenant, &count) in clients.iter().enumerate() {
        for _ in 0..count {
            sfq.enqueue(Nanos(0), ticket(tenant, slot, costs[tenant]));
            slot += 1;
        }
    }
    let mut served = vec![0.0; clients.len()];
    let mut in_service = std::collections::VecDeque::new();
    for _ in 0..rounds {
        in_service.extend(dispatch_all(sfq, Nanos(0)));
        let done = in_service.pop_front().expect("clients always have something with the device");
        served[done.tenant.index()] += done.cost.0 as f64;
        sfq.complete(Nanos(0), done);
        sfq.enqueue(Nanos(0), done);
    }
    served
}

#[test]
fn section_2_service_is_in_proportion_to_weight_whatever_the_sizes() {
    let mut sfq = sfq(1, &[1, 2, 5]);
    let served = closed_loop(&mut sfq, &[4; 3], &[COST, 7 * COST, 3 * COST], 30_000);
    let relative = [served[0], served[1] / 2.0, served[2] / 5.0];
    assert!(jain_index(&relative) > 0.999_999, "{relative:?}");
}

#[test]
fn section_2_idleness_gains_no_credit() {
    let mut sfq = sfq(1, &[1, 1]);
    closed_loop(&mut sfq, &[4, 0], &[COST, COST], 1000);
    // Tenant 1 was idle all the while. From here on, both get the same.
    (100..150).for_each(|slot| sfq.enqueue(Nanos(0), ticket(1, slot, COST)));
    (200..250).for_each(|slot| sfq.enqueue(Nanos(0), ticket(0, slot, COST)));
    let mut served = [0, 0];
    for _ in 0..40 {
        let next = dispatch_all(&mut sfq, Nanos(0));
        served[next[0].tenant.index()] += 1;
        sfq.complete(Nanos(0), next[0]);
    }
    assert!(served[0] >= 19 && served[1] >= 19, "{served:?}");
}

#[test]
fn section_2_a_tenant_alone_gets_everything() {
    let mut sfq = sfq(1, &[1, 1000]);
    let served = closed_loop(&mut sfq, &[1, 0], &[COST, COST], 100);
    assert_eq!(served, [100.0 * COST as f64, 0.0]);
}

#[test]
fn jin_shares_hold_with_many_requests_in_service() {
    for depth in [2, 8, 32] {
        let mut sfq = sfq(depth, &[4, 1]);
        let served = closed_loop(&mut sfq, &[64, 64], &[COST; 2], 50_000);
        let ratio = served[0] / served[1];
        assert!((ratio / 4.0 - 1.0).abs() < 0.01, "depth {depth}: {ratio}");
    }
}

#[test]
fn jin_without_a_backlog_the_depth_is_lost_to_others() {
    // Eight requests of the heavy tenant fit into the depth: it has no backlog to be fair with.
    let mut sfq = sfq(16, &[8, 1]);
    let served = closed_loop(&mut sfq, &[8, 64], &[COST; 2], 50_000);
    let ratio = served[0] / served[1];
    assert!((ratio - 1.0).abs() < 0.01, "8 of 16 in service: {ratio}");
}

#[test]
fn vpfs_equal_shares_hold_for_unequal_numbers_of_clients() {
    // The paper: 1.01, 1.03, 1.01 and 1.23. We ask for 0.98 to 1.02 wherever both keep a backlog.
    for clients in [[40, 20], [48, 12], [56, 7], [48, 3]] {
        let mut sfq = sfq(4, &[1, 1]);
        let served = closed_loop(&mut sfq, &clients, &[COST; 2], 50_000);
        let ratio = served[0] / served[1];
        assert!((0.98..=1.02).contains(&ratio), "{clients:?}: {ratio}");
    }
}
