//! One gate on the tiers of a volume: a second one is refused with the name of the first. And the
//! scene of the rounds once more, told in full: the first gate is stopped in the middle of writes
//! and moves, the second one takes over behind a fence, the first one goes on and is plugged in
//! again; it says that it was displaced, and lets its clients go.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::client::{Hammer, Work, check_kept, keep};
use super::scene::{Act, Away, MIB, Right, Scene, Setting};
use super::stage::{A, B, Kind, Program, Stage, lease, trouble};
use crate::harness::gate::Gate;
use crate::harness::nbd::Client;
use crate::harness::network::needs_network;
use crate::harness::restless::moves;
use crate::harness::skip::needs;
use crate::harness::{noise, wait_for};

fn setting(right: Right) -> Setting {
    Setting { kind: Kind::Tiered, right, lease: lease(false), is_long: false }
}

/// As a gate calls itself.
fn name_of(gate: &Gate) -> String {
    format!("process {}", gate.process.id())
}

#[test]
fn a_second_gate_on_the_same_tiers_of_servers_is_refused_with_the_name_of_the_first() {
    needs!("nbdkit");
    needs_network!();
    let setting = setting(Right::Unfenced);
    let stage = Stage::new(Kind::Tiered, Program::Nbdkit, 64 * MIB, setting.object_bytes());
    let keys = Scene::draw(1, &setting).keys(&setting, &stage);
    let mut a = stage.gate(A, &keys);
    let mut client = wait_for("the first gate to serve", || Client::try_open(&stage.target(A)));
    let b = stage.gate(B, &keys);
    let (start, mut writes, mut is_named) = (Instant::now(), 0, false);
    while start.elapsed() < setting.lease * 6 {
        writes += 1;
        assert_eq!(client.write(writes * 4096, &noise(writes, 4096)), Ok(()));
        assert!(Client::try_open(&stage.target(B)).is_none(), "two gates serve the tiers");
        is_named |= trouble(&b).contains(&name_of(&a));
    }
    assert!(is_named, "the owner is not named: {:?}", trouble(&b));
    assert_eq!(client.flush(), Ok(()));
    drop(client);
    a.stop();
    let mut client = wait_for("the second gate to serve", || Client::try_open(&stage.target(B)));
    for write in 1..=writes {
        assert_eq!(client.read(write * 4096, 4096), Ok(noise(write, 4096)));
    }
}

#[test]
fn a_gate_stopped_in_mid_write_and_mid_move_is_displaced_and_says_so() {
    needs!("nbdkit");
    needs_network!();
    let setting = setting(Right::Fence);
    let scene = Scene {
        away: Away::Pause,
        act: Act::Unplug,
        program: Program::Nbdkit,
        a_bytes: 4096,
        a_depth: 16,
        b_bytes: 4096,
        ..Scene::draw(1, &setting)
    };
    let stage = Stage::new(Kind::Tiered, scene.program, 64 * MIB, setting.object_bytes());
    let keys = scene.keys(&setting, &stage);
    let a = stage.gate(A, &keys);
    let [a_target, b_target] = [A, B].map(|place| stage.target(place));
    let mut witness = wait_for("the first gate to serve", || Client::try_open(&a_target));
    keep(&a_target, scene.kept());
    let _stirred = [A, B].map(|place| stage.stir(place, scene.used_bytes()));
    let hammer = Hammer::new(scene.seed, 0, scene.range_bytes, (scene.a_bytes, scene.a_depth));
    let mut work = Work::new(scene.seed, scene.range_bytes, scene.b_bytes, scene.b_total);
    let (b_serves, stop) = (OnceLock::new(), AtomicBool::new(false));
    let b = std::thread::scope(|scope| {
        let _ended = EndAll([&stop, &hammer.stop]);
        scope.spawn(|| hammer.run(&a_target, &b_serves));
        wait_for("extents to move under writes", || {
            let has_begun = hammer.acknowledged.load(Ordering::Relaxed) > 100;
            (has_begun && moves(&a) > 5).then_some(())
        });
        a.process.signal(Signal::STOP);
        let away_since = Instant::now();
        let b = stage.gate(B, &keys);
        scope.spawn(|| work.run(&b_target, &stop, &b_serves));
        wait_for("the second gate to serve", || b_serves.get());
        let served_after = away_since.elapsed();
        wait_for("extents to move at the second gate", || (moves(&b) > 5).then_some(()));
        a.process.signal(Signal::CONT);
        std::thread::sleep(setting.lease);
        stage.network.plug_in();
        std::thread::sleep(setting.lease * 3);
        eprintln!("served after {served_after:?}, {} moves", moves(&b));
        b
    });
    let served_after = hammer.served_after.load(Ordering::Relaxed);
    let lost = work.check(&b_target) + check_kept(&b_target, scene.kept());
    eprintln!(
        "A served {served_after} requests after its term; {lost:?}, B failed {:?}",
        work.errors
    );
    assert_eq!((lost.blocks(), served_after), (0, 0), "flushed data is lost, or two gates serve");
    assert_eq!(work.errors, Vec::<Duration>::new(), "the second gate failed in its term");
    let (told, log) = (trouble(&a), a.process.log());
    let is_let_go = told.contains(&name_of(&b)) && told.contains("it was let go of here");
    assert!(is_let_go, "{told:?}, and its log:\n{log}");
    assert!(log.contains("another gate has claimed the volume: nothing is sent"), "{log}");
    assert!(witness.is_hung_up(), "its clients are let go");
    assert!(Client::try_open(&a_target).is_none(), "and nobody is let in");
}

/// Ends the clients' threads, be it that the test has failed.
struct EndAll<'a>([&'a AtomicBool; 2]);

impl Drop for EndAll<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
    }
}
