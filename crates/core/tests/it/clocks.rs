//! Gates whose wall clocks are off, and are set while they run: they count periods alike all the
//! same, keep their slots, and take no old word for a new one.
//!
//! Here are clocks, words, and a network that loses and delays them; what the gates do is as in
//! the exchange of a real gate.

use std::collections::BTreeMap;

use evenkeel_core::control::challenge::{Challenges, Proof};
use evenkeel_core::control::common_time::CommonTime;
use evenkeel_core::control::member::{Member, Method, Rules};
use evenkeel_core::control::peers::{Patience, Refusal};
use evenkeel_core::control::summary::{FlowSummary, HostId, Summary};
use evenkeel_core::prng::Prng;
use evenkeel_core::time::{Nanos, Span};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const HOUR: i64 = 3_600 * 1_000_000_000;
const PERIOD: Span = Span::from_millis(200);
const RULES: Rules =
    Rules { method: Method::Slack, period: PERIOD, depth: 16, threshold: Span::from_millis(20) };

/// When the world begins, in nanoseconds since 1970.
const BEGIN: i64 = 1_796_000_000 * 1_000_000_000;

/// How often a gate looks.
const TICK: u64 = 5 * MS;

#[derive(Clone)]
struct Word {
    summary: Summary,
    proof: Proof,
}

struct Gate {
    host: HostId,
    /// What its clocks are ahead of true time.
    wall_ahead: i64,
    steady_ahead: u64,
    incarnation: u64,
    common: CommonTime,
    challenges: Challenges,
    member: Member,
    number: u64,
    own: Option<Summary>,
    slots: u32,
    /// How many gates it decided by last.
    known: usize,
    moves: usize,
    prng: Prng,
}

impl Gate {
    fn new(host: u32, gates: u32, incarnation: u64, at: u64, wall_ahead: i64) -> Self {
        let steady_ahead = u64::from(host) * 1_000 * SECOND;
        let members: Vec<HostId> = (0..gates).map(HostId).collect();
        let mut gate = Self {
            host: HostId(host),
            wall_ahead,
            steady_ahead,
            incarnation,
            common: CommonTime::start(Nanos(0), 0, PERIOD),
            challenges: Challenges::default(),
            member: Member::new(HostId(host), &members, RULES),
            number: 0,
            own: None,
            slots: 0,
            known: 0,
            moves: 0,
            prng: Prng::new(u64::from(host) + at),
        };
        gate.common = CommonTime::start(gate.steady(at), gate.wall(at), PERIOD);
        gate.number = gate.period(at);
        gate
    }

    fn steady(&self, at: u64) -> Nanos {
        Nanos(at + self.steady_ahead)
    }

    fn wall(&self, at: u64) -> u64 {
        (BEGIN + i64::try_from(at).unwrap() + self.wall_ahead).cast_unsigned()
    }

    fn period(&self, at: u64) -> u64 {
        self.common.ns(self.steady(at)) / PERIOD.0
    }

    /// Its word, if a period has ended.
    fn look(&mut self, at: u64) -> Option<Word> {
        let now = self.steady(at);
        if self.common.look(now, self.wall(at)).moved_ns.is_some() {
            self.incarnation += 1;
            self.moves += 1;
            // The rest of a period is none.
            self.number = self.period(at);
        }
        let (number, passed) = (self.period(at), self.common.ns(now) % PERIOD.0);
        if number == self.number {
            let own = self.own.take_if(|_| passed >= PERIOD.0 / 4)?;
            let outcome = self.member.decide(own);
            (self.slots, self.known) = (outcome.decision.slots, outcome.known.len());
            return None;
        }
        self.number = number;
        let flow = FlowSummary {
            weight_milli: 1000,
            arrivals: 60,
            completions: 60,
            device_time: Span::from_millis(1_200),
            slot_time: Span::from_millis(1_200),
            queued: 100,
            expected_per_s: 300,
            ..FlowSummary::default()
        };
        let summary = Summary {
            host: self.host,
            incarnation: self.incarnation,
            period: number,
            flows: vec![flow],
            ..Summary::default()
        };
        self.own = Some(summary.clone());
        Some(Word { summary, proof: self.challenges.proof(now) })
    }

    /// The life of another gate that counts here.
    fn life_of(&self, host: HostId) -> Option<u64> {
        let mut latest = self.member.peers().latest();
        latest.find(|(other, _)| *other == host).map(|(_, incarnation)| incarnation)
    }

    fn hear(&mut self, at: u64, word: &Word) -> Result<(), Refusal> {
        let now = self.steady(at);
        let Summary { host, incarnation, period, .. } = word.summary;
        if self.challenges.hear(now, self.host, (host, incarnation), &word.proof) {
            self.member.vouch(host, incarnation);
        }
        let own = self.period(at);
        let outcome = self.member.hear(own, word.summary.clone());
        let is_off = own.abs_diff(period) > Patience::default().forgotten;
        if outcome.is_ok() || self.challenges.has_proven(now, host, incarnation) {
            if self.common.hear(now, (host, incarnation), period, PERIOD) {
                self.challenges.heard(now, host, incarnation);
            }
        } else if outcome != Err(Refusal::Stale) || is_off {
            let number = self.prng.next_u64();
            self.challenges.doubt(now, host, incarnation, || Some(number));
        }
        outcome
    }
}

