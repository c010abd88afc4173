//! Any sequence of requests, answers, errors, farewells, policy changes and pauses, under any
//! policy: every request finishes exactly once, units cover it without gap or overlap, and the
//! accounts add up. The world that asserts this is the one of the engine's property tests.
#![no_main]

#[path = "../../crates/engine/tests/it/world.rs"]
mod world;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u32, Vec<world::Op>)| {
    let (policy, ops) = input;
    let mut world = world::World::new(policy);
    for op in ops {
        world.perform(op);
    }
    world.end();
});
