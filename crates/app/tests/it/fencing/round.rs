//! One round: a gate goes away in the middle of writes, another one takes over, the first one comes
//! back, and everything that the second one's client flushed is read back.
//!
//! ```text
//! A   writes .... away ------------------------- back: is refused, is dead, or goes on
//! B              waits ..... serves, writes and flushes ........ two leases ... read back
//! C                                                                    opens, read back again
//! ```
//!
//! What is drawn, and the same for a seed each time, is [`Scene`].

use std::fmt;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_core::prng::Prng;
use rustix::process::{Pid, Signal, kill_process};

use super::client::{Hammer, Loss, Work, check_kept, keep, write_of};
use super::stage::{A, B, Kind, Lateness, Stage, is_old, trouble};
use crate::harness::gate::Gate;
use crate::harness::nbd::Client;
use crate::harness::target::Target;
use crate::harness::{PATIENCE, wait_for};

const MIB: u64 = 1 << 20;

/// What lets the second gate take over from one that was not stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    /// A command that kills the loser, or takes its network away.
    Fence,
    /// Six fifths of the lease without a sign of the loser.
    Unfenced,
    /// Nobody but the operator.
    Claim,
}

/// What all rounds of a trial have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) right: Right,
    pub(super) lease: Duration,
    /// Writes up to 128 MiB rather than 2.
    pub(super) is_long: bool,
}

impl Setting {
    /// Where little is written, objects are small, so that there are as many as elsewhere.
    fn object_bytes(&self) -> u64 {
        if self.is_long { MIB } else { 64 << 10 }
    }
}

/// How the first gate goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Away {
    /// Its process is stopped, and goes on later.
    Pause,
    /// The network drops what it sends and is sent, and heals later.
    Break,
}

/// What the fence does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Kill,
    Unplug,
}

/// What a round is drawn to be.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    seed: u64,
    away: Away,
    away_for: Duration,
    /// How long after its client has begun.
    moment: Duration,
    act: Act,
    kind: Kind,
    /// The two clients write to different addresses.
    is_apart: bool,
    /// Every object has its place before anything happens.
    is_placed: bool,
    /// The second gate is started before the first one goes away.
    is_early: bool,
    a_bytes: u64,
    a_depth: usize,
    b_bytes: u64,
    b_total: u64,
    range_bytes: u64,
}

/// What came of a round.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Flushed data that was not there, by the gate that was in office, and by the one after it.
    pub(super) lost: [Loss; 2],
    /// How long after the first gate went away the second one served.
    pub(super) served: Option<Duration>,
    /// After this the second one should have served, if the first one was away so long.
    due: Option<Duration>,
    /// Errors of the second gate after it served for the first time.
    pub(super) errors: Vec<Duration>,
    /// Writes that the first gate answered with success after the second one had begun to serve.
    pub(super) served_after: u64,
    /// Nobody served in the end.
    nobody: bool,
    /// What else was not as it should be.
    wrong: Vec<String>,
    late: Duration,
    dead_server: Option<String>,
    logs: String,
}

impl Scene {
    pub(super) fn draw(seed: u64, setting: &Setting) -> Self {
        let mut prng = Prng::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut flip = || prng.below(2) == 0;
        let (is_pause, is_kill, is_nbdkit) = (flip(), flip(), flip());
        let (is_apart, is_placed, is_early, is_short) = (flip(), flip(), flip(), flip());
        let mut size = || match prng.below(3) {
            0 => 4 << 10,
            1 => 64 << 10,
            _ => MIB,
        };
        let (a_bytes, b_bytes) = (size(), size());
        let fifth = setting.lease / 5;
        let part = u32::try_from(prng.below(1000)).expect("below a thousand");
        let (least, more) = if is_short { (fifth, fifth * 5) } else { (fifth * 6, fifth * 54) };
        let most_ms = if prng.below(2) == 0 { 8 } else { 150 };
        let total = MIB * if setting.is_long { 16 << prng.below(4) } else { 2 };
        Self {
            seed,
            away: if is_pause { Away::Pause } else { Away::Break },
            away_for: least + more * part / 1000,
            act: if is_kill { Act::Kill } else { Act::Unplug },
            kind: if is_nbdkit { Kind::Nbdkit } else { Kind::QemuNbd },
            is_apart,
            is_placed,
            is_early,
            a_bytes,
            // Half of them while objects are given their first places.
            moment: Duration::from_millis(prng.below(most_ms)),
            a_depth: if prng.below(2) == 0 { 16 } else { 60 },
            b_bytes,
            b_total: total,
            // Half of it is written, so that the first gate's writes meet what is flushed.
            range_bytes: 2 * total,
        }
    }