/// Gates and the network between them.
struct Site {
    gates: Vec<Gate>,
    at: u64,
    lost_milli: u64,
    delay_max: u64,
    under_way: BTreeMap<(u64, u64), (usize, Word)>,
    sent: u64,
    /// Every word that was ever sent, and when.
    kept: Vec<(u64, Word)>,
    prng: Prng,
}

impl Site {
    fn new(ahead: &[i64], lost_milli: u64, seed: u64) -> Self {
        let gates = u32::try_from(ahead.len()).unwrap();
        let gate = |(host, ahead)| Gate::new(host, gates, 7, 0, ahead);
        Self {
            gates: (0..).zip(ahead.iter().copied()).map(gate).collect(),
            at: 0,
            lost_milli,
            delay_max: 20 * MS,
            under_way: BTreeMap::new(),
            sent: 0,
            kept: Vec::new(),
            prng: Prng::new(seed),
        }
    }

    fn send(&mut self, word: &Word) {
        for to in 0..self.gates.len() {
            let is_lost = self.prng.below(1_000) < self.lost_milli;
            if self.gates[to].host != word.summary.host && !is_lost {
                self.sent += 1;
                let arrives = self.at + self.prng.below(self.delay_max);
                self.under_way.insert((arrives, self.sent), (to, word.clone()));
            }
        }
    }

    fn tick(&mut self) {
        self.at += TICK;
        while let Some(entry) = self.under_way.first_entry() {
            if entry.key().0 > self.at {
                break;
            }
            let (to, word) = entry.remove();
            // A refusal is what some words deserve.
            let _ = self.gates[to].hear(self.at, &word);
        }
        for index in 0..self.gates.len() {
            if let Some(word) = self.gates[index].look(self.at) {
                self.kept.push((self.at, word.clone()));
                self.send(&word);
            }
        }
    }

    fn run(&mut self, seconds: u64) {
        let end = self.at + seconds * SECOND;
        while self.at < end {
            self.tick();
        }
    }

    /// How far common times lie apart.
    fn apart(&self) -> u64 {
        let times = self.gates.iter().map(|gate| gate.common.ns(gate.steady(self.at)));
        times.clone().max().unwrap() - times.min().unwrap()
    }

    fn knows_all(&self) -> bool {
        self.gates.iter().all(|gate| gate.known == self.gates.len())
    }

    /// Runs until all decide by all; how many milliseconds that took.
    fn settle(&mut self, seconds_max: u64) -> u64 {
        let (begun, end) = (self.at, self.at + seconds_max * SECOND);
        while !(self.knows_all() && self.apart() < PERIOD.0 / 2) {
            assert!(self.at < end, "not in {seconds_max} s: {} ms apart", self.apart() / MS);
            self.tick();
        }
        (self.at - begun) / MS
    }

    fn moves(&self) -> Vec<usize> {
        self.gates.iter().map(|gate| gate.moves).collect()
    }
}

#[test]
fn a_gate_whose_clock_is_an_hour_off_takes_part_within_seconds() {
    for off in [HOUR, -HOUR] {
        let mut pair = Site::new(&[0, off], 0, 1);
        let took_ms = pair.settle(5);
        assert!(took_ms < 3_000, "{took_ms} ms");
        // The one that is behind follows, and no other.
        assert_eq!(pair.moves(), if off > 0 { [1, 0] } else { [0, 1] });
        let mut three = Site::new(&[0, off, 0], 0, 1);
        assert!(three.settle(5) < 3_000);
        assert_eq!(three.moves(), [0, 1, 0]);
        three.run(120);
        assert_eq!(three.moves(), [0, 1, 0]);
        assert!(three.apart() < PERIOD.0 / 4, "{} ms", three.apart() / MS);
    }
}

#[test]
fn a_step_of_a_clock_changes_no_slots() {
    for off in [HOUR, -HOUR] {
        let mut site = Site::new(&[0, 0, 0], 0, 1);
        site.run(20);
        let slots: Vec<u32> = site.gates.iter().map(|gate| gate.slots).collect();
        site.gates[1].wall_ahead += off;
        for second in 0..90 {
            site.run(1);
            let now: Vec<u32> = site.gates.iter().map(|gate| gate.slots).collect();
            assert!(site.knows_all() && now == slots, "second {second}: {now:?}, not {slots:?}");
        }
        assert_eq!(site.moves(), [0, 0, 0]);
        assert_eq!(site.gates[1].common.off_ns().unwrap().signum(), off.signum());
        site.gates[1].wall_ahead -= off;
        site.run(2);
        assert_eq!(site.gates[1].common.off_ns(), None);
    }
}

