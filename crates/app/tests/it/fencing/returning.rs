//! A gate that comes back never throws out the one that has taken over: it is stopped and goes on
//! many times, for about as long as the lease, and for moments.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_core::prng::Prng;
use rustix::process::Signal;

use super::client::{Hammer, Work};
use super::stage::{A, B, Kind, Lateness, Program, Stage, is_old, lease};
use super::{number_in, tell};
use crate::harness::gate::Gate;
use crate::harness::nbd::Client;
use crate::harness::network::needs_network;
use crate::harness::skip::needs;
use crate::harness::{PATIENCE, wait_for};

/// Rounds in the ladder of spread volumes; of tiered ones half as many.
const ROUNDS: u64 = 6;

/// What came of the second gate in a round.
#[derive(Debug, Default)]
struct Term {
    has_served: bool,
    errors: Vec<Duration>,
    served_after: u64,
    nobody: bool,
}

#[test]
fn a_returning_gate_never_throws_out_the_one_that_took_over() {
    needs!("qemu-nbd");
    needs_network!();
    play(Kind::Spread, ROUNDS);
}

#[test]
fn a_returning_gate_of_tiers_never_throws_out_the_one_that_took_over() {
    needs!("qemu-nbd");
    needs_network!();
    play(Kind::Tiered, ROUNDS / 2);
}

/// One round after the other, since each begins where the one before has ended.
fn play(kind: Kind, rounds: u64) {
    let long = number_in("EVENKEEL_FENCING_ROUNDS");
    let (is_long, rounds) = (long.is_some(), long.map_or(rounds, |long| long.div_ceil(8)));
    let first = number_in("EVENKEEL_FENCING_SEED").unwrap_or(1);
    let lease = lease(is_long);
    let stage = Stage::new(kind, Program::QemuNbd, 64 << 20, 1 << 20);
    let span = (lease * 6 / 5).as_millis();
    let lease_ms = lease.as_millis();
    let right = format!("lease = \"{lease_ms} ms\"\ntakeover = \"after {span} ms, unfenced\"\n");
    let keys = match kind {
        _ if is_old() => String::new(),
        Kind::Spread => right,
        Kind::Tiered => format!("{right}late = \"{} ms\"\n", lease_ms * 2 / 5),
    };
    let _stirred = [A, B].map(|place| stage.stir(place, 48 << 20));
    let mut owner = stage.gate(A, &keys);
    let target = owner.plain("disk");
    drop(wait_for("the first gate to serve", || Client::try_open(&target)));
    let mut other = stage.gate(B, &keys);
    let (mut taken_over, mut failures, mut unjudged) = (0, Vec::new(), 0);
    for seed in first..first + rounds {
        let lateness = Lateness::start();
        let term = round(seed, lease, &mut owner, &mut other);
        let is_late = lateness.most() > lease / 10;
        taken_over += u64::from(term.has_served);
        eprintln!("seed {seed}: {term:?}");
        if term.served_after > 0 {
            failures.push(format!("seed {seed}: two gates served: {term:?}"));
        } else if term.nobody || !term.errors.is_empty() {
            if is_late {
                unjudged += 1;
            } else {
                failures.push(format!("seed {seed}: {term:?}"));
            }
        }
        if term.has_served {
            std::mem::swap(&mut owner, &mut other);
        }
        other.kill_and_restart();
    }
    eprintln!(
        "{kind:?}: {rounds} rounds, {taken_over} with a take-over, {} failed",
        failures.len()
    );
    if unjudged > 0 {
        tell(&format!("{unjudged} of {rounds} rounds: cannot judge at this load"));
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The owner pauses for about as long as the other one waits, and then stutters.
fn round(seed: u64, lease: Duration, owner: &mut Gate, other: &mut Gate) -> Term {
    let mut prng = Prng::new(seed);
    let mut part_of_lease = |least: u64, most: u64| {
        let thousandths = least + prng.below(most - least);
        lease * u32::try_from(thousandths).expect("some thousands") / 1000
    };
    // Beats stand behind many large writes, so that a pause falls between a look and its beat.
    let hammer = Hammer::new(seed, 32 << 20, 16 << 20, (1 << 20, 60));
    let mut work = Work::new(seed, 4 << 20, 4096, 64 << 10);
    let (other_serves, stop) = (OnceLock::new(), AtomicBool::new(false));
    let (owner_target, other_target) = (owner.plain("disk"), other.plain("disk"));
    let nobody = std::thread::scope(|scope| {
        scope.spawn(|| hammer.run(&owner_target, &other_serves));
        scope.spawn(|| work.run(&other_target, &stop, &other_serves));
        std::thread::sleep(part_of_lease(10, 300));
        owner.process.signal(Signal::STOP);
        std::thread::sleep(part_of_lease(700, 2300));
        hammer.is_calm.store(true, Ordering::Relaxed);
        owner.process.signal(Signal::CONT);
        let back = Instant::now();
        while back.elapsed() < lease * 2 {
            std::thread::sleep(part_of_lease(10, 200));
            owner.process.signal(Signal::STOP);
            std::thread::sleep(part_of_lease(10, 300));
            owner.process.signal(Signal::CONT);
        }
        let calm = Instant::now();
        let somebody = || other_serves.get().is_some() || hammer.has_succeeded_since(calm);
        while !somebody() && calm.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        let nobody = !somebody();
        stop.store(true, Ordering::Relaxed);
        hammer.stop.store(true, Ordering::Relaxed);
        nobody
    });
    Term {
        has_served: other_serves.get().is_some(),
        errors: work.errors,
        served_after: hammer.served_after.load(Ordering::Relaxed),
        nobody,
    }
}
