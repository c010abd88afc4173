//! Whatever happens, every request finishes exactly once, in full or with a reason.

use evenkeel_core::time::Nanos;
use evenkeel_engine::Output;
use proptest::prelude::*;

use crate::world::{Op, World};

fn run(policy: u32, ops: &[Op]) -> Vec<(Nanos, Output)> {
    let mut world = World::new(policy);
    for &op in ops {
        world.perform(op);
    }
    world.end()
}

proptest! {
    #[test]
    fn nothing_is_lost_or_doubled_whatever_the_sequence(
        policy in any::<u32>(),
        ops in prop::collection::vec(any::<Op>(), 0..300),
    ) {
        run(policy, &ops);
    }

    #[test]
    fn the_same_inputs_give_the_same_outputs(
        policy in any::<u32>(),
        ops in prop::collection::vec(any::<Op>(), 0..100),
    ) {
        prop_assert_eq!(run(policy, &ops), run(policy, &ops));
    }
}

/// Changes of policy every few operations, with work queued and in service.
#[test]
fn policies_may_change_at_any_point() {
    for first in 0..64_u32 {
        let mut ops = Vec::new();
        for step in 0..60_u32 {
            let [tenant_and_kind, ..] = (step * 37).to_le_bytes();
            ops.push((0, tenant_and_kind, step * 7919, step * 104_729));
            if step % 3 == 0 {
                ops.push((6, 0, first.wrapping_mul(2_654_435_761).wrapping_add(step), 0));
            }
            if step % 4 == 0 {
                ops.push((3, 1, step, 0));
            }
        }
        run(first, &ops);
    }
}
