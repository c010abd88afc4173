//! Connections that are lost again and again under writes and moves, before servers that carry out
//! what they had read up to ten seconds later. Whatever was answered last is what is read in the
//! end, be it of a server that ends a connection last or of one that does not.
//!
//! `EVENKEEL_CUTS` says how many cuts each kind of server gets; a handful without it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel_core::prng::Prng;

use super::{BLOCK, FIRST, tiered};
use crate::harness::gate::Gate;
use crate::harness::late_server::LateServer;
use crate::harness::nbd::{Client, Request, WRITE};
use crate::harness::restless::{Habit, Restless, WINDOW_BYTES, moves};
use crate::harness::{Scratch, noise, wait_for};

/// Of the slow and of the fast tier. The notes take 17 extents of the fast one.
const SLOW_BYTES: u64 = 8 << 20;
const FAST_BYTES: u64 = 4 << 20;
/// Blocks that are written, all over the volume.
const BLOCKS: u64 = 256;
const APART_BYTES: u64 = 32 << 10;
/// Written in each round.
const WRITES: usize = 24;
/// A server may be late by so much at most, and counts as late for somewhat longer.
const LATE_MAX: Duration = Duration::from_secs(10);
const LATE: &str = "11 s";
/// Cuts of one gate; so many gates are at it at once.
const CUTS_EACH: u64 = 2;
const AT_ONCE: u64 = 6;

const HABIT: Habit = Habit {
    windows: 12,
    apart_bytes: WINDOW_BYTES,
    pause: Duration::from_millis(2),
    bears_errors: false,
};

#[derive(Debug, Default)]
struct Tally {
    cuts: u64,
    came_late: u64,
    moves: u64,
    lost: Vec<String>,
}

fn content(seed: u64, number: u64, version: u64) -> Vec<u8> {
    noise((seed << 40) + (number << 20) + version, BLOCK as usize)
}

fn offset(number: u64) -> u64 {
    (FIRST + number * APART_BYTES) % (BLOCKS * APART_BYTES)
}

/// One gate, its servers and their cuts.
struct Scene {
    seed: u64,
    prng: Prng,
    servers: [LateServer; 2],
    client: Client,
    /// By block: how often it was written.
    versions: Vec<u64>,
}

impl Scene {
    fn write(&mut self, numbers: &[u64]) {
        for number in numbers {
            let version = &mut self.versions[usize::try_from(*number).expect("few")];
            *version += 1;
            let payload = content(self.seed, *number, *version);
            let write = Request {
                command: WRITE,
                offset: offset(*number),
                length: BLOCK,
                ..Request::default()
            };
            self.client.ask(write, &payload);
        }
    }

    fn take_answers(&mut self, numbers: &[u64]) {
        for _ in numbers {
            assert_eq!(self.client.simple_reply().0, 0, "seed {}: it is sent again", self.seed);
        }
    }

    /// Writes that are held, a cut, and the same blocks again.
    fn cut(&mut self) {
        let mut numbers: Vec<u64> = (0..WRITES).map(|_| self.prng.below(BLOCKS)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        LateServer::hold(&self.servers, true);
        self.write(&numbers);
        std::thread::sleep(Duration::from_millis(100 + self.prng.below(900)));
        LateServer::hold(&self.servers, false);
        self.servers.iter().for_each(LateServer::cut);
        self.take_answers(&numbers);
        self.write(&numbers);
        self.take_answers(&numbers);
        assert_eq!(self.client.flush(), Ok(()));
    }

    fn lost(&mut self, when: &str) -> Vec<String> {
        let mut lost = Vec::new();
        for number in 0..BLOCKS {
            let version = self.versions[usize::try_from(number).expect("few")];
            let found = self.client.read(offset(number), BLOCK).expect("it is read");
            if version > 0 && found != content(self.seed, number, version) {
                lost.push(format!("seed {}: block {number}, {when}", self.seed));
            }
        }
        lost
    }
}

fn run(seed: u64, ends_last: bool) -> Tally {
    let scratch = Scratch::new();
    let start = |(name, size_bytes)| {
        LateServer::start(&scratch, name, size_bytes, Duration::ZERO..=LATE_MAX, ends_last)
    };
    let servers = [("slow", SLOW_BYTES), ("fast", FAST_BYTES)].map(start);
    let mut gate = Gate::start(&scratch, &tiered(&servers, LATE));
    let target = gate.plain("disk");
    let client = wait_for("the volume", || Client::try_open(&target));
    let versions = vec![0; usize::try_from(BLOCKS).expect("few")];
    let mut scene = Scene { seed, prng: Prng::new(seed), servers, client, versions };
    let mut tally = Tally::default();
    let restless = Restless::start(&target, HABIT);
    for _ in 0..CUTS_EACH {
        let before = moves(&gate);
        wait_for("extents to move", || (moves(&gate) > before + 2).then_some(()));
        scene.cut();
        tally.cuts += 1;
    }
    drop(restless);
    tally.moves = moves(&gate);
    std::thread::sleep(LATE_MAX);
    tally.lost = scene.lost("once all is carried out");
    gate.kill_and_restart();
    scene.client = wait_for("the volume", || Client::try_open(&target));
    tally.lost.extend(scene.lost("in the next life"));
    let late = |server: &LateServer| u64::from(server.late.load(Ordering::SeqCst));
    tally.came_late = scene.servers.iter().map(late).sum();
    tally
}

fn assert_nothing_is_lost(ends_last: bool) {
    let cuts = std::env::var("EVENKEEL_CUTS").ok().and_then(|text| text.parse().ok());
    let runs = cuts.unwrap_or(4_u64).div_ceil(CUTS_EACH);
    let mut all = Tally::default();
    for first in (0..runs).step_by(usize::try_from(AT_ONCE).expect("few")) {
        let seeds = first..runs.min(first + AT_ONCE);
        let threads: Vec<_> =
            seeds.map(|seed| std::thread::spawn(move || run(seed, ends_last))).collect();
        for thread in threads {
            let tally = thread.join().expect("a gate did what it must");
            all.cuts += tally.cuts;
            all.came_late += tally.came_late;
            all.moves += tally.moves;
            all.lost.extend(tally.lost);
        }
    }
    let Tally { cuts, came_late, moves, lost } = all;
    eprintln!(
        "a server that {}: {cuts} cuts, {came_late} writes carried out late, {moves} moves, {} \
         blocks lost",
        if ends_last { "ends last" } else { "may end first" },
        lost.len()
    );
    assert!(lost.is_empty(), "{}", lost.join("\n"));
    assert!(came_late > cuts && moves > cuts, "nothing is shown");
}

#[test]
fn nothing_is_lost_to_servers_that_are_late_under_moves() {
    assert_nothing_is_lost(false);
}

#[test]
fn nothing_is_lost_to_servers_that_end_last_under_moves() {
    assert_nothing_is_lost(true);
}
