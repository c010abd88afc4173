//! The automatic depth on devices whose knee is known.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use evenkeel_core::id::TenantId;
use evenkeel_core::prng::Prng;
use evenkeel_core::sched::depth::{Depth, DepthPolicy};
use evenkeel_core::ticket::{Cost, Kind, Ticket};
use evenkeel_core::time::{Nanos, Span};

/// So many servers that take so long for a request, and clients that ask for so many at a time.
struct Rig {
    depth: Depth,
    servers: usize,
    service: Span,
    asked: u32,
    /// Times are drawn evenly from half to one and a half of the service time.
    is_noisy: bool,
    prng: Prng,
    now: Nanos,
    /// Ends of service, and what waits in the device.
    ends: BinaryHeap<Reverse<Nanos>>,
    waiting: u32,
    done: u64,
}

fn ticket() -> Ticket {
    Ticket {
        tenant: TenantId(0),
        kind: Kind::Read,
        slot: 0,
        size_bytes: 4096,
        cost: Cost::ONE,
        cost_elsewhere: Cost(0),
    }
}

impl Rig {
    fn new(servers: usize, service: Span, asked: u32) -> Self {
        Self {
            depth: Depth::new(DepthPolicy::Automatic),
            servers,
            service,
            asked,
            is_noisy: false,
            prng: Prng::new(1),
            now: Nanos(0),
            ends: BinaryHeap::new(),
            waiting: 0,
            done: 0,
        }
    }

    fn run(&mut self, time: Span) {
        let end = self.now + time;
        while self.now < end {
            while self.depth.in_service() < self.asked && self.depth.fits(&ticket()) {
                self.depth.start(self.now, &ticket());
                self.waiting += 1;
            }
            while self.waiting > 0 && self.ends.len() < self.servers {
                self.waiting -= 1;
                let half = self.service.0 / 2;
                let time = if self.is_noisy { half + self.prng.below(2 * half) } else { 2 * half };
                self.ends.push(Reverse(self.now + Span(time)));
            }
            let Reverse(at) = self.ends.pop().expect("clients always ask");
            self.now = at;
            self.done += 1;
            self.depth.finish(self.now, &ticket());
        }
    }

    fn found(&mut self, time: Span) -> u32 {
        self.run(time);
        self.depth.found().expect("it has settled")
    }
}

const SECONDS: Span = Span::from_secs(5);

#[test]
fn a_device_that_serves_so_many_at_once_gets_so_many() {
    for (servers, service) in [(1, 1000), (1, 10_000), (4, 200), (8, 5000), (32, 1000), (64, 5000)]
    {
        let mut rig = Rig::new(servers, Span::from_micros(service), 512);
        let found = rig.found(SECONDS);
        let servers = u32::try_from(servers).unwrap();
        assert!((servers..=servers * 3 / 2).contains(&found), "{servers} servers: {found}");
    }
}

#[test]
fn chance_costs_less_than_three_percent() {
    let mut rig = Rig::new(16, Span::from_millis(2), 512);
    rig.is_noisy = true;
    rig.run(SECONDS);
    let before = rig.done;
    rig.run(SECONDS);
    let best = 16.0 / 0.002 * 5.0;
    let part = (rig.done - before) as f64 / best;
    assert!(part > 0.97, "{part}");
    assert!(rig.depth.found().unwrap() <= 32, "{:?}", rig.depth.found());
}

#[test]
fn it_follows_a_device_that_changes() {
    let mut rig = Rig::new(8, Span::from_millis(1), 512);
    assert!((8..=12).contains(&rig.found(SECONDS)));
    rig.servers = 48;
    let found = rig.found(SECONDS);
    assert!((48..=72).contains(&found), "{found}");
    rig.servers = 2;
    let found = rig.found(SECONDS);
    assert!((2..=4).contains(&found), "{found}");
}

#[test]
fn it_stays_where_it_is_in_steady_load() {
    let mut rig = Rig::new(12, Span::from_millis(1), 512);
    let found = rig.found(SECONDS);
    for _ in 0..200 {
        assert_eq!(rig.found(Span::from_millis(100)), found);
    }
}

#[test]
fn clients_that_ask_for_little_have_a_queue_all_the_same() {
    // The device serves two at once, and the clients ask for six: four can be ordered.
    let mut rig = Rig::new(2, Span::from_millis(1), 6);
    assert!(rig.found(SECONDS) <= 3, "{:?}", rig.depth.found());
    // It serves more than they ask for: nothing holds them.
    let mut rig = Rig::new(64, Span::from_millis(1), 6);
    assert!(rig.found(SECONDS) >= 6, "{:?}", rig.depth.found());
}

#[test]
fn what_completes_while_it_is_disturbed_moves_nothing() {
    let mut rig = Rig::new(8, Span::from_millis(1), 512);
    let found = rig.found(SECONDS);
    rig.depth.disturb(true);
    // It would be worth to follow this.
    rig.servers = 48;
    for _ in 0..100 {
        assert_eq!(rig.found(Span::from_millis(10)), found);
        assert_eq!(rig.depth.in_force(), u64::from(found), "nothing else is tried");
    }
    rig.depth.disturb(false);
    let found = rig.found(SECONDS);
    assert!((48..=72).contains(&found), "{found}");
}

#[test]
fn what_fails_or_leaves_teaches_nothing() {
    let mut depth = Depth::new(DepthPolicy::Automatic);
    let mut now = Nanos(0);
    for _ in 0..100_000 {
        depth.start(now, &ticket());
        now += Span::from_micros(1);
        depth.leave(now, &ticket());
    }
    assert_eq!((depth.in_force(), depth.found()), (1, None));
}

#[test]
fn requests_that_come_and_go_change_nothing() {
    let mut rig = Rig::new(8, Span::from_millis(1), 512);
    let found = rig.found(SECONDS);
    // One at a time, with pauses.
    rig.ends.clear();
    let mut depth = rig.depth;
    while depth.in_service() > 0 {
        depth.finish(rig.now, &ticket());
    }
    for _ in 0..10_000 {
        depth.start(rig.now, &ticket());
        rig.now += Span::from_millis(1);
        depth.finish(rig.now, &ticket());
        rig.now += Span::from_millis(9);
    }
    assert_eq!(depth.found(), Some(found));
}

#[test]
fn a_gate_that_is_paused_again_and_again_keeps_its_depth() {
    let mut rig = Rig::new(12, Span::from_millis(1), 512);
    let found = rig.found(SECONDS);
    for pause_ms in (0..200).map(|round| 50 + 37 * round % 500) {
        // What was with the device is done when it wakes up.
        rig.now += Span::from_millis(pause_ms);
        rig.ends = rig.ends.drain().map(|Reverse(at)| Reverse(at.max(rig.now))).collect();
        rig.run(Span::from_millis(60));
    }
    let after = rig.found(SECONDS);
    assert!((12..=16).contains(&after), "{found}, then {after}");
}
