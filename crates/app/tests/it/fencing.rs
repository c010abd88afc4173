//! No write without the right to write: a live adversary against gates that share a volume, be it
//! a spread or a tiered one.
//!
//! Gates, servers and the network between them are real. What a gate flushed for its clients must
//! still be there when another gate that was away comes back, whatever that one had under way: it
//! was stopped by a signal, or its network was broken. Whether a round is damaged is judged
//! whatever the machine does meanwhile; how long anything took only where the machine itself was
//! not late.
//!
//! | file | what |
//! |---|---|
//! | `scene`, `round`, `outcome` | what is drawn, how it is played, what came of it |
//! | `stage`, `client` | hosts, servers and gates; the clients of both gates |
//! | `returning` | a gate that comes back throws nobody out |
//! | `servers` | servers that are not who they were |
//! | `tiers` | one gate on the tiers of a volume, and one that finds itself displaced |
//! | `kinds` | when other people's servers let go of a client |
//!
//! | variable | what |
//! |---|---|
//! | `EVENKEEL_FENCING_ROUNDS` | so many rounds, half on each kind; the default lease, to 128 MiB |
//! | `EVENKEEL_FENCING_SHORT` | so many rounds on each kind, as they are in the ladder |
//! | `EVENKEEL_FENCING_SEED` | the seed of the first one; the others follow |
//! | `EVENKEEL_FENCING_AT_ONCE` | so many at a time |
//! | `EVENKEEL_FENCING_OLD` | the program has no keys about fencing; its lease in ms |

mod client;
mod kinds;
mod outcome;
mod returning;
mod round;
mod scene;
mod servers;
mod stage;
mod tiers;

use std::sync::Mutex;
use std::time::Instant;

use crate::harness::network::needs_network;
use crate::harness::skip::{needs, tell};
use round::round;
use scene::{Right, Scene, Setting};
use stage::{Kind, lease};

/// How many rounds are under way at once. They mostly wait.
const AT_ONCE: u64 = 6;

fn number_in(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// What a trial found.
#[derive(Default)]
struct Tally {
    rounds: u64,
    taken_over: u64,
    damaged: u64,
    /// Blocks of flushed data, of so many that were read back.
    lost: u64,
    checked: u64,
    /// At the first gates before their clients began, and at the second ones.
    moves: [u64; 2],
    served_after: u64,
    thrown_out: u64,
    not_judged: u64,
    failures: Vec<String>,
}

/// How many rounds a trial has.
#[derive(Clone, Copy, Debug)]
enum Length {
    Full,
    /// A third of that.
    Third,
}

impl Length {
    fn rounds(self, kind: Kind) -> u64 {
        let in_ladder = match kind {
            Kind::Spread => 20,
            Kind::Tiered => 10,
        };
        let long = number_in("EVENKEEL_FENCING_ROUNDS").map(|long| long.div_ceil(2));
        let rounds = long.or_else(|| number_in("EVENKEEL_FENCING_SHORT")).unwrap_or(in_ladder);
        match self {
            Self::Full => rounds,
            Self::Third => rounds.div_ceil(3),
        }
    }
}

/// Plays rounds by one seed after the other, several at a time; fails if any of them did.
fn trial(kind: Kind, right: Right, length: Length) {
    let is_long = number_in("EVENKEEL_FENCING_ROUNDS").is_some();
    let setting = Setting { kind, right, lease: lease(is_long), is_long };
    let first = number_in("EVENKEEL_FENCING_SEED").unwrap_or(1);
    let rounds = length.rounds(kind);
    let seeds = Mutex::new(first..first + rounds);
    let tally = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..number_in("EVENKEEL_FENCING_AT_ONCE").unwrap_or(AT_ONCE) {
            scope.spawn(|| {
                while let Some(seed) = seeds.lock().ok().and_then(|mut seeds| seeds.next()) {
                    play(seed, &setting, &tally);
                }
            });
        }
    });
    let tally = tally.into_inner().expect("every round ended");
    let Tally { rounds, taken_over, damaged, lost, checked, .. } = tally;
    let Tally { served_after, thrown_out, not_judged, moves, mut failures, .. } = tally;
    if kind == Kind::Tiered && taken_over > 2 && moves[1] == 0 {
        failures.push("nothing has moved at the second gates, so that nothing is shown".into());
    }
    eprintln!(
        "{kind:?}, {right:?}: {rounds} rounds, {taken_over} with a take-over; {damaged} damaged, \
         {lost} of {checked} blocks lost, in {served_after} the first gate served after its term, \
         in {thrown_out} the second one failed; {moves:?} extents moved; {not_judged} not judged \
         for times"
    );
    if not_judged > 0 {
        tell(&format!("times of {not_judged} of {rounds} rounds: cannot judge at this load"));
    }
    assert!(failures.is_empty(), "{} rounds failed:\n{}", failures.len(), failures.join("\n"));
}