    /// Where blocks lie that the first gate's client flushes before anything happens.
    fn kept(&self) -> impl Iterator<Item = u64> + use<> {
        (0..16).map({
            let from = 2 * self.range_bytes;
            move |number| from + number * 68 * 1024
        })
    }

    /// The keys of the volume that make this setting.
    fn keys(&self, setting: &Setting, stage: &Stage) -> String {
        if is_old() {
            return String::new();
        }
        let lease = format!("lease = \"{} ms\"\n", setting.lease.as_millis());
        let right = match setting.right {
            Right::Fence => {
                let script = stage.folder(B).join("fence.sh");
                std::fs::write(&script, self.script(stage)).expect("a script in scratch");
                format!("fence = [\"/bin/sh\", \"{}\"]\n", script.display())
            }
            Right::Unfenced => {
                let span = (setting.lease * 6 / 5).as_millis();
                format!("takeover = \"after {span} ms, unfenced\"\n")
            }
            Right::Claim => String::new(),
        };
        lease + &right
    }

    /// A fence as a cluster's would be, in little. It notes what it was told.
    fn script(&self, stage: &Stage) -> String {
        let note = stage.folder(B).join("fenced.txt");
        let tell = format!(
            "#!/bin/sh\nset -e\n\
             echo \"$EVENKEEL_VOLUME, $EVENKEEL_LOSER, $EVENKEEL_LOSER_ADDRESSES\" >> '{}'\n",
            note.display()
        );
        let act = match self.act {
            // One that is not there any more cannot be killed, and need not be.
            Act::Kill => "loser=\"${EVENKEEL_LOSER##*process }\"\n\
                          kill -9 \"$loser\" || ! kill -0 \"$loser\"\n"
                .to_owned(),
            Act::Unplug => format!(
                "test -n \"$EVENKEEL_LOSER_ADDRESSES\"\n\
                 for address in $EVENKEEL_LOSER_ADDRESSES; do\n  \
                 address=${{address%:*}}\n  {}\ndone\n",
                stage.network.fence_line()
            ),
        };
        tell + &act
    }
}

