//! What tenants get of a device, beside what the policy promises.

use evenkeel_engine::policy::Depth;

use crate::scenes::{clients, close, run, scene, shares};

#[test]
fn backlogged_tenants_get_their_weights_to_a_part_in_a_thousand() {
    let mut scenario = scene(&[1, 2, 5], Depth::Requests(4));
    scenario.workloads = vec![clients("t0", 1, 16), clients("t1", 1, 16), clients("t2", 1, 16)];
    let summary = run(&scenario);
    close(&shares(&summary), &[0.125, 0.25, 0.625], 0.001);
    let fairness = summary.fairness.unwrap();
    assert!(fairness.lag <= fairness.bound, "{fairness:?}");
}
