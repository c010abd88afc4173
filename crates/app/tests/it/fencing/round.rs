//! One round: a gate goes away in the middle of writes, another one takes over, the first one comes
//! back, and everything that the second one's client flushed is read back.
//!
//! ```text
//! A   writes .... away ------------------------- back: is refused, is dead, or goes on
//! B              waits ..... serves, writes and flushes ........ two leases ... read back
//! C                                                                    opens, read back again
//! ```
//!
//! What is drawn, and the same for a seed each time, is [`scene`](super::scene).

use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::client::{Hammer, Work, check_kept, keep, write_of};
use super::outcome::Outcome;
use super::scene::{Act, Away, MIB, Right, Scene, Setting};
use super::stage::{A, B, Kind, Lateness, Program, Stage, is_old, trouble};
use crate::harness::gate::Gate;
use crate::harness::nbd::Client;
use crate::harness::restless::moves;
use crate::harness::target::Target;
use crate::harness::{PATIENCE, wait_for};

/// Runs both fences by hand, as a gate would, against a gate that serves.
pub(super) fn try_fences() {
    let (kind, right, lease) = (Kind::Spread, Right::Fence, Duration::from_millis(500));
    let setting = Setting { kind, right, lease, is_long: false };
    for act in [Act::Kill, Act::Unplug] {
        let scene = Scene { act, program: Program::QemuNbd, ..Scene::draw(1, &setting) };
        let stage = Stage::new(kind, scene.program, 64 * MIB, MIB);
        let mut a = stage.gate(A, "");
        let target = a.plain("disk");
        drop(wait_for("the gate to serve", || Client::try_open(&target)));
        let script = stage.folder(B).join("fence.sh");
        std::fs::write(&script, scene.script(&stage)).expect("a script in scratch");
        let fence = Command::new("sh")
            .arg(&script)
            .env("EVENKEEL_VOLUME", "pool")
            .env("EVENKEEL_LOSER", format!("the gate on here, process {}", a.process.id()))
            .env("EVENKEEL_LOSER_ADDRESSES", stage.host(A).address.to_string())
            .status();
        assert!(fence.expect("a shell").success());
        match act {
            Act::Kill => assert!(!a.process.wait().success(), "it was killed"),
            Act::Unplug => {
                let mut client = Client::open_for(&target, Duration::from_secs(2));
                client.throw(&[write_of(1, 0, 4096).bytes(), vec![1; 4096]].concat());
                assert!(client.try_take(16).is_err(), "it reaches no server");
            }
        }
    }
}

/// The gates, and what they share with the clients' threads.
struct Round<'a> {
    scene: &'a Scene,
    setting: &'a Setting,
    stage: &'a Stage,
    a: Gate,
    b: Option<Gate>,
    keys: String,
    b_serves: &'a OnceLock<Instant>,
    /// The operator has told the second gate to take over.
    has_claimed: bool,
    outcome: Outcome,
}

/// Plays the round of this seed.
pub(super) fn round(seed: u64, setting: &Setting) -> Outcome {
    let scene = Scene::draw(seed, setting);
    let bytes = if setting.is_long { 512 * MIB } else { 64 * MIB };
    let mut stage = Stage::new(setting.kind, scene.program, bytes, setting.object_bytes());
    stage.host(A).retry_every_second();
    let lateness = Lateness::start();
    let mut outcome = play(&scene, setting, &stage);
    outcome.late = lateness.most();
    outcome.dead_server = stage.dead_server();
    outcome
}