/// Runs both fences by hand, as a gate would, against a gate that serves.
pub(super) fn try_fences() {
    let setting =
        Setting { right: Right::Fence, lease: Duration::from_millis(500), is_long: false };
    for act in [Act::Kill, Act::Unplug] {
        let scene = Scene { act, kind: Kind::QemuNbd, ..Scene::draw(1, &setting) };
        let stage = Stage::new(scene.kind, 64 * MIB, MIB);
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
    let file_bytes = if setting.is_long { 512 * MIB } else { 64 * MIB };
    let mut stage = Stage::new(scene.kind, file_bytes, setting.object_bytes());
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
    let from = if scene.is_apart { scene.range_bytes } else { 0 };
    let load = (scene.a_bytes, scene.a_depth);
    let hammer = Hammer::new(scene.seed, from, scene.range_bytes, load);
    let mut work = Work::new(scene.seed, scene.range_bytes, scene.b_bytes, scene.b_total);
    let b = scene.is_early.then(|| stage.gate(B, &keys));
    let (outcome, b_serves) = (Outcome::default(), &b_serves);
    let has_claimed = false;
    let mut round = Round { scene, setting, stage, a, b, keys, b_serves, has_claimed, outcome };
    let (b_target, stop) = (b_target(&round), AtomicBool::new(false));
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

/// Where the second gate will listen, whether it was started or not.
fn b_target(round: &Round<'_>) -> Target {
    let address = round.stage.folder(B).join("gate.sock");
    let address = crate::harness::target::Address::Unix(address);
    Target { address, export: "disk".to_owned(), certificates: None }
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
        let somebody = || self.b_serves.get().is_some() || hammer.has_succeeded_since(back);
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

impl std::ops::Add for Loss {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            of_other: self.of_other + other.of_other,
            older: self.older + other.older,
            zeros: self.zeros + other.zeros,
            foreign: self.foreign + other.foreign,
            unreadable: self.unreadable + other.unreadable,
            checked: self.checked + other.checked,
        }
    }
}

impl Outcome {
    /// Damage; no load of the machine excuses it.
    pub(super) fn damage(&self) -> Vec<String> {
        let mut damage = self.wrong.clone();
        if self.is_damaged() {
            damage.push("flushed data was lost".into());
        }
        if self.served_after > 0 {
            damage.push("the first gate served after its term".into());
        }
        damage
    }

    /// What should not take so long on a machine that is not late itself.
    pub(super) fn slowness(&self, away_for: Duration) -> Vec<String> {
        let mut slow = Vec::new();
        if let Some(due) = self.due.filter(|due| *due < away_for)
            && self.served.is_none_or(|served| served > due)
        {
            slow.push(format!("the second gate should have served after {due:?}"));
        }
        if !self.errors.is_empty() {
            slow.push("the second gate failed in its term".into());
        }
        if self.lost[0].unreadable > 0 {
            slow.push("what was flushed is not served".into());
        }
        if self.nobody {
            slow.push("nobody serves any more".into());
        }
        slow
    }

    /// Why this machine cannot judge how long anything took.
    pub(super) fn cannot_judge(&self, setting: &Setting) -> Option<String> {
        if let Some(server) = &self.dead_server {
            return Some(server.clone());
        }
        let bearable = setting.lease / 10;
        let (late, bearable) = (self.late.as_millis(), bearable.as_millis());
        (late > bearable)
            .then(|| format!("sleeps ended {late} ms late, at most {bearable} is good"))
    }

    pub(super) fn is_damaged(&self) -> bool {
        let [in_office, after] = self.lost;
        in_office.blocks() > in_office.unreadable || after.blocks() > 0
    }

    pub(super) fn logs(&self) -> &str {
        &self.logs
    }
}

impl Scene {
    pub(super) fn away_for(&self) -> Duration {
        self.away_for
    }
}

impl fmt::Display for Scene {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |is: bool, word: &'static str| if is { word } else { "" };
        write!(
            out,
            "seed {}: {:?} for {} ms, {:?}, A {} KiB x {}, B {} KiB to {} MiB{}{}{}",
            self.seed,
            self.away,
            self.away_for.as_millis(),
            self.kind,
            self.a_bytes >> 10,
            self.a_depth,
            self.b_bytes >> 10,
            self.b_total >> 20,
            word(self.is_apart, ", apart"),
            word(self.is_placed, ", placed"),
            word(self.is_early, ", early"),
        )
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.served {
            Some(served) => write!(out, "B serves after {} ms", served.as_millis())?,
            None => write!(out, "A stays")?,
        }
        for (lost, by) in self.lost.iter().zip(["in office", "third gate"]) {
            let Loss { of_other, older, zeros, foreign, unreadable, checked } = lost;
            if lost.blocks() > 0 {
                write!(
                    out,
                    "; {by}: of {checked} blocks {of_other} are A's, {older} older, {zeros} \
                     zeros, {foreign} foreign, {unreadable} not served"
                )?;
            }
        }
        if self.served_after > 0 {
            write!(out, "; A served {} writes after its term", self.served_after)?;
        }
        if let Some(first) = self.errors.first() {
            let (count, first) = (self.errors.len(), first.as_millis());
            write!(out, "; B failed {count} times, first {first} ms into its term")?;
        }
        write!(out, "; at most {} ms late", self.late.as_millis())
    }
}