fn play(seed: u64, setting: &Setting, tally: &Mutex<Tally>) {
    let scene = Scene::draw(seed, setting);
    let start = Instant::now();
    let outcome = round(seed, setting);
    let took = start.elapsed().as_secs();
    let mut failures = outcome.damage();
    let slow = outcome.slowness(scene.away_for);
    let unjudged = outcome.cannot_judge(setting).filter(|_| !slow.is_empty());
    if unjudged.is_none() {
        failures.extend(slow);
    }
    let why = unjudged.as_ref().map(|why| format!("; cannot judge: {why}")).unwrap_or_default();
    let line = format!("{:?}, {scene}: {outcome}, {took} s{why}", setting.kind);
    eprintln!("{line}");
    let mut tally = tally.lock().expect("every round ended");
    tally.rounds += 1;
    tally.taken_over += u64::from(outcome.served.is_some());
    tally.damaged += u64::from(outcome.is_damaged());
    for loss in outcome.lost {
        tally.lost += loss.blocks();
        tally.checked += loss.checked;
    }
    for (all, more) in tally.moves.iter_mut().zip(outcome.moves) {
        *all += more;
    }
    tally.served_after += u64::from(outcome.served_after > 0);
    tally.thrown_out += u64::from(!outcome.errors.is_empty());
    tally.not_judged += u64::from(unjudged.is_some());
    if !failures.is_empty() {
        let text = format!("{line}\n  {}\n{}", failures.join("; "), outcome.logs);
        tally.failures.push(text);
    }
}

#[test]
fn the_fences_of_these_trials_do_what_they_say() {
    needs!("qemu-nbd");
    needs_network!();
    round::try_fences();
}

#[test]
fn behind_a_fence_a_gate_that_was_away_never_writes_over_its_successor() {
    needs!("nbdkit", "qemu-nbd");
    needs_network!();
    trial(Kind::Spread, Right::Fence, Length::Full);
}

#[test]
fn without_a_fence_a_gate_that_was_away_never_writes_over_its_successor() {
    needs!("nbdkit", "qemu-nbd");
    needs_network!();
    trial(Kind::Spread, Right::Unfenced, Length::Full);
}

#[test]
fn without_a_right_to_take_over_a_gate_waits_for_the_operator() {
    needs!("nbdkit", "qemu-nbd");
    needs_network!();
    trial(Kind::Spread, Right::Claim, Length::Third);
}

#[test]
fn behind_a_fence_a_gate_that_was_away_never_writes_over_its_successor_on_tiers() {
    needs!("nbdkit", "qemu-nbd");
    needs_network!();
    trial(Kind::Tiered, Right::Fence, Length::Full);
}

#[test]
fn without_a_fence_a_gate_that_was_away_never_writes_over_its_successor_on_tiers() {
    needs!("nbdkit", "qemu-nbd");
    needs_network!();
    trial(Kind::Tiered, Right::Unfenced, Length::Full);
}

#[test]
fn without_a_right_to_take_over_a_gate_waits_for_the_operator_on_tiers() {
    needs!("nbdkit", "qemu-nbd");
    needs_network!();
    trial(Kind::Tiered, Right::Claim, Length::Third);
}