fn play(scene: &Scene, setting: &Setting, stage: &Stage) -> Outcome {
    let keys = scene.keys(setting, stage);
    let a = stage.gate(A, &keys);
    let (a_target, b_serves) = (a.plain("disk"), OnceLock::new());
    drop(wait_for("the first gate to serve", || Client::try_open(&a_target)));
    keep(&a_target, scene.kept());
    if scene.is_placed {
        let object_bytes = usize::try_from(setting.object_bytes()).expect("a few MiB");
        keep(&a_target, (0..2 * scene.range_bytes).step_by(object_bytes));
    }
    // They end after the gates do, as nobody answers them where one is stopped.
    let _stirred = [A, B].map(|place| stage.stir(place, scene.used_bytes()));
    let moved_before = match setting.kind {
        Kind::Spread => 0,
        Kind::Tiered => wait_for("extents to move", || Some(moves(&a)).filter(|moved| *moved > 3)),
    };
    let from = if scene.is_apart { scene.range_bytes } else { 0 };
    let load = (scene.a_bytes, scene.a_depth);
    let hammer = Hammer::new(scene.seed, from, scene.range_bytes, load);
    let mut work = Work::new(scene.seed, scene.range_bytes, scene.b_bytes, scene.b_total);
    let b = scene.is_early.then(|| stage.gate(B, &keys));
    let (mut outcome, b_serves) = (Outcome::default(), &b_serves);
    outcome.moves[0] = moved_before;
    let has_claimed = false;
    let mut round = Round { scene, setting, stage, a, b, keys, b_serves, has_claimed, outcome };
    let (b_target, stop) = (stage.target(B), AtomicBool::new(false));
    let work = std::thread::scope(|scope| {
        let _guard = StopOnPanic { a: round.a.process.id(), flags: [&stop, &hammer.stop] };
        scope.spawn(|| hammer.run(&a_target, b_serves));
        let away_since = round.send_away(&hammer);
        let worker = scope.spawn(|| {
            work.run(&b_target, &stop, b_serves);
            work
        });
        round.take_over(away_since);
        round.bring_back(away_since, &hammer);
        round.settle(away_since, &hammer);
        stop.store(true, Ordering::Relaxed);
        let work = worker.join().expect("the worker ends when it is told to");
        hammer.stop.store(true, Ordering::Relaxed);
        round.check(&work, &a_target, &b_target, &hammer);
        // Its client waits for answers, and gets none from a gate that is dead.
        round.a.process.kill();
        work
    });
    round.check_by_a_third_gate(&work, &b_target);
    round.outcome
}

/// Ends the clients' threads if the test fails, so that the failure is told at once.
struct StopOnPanic<'a> {
    a: u32,
    flags: [&'a AtomicBool; 2],
}

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.flags.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
            let id = i32::try_from(self.a).ok().and_then(Pid::from_raw).expect("a process id");
            // It is a child that nobody has waited for yet, so that the id is still its own.
            let _gone_already = kill_process(id, Signal::KILL);
        }
    }
}