#[test]
fn who_is_alone_counts_by_its_own_clock_after_a_minute() {
    let mut site = Site::new(&[0, 0], 0, 1);
    site.run(5);
    site.gates[0].wall_ahead += HOUR;
    site.lost_milli = 1_000;
    site.run(58);
    assert_eq!(site.moves(), [0, 0]);
    site.run(5);
    assert_eq!(site.moves(), [1, 0]);
    site.lost_milli = 0;
    site.settle(5);
    assert_eq!(site.moves(), [1, 1], "the one that is behind follows");
}

/// A gate with the key that tells of another hour each second.
#[test]
fn a_broken_gate_moves_nobody_else() {
    let mut site = Site::new(&[0, 0, 0, 0], 100, 1);
    site.run(5);
    for second in 1..60 {
        let broken = &mut site.gates[3];
        let (now, wall) = (broken.steady(site.at), broken.wall(site.at));
        let ahead = if second % 2 == 0 { HOUR } else { -HOUR }.cast_unsigned();
        broken.common = CommonTime::start(now, wall.wrapping_add(ahead), PERIOD);
        broken.incarnation += 1;
        site.run(1);
    }
    assert_eq!(site.moves()[..3], [0, 0, 0]);
    let known = site.gates[..3].iter().map(|gate| gate.known).min();
    assert!(known >= Some(3), "{known:?}");
}

/// A gate that was an hour ahead loses its state folder, and its clock is put right; somebody has
/// kept all that it said, and says it again whenever it might count.
#[test]
fn a_gate_without_its_state_folder_is_taken_up_and_old_words_are_not() {
    let mut site = Site::new(&[0, 0, 0], 0, 1);
    site.gates[2] = Gate::new(2, 3, 3_607, 0, 0);
    site.run(20);
    let old = std::mem::take(&mut site.kept);
    site.gates[2] = Gate::new(2, 3, 7, site.at, 0);
    let begun = site.at;
    while site.gates[..2].iter().any(|gate| gate.life_of(HostId(2)) != Some(7)) {
        assert!(site.at < begun + 2 * SECOND, "not within two seconds");
        site.tick();
    }
    let (mut taken, begun) = (0, site.at);
    for (said, word) in old.iter().filter(|(_, word)| word.summary.host == HostId(2)) {
        while site.at < begun + said {
            site.tick();
        }
        // With the number of a period that is new, as if it had been an hour ahead.
        let period = site.gates[0].period(site.at) + 1;
        let ahead = Word { summary: Summary { period, ..word.summary.clone() }, ..word.clone() };
        for word in [word, &ahead] {
            taken += usize::from(site.gates[0].hear(site.at, word).is_ok());
        }
    }
    assert_eq!(taken, 0);
    assert!(site.knows_all());
    assert_eq!(site.moves(), [0, 0, 0]);
}

/// Whoever has just started remembers nobody: old words of a gate that is gone tell no time.
#[test]
fn old_words_tell_no_time_to_a_gate_that_has_just_started() {
    let mut site = Site::new(&[0, 0], 0, 1);
    site.run(60);
    let old = std::mem::take(&mut site.kept);
    // An hour later the first starts anew, and the other is away.
    site.at += HOUR.cast_unsigned();
    site.under_way.clear();
    let mut anew = Gate::new(0, 2, 8, site.at, 0);
    let begun = site.at;
    for (said, word) in old.iter().filter(|(_, word)| word.summary.host == HostId(1)) {
        while site.at < begun + said {
            site.at += TICK;
            anew.look(site.at);
        }
        assert!(anew.hear(site.at, word).is_err());
    }
    assert_eq!((anew.moves, anew.known), (0, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Two to seven gates, each clock up to an hour off either way, up to a third of the words
    /// lost: they count alike within ten seconds, and go on so while clocks are set.
    #[test]
    fn gates_count_alike_whatever_their_clocks_say(
        ahead_s in proptest::collection::vec(
            prop_oneof![Just(0), -3_600i64..3_600, Just(3_600), Just(-3_600)], 2..8),
        steps in proptest::collection::vec((0..8usize, -3_600i64..3_600), 0..4),
        lost_milli in 0..333u64,
        seed in any::<u64>(),
    ) {
        let second = i64::try_from(SECOND).unwrap();
        let ahead: Vec<i64> = ahead_s.iter().map(|ahead| ahead * second).collect();
        let mut site = Site::new(&ahead, lost_milli, seed);
        site.settle(10);
        site.run(5);
        let moves = site.moves();
        for (gate, step_s) in steps {
            let count = site.gates.len();
            site.gates[gate % count].wall_ahead += step_s * second;
            for _ in 0..10 {
                site.run(1);
                prop_assert!(site.apart() < PERIOD.0, "{} ms apart", site.apart() / MS);
            }
            // So many words may be lost in a row that a gate is forgotten for a moment.
            site.settle(5);
        }
        prop_assert_eq!(site.moves(), moves);
    }
}