impl Round<'_> {
    /// Once the first gate's client is at work, and a moment more: away it goes.
    fn send_away(&mut self, hammer: &Hammer) -> Instant {
        let has_begun = || hammer.acknowledged.load(Ordering::Relaxed) > 3;
        wait_for("the first gate's client", || has_begun().then_some(()));
        std::thread::sleep(self.scene.moment);
        let since = Instant::now();
        match self.scene.away {
            Away::Pause => self.a.process.signal(Signal::STOP),
            Away::Break => self.stage.network.cut(self.stage.host(A)),
        }
        since
    }

    /// Starts the second gate, unless it runs already; where only the operator has the right to let
    /// it take over, sees that it says so, and then does as every second operator would.
    fn take_over(&mut self, away_since: Instant) {
        let (stage, keys) = (self.stage, &self.keys);
        self.b.get_or_insert_with(|| stage.gate(B, keys));
        let lease = self.setting.lease;
        let due = lease * 2 + lease * 6 / 5 + Duration::from_secs(3);
        self.outcome.due = Some(away_since.elapsed() + due);
        if self.setting.right != Right::Claim {
            return;
        }
        self.outcome.due = None;
        let has_to_be_told = away_since.elapsed() + lease * 3 < self.scene.away_for;
        if self.scene.act == Act::Unplug || !has_to_be_told {
            return;
        }
        std::thread::sleep(lease * 3);
        self.expect_no_usurper();
        let b = self.b.as_ref().expect("it was started above");
        let told = trouble(b);
        if !told.contains("evenkeel ctl claim pool") {
            self.outcome.wrong.push(format!("no remedy is named: {told:?}"));
        }
        // As the message says: first that gate is made sure to be gone.
        self.has_claimed = true;
        self.a.process.kill();
        let (status, output) = b.try_ctl(&["claim", "pool"]);
        if !status.success() {
            self.outcome.wrong.push(format!("ctl claim ended with {status}: {output}"));
        }
        self.outcome.due = Some(away_since.elapsed() + due);
    }

    /// Where only the operator gives the right, nobody takes over before being told to.
    fn expect_no_usurper(&mut self) {
        let has_right = self.setting.right != Right::Claim || self.has_claimed;
        if !has_right && self.b_serves.get().is_some() {
            self.outcome.wrong.push("the second gate took over with no right to".into());
        }
    }

    fn bring_back(&mut self, away_since: Instant, hammer: &Hammer) {
        std::thread::sleep(self.scene.away_for.saturating_sub(away_since.elapsed()));
        hammer.is_calm.store(true, Ordering::Relaxed);
        match self.scene.away {
            Away::Pause if self.a.process.ended().is_none() => {
                self.a.process.signal(Signal::CONT);
            }
            Away::Pause => {}
            Away::Break => self.stage.network.heal(self.stage.host(A)),
        }
    }

    /// Two leases while the second gate goes on; and for longer until one of the two serves.
    fn settle(&mut self, away_since: Instant, hammer: &Hammer) {
        let back = Instant::now();
        std::thread::sleep(self.setting.lease * 2);
        // What the first one had answered before it was fenced off is no sign of its office.
        let settled = Instant::now();
        let somebody = || self.b_serves.get().is_some() || hammer.has_succeeded_since(settled);
        while !somebody() && back.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.outcome.nobody = !somebody();
        self.expect_no_usurper();
        self.outcome.served = self.b_serves.get().map(|since| *since - away_since);
    }

    /// Reads back what the gate in office was told to keep.
    fn check(&mut self, work: &Work, a: &Target, b: &Target, hammer: &Hammer) {
        self.outcome.errors.clone_from(&work.errors);
        self.outcome.moves[1] = self.b.as_ref().map_or(0, moves);
        self.outcome.served_after = hammer.served_after.load(Ordering::Relaxed);
        if !self.outcome.nobody {
            let office = if self.b_serves.get().is_some() { b } else { a };
            self.outcome.lost[0] = work.check(office) + check_kept(office, self.scene.kept());
        }
        let tail = |gate: &Gate| {
            let log = gate.process.log();
            let lines: Vec<&str> = log.lines().rev().take(6).collect();
            lines.into_iter().rev().fold(String::new(), |all, line| all + "    " + line + "\n")
        };
        let of_b = self.b.as_ref().map(tail).unwrap_or_default();
        self.outcome.logs = format!("  A says:\n{}  B says:\n{of_b}", tail(&self.a));
    }

    /// The second gate is stopped as operators do, and one after it finds the same.
    fn check_by_a_third_gate(&mut self, work: &Work, target: &Target) {
        let Some(mut b) = self.b.take() else { return };
        b.stop();
        drop(b);
        let mut keys = self.keys.clone();
        if self.setting.right == Right::Claim && self.b_serves.get().is_none() && !is_old() {
            // The first gate was killed, and nobody else is there to say so.
            keys += "takeover = \"after 600 ms, unfenced\"\n";
        }
        let third = self.stage.gate(B, &keys);
        let start = Instant::now();
        let is_open = || Client::try_open_for(target, Duration::from_secs(2)).is_some();
        while !is_open() {
            if start.elapsed() > PATIENCE {
                self.outcome.wrong.push(format!("no third gate: {}", trouble(&third)));
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.outcome.lost[1] = work.check(target) + check_kept(target, self.scene.kept());
    }
}
